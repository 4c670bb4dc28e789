"""How fast the page of slalom serve shows a data set of 100,000 rows, in headless Chromium.

python -m research.benchmarks.serve_page_speed

It writes made-up reviews and starts a server on them. When all rows are read, it prints in
milliseconds: from opening the page to its rows; from asking for a list to its first 50 rows on the
screen (wrong ones first, as in the file, a search); and the median and the slowest of 100 pages
that follow. The memory of the tab is that of its script after a collection, before and after.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from serve_pictures import served
from view_pictures import launched

ROWS = 100_000
PAGES = 100
WORDS = ("the", "film", "plot", "warm", "dull", "funny", "slow", "tired", "awful", "cast", "end")
# From a click to the painted rows of another list.
TIMED = """async ([selector, event]) => {
    const body = document.querySelector(".dataset tbody");
    const changed = new Promise(done => new MutationObserver((_, observer) => {
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(done));
    }).observe(body, {childList: true}));
    const began = performance.now();
    const target = [...document.querySelectorAll(selector)].at(-1);
    event === "click" ? target.click() : target.dispatchEvent(new Event(event));
    await changed;
    return performance.now() - began;
}"""


def made_up() -> Iterator[tuple[str, str]]:
    """Reviews of 40 to 80 words, with labels."""
    rng = random.Random(0)
    for number in range(ROWS):
        text = " ".join(rng.choices(WORDS, k=rng.randint(40, 80)))
        yield f"{text} {number}", rng.choice(["positive", "negative"])


def timed(page: Page, selector: str, event: str = "click") -> float:
    """Milliseconds until the rows have changed."""
    return float(page.evaluate(TIMED, [selector, event]))


def memory(page: Page) -> float:
    """MB that the tab's script holds."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def measure(page: Page, address: str) -> None:
    """Prints the times."""
    page.goto(f"{address}?tab=data")
    page.wait_for_function(
        "async () => { const told = await (await fetch('api/data')).json(); "
        "return told.imported && told.predicted.embedded > 0; }",
        timeout=600_000,
    )
    page.reload()
    page.locator(".dataset tbody tr").nth(49).wait_for()
    page.locator("option[value=linear]").wait_for(state="attached", timeout=600_000)
    page.reload()
    page.locator(".dataset tbody tr").nth(49).wait_for()
    print(f"the page itself    {page.evaluate('() => performance.now()'):6.0f} ms until its rows")
    before = memory(page)
    print(f"wrong ones first   {timed(page, '.dataset thead th:nth-child(6) button'):6.0f} ms")
    print(f"as in the file     {timed(page, '.dataset thead th:nth-child(1) button'):6.0f} ms")
    page.locator(".dataset input[type=search]").evaluate("field => field.value = 'awful plot 99*'")
    searched = timed(page, ".dataset input[type=search]", "input")
    print(f"a search           {searched:6.0f} ms, 350 of them to see that nobody types on")
    page.goto(f"{address}?tab=data")
    page.locator(".dataset tbody tr").nth(49).wait_for()
    pages = [timed(page, ".pages button") for _ in range(PAGES)]
    print(f"{PAGES} next pages     {statistics.median(pages):6.0f} ms, slowest {max(pages):.0f} ms")
    print(f"memory of the tab  {before:6.1f} MB before, {memory(page):.1f} MB after")


def main() -> None:
    """Starts a server and measures."""
    with served(made_up()) as address, sync_playwright() as playwright:
        browser = launched(playwright)
        measure(browser.new_page(), address)
        with urllib.request.urlopen(f"{address}api/data") as answer:
            told = json.load(answer)
        predicted = told["predicted"]["embedded"]
        print(f"{told['rows']:,} rows, {predicted:,} of them predicted; {os.cpu_count()} cores")
        browser.close()


if __name__ == "__main__":
    main()
