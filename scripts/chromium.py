"""Gets a Chromium for the browser tests, where there is none.

    python scripts/chromium.py

It takes Debian's where apt-get exists and the user is root, and Playwright's own elsewhere. Where
neither can be had, as without a network, it says so in one line: the browser tests are then
skipped. The tests and the programs that draw pictures find their Chromium here, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from playwright.sync_api import Browser, Error, Playwright, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "install one (apt-get install chromium), or name one in SLALOM_CHROMIUM"
DEBIAN = (
    "apt-get update && "
    "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium"
)
PLAYWRIGHT = f"{sys.executable} -m playwright install --no-shell chromium"


class NoChromiumError(Exception):
    """There is no Chromium that starts."""


def launch(playwright: Playwright, *options: str) -> Browser:
    """The Chromium that SLALOM_CHROMIUM names, one on the path, or Playwright's own.

    Raises:
        NoChromiumError: there is none, or the one that was found does not start.
    """
    named = os.environ.get("SLALOM_CHROMIUM")
    own = playwright.chromium.executable_path
    path = named or next(filter(None, map(shutil.which, (*NAMES, own))), None)
    if path is None:
        raise NoChromiumError(f"no Chromium found: {HOW}")
    try:
        return playwright.chromium.launch(executable_path=path, args=["--no-sandbox", *options])
    except Error as error:
        if named:
            raise
        raise NoChromiumError(f"{path} does not start: {HOW}") from error


def starts() -> bool:
    """Whether a Chromium is there."""
    with sync_playwright() as playwright:
        try:
            launch(playwright).close()
        except NoChromiumError:
            return False
    return True


def main() -> None:
    ways = [PLAYWRIGHT]
    if shutil.which("apt-get") and os.geteuid() == 0:
        ways.insert(0, DEBIAN)
    for way in ways:
        if starts():
            return
        print(f"Getting a Chromium for the browser tests: {way}", flush=True)
        subprocess.run(way, shell=True, capture_output=True, check=False)
    if not starts():
        print(f"No Chromium could be had, so the browser tests will be skipped: {HOW}")


if __name__ == "__main__":
    main()
