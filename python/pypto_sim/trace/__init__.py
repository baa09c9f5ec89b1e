"""Sessions that run or record a kernel, the handles they give out, and the lowering to the core's Program."""
