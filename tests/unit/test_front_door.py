"""The public names: few, documented, imported when they are used, and stable under older names."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import slalom_xai

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OLD = {  # imports that were documented before
    "slalom_xai.audit": ("AuditFields", "own_lists", "run_audit"),
    "slalom_xai.corpus": ("Corpus", "ExplainOptions", "explain_corpus"),
    "slalom_xai.estimators": ("Slalom", "SlalomEff", "SlalomExact", "SlalomFidel", "methods"),
    "slalom_xai.estimators.base": ("Estimator", "Findings", "attributed", "register"),
    "slalom_xai.estimators.one_score": ("OneScoreMethod",),
    "slalom_xai.metrics.case": ("Case",),
    "slalom_xai.outputs": ("Outputs",),
    "slalom_xai.surrogates.additive": ("AdditiveSurrogate",),
    "slalom_xai.surrogates.formula": ("SlalomSurrogate",),
    "slalom_xai.surrogates.pairs": ("PairsSurrogate",),
    "slalom_xai.surrogates.process": ("Process",),
    "slalom_xai.tables": ("Table", "read_table"),
    "slalom_xai.text": ("Unit",),
    "slalom_xai.training": ("TrainingOptions", "train"),
    "slalom_xai.vocabulary": ("Vocabulary", "build_vocabulary"),
}


def test_the_front_door_has_few_names_and_each_opens():
    assert len(slalom_xai.__all__) <= 30
    assert sorted(slalom_xai.__all__) == dir(slalom_xai)
    for name in slalom_xai.__all__:
        assert callable(getattr(slalom_xai, name)), name


def test_the_reference_names_what_the_front_door_has_and_no_more():
    table = REFERENCE.split("## Explaining")[0]
    rows = re.findall(r"^\| (`.+?`) \|", table, flags=re.MULTILINE)
    named = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(named) == sorted(slalom_xai.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Explanier'"):
        _ = slalom_xai.Explanier


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, slalom_xai\n"
        "heavy = {'torch', 'transformers', 'numpy', 'pandas', 'scipy', 'rich', 'typer'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_import_that_a_page_shows_works(page):
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r"^ *from (slalom_xai[\w.]*) import ([\w, ]+)$", text, flags=re.MULTILINE)
    for module, names in shown:
        for name in names.split(","):
            assert hasattr(importlib.import_module(module), name.strip()), (module, name)


@pytest.mark.parametrize("module", OLD)
def test_documented_imports_go_on_to_work_under_their_older_names(module):
    old = importlib.import_module(module)
    for name in OLD[module]:
        found = getattr(old, name)
        assert getattr(importlib.import_module(found.__module__), name) is found
    with pytest.raises(AttributeError):
        _ = old.there_is_no_such_name


def test_a_module_under_its_older_name_is_an_attribute_of_the_package():
    code = (
        "import slalom_xai.estimators, slalom_xai.corpus\n"
        "print(slalom_xai.estimators.Slalom.name, slalom_xai.corpus.Corpus.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["slalom", "Corpus"]
