"""What a file of explained texts holds: one row per text, with a list of its units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_xai import __version__
from slalom_xai.data.corpus.source import CorpusRow
from slalom_xai.errors import InputError, optional_packages
from slalom_xai.system.files import replace_file

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation
    from slalom_xai.slalom.trust import Fidelity

FORMAT = "slalom-corpus"
VERSION = 2  # of the columns below
VERSION_KEY = b"slalom_corpus_version"
SCORES = ("value", "importance", "removal", "shapley")
FIDELITY = (
    "few_r2",
    "few_mse",
    "any_r2",
    "any_mse",
    "linear_few_r2",
    "linear_any_r2",
    "one_score_few_r2",
    "one_score_any_r2",
)
EXPLAINED, FAILED = "explained", "failed"

Record = dict[str, Any]


def arrow() -> Any:
    """The package pyarrow.

    Raises:
        InputError: it is missing.
    """
    what = "slalom corpus, which reads and writes Parquet,"
    return optional_packages(["pyarrow", "pyarrow.parquet"], what, "parquet")[0]


def explained_schema() -> Any:
    """The columns of explained texts."""
    pa = arrow()
    number = pa.float32()
    scores = [(name, number) for name in SCORES]
    errors = [(f"{name}_se", number) for name in SCORES]
    unit = pa.struct(
        [
            ("start", pa.int32()),
            ("end", pa.int32()),
            ("part", pa.int8()),
            ("unit", pa.string()),
            *scores,
            *errors,
            ("effect", pa.bool_()),
        ]
    )
    fidelity = pa.struct(
        [
            *((name, number) for name in FIDELITY),
        ]
    )
    return pa.schema(
        [
            ("row", pa.int64()),
            ("id", pa.string()),
            ("status", pa.string()),
            ("problem", pa.string()),
            ("text", pa.string()),
            ("text_pair", pa.string()),
            ("target", pa.string()),
            ("predicted", pa.string()),
            ("prediction", pa.float64()),
            ("surrogate", pa.string()),
            ("sink", pa.struct([("value", number), ("importance", number)])),
            ("units", pa.list_(unit)),
            ("fidelity", fidelity),
            ("calls", pa.int32()),
            ("seed", pa.int64()),
            ("fingerprint", pa.string()),
            ("notes", pa.list_(pa.string())),
        ],
        metadata={VERSION_KEY: str(VERSION).encode(), b"slalom_xai": __version__.encode()},
    )


def staged_schema() -> Any:
    """The columns of texts that wait."""
    pa = arrow()
    return pa.schema(
        [
            ("row", pa.int64()),
            ("place", pa.string()),
            ("id", pa.string()),
            ("text", pa.string()),
            ("text_pair", pa.string()),
            ("problem", pa.string()),
        ]
    )


def staged_record(row: CorpusRow) -> Record:
    """A row of the table that waits."""
    return {
        "row": row.row,
        "place": row.place,
        "id": row.id or None,
        "text": row.text,
        "text_pair": row.pair,
        "problem": row.problem,
    }


def explained_record(
    waiting: Mapping[str, Any], explanation: Explanation, fingerprint: str
) -> Record:
    """The row of a text that was explained.

    Args:
        waiting: its row while it waited.
        explanation: of the text.
        fingerprint: of the model.
    """
    from slalom_xai.reports.wording import predicted_index

    sink = explanation.sink
    chosen = predicted_index(explanation)
    return {
        "row": waiting["row"],
        "id": waiting["id"],
        "status": EXPLAINED,
        "problem": None,
        "text": waiting["text"],
        "text_pair": waiting["text_pair"],
        "target": explanation.target,
        "predicted": None if chosen is None else explanation.outputs.labels[chosen],
        "prediction": explanation.prediction,
        "surrogate": explanation.surrogate,
        "sink": None if sink is None else {"value": sink[0], "importance": sink[1]},
        "units": _units(explanation),
        "fidelity": _fidelity(explanation.fidelity),
        "calls": explanation.calls,
        "seed": explanation.random_state,
        "fingerprint": fingerprint,
        "notes": list(explanation.notes),
    }


def failed_record(waiting: Mapping[str, Any], problem: str, seed: int, fingerprint: str) -> Record:
    """The row of a text that could not be explained."""
    kept = {name: waiting[name] for name in ("row", "id", "text", "text_pair")}
    return {
        **kept,
        "status": FAILED,
        "problem": problem,
        "units": [],
        "calls": 0,
        "seed": seed,
        "fingerprint": fingerprint,
        "notes": [],
    }


def write_records(path: Path, records: Sequence[Record], schema: Any) -> None:
    """Writes a file that is whole or not there; the same records give the same bytes.

    Raises:
        InputError: it cannot be written.
    """
    pa = arrow()
    table = pa.Table.from_pylist(list(records), schema=schema)
    with replace_file(path) as draft:
        pa.parquet.write_table(table, draft, compression="zstd")


def read_records(path: Path) -> list[Record]:
    """The rows of a file.

    Raises:
        InputError: it cannot be read.
    """
    pa = arrow()
    try:
        records: list[Record] = pa.parquet.ParquetFile(path).read().to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        raise damage_error(path, error) from error
    return records


def count_rows(path: Path) -> int:
    """How many rows a file has.

    Raises:
        InputError: it cannot be read.
    """
    try:
        count: int = arrow().parquet.read_metadata(path).num_rows
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        raise damage_error(path, error) from error
    return count


def damage_error(path: Path, error: Exception) -> InputError:
    """The error for a file that cannot be read."""
    reason = " ".join(str(error).split())[:200]
    return InputError(
        f"cannot read {path} ({reason}): remove it, and the same command makes it again"
    )


def _units(explanation: Explanation) -> list[Record]:
    columns: dict[str, Sequence[float]] = {}
    for name in SCORES:
        if name != "importance" or explanation.importances is not None:
            columns[name] = explanation.scores(name).tolist()
    for name in SCORES:
        if name in columns and name in explanation.standard_errors:
            columns[f"{name}_se"] = explanation.standard_errors[name].tolist()
    units = []
    effect = explanation.has_effect
    for index, unit in enumerate(explanation.units):
        scores = {name: _finite(numbers[index]) for name, numbers in columns.items()}
        where = {"start": unit.start, "end": unit.end, "part": unit.part, "unit": unit.text}
        units.append({**where, **scores, "effect": bool(effect[index])})
    return units


def _fidelity(fidelity: Fidelity | None) -> Record | None:
    if fidelity is None:
        return None
    found: Record = dict.fromkeys(FIDELITY)
    parts = {"": fidelity, "linear_": fidelity.linear, "one_score_": fidelity.one_score}
    for begin, part in parts.items():
        for kind in ("few", "any"):
            if part is not None:
                agreement = getattr(part, kind)
                found[f"{begin}{kind}_r2"] = _finite(agreement.r2)
                if not begin:
                    found[f"{kind}_mse"] = _finite(agreement.mse)
    return found


def _finite(number: float) -> float | None:
    """A number, or None where there is none: a database sorts NaN in its own way."""
    return number if math.isfinite(number) else None
