"""Scalars: normal form, integer arithmetic, questions PyPTO has."""
import copy
import itertools
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pypto_sim as pypto
from pypto_sim.trace.scalar import evaluate, key, leaf, leaves, text_of

S = pypto.SymbolicScalar
OPS = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.truediv, min, max,
       operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


def test_copies_and_pickles():
    n, i = S("n"), symbol("i")
    assert copy.copy(i) is i and copy.deepcopy([i])[0] is i
    assert key(pickle.loads(pickle.dumps(n * 3 + 1))) == key(n * 3 + 1)
    assert pickle.loads(pickle.dumps(S(5))).concrete() == 5


@pytest.mark.parametrize("op", [operator.floordiv, operator.mod, operator.truediv])
def test_division_by_zero(op):
    for a in (S(5), S("n"), symbol("i")):
        with pytest.raises(pypto.PyptoError, match="division by zero"):
            op(a, 0)


def symbol(name):
    return leaf("i", name, object())


def apply(op, a, b):
    if op in (min, max):
        return S(a).min(b) if op is min else S(a).max(b)
    return op(a, b)


def plain(op, a, b):
    return a // b if op is operator.truediv else int(op(a, b))


def combined(op, f, g):
    return lambda i, j: plain(op, f(i, j), g(i, j))


@st.composite
def expressions(draw):
    """(scalar, function of the two indices) built from the same operations."""
    leaves_ = {"i": (symbol("i"), lambda i, j: i), "j": (symbol("j"), lambda i, j: j)}
    value, python = leaves_[draw(st.sampled_from("ij"))]
    for op in draw(st.lists(st.sampled_from(OPS), min_size=1, max_size=5)):
        divides = op in (operator.floordiv, operator.mod, operator.truediv)
        name = draw(st.sampled_from([1, 2, 3, 8] if divides else ["i", "j", 1, 2, 3, 7, -2]))
        other, f = leaves_.get(name) or (name, lambda i, j, n=name: n)
        value = apply(op, value, other)
        python = combined(op, python, f)
    return value, python


@given(expressions())
def test_a_symbolic_expression_has_the_value_of_python(case):
    value, python = case
    for i, j in itertools.product((0, 1, 5, 17), (0, 2, 9)):
        assert evaluate(key(value), {"i": i, "j": j}) == python(i, j)


@given(st.integers(-50, 50), st.integers(1, 9), st.sampled_from(OPS))
def test_known_scalars_fold(a, b, op):
    result = apply(op, S(a), b)
    assert result.is_concrete() and int(result) == plain(op, a, b)
    result = apply(op, S(a), S(b))
    assert int(result) == plain(op, a, b)


def test_normal_form():
    i, j = symbol("i"), symbol("j")
    assert key((i + 1) * 4 - i * 4) == 4
    assert key(i + j) == key(j + i) and key(i * 2 + i) == key(3 * i)
    assert key((i * 8 + 16) // 8) == key(i + 2) and key((i * 8) % 4) == 0
    assert text_of(key(4 * i - j + 1)) == "4*i - j + 1"
    assert {a[1] for a in leaves(key(pypto.max(i // 2, j) * j))} == {"i", "j"}
    with pytest.raises(ZeroDivisionError):
        S(3) // 0


def test_numpy_integers_mix_and_floats_are_refused():
    i = symbol("i")
    assert key(np.int64(3) + i) == key(i + 3) and key(np.int32(2) * i) == key(i * 2)
    assert int(S(np.int64(7)) % np.int8(4)) == 3
    for bad in (lambda: i * 0.5, lambda: i + 1.0, lambda: 0.5 - i, lambda: i < 1.5, lambda: S(1.5), lambda: S(2) * 0.5):
        with pytest.raises(TypeError):
            bad()
    assert (S(3) == "x") is False and (S(3) != None) is True  # noqa: E711 - the comparison is the test
    with pytest.raises(TypeError):
        S(2) ** 2


def test_free_symbols():
    n = pypto.symbolic_scalar("n")
    assert n.is_symbol() and not n.is_concrete() and (n + 1).is_expression() and str(n * 2 + 1) == "2*n + 1"
    for ask in (lambda: bool(n), lambda: int(n), lambda: n.concrete(), lambda: [1, 2][n], lambda: hash(n)):
        with pytest.raises(ValueError, match="Not concrete value"):
            ask()
    assert int(S("n", 5)) == 5 and S(S("n", 5)).concrete() == 5 and S().concrete() == 0
    assert S.tenary(S(1), 5, 6).concrete() == 5 and S.tenary(0, 5, 6).concrete() == 6
    assert n.as_variable() is None and n.simplify() is n


def test_module_functions():
    assert pypto.min(3, 4) == 3 and type(pypto.min(3, 4)) is int and int(pypto.max(S(3), 4)) == 4
    assert pypto.ceildiv(7, 2) == 4 and int(pypto.ceildiv(S(8), 2)) == 4
    assert int((S(1) > 0) & (S(2) > 3)) == 0 and int((S(1) > 0) | (S(2) > 3)) == 1
    assert f"{S(3)}" == "3" and f"{S(3):03d}" == "003" and float(S(3)) == 3.0 and list(range(S(3))) == [0, 1, 2]
