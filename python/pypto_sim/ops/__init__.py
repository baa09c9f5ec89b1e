"""Operations of the public interface. Importing this package fills the registry, hands its rows to the core and gives
`Tensor` its methods and operators."""
from __future__ import annotations

from .. import registry
from . import (
    bits,
    bytes,
    cast,
    compare,
    composite,
    conv,
    create,
    division,
    elementwise,
    functions,
    index,
    matmul,
    move,
    mx,
    paged,
    predicates,
    quantise,
    random,
    reduce,
    scaled,
    sorting,
    statistics,
    unary,
    update,
    views,
)
from ._checks import check_available, raise_wrong_call
from .operators import attach

_MODULES = (elementwise, unary, compare, reduce, cast, composite, views, move, index, create, matmul, functions,
            division, bits, predicates, statistics, quantise, bytes, conv, mx, paged, random, scaled, sorting, update)

registry.before_call, registry.wrong_call = check_available, raise_wrong_call
attach(registry.REGISTRY)
registry.push_rows()
