"""Helpers for tests of kernels and operations: comparators, dumps of intermediate values, the first NaN."""
from .compare import Comparison as Comparison
from .compare import assert_relative as assert_relative
from .compare import assert_ulp as assert_ulp
from .compare import compare_relative as compare_relative
from .compare import compare_ulp as compare_ulp
from .dumps import Snapshot as Snapshot
from .dumps import dump as dump
from .evaluate import evaluate as evaluate
from .evaluate import show as show
from .launches import recording as recording
from .nan import FirstNan as FirstNan
from .nan import first_nan as first_nan
from .topk import assert_topk as assert_topk
from .topk import compare_topk as compare_topk
from .ulp import ulp_distance as ulp_distance
