"""`torch_npu.testing.testcase`: the test base class."""
from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import torch


class TestCase(unittest.TestCase):
    """unittest.TestCase with the comparisons of NPU tests."""

    def assertEqual(self, first: Any, second: Any, prec: Any = None, message: Any = None, *, msg: Any = None,
                    atol: float | None = None, rtol: float | None = None, equal_nan: bool = True,
                    exact_dtype: bool = True, exact_device: bool = False) -> None:
        """`torch.testing.assert_close` where a tensor, an array or a tolerance is given, else unittest's.

        prec: absolute tolerance, as atol; a text in its place is the message, as in unittest. Without any tolerance
        those of assert_close hold.
        """
        if isinstance(prec, str):
            prec, message = None, prec
        atol, message = prec if atol is None else atol, msg or message or None
        values = [v for x in (first, second) for v in (x if isinstance(x, (list, tuple)) else (x,))]
        if atol is None and rtol is None and not any(isinstance(v, (torch.Tensor, np.ndarray)) for v in values):
            super().assertEqual(first, second, message)
            return
        if atol is not None or rtol is not None:               # assert_close wants both
            atol, rtol = atol or 0.0, rtol or 0.0
        first, second = self._alike(first, second), self._alike(second, first)
        torch.testing.assert_close(first, second, atol=atol, rtol=rtol, equal_nan=equal_nan, check_dtype=exact_dtype,
                                   check_device=exact_device,
                                   msg=message and (lambda found: f"{found}\n{message}"))

    @staticmethod
    def _alike(value: Any, other: Any) -> Any:
        """An array beside a tensor, or a number beside either, as a tensor."""
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value)
        if isinstance(value, (int, float, list, tuple)) and isinstance(other, (torch.Tensor, np.ndarray)):
            dtype = other.dtype if isinstance(other, torch.Tensor) else torch.from_numpy(other).dtype
            return torch.as_tensor(value, dtype=dtype)
        return value

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
