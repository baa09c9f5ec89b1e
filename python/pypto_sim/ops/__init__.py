"""Operations of the public interface. Importing this package fills the registry, hands its rows to the core and gives
`Tensor` its methods and operators."""
from __future__ import annotations

from .. import registry
from . import (
    bits,
    cast,
    compare,
    composite,
    create,
    division,
    elementwise,
    functions,
    index,
    matmul,
    move,
    predicates,
    quantise,
    reduce,
    statistics,
)
from ._checks import check_available
from .operators import attach

_MODULES = (elementwise, compare, reduce, cast, composite, move, index, create, matmul, functions,
            division, bits, predicates, statistics, quantise)

registry.before_call = check_available
attach(registry.REGISTRY)
registry.push_rows()
