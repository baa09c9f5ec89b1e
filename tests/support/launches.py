"""Small arrays and a kernel that doubles them, for tests of launches."""
import numpy as np

import pypto_sim as pypto


def f32(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def doubling(annotation, **options):
    def double(a: annotation, out: annotation):
        pypto.set_vec_tile_shapes(*[16] * a.dim)
        out[:] = a * 2.0
    return pypto.frontend.jit(double, **options) if options else pypto.frontend.jit(double)
