"""Measurements that take too long for the tests; docs/benchmarks.md has their results."""
