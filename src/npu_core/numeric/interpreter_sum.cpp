#include "npu_core/numeric/interpreter_sum.h"

#include <algorithm>
#include <bit>

namespace npu {

namespace {

constexpr int LANES = 8, SIDE_BY_SIDE = 4, LEVELS = 4;

// Cascade over load(0) .. load(size - 1): every 2^power additions the sum moves up a level.
template <class Load>
float cascade(int64_t size, Load&& load) {
    const int bits = size <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1)));
    const int power = std::max(4, bits / LEVELS);
    const int64_t step = int64_t{1} << power, mask = step - 1;
    float level[LEVELS] = {};
    int64_t i = 0;
    while (i + step <= size) {
        for (int64_t end = i + step; i < end; ++i) level[0] += load(i);
        for (int k = 1; k < LEVELS; ++k) {
            level[k] += level[k - 1];
            level[k - 1] = 0.0f;
            if (i & (mask << (k * power))) break;
        }
    }
    for (; i < size; ++i) level[0] += load(i);
    for (int k = 1; k < LEVELS; ++k) level[0] += level[k];
    return level[0];
}

// Four interleaved cascades; the rest joins the first of them.
template <class Load>
float interleaved(int64_t size, Load&& load) {
    const int64_t each = size / SIDE_BY_SIDE;
    float part[SIDE_BY_SIDE];
    for (int k = 0; k < SIDE_BY_SIDE; ++k)
        part[k] = cascade(each, [&](int64_t i) { return load(i * SIDE_BY_SIDE + k); });
    for (int64_t i = each * SIDE_BY_SIDE; i < size; ++i) part[0] += load(i);
    for (int k = 1; k < SIDE_BY_SIDE; ++k) part[0] += part[k];
    return part[0];
}

}  // namespace

float interpreter_row_sum(const float* x, int64_t n) {
    if (n < LANES) return interleaved(n, [&](int64_t i) { return x[i]; });
    const int64_t vectors = n / LANES;
    float lane[LANES];
    for (int l = 0; l < LANES; ++l) lane[l] = interleaved(vectors, [&](int64_t i) { return x[i * LANES + l]; });
    float sum = 0.0f;
    for (int64_t i = vectors * LANES; i < n; ++i) sum += x[i];
    for (const float v : lane) sum += v;
    return sum;
}

void interpreter_column_sums(const float* x, int64_t rows, int64_t step, int64_t count, int64_t first, int64_t width,
                             float* y) {
    const int64_t group = width >= LANES ? LANES * SIDE_BY_SIDE : SIDE_BY_SIDE, grouped = width / group * group;
    for (int64_t c = 0; c < count; ++c) {
        const auto load = [&](int64_t r) { return x[r * step + c]; };
        y[c] = first + c < grouped ? cascade(rows, load) : interleaved(rows, load);
    }
}

}  // namespace npu
