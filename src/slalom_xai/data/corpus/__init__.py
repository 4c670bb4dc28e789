"""Explains the texts of a whole table into a folder of Parquet files.

    table → source (rows) → staging (parts) → worker (explains a part) → schema (its file)

A run first splits the table into parts and checks all of it. A part is then explained as a whole
and becomes one file, which is there completely or not at all. So a run that is killed loses the
parts at work, and the next one explains these. Engines differ in who explains the parts: this
process, worker processes of this machine, or the actors of a Ray cluster.

Names are imported when they are used: reading a corpus needs no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.system.lazy_names import lazy_names

if TYPE_CHECKING:
    from slalom_xai.data.corpus.folder import Corpus
    from slalom_xai.data.corpus.run import Summary, explain_corpus
    from slalom_xai.options import ExplainOptions, RemoteOptions

__all__ = ["Corpus", "ExplainOptions", "RemoteOptions", "Summary", "explain_corpus"]

__getattr__ = lazy_names(
    __name__,
    {
        "Corpus": "folder",
        "ExplainOptions": "..options",
        "RemoteOptions": "..options",
        "Summary": "run",
        "explain_corpus": "run",
    },
)
