"""Benchmarks: explanation methods by metrics over many texts, with tables and plots."""

from slalom_xai.data.bench.items import Item, read_items
from slalom_xai.data.bench.options import BenchOptions
from slalom_xai.data.bench.results import summary_table, tidy, without_numbers
from slalom_xai.data.bench.run import bench
from slalom_xai.data.bench.writing import summary

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
