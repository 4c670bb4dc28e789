"""Tables that users give: CSV, TSV, JSON and Parquet files, packed or not.

    file → packing (unpack) → separated, records (by format) → Table → examples (texts with classes)
    file → lines, parquet_rows (by format) → streams (row by row, for files of any size)

The named parts of a row are called fields here; "column" is kept for the outputs of a model.
Messages to users say column, as everybody does of a table.
"""

from slalom_xai.tables.read_table import read_table
from slalom_xai.tables.table import Table

__all__ = ["Table", "read_table"]
