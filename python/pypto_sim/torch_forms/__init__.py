"""PyPTO forms of the torch operations that model code uses."""
from . import blocks, layers, moves, pointwise, reductions  # noqa: F401 - fill the table
from .base import FORMS, Form, find

__all__ = ["FORMS", "Form", "find"]
