"""Makes the README's pictures of the interactive view.

    python scripts/view_pictures.py

It needs a Chromium, see CONTRIBUTING.md.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from chromium import launch
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from slalom_xai import Explainer
from slalom_xai.reports.html import write_report

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
TEXT = (ROOT / "examples" / "review.txt").read_text(encoding="utf-8").strip()


def shoot(browser: Browser, page: Path, name: str, width: int, height: int, scheme: str) -> None:
    """Removes one word, repeats another, points at a third, and takes the picture."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1.5
    )  # type: ignore[arg-type]
    tab = context.new_page()
    tab.goto(page.as_uri())
    card = tab.locator(".card").first
    card.get_by_role("button", name="slow", exact=True).click()
    card.get_by_role("button", name="moving", exact=True).click(modifiers=["Shift"])
    card.get_by_role("button", name="surprisingly", exact=True).hover()
    tab.locator("h1").click()  # takes the focus off the word
    keep(tab, name)
    context.close()


def keep(tab: Page, name: str) -> None:
    """Keeps what a tab shows as a picture of the documentation."""
    picture = Image.open(io.BytesIO(tab.screenshot()))
    picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(
        IMAGES / name, optimize=True
    )


def main() -> None:
    ours = Explainer(granularity="word")(TEXT)
    linear = Explainer(granularity="word", method="linear")(TEXT)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        one = ours.to_html(Path(folder) / "one.html")
        both = write_report(
            [ours, linear], Path(folder) / "both.html", title="Two methods on one text"
        )
        started = launch(playwright, "--hide-scrollbars")
        shoot(started, one, "view-desktop.png", 1180, 1000, "light")
        shoot(started, one, "view-phone.png", 390, 1010, "light")
        shoot(started, both, "view-dark.png", 1180, 1010, "dark")
        started.close()


if __name__ == "__main__":
    main()
