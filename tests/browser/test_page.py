"""The page around the view: safe, readable for everyone, and never blank."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from made import TEXT, made, shaped
from screens import HOSTILE, SCREENS, no_serious_fault

from slalom_xai.reports.html import page as page_of


def test_a_text_full_of_markup_stays_text(show):
    explanation = made(
        HOSTILE,
        labels=("<b>no</b>", "<img src=y onerror=alert(6)>"),
        model="<script>alert(7)</script>",
        notes=("<u>note</u>",),
    )
    page = show([explanation, made(HOSTILE, additive=True), made("<script>alert(8)</script> more")])
    assert (
        page.locator("#slalom-view").evaluate(
            "root => root.querySelectorAll("
            "'script, img, iframe, style, a, b, u, [onload], [onerror]').length"
        )
        == 0
    )
    shown = page.locator(".words").first.inner_text()
    assert (
        "<script>alert(1)</script> <img src=x onerror=alert(2)> </script><!-- <svg onload=alert(3)>"
        in shown
    )
    assert "\u202e" not in shown  # it would turn the line around
    assert "👩‍👩‍👧 שלום" in shown
    for word in page.locator(".card").first.locator(".word").all()[:12]:
        word.click()
    assert "alert" in page.locator(".card h2").first.inner_text()
    assert page.title() == "3 explanations"


def test_the_policy_lets_nothing_else_run(show):
    page = show(made(), quiet=False)
    page.evaluate(
        "window.refused = []; document.addEventListener('securitypolicyviolation', "
        "event => refused.push(event.effectiveDirective))"
    )
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), "
        "{textContent: 'window.ran = true'}))"
    )
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('img'), "
        "{src: 'https://example.org/x.png'}))"
    )
    page.evaluate("fetch('https://example.org/').catch(() => null)")
    page.wait_for_function("window.refused.length === 3")
    assert sorted(page.evaluate("window.refused")) == ["connect-src", "img-src", "script-src-elem"]
    assert page.evaluate("window.ran") is None
    policy = page.locator("meta[http-equiv]").get_attribute("content")
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")


@pytest.mark.parametrize(
    ("what", "screen"),
    [("one", "light"), ("one", "dark"), ("one", "phone"), ("additive", "light"), ("many", "dark")],
)
def test_axe_finds_no_serious_fault(show, what, screen):
    reports = {
        "one": made(measured=True, together=True),
        "additive": made(additive=True),
        "many": [made(), made(additive=True), made("Another text.", seed=2)],
    }
    page = show(reports[what], **SCREENS[screen])
    words = page.locator(".card").first.locator(".word")
    words.nth(2).click()
    words.nth(9).click(modifiers=["Shift"])
    if what == "one":
        page.get_by_label("error bars").check()
        page.get_by_role("button", name="More scores").click()
        page.locator("fieldset label", has_text="importance").click()
    no_serious_fault(page)


@pytest.mark.parametrize("width", [320, 375, 1200])
def test_nothing_is_wider_than_the_screen(show, width):
    for what in (
        made(measured=True, together=True),
        [made("wide " + "w" * 300), made(additive=True)],
        [made(TEXT), made("Other " * 30, heads=2)],
    ):
        page = show(what, viewport={"width": width, "height": 700})
        for button in page.get_by_role("button", name="More scores").all():
            button.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_light_and_dark_follow_the_system_and_the_button(show):
    def ground(page):
        return sum(
            map(
                int,
                re.findall(
                    r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor")
                )[:3],
            )
        )

    light, dark = show(made(), color_scheme="light"), show(made(), color_scheme="dark")
    assert ground(light) > 600 > 200 > ground(dark)
    light.get_by_role("button", name="Theme").click()
    assert ground(light) == ground(dark)
    dark.get_by_role("button", name="Theme").click()
    dark.get_by_role("button", name="Theme").click()
    assert ground(dark) > 600


def test_without_scripts_the_text_and_the_numbers_are_there(show):
    explanation = made()
    page = show(explanation, java_script_enabled=False)
    assert TEXT in page.locator(".plain").inner_text()
    assert explanation.trust in page.locator(".plain").inner_text()
    assert page.locator("tbody tr").count() == 10


def test_several_views_in_a_notebook(show, tmp_path):
    both = [made(), made("Another text of words.", additive=True)]
    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        "<!doctype html><meta charset=utf-8>" + "".join(each._repr_html_() for each in both),
        encoding="utf-8",
    )
    page = show(notebook)
    for place, explanation in enumerate(both):
        frame = page.frame_locator("iframe").nth(place)
        page.locator("iframe").nth(place).scroll_into_view_if_needed()
        frame.locator(".word").nth(1).click()
        counts = np.ones((1, len(explanation)))
        counts[0, 1] = 0
        shown = float(frame.locator("data[data-kind=edited]").get_attribute("value"))
        assert shown == pytest.approx(explanation.predict(counts)[0], abs=1e-9)
    assert page.frame_locator("iframe").nth(0).locator(".word.removed").count() == 1


def test_where_scripts_are_forbidden_a_notebook_still_shows_the_text(show, tmp_path):
    notebook = tmp_path / "notebook.html"
    policy = "<meta http-equiv='Content-Security-Policy' content=\"script-src 'none'\">"
    notebook.write_text(
        "<!doctype html><meta charset=utf-8>" + policy + made()._repr_html_(), encoding="utf-8"
    )
    page = show(notebook, quiet=False)
    assert TEXT in page.frame_locator("iframe").locator(".plain").inner_text()


def test_intervals_of_the_fidelity_are_drawn_where_there_are_some(show, tmp_path):
    def widen(data):
        data["columns"][0]["fidelity"]["any"] |= {"r2_low": 0.9, "r2_high": 0.95}

    path = tmp_path / "intervals.html"
    path.write_text(tampered(page_of(made()), widen), encoding="utf-8")
    page = show(path)
    assert page.locator(".whisker").count() == 1
    page.get_by_text("How it was tested").click()
    assert "93% (90% to 95%)" in page.locator(".trust").inner_text()


def tampered(html: str, change) -> str:
    """The page with its first explanation's data changed."""
    head, rest = html.split('class="slalom-data">', 1)
    block, tail = rest.split("</script>", 1)
    data = json.loads(block)
    change(data)
    return f'{head}class="slalom-data">{json.dumps(data)}</script>{tail}'


def no_units(data):
    data["units"] = []


def one_score_less(data):
    data["columns"][0]["scores"]["value"].pop()


def not_a_number(data):
    data["function"]["inner_values"][3][0] = float("nan")


def a_text_for_a_number(data):
    data["function"]["importances"][2] = "much"


def no_such_target(data):
    data["target"] = 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop("units"), "explanation 1.units is missing"),
        (lambda data: data.pop("function"), "explanation 1.function is missing"),
        (lambda data: data.update(colour="red"), 'explanation 1 has the unknown field "colour"'),
        (no_units, "explanation 1 has no units"),
        (one_score_less, "columns[0].scores.value has 17 entries, where 18 should be"),
        (not_a_number, "explanation 1 is cut off or damaged: it is not JSON"),
        (a_text_for_a_number, 'importances[2] is "much", where a number should be'),
        (no_such_target, "target is 7, and there are no scores for it"),
    ],
)
def test_damaged_data_give_a_message(show, tmp_path, change, message):
    path = tmp_path / "damaged.html"
    path.write_text(tampered(page_of(made()), change), encoding="utf-8")
    page = show(path)
    assert message in page.get_by_role("alert").inner_text()
    assert "Write it again" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        ('"version":2', '"version":3', "version 3 and this page reads version 2"),
        ('"format":"slalom-view"', '"format":"other"', 'format is "other"'),
        ('"texts":', '"text":', "unknown field"),
        (
            r'<script type="application/json" id="slalom-index">[^<]*',
            '<script type="application/json" id="slalom-index">',
            "not JSON",
        ),
        (r'<script type="application/json" id="slalom-index">.*?</script>', "", "not JSON"),
        (
            r'<script type="application/json" class="slalom-data">.*?</script>',
            "",
            "explanation 1 is missing",
        ),
    ],
)
def test_a_damaged_report_gives_a_message(show, tmp_path: Path, pattern, replacement, message):
    path = tmp_path / "damaged.html"
    html = page_of(shaped("one head with a sink"))
    damaged = re.sub(pattern, replacement, html, count=1, flags=re.DOTALL)
    assert damaged != html
    path.write_text(damaged, encoding="utf-8")
    page = show(path)
    assert message in page.get_by_role("alert").inner_text()


def test_one_damaged_explanation_leaves_the_others(show, tmp_path):
    path = tmp_path / "damaged.html"
    path.write_text(tampered(page_of([made(), made(additive=True)]), no_units), encoding="utf-8")
    page = show(path)
    assert page.get_by_role("alert").count() == 1
    assert page.locator(".card").count() == 1


@pytest.mark.parametrize(
    "explanation",
    [
        made("One"),
        made("no no", sink=False),
        made("🙂"),
        made(("w" * 24 + " ") * 4000, additive=True),
        made(additive=True, left_out="again."),
    ],
    ids=["one word", "a word twice", "an emoji", "100,000 characters", "a text cut short"],
)
def test_odd_texts_are_shown(show, explanation):
    page = show(explanation)
    assert page.locator(".card").count() == 1
    page.locator(".word").first.click()
    assert page.locator(".word.removed").count() == 1
