"""A real browser: Debian's chromium, or any Chromium or Chrome that is found.

Without one these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_served import Served, serving_page
from tabs import Tabs

from slalom_xai.reports.html import write_report

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """One browser for all tests of a worker."""
    sync = pytest.importorskip(
        "playwright.sync_api",
        reason="the browser tests need the package playwright: pip install playwright",
    )
    found = os.environ.get("SLALOM_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(
            "no Chromium found: install one (apt-get install chromium), "
            "or name it in SLALOM_CHROMIUM"
        )
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def show(browser: object, tmp_path: Path) -> Iterator[Callable[..., object]]:
    """Opens a file, or explanations as a report.

    Afterwards it fails on any complaint, and on any request to another host.
    """
    tabs = Tabs(browser, ("file:",))

    def opened(what: object, **options: object) -> object:
        path = (
            what
            if isinstance(what, Path)
            else write_report(what, tmp_path / f"report{len(tabs.contexts)}.html")
        )
        return tabs.open(path.as_uri(), offline=True, **options)

    yield opened
    tabs.close()
    assert tabs.heard == []


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One running ``slalom serve`` for all tests of a worker: two models and a data set."""
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(package, reason=f"slalom serve needs {package}: pip install {package}")
    with serving_page(tmp_path_factory.mktemp("serve")) as served:
        yield served


@pytest.fixture
def visit(browser: object, server: Served) -> Iterator[Callable[..., object]]:
    """Opens an address of the server, as ``?job=3``.

    Afterwards it fails on any complaint, and on any request to another host.
    """
    tabs = Tabs(browser, (server.address,))

    def opened(where: str = "", **options: object) -> object:
        return tabs.open(server.address + where, **options)

    yield opened
    tabs.close()
    assert tabs.heard == []
