"""No version that is allowed has a hole that is known.

The table is kept by hand, as the tests need no network: when an advisory says that a package below
is mended in a later version, that version goes here and into pyproject.toml. It holds what is
installed for users, and what reads from the network behind it.
"""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]

SAFE = {
    "duckdb": ("1.1", "CVE-2024-41672: reads files although that is switched off"),
    "h11": ("0.16", "CVE-2025-43859: takes bodies in damaged chunks"),
    "httpx": ("0.23", "CVE-2021-41945: takes odd addresses for others"),
    "lightgbm": ("4.6", "CVE-2024-43598: runs code"),
    "pyarrow": ("23.0.1", "CVE-2026-25087: uses memory that was given back"),
    "ray": ("2.55", "CVE-2026-41486: runs code out of a Parquet file"),
    "scikit-learn": ("1.5", "CVE-2024-5206: keeps words of the training texts"),
    "scipy": ("1.10", "CVE-2023-25399: loses memory"),
    "starlette": ("1.3.1", "CVE-2026-48710, CVE-2026-54283: Host and forms are not checked"),
    "torch": ("2.10", "CVE-2025-32434, CVE-2026-24747: weights_only=True runs code"),
    "tqdm": ("4.66.3", "CVE-2024-34062: runs code out of options"),
    "transformers": (
        "5.10",
        "CVE-2026-4372, CVE-2026-5241: a configuration runs code; "
        "CVE-2026-9856: a tokenizer is saved outside its folder",
    ),
    "uvicorn": ("0.11.7", "CVE-2020-7695: splits answers"),
}


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(line) for lines in lists for line in lines]


def lowest(requirement: Requirement) -> Version:
    (bound,) = [each.version for each in requirement.specifier if each.operator == ">="]
    return Version(bound)


@pytest.mark.parametrize("name", SAFE)
def test_no_lower_bound_allows_a_known_hole(name):
    asked = [each for each in requirements() if canonicalize_name(each.name) == name]
    assert asked, f"pyproject.toml sets no lower bound for {name}"
    safe, hole = SAFE[name]
    for each in asked:
        assert lowest(each) >= Version(safe), f"{each} allows {hole}: ask for {safe} or later"


@pytest.mark.parametrize("file", ["constraints.txt", "constraints-lowest.txt"])
def test_no_pin_has_a_known_hole(file):
    pins = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / file).read_text(encoding="utf-8"), re.M)
    installed = {canonicalize_name(name): Version(version) for name, version in pins}
    assert len(installed) > 50
    for name, (safe, hole) in SAFE.items():
        if name in installed:
            assert installed[name] >= Version(safe), f"{file} has {hole}: pin {safe} or later"
