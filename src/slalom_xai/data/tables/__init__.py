"""Tables that users give: CSV, TSV, JSON and Parquet files, packed or not.

    file → formats (unpacked, row by row)
         → streams (files of any size), or Table → examples (texts with classes)

The named parts of a row are called fields here; "column" is kept for the outputs of a model.
Messages to users say column, as everybody does of a table.

CSV and JSON are read by hand, on the standard library's parsers: pandas and pyarrow fill up short
rows or do not say on which line a row is wrong, and cannot go on behind it.
"""

from slalom_xai.data.tables.table import Table, read_table

__all__ = ["Table", "read_table"]
