"""The strategies of the guide, as kernels on the public API, and their comparison."""
from .catalogue import OPERATORS
from .comparison import Comparison, compare
from .guide import Guide, guide

__all__ = ["OPERATORS", "Comparison", "Guide", "compare", "guide"]
