"""Settings for all tests: a slow machine is not a failure."""

import os
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

# shap compiles a few functions when they are first called, which takes each worker many seconds. As
# plain Python they are quick enough for short texts.
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")

PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("patient", max_examples=50, **PATIENT)
settings.register_profile("thorough", max_examples=1000, **PATIENT)  # --hypothesis-profile=thorough
settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def _no_cache_of_the_user(tmp_path_factory):
    """Models that keep their answers find none of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLALOM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """No test finds answers of another in the cache."""
    monkeypatch.setenv("SLALOM_CACHE", str(tmp_path / "own-cache"))


@pytest.fixture
def slalom(monkeypatch, capsys):
    """The command line in this process, which has paid for the imports already.

    A process of its own takes seconds to import torch: few tests need one.
    """
    from slalom_xai.cli import main

    return _in_this_process("slalom", main, monkeypatch, capsys)


@pytest.fixture
def reproduce(monkeypatch, capsys):
    """``python -m research`` in this process."""
    from research.command import main

    return _in_this_process("research", main, monkeypatch, capsys)


def _in_this_process(name, main, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", [name, *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "100")
        capsys.readouterr()  # what was printed before
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        told = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=told.out, stderr=told.err)

    return run
