"""How fast the interactive view answers, in headless Chromium.

python -m research.benchmarks.view_speed

Two reports with made-up scores: 500 explanations of 60 words each, and one explanation of 4,000
words. Printed, in milliseconds: from opening the file to the view, from there to what the first
click changes, and the median and the slowest of 40 hovers over words and over points, each until
the next frame is painted.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from playwright.sync_api import Page, sync_playwright

from slalom_xai.explanation import Explanation
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.scores import SCORES
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.text import words
from slalom_xai.reports.html import write_report

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from chromium import launch

# Resolves after the frame that shows a change has been painted.
PAINTED = (
    "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
)
HOVERS = 40  # elements that are hovered over, one after another


def made(length: int, seed: int) -> Explanation:
    """An explanation of so many words with random scores."""
    rng = np.random.default_rng(seed)
    vocabulary = [
        f"{first}{second}"
        for first in ("re", "un", "film", "good", "sl")
        for second in ("ow", "ly", "er", "ing", "s", "a")
    ]
    text = " ".join(rng.choice(vocabulary, size=length))

    def draw(*shape: int) -> torch.Tensor:
        return torch.tensor(rng.normal(size=shape))

    function = SlalomSurrogate(draw(1, length, 1), draw(1, length), draw(1, 1), draw(1)).normalise()
    return Explanation(
        text=text,
        units=words(text),
        method="slalom",
        model="made up",
        granularity="word",
        removal="delete",
        outputs=Outputs("binary", ("no", "yes")),
        target_index=1,
        full=(0.5,),
        function=function,
        column_errors=({name: np.abs(rng.normal(size=length)) for name in SCORES},),
        column_fidelity=None,
        calls_fit=900,
        calls_check=100,
    )


def opened(page: Page, path: Path) -> dict[str, float]:
    """Loads a report and makes the first edit."""
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_selector(".card")
    shown = page.evaluate(PAINTED)
    click = f"""() => {{
        const before = performance.now();
        document.querySelector('.word').click();
        return {PAINTED}.then(after => after - before);
    }}"""
    return {"open": shown, "first edit": page.evaluate(click)}


def hovers(page: Page, selector: str, event: str) -> dict[str, float]:
    """Moves onto 40 elements, one after another."""
    script = f"""([selector, kind, places]) => {{
        const all = document.querySelectorAll(selector);
        const times = [];
        const next = place => {{
            if (place === places.length) return times;
            const box = all[places[place]].getBoundingClientRect();
            const before = performance.now();
            const x = box.x + box.width / 2, y = box.y + box.height / 2;
            const where = {{bubbles: true, clientX: x, clientY: y}};
            all[places[place]].dispatchEvent(new PointerEvent(kind, where));
            return {PAINTED}.then(after => (times.push(after - before), next(place + 1)));
        }};
        return next(0);
    }}"""
    count = page.locator(selector).count()
    places = random.Random(0).sample(range(count), HOVERS)
    times = page.evaluate(script, [selector, event, places])
    return {"median": statistics.median(times), "slowest": max(times)}


def measured(page: Page, folder: Path) -> dict[str, dict[str, float]]:
    """All times, and sizes of files, by what was done."""
    began = time.perf_counter()
    many = write_report([made(60, seed) for seed in range(500)], folder / "many.html")
    wrote = time.perf_counter() - began
    times = {
        "500 explanations": opened(page, many) | {"MB": many.stat().st_size / 1e6, "write s": wrote}
    }
    choose = f"""() => {{
        const before = performance.now();
        document.querySelectorAll('nav button')[400].click();
        return {PAINTED}.then(after => after - before);
    }}"""
    times["500 explanations"]["another text"] = page.evaluate(choose)
    long = write_report(made(4000, 0), folder / "long.html")
    times["4,000 words"] = opened(page, long) | {"MB": long.stat().st_size / 1e6}
    times["hover over words"] = hovers(page, ".word", "pointerover")
    times["hover over points"] = hovers(page, ".marks circle", "pointermove")
    page.get_by_label("error bars").check()
    times["hover over words, error bars shown"] = hovers(page, ".word", "pointerover")
    return times


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        started = launch(playwright)
        page = started.new_page(viewport={"width": 1280, "height": 900})
        times = measured(page, Path(folder))
        version = started.version
        started.close()
    rounded = {}
    for what, numbers in times.items():
        rounded[what] = {name: round(number, 1) for name, number in numbers.items()}
    report = {
        "chromium": version,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "milliseconds": rounded,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
