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
