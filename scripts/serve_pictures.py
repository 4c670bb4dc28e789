"""Makes the documentation's pictures of ``slalom serve``.

    python scripts/serve_pictures.py

It starts a server of its own for as long as that takes. It needs a Chromium, see CONTRIBUTING.md.
"""

from __future__ import annotations

import contextlib
import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from chromium import launch
from playwright.sync_api import Browser, Page, sync_playwright
from view_pictures import ROOT, keep

REVIEWS = (ROOT / "examples" / "reviews.txt").read_text(encoding="utf-8").splitlines()
GOOD = (0, 2, 4, 7, 9, 12)  # the others are bad, or so the file says
TEXT = (
    "The opening is slow and the jokes fall flat, but then the two sisters share a scene and the "
    "film comes alive. Both actresses are wonderful, the music is lovely, and I would gladly watch "
    "it again."
)
WAIT = 300_000  # milliseconds: a busy machine is not a failure


@contextlib.contextmanager
def served(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The address of a server with these texts and labels as its data set."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open(folder / "reviews.csv", "w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "label"])
            rows.writerows(texts)
        command = [sys.executable, "-m", "slalom_xai", "serve", "--port", "0"]
        command += ["--store", str(folder / "store.sqlite"), "--data", str(folder / "reviews.csv")]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            process.communicate()


def opened(browser: Browser, address: str, width: int, height: int, scheme: str = "light") -> Page:
    """A tab on a screen of this size."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1.25
    )  # type: ignore[arg-type]
    tab = context.new_page()
    tab.set_default_timeout(WAIT)
    tab.goto(address)
    return tab


def explain(tab: Page, method: str = "slalom", button: str = "Explain", cards: int = 1) -> None:
    """Explains the text, and waits for the end."""
    tab.get_by_label("Method").locator(f"option[value={method}]").wait_for(state="attached")
    tab.get_by_label("Text", exact=True).fill(TEXT)
    tab.get_by_label("Method").select_option(method)
    tab.get_by_role("button", name=button, exact=True).click()
    tab.locator("summary", has_text="Export").nth(cards - 1).wait_for()


def point(tab: Page) -> None:
    """Points at a word of the first explanation."""
    tab.locator(".card").first.get_by_role("button", name="wonderful", exact=True).hover()


def main() -> None:
    """Makes all pictures."""
    texts = [
        (text, "positive" if place in GOOD else "negative") for place, text in enumerate(REVIEWS)
    ]
    with served(texts) as address, sync_playwright() as playwright:
        browser = launch(playwright, "--hide-scrollbars")
        tab = opened(browser, address, 1180, 800)
        tab.get_by_label("Method").locator("option[value=linear]").wait_for(state="attached")
        keep(tab, "serve-empty.png")
        explain(tab)
        tab.get_by_role("button", name="lovely", exact=True).click()
        point(tab)
        tab.get_by_role("button", name="Ask the model").click()
        tab.locator("data[data-kind=asked]").wait_for()
        tab.wait_for_url("**edit=*")
        one = tab.url
        tab.set_viewport_size({"width": 1180, "height": 1150})
        tab.evaluate("() => scrollTo(0, 0)")
        keep(tab, "serve-desktop.png")
        explain(tab, "linear", "Explain beside", cards=2)
        both = tab.url
        for name, scheme in (("serve-compare.png", "light"), ("serve-dark.png", "dark")):
            tab = opened(browser, both, 1180, 1060, scheme)
            tab.locator("summary", has_text="Export").nth(1).wait_for()
            tab.locator(".comparison").evaluate("element => element.scrollIntoView()")
            tab.evaluate("() => scrollBy(0, -70)")
            point(tab)
            keep(tab, name)
        tab = opened(browser, one, 390, 900)
        tab.locator("summary", has_text="Export").wait_for()
        tab.locator(".job").evaluate("element => element.scrollIntoView()")
        point(tab)
        keep(tab, "serve-phone.png")
        tab = opened(browser, f"{address}?tab=data&sort=wrong", 1180, 620)
        for row in (0, 2):
            tab.locator(".dataset tbody button").nth(row).click()
            tab.locator("summary", has_text="Export").wait_for()
            tab.go_back()
            tab.locator(".dataset").wait_for()
        tab.reload()
        tab.get_by_text("✗ wrong").first.wait_for()
        keep(tab, "serve-data.png")
        browser.close()


if __name__ == "__main__":
    main()
