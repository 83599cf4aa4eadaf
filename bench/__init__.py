"""Benchmarks over the real protocol; the last line each prints is one JSON object."""
