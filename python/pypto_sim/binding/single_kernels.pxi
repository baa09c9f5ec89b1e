# Single kernels of the instruction set in use, on byte views of contiguous arrays: for tests and benchmarks only

cdef extern from "npu_core/kernels/single.h" namespace "npu" nogil:
    void single_unary(int op, const void* x, void* y, int64_t n) except +
    void single_binary(int op, const void* a, const void* b, void* y, int64_t n) except +
    void single_compare(int op, const void* a, const void* b, void* y, int64_t n) except +
    void single_cast(int source, int target, const void* x, void* y, int64_t n) except +
    float single_reduction(int reduction, const void* x, int64_t n) except +
    void single_gemm(const void* a, int a_type, const int64_t* a_strides, const void* b, int b_type,
                     const int64_t* b_strides, const void* bias, void* c, const int64_t* sizes,
                     const int64_t* part) except +
    void single_gemm_i8(const void* a, const int64_t* a_strides, const void* b, const int64_t* b_strides,
                        const void* bias, void* c, const int64_t* sizes, const int64_t* part) except +


cdef int bytes_of(int dtype) except -1:
    cdef int[13] sizes = [4, 2, 2, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1]
    if not 0 <= dtype < 24:
        raise ValueError("no type has this code")
    return sizes[dtype] if dtype < 13 else 1


cdef int same_size(Py_ssize_t given, Py_ssize_t needed) except -1:
    if given != needed:
        raise ValueError(f"a buffer has {given} bytes, the kernel needs {needed}")
    return 0


def kernel_unary(int op, const uint8_t[::1] x, uint8_t[::1] y):
    cdef int64_t n = y.shape[0] // 4
    same_size(x.shape[0], 4 * n)
    if n:
        with nogil:
            single_unary(op, &x[0], &y[0], n)


def kernel_binary(int op, const uint8_t[::1] a, const uint8_t[::1] b, uint8_t[::1] y):
    cdef int64_t n = y.shape[0] // 4
    same_size(a.shape[0], 4 * n)
    same_size(b.shape[0], 4 * n)
    if n:
        with nogil:
            single_binary(op, &a[0], &b[0], &y[0], n)


def kernel_compare(int op, const uint8_t[::1] a, const uint8_t[::1] b, uint8_t[::1] y):
    cdef int64_t n = y.shape[0]
    same_size(a.shape[0], 4 * n)
    same_size(b.shape[0], 4 * n)
    if n:
        with nogil:
            single_compare(op, &a[0], &b[0], &y[0], n)


def kernel_cast(int source, int target, const uint8_t[::1] x, uint8_t[::1] y):
    cdef int64_t n = x.shape[0] // bytes_of(source)
    same_size(x.shape[0], n * bytes_of(source))
    same_size(y.shape[0], n * bytes_of(target))
    if n:
        with nogil:
            single_cast(source, target, &x[0], &y[0], n)


def kernel_reduction(int reduction, const uint8_t[::1] x):
    cdef int64_t n = x.shape[0] // 4
    same_size(x.shape[0], 4 * n)
    if n == 0:
        raise ValueError("an empty row")
    return single_reduction(reduction, &x[0], n)


def kernel_gemm(a, int a_type, a_strides, b, int b_type, b_strides, bias, c, sizes, part):
    """Fills part (m_begin, m_end, n_begin, n_end) of C; `sizes` is (m, n, k, k_block). int8 operands: whole rows."""
    cdef const uint8_t[::1] av = a, bv = b, start
    cdef uint8_t[::1] cv = c
    cdef int64_t[2] a_step = a_strides, b_step = b_strides
    cdef int64_t[4] size = sizes, cut = part
    cdef const void* first = NULL
    cdef int width_a = bytes_of(a_type), width_b = bytes_of(b_type)
    if min(size[0], size[1], size[2]) < 1 or min(a_step[0], a_step[1], b_step[0], b_step[1]) < 0:
        raise ValueError("a size below 1 or a negative stride")
    if ((size[0] - 1) * a_step[0] + (size[2] - 1) * a_step[1] + 1) * width_a > av.shape[0]:
        raise ValueError("a is too small")
    if ((size[2] - 1) * b_step[0] + (size[1] - 1) * b_step[1] + 1) * width_b > bv.shape[0]:
        raise ValueError("b is too small")
    same_size(cv.shape[0], 4 * size[0] * size[1])
    if cut[0] < 0 or cut[1] > size[0] or cut[2] < 0 or cut[3] > size[1] or (a_type == 4) != (b_type == 4):
        raise ValueError("part or types")
    if bias is not None:
        start = bias
        same_size(start.shape[0], 4 * size[1])
        first = &start[0]
    with nogil:
        if a_type == 4:
            single_gemm_i8(&av[0], a_step, &bv[0], b_step, first, &cv[0], size, cut)
        else:
            single_gemm(&av[0], a_type, a_step, &bv[0], b_type, b_step, first, &cv[0], size, cut)
