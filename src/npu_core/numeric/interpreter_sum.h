// Sum inside one tile in the order of the interpreter of the public 0.2.0 package (numerics "0.2.0"), which differs from
// the order of the instructions: vectors of 8 lanes, four of them side by side, each a cascade of four levels, so that
// partial sums of equal length meet. Measured: equal bits for rows of 1 to 24576 elements and for columns.
#pragma once
#include <cstdint>

namespace npu {

// Sum of a contiguous row.
float interpreter_row_sum(const float* x, int64_t n);

// Sums of columns: y[c] = sum of x[r * step + c] for r < rows, c < count. The columns are numbers `first` .. of a tile
// that is `width` columns wide; their place decides which of two orders they take.
void interpreter_column_sums(const float* x, int64_t rows, int64_t step, int64_t count, int64_t first, int64_t width,
                             float* y);

}  // namespace npu
