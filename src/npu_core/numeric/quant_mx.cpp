// Machine: quant_mx. Groups of 32 along an axis share a power of two; elements become F8E4M3 or pairs of F4E2M1.
#include <bit>
#include <cmath>
#include <vector>

#include "npu_core/base/thread_pool.h"
#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/cast.h"
#include "npu_core/numeric/machine.h"
#include "npu_core/numeric/small_floats.h"

namespace npu {

namespace {

constexpr int GROUP = 32;

// Shared exponent of a group, biased by 127. `largest` holds the magnitude bits of the largest element, NaN above all.
int shared_exponent(uint32_t largest, bool up, bool fp4) {
    constexpr uint32_t INF = 0x7f800000;
    if (largest > INF) return 255;
    if (!up) return std::clamp(static_cast<int>(largest >> 23) - (fp4 ? 2 : 8), 0, 254);
    if (largest == INF) return 254;
    const double ratio = static_cast<double>(std::bit_cast<float>(largest)) / (fp4 ? 6.0 : 448.0);
    if (ratio <= 0x1p-127) return 0;
    int e;
    const double m = std::frexp(ratio, &e);
    return std::min((m == 0.5 ? e - 1 : e) + 127, 254);
}

void round_to_bf16(float* x) {
    uint16_t halves[GROUP];
    kernels().f32_to_bf16(x, halves, GROUP);
    kernels().bf16_to_f32(halves, x, GROUP);
}

// Nearest F8E4M3 codes with saturation, ties to even; straight code, which vectorises.
void e4m3_codes(const float* v, uint8_t* codes) {
    constexpr uint32_t SMALLEST_NORMAL = 0x3c800000, LARGEST = 0x43e00000, INF = 0x7f800000;   // 2^-6, 448
    for (int i = 0; i < GROUP; ++i) {
        const auto bits = std::bit_cast<uint32_t>(v[i]);
        const uint32_t size = bits & 0x7fffffff;
        // below 2^-6 in steps of 2^-9: those are the units in the last place of 2^14
        const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 16384.0f) - 0x46800000;
        const uint32_t normal = ((size + 0x7ffff + (size >> 20 & 1)) >> 20) - (uint32_t{120} << 3);
        uint32_t code = size < SMALLEST_NORMAL ? small : normal;
        code = size >= LARGEST ? 0x7e : code;
        code = size > INF ? 0x7f : code;
        codes[i] = static_cast<uint8_t>(bits >> 24 & 0x80) | static_cast<uint8_t>(code);
    }
}

unsigned e2m1_code(double v) {
    const unsigned sign = std::signbit(v) ? 8 : 0;
    if (std::isnan(v)) return 7;
    const double size = std::fabs(v);
    // Midpoints go to the even code.
    const unsigned code = size <= 0.25 ? 0 : size < 0.75 ? 1 : size <= 1.25 ? 2 : size < 1.75 ? 3
        : size <= 2.5 ? 4 : size < 3.5 ? 5 : size <= 5 ? 6 : 7;
    return sign | code;
}

}  // namespace

void Machine::quant_mx(const Op& op) {
    const Operand x = operand(op, 0);
    const int rank = x.shape.rank, last = rank - 1;
    const int axis = static_cast<int>(int_arg(op, 0));
    const bool up = int_arg(op, 1) != 0;
    const TensorInfo q_info = tensor(out_id(op, 0)), s_info = tensor(out_id(op, 1));
    const bool fp4 = q_info.dtype == DType::F4E2M1X2;
    const bool axis_fits = axis >= 0 && (axis == last || axis == last - 1);
    require((fp4 || q_info.dtype == DType::F8E4M3) && s_info.dtype == DType::F8E8M0 && axis_fits,
        "quant_mx: dtypes or axis");
    require(s_info.shape.rank == rank + 1 && s_info.shape[rank] == 2, "quant_mx: shape of the scale");
    Shape q_valid = x.valid, s_valid = s_info.shape;
    if (fp4) q_valid[last] = (x.valid[last] + 1) / 2;
    for (int i = 0; i < rank; ++i) s_valid[i] = i == axis ? (x.valid[axis] + 63) / 64 : x.valid[i];
    auto* q = reinterpret_cast<uint8_t*>(result(op, 0, q_valid));
    auto* s = reinterpret_cast<uint8_t*>(result(op, 1, s_valid));
    if (is_empty(x.valid)) return;
    const Strides qs = dense_strides(q_info.shape), ss = dense_strides(s_info.shape);
    const bool round_product = x.dtype == DType::BF16 && (fp4 || up);
    Shape lines = x.valid;                              // one line per position off the axis
    lines[axis] = 1;
    const int64_t n = x.valid[axis], groups = (n + GROUP - 1) / GROUP;
    // Pairs along the last axis share a byte: with groups across, two neighbouring lines write it one after the other.
    const bool shares_bytes = fp4 && axis != last;
    const double ns = shares_bytes ? 0.0 : 6.0 * static_cast<double>(x.valid.count());
    parallel_ranges(lines.count(), ns, [&](int64_t begin, int64_t end) {
        std::vector<float> line(static_cast<size_t>(groups * GROUP));
        for (int64_t r = begin; r < end; ++r) {
            int64_t rest = r, from = 0, q_at = 0, s_at = 0, column = 0;
            for (int i = rank - 1; i >= 0; --i) {
                if (i == axis) continue;
                const int64_t at = rest % x.valid[i];
                rest /= x.valid[i];
                from += at * x.stride[i];
                s_at += at * ss[i];
                if (i == last) column = at;
                q_at += (fp4 && i == last ? at / 2 : at) * qs[i];
            }
            std::fill(line.begin() + n, line.end(), 0.0f);
            load_f32(x.dtype, x.data + from * x.size(), x.stride[axis], line.data(), n);
            for (int64_t g = 0; g < 2 * s_valid[axis]; ++g) {
                uint8_t& exponent = s[s_at + g / 2 * ss[axis] + g % 2];
                if (g >= groups) {
                    exponent = 0;
                    continue;
                }
                const float* v = line.data() + g * GROUP;
                int32_t largest = 0;
                for (int i = 0; i < GROUP; ++i)
                    largest = std::max(largest, std::bit_cast<int32_t>(v[i]) & 0x7fffffff);
                const int e = shared_exponent(static_cast<uint32_t>(largest), up, fp4);
                exponent = static_cast<uint8_t>(e);
                const double factor = std::ldexp(1.0, 127 - e);
                float scaled[GROUP];                    // exact but for numbers that become 0 or the largest code
                for (int i = 0; i < GROUP; ++i) scaled[i] = static_cast<float>(static_cast<double>(v[i]) * factor);
                if (round_product) round_to_bf16(scaled);
                const int64_t count = std::min<int64_t>(GROUP, n - g * GROUP);
                if (!fp4) {
                    uint8_t codes[GROUP];
                    e4m3_codes(scaled, codes);
                    for (int64_t i = 0; i < count; ++i) q[q_at + (g * GROUP + i) * qs[axis]] = codes[i];
                    continue;
                }
                for (int64_t k = 0; k < count; ++k) {
                    const int64_t i = g * GROUP + k, position = axis == last ? i : column;
                    uint8_t& byte = q[axis == last ? q_at + i / 2 : q_at + i * qs[axis]];
                    const unsigned code = e2m1_code(static_cast<double>(scaled[k]));
                    if (position % 2 == 0) byte = static_cast<uint8_t>(code);
                    else byte |= static_cast<uint8_t>(code << 4);
                }
            }
        }
    });
}

}  // namespace npu
