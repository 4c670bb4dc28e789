"""Everything that can be run, by name: the claims of the theory and the paper's experiments."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module

from research.base import REGISTER, Reproduction
from slalom_xai.errors import InputError

# In the order in which a reader meets them: the paper, then the slides.
_CLAIMS: tuple[str, ...] = (
    "theory.paper.repeats",
    "theory.paper.sinks",
    "theory.paper.construction",
    "theory.paper.recovery",
    "theory.paper.near_sums",
    "theory.paper.unnormalised",
    "theory.paper.soft_removal",
    "theory.paper.shapley",
    "theory.paper.shapley_steps",
    "theory.paper.classes",
    "theory.paper.concatenation",
    "theory.paper.counterexample",
    "theory.paper.alternating",
    "theory.paper.gam_table",
    "theory.paper.word_weights",
    "theory.slides.show_explainers",
    "theory.slides.show_gradient",
    "theory.slides.show_lime",
    "theory.slides.show_runs",
    "theory.slides.show_anchors",
    "theory.slides.show_debate",
    "theory.slides.show_counterfactual",
    "theory.slides.show_histogram",
)
# In the order of the paper.
_EXPERIMENTS: tuple[str, ...] = (
    "paper.fig_1",
    "paper.fig_3",
    "paper.fig_5",
    "paper.fig_6",
    "paper.fig_7",
    "paper.fig_8",
    "paper.fig_10",
    "paper.fig_14",
    "paper.case_study",
    "paper.table_1a",
    "paper.table_1b",
    "paper.table_1c",
    "paper.table_2",
    "paper.table_6",
    "paper.tables_7_8",
    "paper.table_11",
    "paper.fig_11",
    "paper.table_12",
    "paper.table_13b",
    "paper.table_14",
    "paper.black_box",
)


def everything() -> dict[str, Reproduction]:
    """Every claim and then every experiment, in the order of the modules."""
    modules = [import_module(f"research.{name}").__name__ for name in (*_CLAIMS, *_EXPERIMENTS)]

    def position(one: Reproduction) -> int:
        module = one.run.__module__
        return modules.index(module) if module in modules else len(modules)

    return {one.name: one for one in sorted(REGISTER.values(), key=position)}


def claims() -> dict[str, Reproduction]:
    """Every claim of the theory, by name."""
    return {name: one for name, one in everything().items() if not one.is_experiment}


def experiments() -> dict[str, Reproduction]:
    """Every experiment, by name."""
    return {name: one for name, one in everything().items() if one.is_experiment}


def chosen(names: Iterable[str]) -> list[Reproduction]:
    """Claims and experiments by name, each once.

    Args:
        names: "claims" stands for every claim of the theory, "experiments" for every
            experiment, "all" for both.

    Raises:
        InputError: a name that is not known.
    """
    known = everything()
    groups = {"claims": list(claims()), "experiments": list(experiments()), "all": list(known)}
    wanted = dict[str, None]()
    for name in names:
        if name not in groups and name not in known:
            raise _unknown_name(name, known)
        wanted |= dict.fromkeys(groups.get(name, [name]))
    return [known[name] for name in wanted]


def _unknown_name(given: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not known, with the names it may have been meant for."""
    names = list(known)
    close = difflib.get_close_matches(given, names, n=3, cutoff=0.4)
    if not close and given:
        close = [name for name in names if given in name][:3]
    meant = ""
    if close:
        meant = f"did you mean {' or '.join(close)}? "
    return InputError(
        f"unknown reproduction {given!r}: {meant}python -m research --list shows all names"
    )
