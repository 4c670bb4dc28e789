"""Compares ``slalom-eff`` and ``slalom-fidel`` with the paper's published implementation.

Both sides explain the same texts and the same model with the same number of calls: for the
published package ``n_samples``, which it rounds up to a multiple of 16 and adds two calls to;
for ours ``budget``, a tenth of which (at most 400) is spent on the report and not on the fit.

* ``slalom-eff``, here with sequences of three tokens because the published code uses three
  whatever ``seq_len`` says: rank correlation of its values and importances with the published
  ones over the distinct tokens of a text, and the mean squared error of both on fresh random
  sequences of three tokens and on deletions. Beside it stand two yardsticks: the published code
  against itself with another seed, and against our solver on the published code's own rows when
  it trains for ``--steps`` gradient steps, because its 60 epochs end long before its objective
  stops falling.
* ``slalom-fidel``: the mean squared error of the predicted change in log odds when 1 to 10
  tokens are deleted.

The rows that measure are drawn apart from those that fit and are the same for both sides; a row
that deletes one token can hardly be new to either.

    pip install --no-deps slalom-explanations==0.1.2
    pip install scipy scikit-learn matplotlib tqdm
    python benchmarks/published.py --data reviews.jsonl.gz

``--data`` holds JSON lines with a field ``text``; the first texts of 40 to 180 tokens are taken.
``--model`` is a folder or hub id of a two-class transformers model, by default the embedded one.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from slalom_explanations import SLALOMLocalExplanantions, slalom_explainer

from slalom_xai import Explainer, Explanation
from slalom_xai.estimators import SlalomEff, SlalomFidel
from slalom_xai.models import Reading, Row, TextModel
from slalom_xai.surrogates.fit import fit_slalom

Array = NDArray[np.float64]
Predict = Callable[[Array], Array]  # counts over distinct tokens (m, K) to log odds (m,)

LENGTH = 3  # of the published code's short sequences
FIRST, LAST, PAD = 101, 102, 0  # the special tokens the published code writes into every row
EPOCHS, BATCH = 60, 128  # its default training
TOKENS_FROM = 1000  # its ids for the distinct tokens of a text start here, clear of those
SHORTEST, LONGEST = 40, 180


@dataclass(frozen=True)
class Scores:
    """An explanation over the K distinct tokens of a text, in order of appearance."""

    values: Array
    importances: Array
    predict: Predict


@dataclass(frozen=True)
class Rows:
    """Rows to measure on: counts over distinct tokens (m, K) and the model's log odds (m,)."""

    counts: Array
    log_odds: Array


@dataclass(frozen=True)
class Result:
    """One text."""

    text: int
    tokens: int
    distinct: int
    values_rank: float
    importances_rank: float
    values_rank_reseeded: float
    importances_rank_reseeded: float
    values_rank_trained: float
    importances_rank_trained: float
    eff_short: float
    eff_short_published: float
    eff_deletions: float
    eff_deletions_published: float
    fidel: float
    fidel_published: float
    fidel_ratio: float


class Text:
    """A text as the model reads it, and the model to ask about it."""

    def __init__(self, model: TextModel, reading: Reading) -> None:
        self.model = model
        self.reading = reading
        self.codes = np.asarray(reading.codes)
        self.places = np.unique(self.codes, return_index=True)[
            1
        ]  # the first place of each distinct token

    def log_odds(self, rows: Sequence[Row], batch: int = 64) -> Array:
        """Answers (m,) to rows, in batches of similar length."""
        order = sorted(range(len(rows)), key=lambda index: self.model.size(rows[index]))
        answers = np.empty(len(rows))
        for start in range(0, len(rows), batch):
            part = order[start : start + batch]
            logits = self.model.answer([rows[index] for index in part]).double()
            answers[part] = self.model.outputs.columns(logits)[:, 0].cpu().numpy()
        return answers

    def deletions(self, rows: int, rng: np.random.Generator, most: int = 10) -> Rows:
        """The text itself, and ``rows`` times without 1 to ``most`` of its tokens."""
        size = len(self.codes)
        deleted = np.concatenate([[0], rng.integers(1, min(most, size - 1) + 1, rows)])
        masks = rng.random((rows + 1, size)).argsort(axis=1).argsort(axis=1) >= deleted[:, None]
        onto = np.eye(len(self.places))[self.codes]
        return Rows(
            masks @ onto,
            self.log_odds([self.reading.compose(np.flatnonzero(mask)) for mask in masks]),
        )

    def short(self, rows: int, rng: np.random.Generator) -> Rows:
        """Random sequences of three distinct tokens."""
        drawn = rng.integers(0, len(self.places), (rows, LENGTH))
        return Rows(
            np.eye(len(self.places))[drawn].sum(axis=1),
            self.log_odds([self.reading.compose(self.places[tokens]) for tokens in drawn]),
        )


class AsPublished(torch.nn.Module):
    """The model as the published code wants it: ids in, logits of two classes out.

    Repairs three faults. The special tokens of every model are taken to be 101 and 102, so a
    model with others (or with words of these ids) was asked other texts than it should be; a model
    without any fails with an IndexError; and one with a single logit is not recognised (``==`` for
    ``=``). Here the code's own 101 and 102 are dropped and the model's special tokens put around
    the rest.
    """

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text
        self.asked: list[Rows] = []

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Logits 0 and the log odds, (m, 2)."""
        rows: list[Row] = []
        counts = np.zeros((len(input_ids), len(self.text.places)))
        for ids, kept in zip(
            input_ids.cpu().numpy(), attention_mask.cpu().numpy().astype(bool), strict=True
        ):
            tokens = ids[kept][1:-1] - TOKENS_FROM
            np.add.at(counts[len(rows)], tokens, 1)
            rows.append(self.text.reading.compose(self.text.places[tokens]))
        answers = self.text.log_odds(rows)
        self.asked.append(Rows(counts, answers))
        log_odds = torch.as_tensor(answers, dtype=torch.float32, device=input_ids.device)
        return {"logits": torch.stack([torch.zeros_like(log_odds), log_odds], dim=1)}


@contextlib.contextmanager
def repaired() -> Iterator[None]:
    """The published package with its crash mended and its prints and progress bars kept to itself."""
    fit = slalom_explainer.fit_iter_rand

    def without_batch_size(*arguments: Any, batch_size: int, **options: Any) -> Any:
        # The explainer hands ``batch_size`` to the iterative fit, which has no such parameter:
        # TypeError, always.
        return fit(*arguments, **options)

    quiet = io.StringIO()
    with (
        mock.patch.object(slalom_explainer, "fit_iter_rand", without_batch_size),
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
    ):
        yield


def published(
    text: Text, method: str, calls: int, seed: int, epochs: int = EPOCHS
) -> tuple[Scores, Rows]:
    """What the published package finds, with its default settings, and the rows it drew."""
    torch.manual_seed(seed)  # it takes no seed of its own
    model = AsPublished(text)
    explainer = SLALOMLocalExplanantions(
        model,
        n_samples=calls,
        sgd_epochs=epochs,
        device="cpu",
        modes=["value", "imp"],
        sampling_strategy="short" if method == "eff" else "deletion",
        fit_sgd=method == "eff",
        pad_token_id=PAD,
    )
    with repaired():
        values, importances = explainer.get_signed_importance_for_tokens(
            (text.codes + TOKENS_FROM).tolist()
        )
    fitted = explainer.curr_slalom_model

    def predict(counts: Array) -> Array:
        with torch.no_grad():
            found: Array = (
                fitted.forward_feature_vects(torch.as_tensor(counts, dtype=torch.float32))[:, 1]
                .double()
                .numpy()
            )
        return found

    drawn = model.asked[1:]  # the first is the whole text, to see what the model answers
    rows = Rows(
        np.concatenate([part.counts for part in drawn]),
        np.concatenate([part.log_odds for part in drawn]),
    )
    return Scores(
        values[text.places].astype(np.float64), importances[text.places].astype(np.float64), predict
    ), rows


def ours(text: Text, explanation: Explanation) -> Scores:
    """One of our explanations, over distinct tokens."""
    assert explanation.importances is not None

    def predict(counts: Array) -> Array:
        keep = np.zeros((len(counts), len(text.codes)))
        keep[:, text.places] = (
            counts  # equal tokens have equal scores, so one place may stand for all
        )
        return explanation.predict(keep)

    return Scores(explanation.values[text.places], explanation.importances[text.places], predict)


def error(scores: Scores, rows: Rows) -> float:
    """Mean squared error of the predicted log odds."""
    return float(np.mean((scores.predict(rows.counts) - rows.log_odds) ** 2))


def error_of_change(scores: Scores, rows: Rows) -> float:
    """Mean squared error of the predicted change against the first row, which is the whole text."""
    predicted = scores.predict(rows.counts)
    return float(
        np.mean(((predicted - predicted[0]) - (rows.log_odds - rows.log_odds[0]))[1:] ** 2)
    )


def rank_correlations(first: Scores, second: Scores) -> tuple[float, float]:
    """Spearman's, of values and of importances."""
    return float(spearmanr(first.values, second.values).statistic), float(
        spearmanr(first.importances, second.importances).statistic
    )


def trained(text: Text, calls: int, seed: int, steps: int) -> tuple[float, float]:
    """Rank correlations of the published code, trained for long, with our solver on the same rows."""
    if not steps:
        return float("nan"), float("nan")
    scores, rows = published(
        text, "eff", calls, seed, epochs=3 * math.ceil(steps / 3 / math.ceil(calls / BATCH))
    )  # it keeps each third
    fit = fit_slalom(
        torch.as_tensor(rows.counts),
        torch.as_tensor(rows.log_odds)[:, None],
        sink=False,
        prior=1e-6,
    ).surrogate
    return rank_correlations(
        scores, Scores(fit.values[0, :, 0].numpy(), fit.importances[0].numpy(), scores.predict)
    )


def compare(
    model: TextModel, number: int, reading: Reading, calls: int, seed: int, rows: int, steps: int
) -> Result:
    """Explains one text by both sides and measures."""
    text = Text(model, reading)
    rng = np.random.default_rng([seed, number])
    short, deletions = text.short(rows, rng), text.deletions(rows, rng)
    options: dict[str, Any] = {"budget": calls, "random_state": seed, "show_progress": False}
    eff = ours(text, Explainer(model, method=SlalomEff(length=LENGTH), **options)(reading.text))
    fidel = ours(text, Explainer(model, method=SlalomFidel(), **options)(reading.text))
    eff_published, fidel_published = (
        published(text, method, calls, seed)[0] for method in ("eff", "fidel")
    )
    errors = error_of_change(fidel, deletions), error_of_change(fidel_published, deletions)
    return Result(
        number,
        len(text.codes),
        len(text.places),
        *rank_correlations(eff, eff_published),
        *rank_correlations(published(text, "eff", calls, seed + 1)[0], eff_published),
        *trained(text, calls, seed, steps),
        error(eff, short),
        error(eff_published, short),
        error_of_change(eff, deletions),
        error_of_change(eff_published, deletions),
        *errors,
        errors[0] / errors[1],
    )


def read_texts(path: Path, model: TextModel, count: int) -> list[Reading]:
    """The first texts of a suitable length."""
    readings: list[Reading] = []
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as lines
    ):
        for line in lines:
            reading = model.read(json.loads(line)["text"], truncation=True)
            if SHORTEST <= len(reading.pieces) <= LONGEST and not reading.left_out:
                readings.append(reading)
            if len(readings) == count:
                return readings
    raise SystemExit(
        f"{path} holds {len(readings)} texts of {SHORTEST} to {LONGEST} tokens: ask for fewer "
        f"than {count} with --texts"
    )


def table(results: Sequence[Result]) -> str:
    """Markdown, a row per text and the mean, least and greatest of each column."""
    names = [field.name for field in fields(Result)]
    lines = [
        "| " + " | ".join(name.replace("_", " ") for name in names) + " |",
        "| " + " | ".join(["---"] * len(names)) + " |",
    ]
    for result in results:
        lines.append(
            "| " + " | ".join(f"{number:.4g}" for number in asdict(result).values()) + " |"
        )
    for label, function in (("mean", np.mean), ("min", np.min), ("max", np.max)):
        summary = [f"{float(function(column(results, name))):.4g}" for name in names[1:]]
        lines.append("| " + " | ".join([f"**{label}**", *summary]) + " |")
    return "\n".join(lines)


def column(results: Sequence[Result], name: str) -> Array:
    return np.array([getattr(result, name) for result in results], dtype=np.float64)


def verdicts(results: Sequence[Result]) -> list[str]:
    """One line per target."""
    lines = []
    for suffix, name in (("", "as shipped"), ("_trained", "on the same rows, trained for long")):
        for score, least in (("values", 0.95), ("importances", 0.9)):
            ranks = column(results, f"{score}_rank{suffix}")
            if not np.isnan(ranks).any():
                found = f"mean {ranks.mean():.3f}, least {ranks.min():.3f}"
                lines.append(
                    verdict(
                        f"eff, {score}: rank correlation with the published {name} at least "
                        f"{least}",
                        found,
                        ranks.mean() >= least,
                    )
                )
    for name in ("eff_short", "eff_deletions", "fidel"):
        ours, theirs = (
            float(column(results, name + suffix).mean()) for suffix in ("", "_published")
        )
        lines.append(
            verdict(
                f"{name.replace('_', ', ')}: mean error at most the published",
                f"{ours:.4g} against {theirs:.4g}",
                ours <= theirs,
            )
        )
    worst = float(column(results, "fidel_ratio").max())
    lines.append(
        verdict(
            "fidel: no text above 1.1 times the published error",
            f"at most {worst:.3g} times",
            worst <= 1.1,
        )
    )
    return lines


def verdict(target: str, found: str, met: bool) -> str:
    return f"- {target}: {found}: {'met' if met else 'MISSED'}"


def save(results: Sequence[Result], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Result)])
        writer.writeheader()
        writer.writerows(asdict(result) for result in results)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--data", type=Path, required=True, help="JSON lines with a field text, gzipped or not"
    )
    parser.add_argument("--model", help="a folder or hub id; the embedded model by default")
    parser.add_argument("--texts", type=int, default=10, help="how many texts (10)")
    parser.add_argument(
        "--calls", type=int, default=2000, help="model calls per text and method (2000)"
    )
    parser.add_argument(
        "--rows", type=int, default=500, help="fresh rows of either kind to measure on (500)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=16000,
        help="of the long training of the published eff (16000); 0 leaves it out",
    )
    parser.add_argument("--seed", type=int, default=0, help="of all draws (0)")
    parser.add_argument("--threads", type=int, help="of torch; its own choice by default")
    parser.add_argument("--device", help="where the model runs; a GPU by default if there is one")
    parser.add_argument("--out", type=Path, help="a CSV file for the table")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    model = Explainer(options.model, device=options.device).model
    if len(model.outputs.labels) != 2:
        raise SystemExit(
            f"the model has {len(model.outputs.labels)} classes: the comparison is written for two"
        )
    results: list[Result] = []
    for number, reading in enumerate(read_texts(options.data, model, options.texts), start=1):
        results.append(
            compare(
                model, number, reading, options.calls, options.seed, options.rows, options.steps
            )
        )
        if options.out:
            save(results, options.out)
        print(
            f"text {number} of {options.texts}: {len(reading.pieces)} tokens done",
            file=sys.stderr,
            flush=True,
        )
    print(table(results), *verdicts(results), sep="\n")


if __name__ == "__main__":
    main()
