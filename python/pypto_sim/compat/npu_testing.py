"""`torch_npu.testing.testcase`: the test base class."""
from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import torch


class TestCase(unittest.TestCase):
    """unittest.TestCase with the comparisons of NPU tests."""

    def assertRtolEqual(self, x: Any, y: Any, prec: float = 1e-4, prec16: float = 1e-3) -> None:
        """|x - y| <= prec * max(|y|, 1), with prec16 for 16-bit types."""
        a, b = (v.detach().cpu() if isinstance(v, torch.Tensor) else torch.as_tensor(np.asarray(v)) for v in (x, y))
        self.assertEqual(tuple(a.shape), tuple(b.shape))
        limit = prec16 if torch.float16 in (a.dtype, b.dtype) or torch.bfloat16 in (a.dtype, b.dtype) else prec
        a, b = a.double(), b.double()
        self.assertTrue(torch.equal(a.isnan(), b.isnan()), "NaN at different places")
        error = ((a - b).abs() / b.abs().clamp(min=1)).nan_to_num(0)
        self.assertLessEqual(error.max().item() if error.numel() else 0.0, limit)


run_tests = unittest.main
