// Machine: convolution over one to three axes as matrix products: for every batch and group, weights times the patches.
#include <algorithm>
#include <array>

#include "npu_core/base/thread_pool.h"
#include "npu_core/kernels/kernels.h"
#include "npu_core/numeric/machine.h"

namespace npu {

namespace {

constexpr int64_t PATCH_FLOATS = 1 << 18;               // of a block of patches: 1 MiB
constexpr int AXES = 3;                                 // depth, height, width; missing ones have size 1

struct Window {
    std::array<int64_t, AXES> in{1, 1, 1}, kernel{1, 1, 1}, out{1, 1, 1}, stride{1, 1, 1}, pad{}, dilation{1, 1, 1};
    int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
    int64_t points() const { return out[0] * out[1] * out[2]; }
    int64_t volume() const { return in[0] * in[1] * in[2]; }
};

// Row of the patch matrix: what kernel tap `tap` sees of one channel, for lines [from, to) of the output points.
void patch_row(const Window& w, const float* x, int64_t tap, int64_t from, int64_t to, float* y) {
    std::array<int64_t, AXES> k{tap / (w.kernel[1] * w.kernel[2]), tap / w.kernel[2] % w.kernel[1], tap % w.kernel[2]};
    const auto place = [&](int i, int64_t o) { return o * w.stride[i] - w.pad[i] + k[i] * w.dilation[i]; };
    const int64_t step = w.stride[2], first = place(2, 0), n = w.out[2];
    // outputs [begin, end) of a line see the inside of the input
    const int64_t begin = std::clamp<int64_t>((-first + step - 1) / step * (first < 0), 0, n);
    const int64_t end = std::clamp<int64_t>(first >= w.in[2] ? 0 : (w.in[2] - 1 - first) / step + 1, begin, n);
    for (int64_t r = from; r < to; ++r, y += n) {
        const int64_t p = place(0, r / w.out[1]), q = place(1, r % w.out[1]);
        if (p < 0 || p >= w.in[0] || q < 0 || q >= w.in[1]) {
            std::fill(y, y + n, 0.0f);
            continue;
        }
        const float* line = x + (p * w.in[1] + q) * w.in[2] + first;
        std::fill(y, y + begin, 0.0f);
        if (step == 1) std::copy(line + begin, line + end, y + begin);
        else for (int64_t c = begin; c < end; ++c) y[c] = line[c * step];
        std::fill(y + end, y + n, 0.0f);
    }
}

}  // namespace

// ints: groups, relu, then strides, pads before, dilations (one per axis). y [N, Cout, ...], x [N, Cin, ...], weight
// [Cout, Cin / groups, ...], bias Cout values.
void Machine::conv(const Op& op) {
    const Operand x = contiguous(whole(op, 0)), weight = contiguous(whole(op, 1));
    const TensorInfo out = tensor(out_id(op, 0));
    const int axes = x.shape.rank - 2;
    require(axes >= 1 && axes <= AXES && weight.shape.rank == x.shape.rank && out.shape.rank == x.shape.rank
        && op.ints.count == 2 + 3 * axes, "conv: ranks do not fit");
    const int64_t groups = int_arg(op, 0), batches = x.shape[0], channels = x.shape[1], filters = weight.shape[0];
    require(groups >= 1 && channels == groups * weight.shape[1] && filters % groups == 0
        && out.shape[1] == filters && out.shape[0] == batches, "conv: channels do not fit");
    Window w;
    for (int i = 0; i < axes; ++i) {
        const int to = AXES - axes + i;
        w.in[to] = x.shape[2 + i];
        w.kernel[to] = weight.shape[2 + i];
        w.out[to] = out.shape[2 + i];
        w.stride[to] = int_arg(op, 2 + i);
        w.pad[to] = int_arg(op, 2 + axes + i);
        w.dilation[to] = int_arg(op, 2 + 2 * axes + i);
    }
    const auto fp32 = [&](const Operand& v) {
        BufferRef copy = scratch(v.shape.count() * 4);
        convert_box(v.dtype, v.data, v.stride, DType::F32, copy.data(), dense_strides(v.shape), v.shape);
        return copy;
    };
    const BufferRef xs = fp32(x), ws = fp32(weight);
    const BufferRef bias = op.ins.count > 2 ? fp32(contiguous(whole(op, 2))) : BufferRef();
    const int64_t points = w.points(), k = weight.shape[1] * w.taps(), m = filters / groups;
    // Blocks of output lines whose patches stay in cache; an element's sum does not depend on them.
    const int64_t lines = w.out[0] * w.out[1], width = w.out[2];
    const int64_t block = std::clamp<int64_t>(PATCH_FLOATS / std::max<int64_t>(k * width, 1), 1, std::max<int64_t>(lines, 1));
    const BufferRef patches = scratch(k * block * width * 4), sums = scratch(batches * filters * points * 4);
    const KernelTable& t = kernels();
    auto* y = reinterpret_cast<float*>(sums.data());
    auto* col = reinterpret_cast<float*>(patches.data());
    for (int64_t n = 0; n < batches; ++n)
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t first = (n * channels + g * weight.shape[1]) * w.volume();
            const float* image = reinterpret_cast<const float*>(xs.data()) + first;
            for (int64_t line = 0; line < lines; line += block) {
                const int64_t here = std::min(block, lines - line), n_points = here * width;
                parallel_ranges(k, 0.3 * static_cast<double>(k * n_points), [&](int64_t b, int64_t e) {
                    for (int64_t r = b; r < e; ++r)
                        patch_row(w, image + r / w.taps() * w.volume(), r % w.taps(), line, line + here, col + r * n_points);
                });
                GemmArgs a{};
                a.a = reinterpret_cast<const float*>(ws.data()) + g * m * k;
                a.a_type = a.b_type = DType::F32;
                a.a_row_stride = k, a.a_col_stride = 1;
                a.b = col;
                a.b_row_stride = n_points, a.b_col_stride = 1;
                a.c = y + (n * filters + g * m) * points + line * width;
                a.c_row_stride = points;
                a.m = m, a.n = n_points, a.k = k, a.k_block = k;
                parallel_ranges((m + 15) / 16, 0.04 * static_cast<double>(m * n_points * k), [&](int64_t b, int64_t e) {
                    t.gemm(a, b * 16, std::min(m, e * 16), 0, n_points);
                });
            }
        }
    for (int64_t f = 0; f < batches * filters; ++f) {
        float* row = y + f * points;
        const float shift = bias ? reinterpret_cast<const float*>(bias.data())[f % filters] : 0.0f;
        if (bias) t.binary_vs[static_cast<int>(Binary::ADD)](row, shift, row, points);
        if (int_arg(op, 1)) t.unary[static_cast<int>(Unary::RELU)](row, row, points);
    }
    char* to = result(op, 0, out.shape);
    const DType kind = env_[out_id(op, 0)].wide ? DType::F32 : out.dtype;
    convert_box(DType::F32, sums.data(), dense_strides(out.shape), kind, to, dense_strides(out.shape), out.shape);
}

}  // namespace npu
