"""Runs a benchmark from the table of texts to the tables and figures of results."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from slalom_xai.bench.charts import draw
from slalom_xai.bench.explainers import Explainers, learnt_naive_bayes
from slalom_xai.bench.grid import Grid
from slalom_xai.bench.items import Items, read_items
from slalom_xai.bench.log import Log
from slalom_xai.bench.options import BenchOptions
from slalom_xai.bench.results import tidy
from slalom_xai.bench.writing import markdown
from slalom_xai.explainer import Explainer
from slalom_xai.progress import progress_bar
from slalom_xai.system.files import write_file


def bench(
    model: Any,
    data: str | Path,
    out: str | Path,
    options: BenchOptions | None = None,
    *,
    tokenizer: Any = None,
    device: str | None = None,
    dtype: str | None = None,
    tell: Callable[[str], None] | None = None,
    show_progress: bool | None = None,
) -> pd.DataFrame:
    """Compares explanation methods on the texts of a table.

    Results are written as they come, and a second run with the same settings goes on where the
    first stopped; more methods and metrics may be added to it. What fails is recorded with its
    reason.

    Args:
        model: whatever ``Explainer`` takes.
        data: CSV, TSV, JSON lines or Parquet with a text in each row.
        out: folder for log.jsonl, explanations/, results.csv, table.md and figures/.
        options: everything else.
        tokenizer: as for ``Explainer``.
        device: as for ``Explainer``.
        dtype: as for ``Explainer``.
        tell: called with one line for whatever a person should know.
        show_progress: a progress bar; None: when a person is watching.

    Returns:
        One row per text, method and number of a metric; see ``tidy``. With a shard, of its
        texts alone, and no table is written.
    """
    settled = (options or BenchOptions()).settled()
    items = read_items(data, settled)
    chosen = [item for place, item in enumerate(items.items) if settled.shard.has(place)]
    loaded = Explainer(model, tokenizer, device=device, dtype=dtype, show_progress=False).model
    explainers = Explainers(loaded, settled, learnt_naive_bayes(settled))
    log = Log.open(Path(out), _identity(loaded.name, items, settled))
    say = tell or (lambda line: None)
    grid = Grid(explainers, settled, log, say)
    with progress_bar(show_progress) as bar:
        if bar is not None:
            bar.start(len(chosen) * len(settled.methods), "explaining and measuring", afresh=True)
        for item in chosen:
            grid.run(item, bar)
    frame = tidy(log, [item.name for item in chosen], settled)
    if settled.shard.count == 1:
        _write(frame, log, settled, say)
    return frame


def _identity(model: str, items: Items, options: BenchOptions) -> dict[str, object]:
    """What must not change between runs into one folder."""
    identity = {"model": model, "data": items.sha256, **options.fixed()}
    if items.lines:  # earlier versions named texts by the line they begin on
        identity["texts_named_by"] = "row"
    return identity


def _write(
    frame: pd.DataFrame, log: Log, options: BenchOptions, tell: Callable[[str], None]
) -> None:
    """Writes the results for programs and for people."""
    write_file(log.folder / "results.csv", frame.to_csv(index=False, lineterminator="\n"))
    write_file(log.folder / "table.md", markdown(frame, log, options))
    try:
        import_module("matplotlib")
    except ImportError as error:
        tell(
            f"no figures were drawn ({error}): "
            "pip install matplotlib and run the same command again"
        )
        return
    draw(frame, log.folder / "figures")
