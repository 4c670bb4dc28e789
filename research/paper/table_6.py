"""Table 6: which surrogate describes transformers of the linear language best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from research.base import PAPER, Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, GREEN, NEUTRAL, ORANGE, RED, panels
from research.paper.language import (
    FAMILIES,
    HOURS,
    STUDY,
    kinds_of,
    regular,
    standard_error,
    study,
    unlearnt,
)
from research.paper.language_fits import GAM, LINEAR, SINK, SLALOM, SURROGATES
from research.paper.language_models import NET

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Mean squared errors × 100 as printed, by family and layers: linear, GAM, SLALOM.
_PRINTED = {
    ("gpt2", 1): (20.31, 48.78, 16.92),
    ("gpt2", 2): (24.81, 54.33, 22.17),
    ("gpt2", 6): (32.66, 57.08, 21.59),
    ("gpt2", 12): (25.74, 54.36, 20.25),
    ("distilbert", 1): (28.28, 44.43, 10.83),
    ("distilbert", 2): (32.58, 53.87, 16.82),
    ("distilbert", 6): (31.49, 49.35, 17.26),
    ("distilbert", 12): (50.82, 71.64, 27.50),
    ("bert", 1): (26.33, 43.30, 7.34),
    ("bert", 2): (28.43, 48.28, 9.92),
    ("bert", 6): (50.82, 68.23, 23.99),
    ("bert", 12): (44.58, 51.38, 18.77),
}
_COLOURS = (NEUTRAL, RED, ORANGE, GREEN, BLUE)


@reproduction(
    name="table-6",
    title="SLALOM describes transformers of the linear language better than additive models do",
    source=f"{PAPER}, Table 6",
    study=STUDY,
    hours=HOURS,
)
def table_6(settings: Settings) -> Outcome:
    """Errors of five surrogates on fresh rows, for each family and depth."""
    return outcome(study(settings))


def outcome(models: pd.DataFrame) -> Outcome:
    """The errors of the study's surrogates; see ``language.study``."""
    table = _errors(regular(models))
    longer = _longer(models)
    wide = table.pivot(index="model", columns="surrogate", values="ours")
    return Outcome(
        checks=_checks(wide, longer),
        tables={"errors": table, "training": longer},
        figures={"errors": lambda: _draw(table)},
        remarks=(
            "Mean squared errors × 100 of the log odds on fresh rows of the language, mean over "
            "runs. Ridge regression with a cross-validated penalty and SLALOM with a sink are "
            "not in the paper.",
            "The second table has the BERT type of two layers after fewer and more epochs, with "
            "the distance of its log odds to the language's own. The texts are the same in each "
            "epoch.",
            *unlearnt(models),
        ),
        finding=_finding(wide, longer),
    )


def _errors(models: pd.DataFrame) -> pd.DataFrame:
    """One row per model and surrogate, with the paper's number where it has one."""
    rows = []
    for name, kind, group in kinds_of(models):
        if kind == NET:
            continue
        printed = _PRINTED.get((kind, int(group["depth"].iloc[0])), ())
        paper = dict(zip((LINEAR, GAM, SLALOM), printed, strict=False))
        for surrogate in SURROGATES:
            errors = (100 * group[surrogate]).tolist()
            rows.append(
                {
                    "model": name,
                    "surrogate": surrogate,
                    "paper": paper.get(surrogate, float("nan")),
                    "ours": sum(errors) / len(errors),
                    "s.e.": standard_error(errors),
                    "runs": len(errors),
                }
            )
    return pd.DataFrame(rows)


def _longer(models: pd.DataFrame) -> pd.DataFrame:
    """The encoder of two layers by epochs of training."""
    encoder = models[(models["kind"] == "bert") & (models["depth"] == 2)]
    rows = []
    for epochs, group in encoder.groupby("epochs"):
        row = {"epochs": epochs, "to the truth": 100 * group["truth"].mean()}
        for surrogate in (LINEAR, SLALOM, SINK):
            row[surrogate] = 100 * group[surrogate].mean()
        rows.append(row)
    return pd.DataFrame(rows)


def _checks(wide: pd.DataFrame, longer: pd.DataFrame) -> tuple[Check, ...]:
    checks = [
        ("SLALOM's error over the linear model's, largest", wide, SLALOM, LINEAR),
        ("SLALOM's error over that of the GAM with LASSO 0.01, largest", wide, SLALOM, GAM),
        ("with sink: error over the linear model's, largest", wide, SINK, LINEAR),
        ("with sink: error over that of the GAM with LASSO 0.01, largest", wide, SINK, GAM),
        ("with sink, other numbers of epochs: the same over linear", longer, SINK, LINEAR),
    ]
    least = (wide[GAM] / wide[LINEAR]).min()
    return (
        *(
            at_most(statement, (table[one] / table[other]).max(), 1.0)
            for statement, table, one, other in checks
        ),
        at_least("error of the GAM with LASSO 0.01 over the linear model's, smallest", least, 1.0),
    )


def _finding(wide: pd.DataFrame, longer: pd.DataFrame) -> str:
    better = int((wide[SLALOM] < wide[LINEAR]).sum())
    found = f"SLALOM is nearer to {better} of {len(wide)} models than the linear model is"
    if longer.empty:
        return f"{found}."
    ratios = longer[SLALOM] / longer[LINEAR]
    each = ", ".join(
        f"{ratio:.2f} after {epochs}"
        for ratio, epochs in zip(ratios, longer["epochs"], strict=True)
    )
    return f"{found}. It depends on training: its error over the linear model's is {each} epochs."


def _draw(table: pd.DataFrame) -> Figure:
    """A panel for each family: errors by depth."""
    figure, made = panels(len(FAMILIES), width=3.0, share_y=True)
    for axes, family in zip(made, FAMILIES.values(), strict=True):
        own = table[table["model"].str.startswith(f"{family}, ")]
        for surrogate, colour in zip(SURROGATES, _COLOURS, strict=True):
            part = own[own["surrogate"] == surrogate]
            depths = part["model"].str.extract(r", (\d+) layer")[0].astype(int)
            errors = part["s.e."].fillna(0)
            axes.errorbar(
                depths, part["ours"], errors, marker="o", markersize=3, color=colour,
                label=surrogate,
            )  # fmt: skip
            if part["paper"].notna().any():
                axes.scatter(depths, part["paper"], marker="x", color=colour, s=18)
        axes.set_xticks(sorted(set(depths)))
        axes.set(title=f"{family} type", xlabel="layers (× as printed)")
    made[0].set_ylabel("mean squared error × 100")
    made[0].legend(fontsize="xx-small", loc="upper left")
    return figure
