"""Calibration tables: published kernel timings, one kernel per operator for each, and the scores of the predictions."""
