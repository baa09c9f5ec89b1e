"""Helpers for tests of kernels and operations."""
from .evaluate import evaluate as evaluate
from .evaluate import show as show
from .ulp import ulp_distance as ulp_distance
