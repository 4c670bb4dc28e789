"""Settings for all tests: a slow machine is not a failure."""

import uuid
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _no_cache_of_the_user(monkeypatch, tmp_path_factory):
    """Models that keep their answers find those of no other test, and none of the user's."""
    name = f"cache-{uuid.uuid4().hex}"  # made only if somebody uses it
    monkeypatch.setenv("SLALOM_CACHE", str(tmp_path_factory.getbasetemp() / name))


@pytest.fixture
def slalom(monkeypatch, capsys):
    """The command line in this process, which has paid for the imports already.

    A process of its own takes seconds to import torch: few tests need one.
    """
    from slalom_xai.cli import main

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["slalom", *map(str, arguments)])
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
