"""A real browser: any Chromium or Chrome that is found; without one these tests are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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

    Afterwards it fails on any complaint or request to another host.
    """
    contexts, heard = [], []

    def opened(what: object, *, quiet: bool = True, **options: object) -> object:
        options.setdefault("viewport", {"width": 1200, "height": 900})
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # a busy machine is not a failure
        if quiet:
            page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: heard.append(str(error)))
            page.on(
                "request",
                lambda request: (
                    request.url.startswith(("file:", "about:", "data:"))
                    or heard.append(request.url)
                ),
            )
        page.on("dialog", lambda dialog: heard.append(f"dialog: {dialog.message}"))
        path = (
            what
            if isinstance(what, Path)
            else write_report(what, tmp_path / f"report{len(contexts)}.html")
        )
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert heard == []
