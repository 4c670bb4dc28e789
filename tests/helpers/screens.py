"""What pages are tried with: screens, a hostile text, and axe-core."""

import pytest

HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(2)> "
    "</script><!-- <svg onload=alert(3)> ]]> "
    "\" ' & &amp; javascript:alert(4) "
    "<style>*{display:none}</style> \u2028 \u202e \x1b[31m \x00 {{7*7}} ${alert(5)} "
    "👩‍👩‍👧 שלום <iframe src=//example.org> <a href='https://example.org'>x</a>"
)
SCREENS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 720}, "has_touch": True, "is_mobile": True},
}


def no_serious_fault(page):
    """Lets axe-core look at a page."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs the package axe-playwright-python"
    ).Axe()
    found = axe.run(page).response
    assert len(found["passes"]) > 15  # it did look
    faults = [
        (fault["id"], fault["nodes"][0]["html"])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
    assert faults == [], faults
