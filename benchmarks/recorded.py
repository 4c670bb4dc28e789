"""Fits to recorded removals: how well they predict, how readable they are, how long they take.

    python -m benchmarks.recorded *.npz [--calls 1000] [--removal hide] [--texts 16]

Files come from ``benchmarks.record_removals``. For each, two independent sets of calls are fitted.
Printed are medians over texts of R² on fresh removals (few / any) of the formula and of one score,
and means of: the share of words with an effect whose value is within a tenth of an end of the
range; the correlation of values and of importances between the two fits, over the quarter of the
words with the largest measured effect; the share of the words whose measured removal exceeds a
tenth of the largest for which value less prediction has its sign; and the seconds of a fit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from slalom_xai.slalom.fit import FitRequest, FittedForm, fit_forms
from slalom_xai.slalom.formula import BoundedSlalom


@dataclass(frozen=True)
class Recorded:
    """What a model answered about one text; every table of masks (m, n) goes with outputs (m, C).

    Attributes:
        fits: two tables to fit, the whole text first, and their outputs.
        tests: two tables to test on, few words removed and any number, and their outputs.
        removal: (n, C), what is lost without each word.
        log_occurrences: (n,).
        low: (C,), of the model's range.
        high: (C,).
        column: the predicted output.
        sign: -1 where it is the first of two classes.
    """

    fits: list[tuple[Tensor, Tensor]]
    tests: list[tuple[Tensor, Tensor]]
    removal: Tensor
    log_occurrences: Tensor
    low: Tensor
    high: Tensor
    column: int

    def request(self, draw: int) -> FitRequest:
        """One of the two fits."""
        counts, outputs = self.fits[draw]
        return FitRequest(counts, outputs, self.log_occurrences, self.low, self.high, probed=True)


def read_recorded(file: Path, removal: str, calls: int, texts: int) -> Iterator[Recorded]:
    """The texts of one file, with so many calls to fit."""
    stored = np.load(file)
    number = 0
    while f"{number}/{removal}/masks" in stored and number < texts:
        part = {
            name: stored[f"{number}/{removal}/{name}"]
            for name in ("masks", "sizes", "outputs", "occurrences")
        }
        n, *sizes = part["sizes"].tolist()
        masks = np.unpackbits(part["masks"], axis=1, count=n).astype(np.float64)
        counts = torch.split(torch.tensor(masks), sizes)
        outputs = torch.split(torch.tensor(part["outputs"].astype(np.float64)), sizes)
        whole, empty, single, *draws, few, every = zip(counts, outputs, strict=True)
        fits = []
        for draw in draws:
            rest = calls - 2 - n if calls >= 6 * n else calls - 2
            half = len(draw[0]) // 2  # first those on a log scale, then those of any number
            chosen = torch.cat([torch.arange(rest // 2), half + torch.arange(rest - rest // 2)])
            chosen = chosen[chosen < len(draw[0])]
            parts = [whole, empty, *([single] if calls >= 6 * n else [])]
            parts.append((draw[0][chosen], draw[1][chosen]))
            fits.append(
                (torch.cat([one[0] for one in parts]), torch.cat([one[1] for one in parts]))
            )
        low, high = outputs[0][0], outputs[0][0]
        if "low" in stored:
            low, high = (
                torch.tensor(stored[name], dtype=torch.float64) for name in ("low", "high")
            )
        column = int(whole[1][0].argmax()) if whole[1].shape[1] > 1 else 0
        occurrences = torch.tensor(np.log(part["occurrences"].astype(np.float64)))
        yield Recorded(fits, [few, every], whole[1] - single[1], occurrences, low, high, column)
        number += 1


def measure_r2(form: BoundedSlalom, text: Recorded) -> list[float]:
    """R² of predicted changes, few words removed and any number."""
    whole = form.predict(torch.ones_like(text.fits[0][0][:1]))
    found = []
    for counts, outputs in text.tests:
        true = (outputs - text.fits[0][1][:1])[:, text.column]
        predicted = (form.predict(counts) - whole)[:, text.column]
        found.append(1 - float(((predicted - true) ** 2).mean() / true.var(correction=0)))
    return found


def measure_reading(both: list[FittedForm], text: Recorded) -> list[float]:
    """Share of values near an end, correlations of values and importances, agreement of signs."""
    column, effect = text.column, text.removal[:, text.column]
    values, others = (one.form.values[:, column] for one in both)
    low, high = (float(end[column]) for end in both[0].form.range)
    margin = 0.1 * (high - low)
    large = effect.abs() > 0.1 * effect.abs().max()
    near = (values < low + margin) | (values > high - margin)
    quarter = effect.abs().argsort(descending=True)[: max(3, len(effect) // 4)]
    correlations = [
        float(torch.corrcoef(torch.stack([one[quarter], two[quarter]]))[0, 1])
        for one, two in (
            (values, others),
            (both[0].form.importances, both[1].form.importances),
        )
    ]
    whole = float(text.fits[0][1][0, column])
    sign = ((values - whole).sign() == effect.sign())[large].double().mean()
    return [float(near[large].double().mean()), *correlations, float(sign)]


def main() -> None:
    """Fits and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--removal", default="hide")
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--each", action="store_true", help="print every text")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | slalom few/any | one score few/any | ends | values | importances | sign | s |")
    print("| --- |" + " --- |" * 7)
    for file in given.files:
        r2, single, reading, seconds = [], [], [], []
        for text in read_recorded(file, given.removal, given.calls, given.texts):
            begun = time.perf_counter()
            both = [fit_forms([text.request(draw)])[0] for draw in range(2)]
            seconds.append((time.perf_counter() - begun) / 2)
            r2.append(measure_r2(both[0].form, text))
            single.append(measure_r2(both[0].one_score, text))
            reading.append(measure_reading(both, text))
            if given.each:
                spread = [
                    float((out - text.fits[0][1][:1])[:, text.column].std())
                    for _, out in text.tests
                ]
                whole = float(text.fits[0][1][0, text.column])
                print(
                    len(text.removal),
                    f"{whole:.2f}",
                    np.round(spread, 2),
                    np.round(r2[-1] + single[-1] + reading[-1], 2),
                )
        two, one = (
            " / ".join(f"{x:.3f}" for x in np.median(part, axis=0)) for part in (r2, single)
        )
        read = " | ".join(f"{x:.2f}" for x in np.nanmean(reading, axis=0))
        print(f"| {file.stem} | {two} | {one} | {read} | {np.mean(seconds):.2f} |", flush=True)


if __name__ == "__main__":
    main()
