r"""Fits to recorded removals: how well they predict, how readable they are, how long they take.

    python -m research.benchmarks.recorded *.npz [--calls 1000] [--removal hide] [--texts 16] \
        [--process]

Files come from ``record_removals``. For each, two independent sets of calls are fitted.
Printed are medians over texts of R² on fresh removals (few / any) of the formula, of one score, of
a linear fit and, with ``--process``, of a Gaussian process on the same calls; and means of:

    ends         share of words with an effect whose value is within a tenth of an end of the range
    values       correlation of values between the two fits, over the quarter of the words with the
                 largest measured effect
    importances  the same of importances
    sign         share of the words whose measured removal exceeds a tenth of the largest, for which
                 value less prediction has its sign
    cover        share of 90% intervals of values / of importances that hold what a fit to all
                 recorded calls gives
    s            seconds of a fit

and medians of:

    apart        how far the two fits' scores are apart, in standard errors that they state (root
                 mean squares over words; 1 if these are right): values, importances, alone, slope,
                 Shapley values
    shapley      R² of the formula's Shapley values against sampled ones, where there are such

``warned`` counts the texts whose explanation says not to trust it, judged by VERDICT texts of the
test with any number of words removed; the lowest R² of the others on the rest of them stands
beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from slalom_xai.methods.additive import fit_additive
from slalom_xai.methods.evidence import Surrogate
from slalom_xai.methods.gaussian_process import fit_process
from slalom_xai.slalom.fit import FitRequest, FittedForm, fit_forms, fit_one_scores
from slalom_xai.slalom.summary import Summary, SummaryRequest, summarise
from slalom_xai.slalom.trust import Fidelity, agreement

NINETY = 1.645  # standard errors on either side of a 90% interval
ORDERS = 1000  # behind Shapley values
APART = ("value", "importance", "alone", "slope", "shapley")
VERDICT = 83  # perturbed texts behind a verdict: two thirds of an eighth of 1,000 calls


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
        shapley: (n, C), sampled; without rows where there are none.
    """

    fits: list[tuple[Tensor, Tensor]]
    tests: list[tuple[Tensor, Tensor]]
    removal: Tensor
    log_occurrences: Tensor
    low: Tensor
    high: Tensor
    column: int
    shapley: Tensor

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
        sampled = torch.tensor(stored.get(f"{number}/{removal}/shapley", np.zeros((0, 1))))
        removed = whole[1] - single[1]
        yield Recorded(fits, [few, every], removed, occurrences, low, high, column, sampled)
        number += 1


def predict_changes(form: Surrogate, text: Recorded, kind: int) -> tuple[Tensor, Tensor]:
    """Predicted and true changes for one set of tests, 0 few and 1 any number of words removed."""
    counts, outputs = text.tests[kind]
    true = (outputs - text.fits[0][1][:1])[:, text.column]
    return (form.predict(counts) - form.predict(torch.ones_like(counts[:1])))[:, text.column], true


def measure_r2(form: Surrogate, text: Recorded) -> list[float]:
    """R² of predicted changes, few words removed and any number."""
    found = []
    for kind in range(2):
        predicted, true = predict_changes(form, text, kind)
        found.append(1 - float(((predicted - true) ** 2).mean() / true.var(correction=0)))
    return found


def judge(form: Surrogate, text: Recorded) -> tuple[bool, float]:
    """Whether the explanation warns, and R² on the tests that did not decide it."""
    level = float(text.tests[1][1].abs().max())
    predicted, true = predict_changes(form, text, 1)
    told, rest = (
        agreement(predicted[part], true[part], level)
        for part in (slice(VERDICT), slice(VERDICT, None))
    )
    return Fidelity(told, told).doubtful, rest.r2


def measure_cover(fitted: FittedForm, errors: dict[str, Tensor], text: Recorded) -> list[float]:
    """How often intervals of values and of importances hold what all recorded calls give."""
    (counts, outputs), (more, told) = text.fits
    both = torch.cat([counts, more[1:]]), torch.cat([outputs, told[1:]])
    request = replace(text.request(0), counts=both[0], outputs=both[1])
    [every] = fit_forms([request])
    found = []
    for name in ("value", "importance"):
        first, second = (
            one.form.of_column(text.column).split().score(name)[0] for one in (fitted, every)
        )
        held = (first - second).abs() <= NINETY * errors[name] + 1e-9
        found.append(float(held.double().mean()))
    return found


def measure_apart(both: list[FittedForm], summaries: list[Summary], text: Recorded) -> list[float]:
    """How far two fits' scores are apart, in stated errors; and R² of Shapley values."""
    shapley = [summary.shapley[:, text.column] for summary in summaries]
    errors = [summary.errors[text.column] for summary in summaries]
    found = []
    for name in APART:
        first, second = (
            one if name == "shapley" else fitted.form.of_column(text.column).split().score(name)[0]
            for one, fitted in zip(shapley, both, strict=True)
        )
        stated = torch.cat([one[name] for one in errors]).square().mean().sqrt()
        found.append(float((first - second).square().mean().sqrt() / 2**0.5 / stated))
    r2 = float("nan")
    if len(text.shapley):
        true = text.shapley[:, text.column]
        r2 = 1 - float(((shapley[0] - true) ** 2).sum() / ((true - true.mean()) ** 2).sum())
    return [*found, r2]


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--removal", default="hide")
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--process", action="store_true", help="also fit a Gaussian process")
    given = parser.parse_args()
    torch.set_num_threads(1)
    kinds = ["slalom", "one score", "linear", *(["process"] if given.process else [])]
    means = ["ends", "values", "importances", "sign", "cover", "s"]
    columns = [*kinds, *means, "apart", "shapley", "warned"]
    print(f"| model, {given.removal}, {given.calls} calls | " + " | ".join(columns) + " |")
    print("| --- |" + " --- |" * len(columns))
    for file in given.files:
        r2, reading, apart, seconds, verdicts = [], [], [], [], []
        for text in read_recorded(file, given.removal, given.calls, given.texts):
            begun = time.perf_counter()
            both = [fit_forms([text.request(draw)])[0] for draw in range(2)]
            seconds.append((time.perf_counter() - begun) / 2)
            counts, outputs = text.fits[0]
            linear = fit_additive(counts, outputs, outputs[0]).surrogate
            forms: list[Surrogate] = [both[0].form, fit_one_scores(both[:1])[0].form, linear]
            if given.process:
                generator = torch.Generator().manual_seed(0)
                forms.append(fit_process(counts, outputs, outputs[0], generator))
            r2.append([measure_r2(form, text) for form in forms])
            summaries = summarise(
                [
                    SummaryRequest(fitted, calls, None, ORDERS, 16, 8, 10)
                    for fitted, calls in zip(both, text.fits, strict=True)
                ]
            )
            errors = summaries[0].errors[text.column]
            reading.append(measure_reading(both, text) + measure_cover(both[0], errors, text))
            apart.append(measure_apart(both, summaries, text))
            verdicts.append(judge(both[0].form, text))
        shown = [f"{few:.2f} / {every:.2f}" for few, every in np.median(r2, axis=0)]
        *read, value, importance = (f"{one:.2f}" for one in np.nanmean(reading, axis=0))
        trusted = [rest for warned, rest in verdicts if not warned]
        lowest = f", others at least {min(trusted):.2f}" if trusted else ""
        told = f"{len(verdicts) - len(trusted)} of {len(verdicts)}{lowest}"
        *spreads, shapley = (f"{one:.2f}" for one in np.median(apart, axis=0))
        shown += [*read, f"{value} / {importance}", f"{np.mean(seconds):.2f}"]
        shown += [" ".join(spreads), shapley, told]
        print(f"| {file.stem} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
