"""Table 14: how many calls slalom-eff needs to be as good as Kernel SHAP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from research.base import PAPER, Outcome, Settings, at_least, reproduction
from research.drawing import BLUE, NEUTRAL, ORANGE, panels
from research.paper.imdb import DATA, STUDY, Found, Study
from research.paper.imdb_methods import EFF, SHAP, SHAP_UNK
from research.paper.language import standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PRINTED = {
    f"{SHAP} auto": 0.9135,
    f"{SHAP_UNK} auto": 0.9135,
    f"{EFF} 500": 0.9243,
    f"{EFF} 1000": 0.9236,
    f"{EFF} 2000": 0.9348,
    f"{EFF} 5000": 0.9387,
    f"{EFF} 10000": 0.9387,
}
_FEWEST = f"{EFF} 500"
_NEAR = 0.02


@reproduction(
    name="table-14",
    title="500 calls are enough for slalom-eff to rank words as well as Kernel SHAP does",
    source=f"{PAPER}, Table 14",
    study=STUDY,
    hours=4,
    data=DATA,
)
def table_14(settings: Settings) -> Outcome:
    """Deletion by the number of calls."""
    return outcome(Study(settings, "table-14").samples())


def outcome(found: Found) -> Outcome:
    """Means over reviews; see ``imdb.Study.samples``."""
    (spec,) = found.models
    frame = pd.DataFrame(list(found.rows[spec.key].values()))
    columns = [name for name in frame.columns if name not in ("units", "seconds")]
    table = pd.DataFrame([_row(name, frame[name]) for name in columns])
    leads = {rival: frame[_FEWEST] - frame[f"{rival} auto"] for rival in (SHAP, SHAP_UNK)}
    return Outcome(
        checks=tuple(
            at_least(f"{_FEWEST} calls: mean lead over {rival}", lead.mean(), -_NEAR)
            for rival, lead in leads.items()
        ),
        tables={"deletion": table},
        figures={"deletion": lambda: _draw(table)},
        remarks=(
            f"`aopc`, deletion, higher is better; model: {spec.name}. slalom-eff is ranked by "
            'linearized scores. Kernel SHAP has the calls of nsamples="auto", two for each token '
            "and 2,048; the paper's puts [UNK] in the place of words. slalom-eff fits two numbers "
            "for each distinct token, so a review with too many of them has no number for few "
            "calls; leads compare the same reviews.",
            *found.remarks,
        ),
        finding=_finding(frame, leads),
    )


def _row(name: str, column: pd.Series[float]) -> dict[str, object]:
    method, _, calls = name.rpartition(" ")
    values = column.dropna().tolist()
    return {
        "method": method,
        "calls": calls,
        "paper": _PRINTED.get(name, float("nan")),
        "ours": sum(values) / len(values) if values else float("nan"),
        "s.e.": standard_error(values),
        "texts": len(values),
    }


def _finding(frame: pd.DataFrame, leads: dict[str, pd.Series[float]]) -> str:
    parts = [
        f"{lead.mean():+.3f} ± {standard_error(lead.dropna().tolist()):.3f} against {rival}"
        for rival, lead in leads.items()
    ]
    reached = int(frame[_FEWEST].notna().sum())
    return (
        f"With 500 calls slalom-eff reaches {frame[_FEWEST].mean():.3f} on {reached} of "
        f"{len(frame)} reviews, {' and '.join(parts)} on the same reviews."
    )


def _draw(table: pd.DataFrame) -> Figure:
    """Deletion by calls, and Kernel SHAP as a line."""
    figure, (axes,) = panels(1, width=4.4)
    eff = table[table["method"] == EFF]
    calls = eff["calls"].astype(int)
    axes.errorbar(calls, eff["ours"], eff["s.e."].fillna(0), marker="o", color=BLUE, label=EFF)
    axes.scatter(calls, eff["paper"], marker="x", color=NEUTRAL, label=f"{EFF}, as printed")
    for method, style in ((SHAP, "-"), (SHAP_UNK, "--")):
        own = table[table["method"] == method]
        axes.axhline(own["ours"].iloc[0], color=ORANGE, linestyle=style, label=method)
    axes.set(xscale="log", xlabel="calls", ylabel="deletion")
    axes.legend(fontsize="x-small")
    return figure
