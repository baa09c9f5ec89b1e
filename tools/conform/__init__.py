"""Operation cases: inputs, expected values, kernels and comparison for tools/conformance.py."""
