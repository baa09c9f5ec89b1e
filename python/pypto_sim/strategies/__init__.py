"""The strategies of the guide, as kernels on the public API, and their comparison."""
from .base import Arg, Claim, Launch, Observation, Operator, Part, Phase, Preset, Strategy, Tolerance
from .catalogue import OPERATORS
from .comparison import Comparison, compare
from .guide import Guide, guide

__all__ = ["OPERATORS", "Arg", "Claim", "Comparison", "Guide", "Launch", "Observation", "Operator", "Part", "Phase",
           "Preset", "Strategy", "Tolerance", "compare", "guide"]
