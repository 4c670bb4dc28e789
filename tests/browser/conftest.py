"""A real browser, as scripts/chromium.py finds it; without one these tests are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_served import Served, serving_page
from tabs import Tabs

from slalom_xai.reports.html import write_report


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """One browser for all tests of a worker."""
    sync = pytest.importorskip(
        "playwright.sync_api",
        reason="no Chromium can be driven without the package playwright: pip install playwright",
    )
    from scripts.chromium import NoChromiumError, launch

    with sync.sync_playwright() as playwright:
        try:
            browser = launch(playwright)
        except NoChromiumError as error:
            pytest.skip(str(error))
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
