"""Frozen results. Plain data: what computes them lies in `run`."""
