"""Benchmark of several ways to handle a batch: `make bench`. Method: docs/performance.md."""
