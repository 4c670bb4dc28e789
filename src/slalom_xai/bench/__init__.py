"""Benchmarks: explanation methods by metrics over many texts, with tables and plots."""

from slalom_xai.bench.items import Item, read_items
from slalom_xai.bench.options import BenchOptions
from slalom_xai.bench.results import summary_table, tidy, without_numbers
from slalom_xai.bench.run import bench
from slalom_xai.bench.writing import summary

__all__ = [
    "BenchOptions",
    "Item",
    "bench",
    "read_items",
    "summary",
    "summary_table",
    "tidy",
    "without_numbers",
]
