"""The paper's experiments as code that runs: our numbers beside the printed ones."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from slalom_xai.experiments.base import DataFile, Experiment, experiment, registered
from slalom_xai.theory import Reproduction, reproductions
from slalom_xai.theory.base import in_order, unknown_name

__all__ = ["DataFile", "Experiment", "chosen", "everything", "experiment", "experiments"]

# In the order of the paper.
_MODULES: tuple[str, ...] = (
    "fig_1",
    "fig_3",
    "fig_5",
    "fig_6",
    "fig_7",
    "fig_8",
    "fig_10",
    "fig_14",
    "case_study",
    "table_1a",
    "table_1b",
    "table_1c",
    "table_2",
    "table_6",
    "tables_7_8",
    "table_11",
    "fig_11",
    "table_12",
    "table_13b",
    "table_14",
    "black_box",
)


def experiments() -> dict[str, Experiment]:
    """Every experiment by name, in the order of the modules, whichever was imported first."""
    modules = [import_module(f"slalom_xai.experiments.{module}").__name__ for module in _MODULES]
    return in_order(registered().values(), modules)


def everything() -> dict[str, Reproduction]:
    """Every claim of the theory and every experiment, by name."""
    return {**reproductions(), **experiments()}


def chosen(names: Iterable[str]) -> list[Reproduction]:
    """Claims and experiments by name, each once.

    Args:
        names: "claims" stands for every claim of the theory, "experiments" for every
            experiment, "all" for both.

    Raises:
        InputError: a name that is not known.
    """
    groups = {
        "claims": list(reproductions()),
        "experiments": list(experiments()),
        "all": list(everything()),
    }
    known, wanted = everything(), dict[str, None]()
    for name in names:
        if name not in groups and name not in known:
            raise unknown_name(name, known)
        wanted |= dict.fromkeys(groups.get(name, [name]))
    return [known[name] for name in wanted]
