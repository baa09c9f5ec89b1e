"""Calling kernels: the jit decorator, binding of arguments, launching, estimating."""
