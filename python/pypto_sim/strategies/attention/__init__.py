"""Attention: whole row, online softmax, fused flash kernel, sparse flash kernel."""
from .claims import CLAIMS
from .sizes import OPERATOR, golden
from .table import PRESETS, STRATEGIES

__all__ = ["CLAIMS", "OPERATOR", "PRESETS", "STRATEGIES", "golden"]
