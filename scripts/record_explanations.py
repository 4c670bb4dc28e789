"""Writes down what explanations give, so that a change that should change nothing can be checked.

    python scripts/record_explanations.py before.json
    ... change the code ...
    python scripts/record_explanations.py after.json --compare before.json

Six cases (texts, granularities, removals) are explained by every method, for the embedded model, a
tiny encoder, a tiny decoder and a function, with two seeds. Numbers may differ by 1e-9 of their
size, calls and notes not at all. Run it with one thread (OMP_NUM_THREADS=1): sums in another order
differ by more.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

TOLERANCE = 1e-9
SEEDS = (0, 1)
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a slow start but one wonderful warm film", {"budget": 250}),
    ("The actors are warm and funny, and the story is a mess. Nobody minds!", {"budget": 400}),
    ("good good film , good actors , dull dull end", {"budget": 300, "granularity": "type"}),
    (
        "nobody would call this good but I liked it more than I should",
        {"budget": 400, "granularity": "word"},
    ),
    (
        "Loud. Long and dull until the end, then moving. Why not? I cried.",
        {"budget": 60, "granularity": "sentence"},
    ),
    (
        "a quiet film that grows on you , though its last half hour is far too long",
        {"budget": 600, "removal": "mask"},
    ),
)


def models() -> dict[str, Any]:
    """What is explained, and with which methods."""
    from fakes import Averaging
    from tiny import ASKING, BY_NAME, tiny
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = files("slalom_xai.models") / "embedded"
    embedded = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    encoder, decoder = tiny("bert"), tiny("gpt2")
    # In double precision: single precision differs from run to run by more than is allowed here.
    return {
        "embedded": ((embedded.double(), AutoTokenizer.from_pretrained(folder)), BY_NAME),
        "encoder": ((encoder[0].double(), encoder[1]), BY_NAME),
        "decoder": ((decoder[0].double(), decoder[1]), BY_NAME),
        "function": ((Averaging(), None), ASKING),
    }


def told(explanation: Any) -> dict[str, Any]:
    """Everything of an explanation that a user can see."""
    names = ("value", "importance", "alone", "linearized", "slope", "removal", "shapley")
    if explanation.importances is None:
        names = ("value", "alone")
    keep = np.random.default_rng(7).random((20, len(explanation.units))) < 0.6
    keep[:, 0] = True
    fidelity = None if explanation.fidelity is None else asdict(explanation.fidelity)
    return {
        "scores": {name: explanation.scores(name).tolist() for name in names},
        "errors": {name: found.tolist() for name, found in explanation.standard_errors.items()},
        "predicted": explanation.predict(keep).tolist(),
        "fidelity": fidelity,
        "trust": explanation.trust,
        "sink": explanation.sink and list(explanation.sink),
        "prediction": explanation.prediction,
        "base_value": explanation.base_value,
        "calls": [explanation.calls_fit, explanation.calls_check, explanation.passes],
        "notes": list(explanation.notes),
        "units": [[unit.text, unit.start, unit.end] for unit in explanation.units],
    }


def recorded(job: tuple[str, str]) -> dict[str, Any]:
    """All cases of one model and one method."""
    from slalom_xai import Explainer
    from slalom_xai.errors import SlalomError

    model_name, method = job
    (model, tokenizer), _ = models()[model_name]
    found: dict[str, Any] = {}
    for number, (text, options) in enumerate(CASES):
        for seed in SEEDS:
            key = f"{model_name} {method} {number} {seed}"
            try:
                explainer = Explainer(
                    model,
                    tokenizer,
                    method=method,
                    random_state=seed,
                    show_progress=False,
                    **options,
                )
                texts = [text, text.replace("film", "story").replace("end", "start")]
                found[key] = (
                    [told(one) for one in explainer(texts)] if seed else [told(explainer(text))]
                )
            except SlalomError as error:
                found[key] = [{"error": str(error)}]
    return found


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Where two records differ by more than rounding."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from differences(before.get(name), after.get(name), f"{where} {name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif isinstance(before, float) and isinstance(after, float):
        alike = before == after or (math.isnan(before) and math.isnan(after))
        if not alike and not abs(before - after) <= TOLERANCE * (1 + abs(before)):
            yield f"{where}: {before!r} became {after!r}"
    elif before != after:
        yield f"{where}: {before!r} became {after!r}"


def main() -> int:
    """Records, and compares where that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="where to write the record")
    parser.add_argument("--compare", type=Path, help="an earlier record")
    parser.add_argument(
        "--only",
        default="",
        help="models and methods to record, as in: embedded:slalom,function:lime",
    )
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    wanted = set(options.only.split(",")) - {""}
    jobs = [(model, method) for model, (_, names) in models().items() for method in names]
    jobs = [
        job
        for job in jobs
        if not wanted or ":".join(job) in wanted or job[0] in wanted or job[1] in wanted
    ]
    record: dict[str, Any] = {}
    with get_context("spawn").Pool(options.processes) as pool:
        for done, found in enumerate(pool.imap(recorded, jobs), start=1):
            record |= found
            print(f"\r{done} of {len(jobs)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    options.out.write_text(json.dumps(record), encoding="utf-8")
    if options.compare is None:
        return 0
    before = json.loads(options.compare.read_text(encoding="utf-8"))
    changed = list(differences({key: before[key] for key in record if key in before}, record))
    print("\n".join(changed[:40]))
    print(f"{len(record)} explanations, {len(changed)} differences")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
