"""The version has one place, ``slalom_xai.__version__``; whoever says it reads it from there."""

import re
from pathlib import Path

import slalom_xai

ROOT = Path(__file__).parents[2]


def test_the_package_is_built_with_the_version_of_its_own_code():
    settings = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in settings
    assert 'path = "src/slalom_xai/__init__.py"' in settings


def test_a_citation_names_no_other_version():
    named = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert set(named) <= {slalom_xai.__version__}


def test_the_documentation_names_no_version_of_its_own():
    assert not re.search(r"\d+\.\d+\.\d+", (ROOT / "docs" / "conf.py").read_text())


def test_the_lower_bounds_are_the_versions_that_are_tested():
    tested = ("transformers", "fastapi", "starlette", "uvicorn", "httpx", "stamina")
    settings = (ROOT / "pyproject.toml").read_text()
    bounds = dict(re.findall(rf'"({"|".join(tested)})>=([\d.]+)"', settings))
    pins = dict(re.findall(r"^(\w+)==(.+)$", (ROOT / "constraints-lowest.txt").read_text(), re.M))
    assert sorted(bounds) == sorted(tested)
    for name, bound in bounds.items():
        assert pins[name].removesuffix(".0") == bound
