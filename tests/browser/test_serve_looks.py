"""The page of ``slalom serve`` on every screen, for everyone, and with hostile texts."""

import pytest
from screens import HOSTILE, SCREENS, no_serious_fault

STATES = {
    "empty": (".empty", ""),
    "one": (".menu", "?job={one}"),
    "compared": (".card >> nth=1", "?job={one},{two}"),
    "history": (".asked-list li", "?tab=history"),
    "data": (".dataset tbody tr", "?tab=data"),
}


@pytest.fixture
def state(visit, server):
    """Opens the page in one of its states."""

    def opened(name, **options):
        there, query = STATES[name]
        jobs = {"one": server.explained()["id"], "two": server.explained(method="linear")["id"]}
        if name == "history":
            assert server.ended(budget=2)["state"] == "failed"
        page = visit(query.format(**jobs), **options)
        page.locator(there).first.wait_for()
        return page

    return opened


@pytest.mark.long
@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("screen", ["light", "dark", "phone"])
def test_axe_finds_no_serious_fault(state, name, screen):
    no_serious_fault(state(name, **SCREENS[screen]))


def test_axe_finds_no_serious_fault_in_menus_and_errors(visit, server):
    page = visit(f"?job={server.explained()['id']}", quiet=False)
    page.get_by_role("button", name="Ask the model").click()
    page.locator("data[data-kind=asked]").wait_for()
    page.get_by_label("Model calls").fill("90000000")
    page.get_by_role("button", name="Explain", exact=True).click()
    page.locator(".problem p").wait_for()
    page.get_by_text("Second text and other settings").click()
    page.locator("summary", has_text="Export").click()
    no_serious_fault(page)
    page.get_by_role("button", name="Python").click()
    page.get_by_role("dialog").wait_for()
    no_serious_fault(page)


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("width", [320, 390])
def test_nothing_is_wider_than_a_phone(state, name, width):
    page = state(name, viewport={"width": width, "height": 720}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_theme_is_remembered(visit):
    page = visit(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Theme").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    page.get_by_role("button", name="Theme: dark").wait_for()
    assert page.evaluate(ground) == dark


def test_a_text_full_of_markup_stays_text(visit, server):
    page = visit()
    page.get_by_label("Text", exact=True).fill(HOSTILE)
    page.get_by_label("Model calls").fill("200")
    page.get_by_role("button", name="Explain", exact=True).click()
    page.locator("summary", has_text="Export").wait_for()
    assert "<script>alert(1)</script>" in page.locator(".words").inner_text()
    page.get_by_role("link", name="History").click()
    page.locator(".asked-list li").first.wait_for()
    assert "<script>alert(1)</script>" in page.locator(".asked-list li").first.inner_text()
    foreign = "script, img, iframe, style, [onload], [onerror], a[href^=http]"
    assert (
        page.locator("#slalom-app").evaluate(
            "(root, foreign) => root.querySelectorAll(foreign).length", foreign
        )
        == 0
    )
    job = server.get("api/jobs?limit=1")["jobs"][0]
    page = visit(f"?job={job['id']}")
    page.locator("summary", has_text="Export").click()
    page.get_by_role("button", name="Python").click()
    compile(page.locator("dialog pre").inner_text(), "snippet", "exec")


def test_the_policy_lets_nothing_else_run(visit):
    page = visit(quiet=False)
    page.evaluate(
        "window.refused = []; document.addEventListener('securitypolicyviolation', "
        "event => refused.push(event.effectiveDirective))"
    )
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), "
        "{textContent: 'window.ran = true'}))"
    )
    page.evaluate("fetch('https://example.org/').catch(() => null)")
    page.evaluate("document.body.setAttribute('style', 'display: none')")
    page.wait_for_function("() => window.refused.length === 3")
    assert sorted(page.evaluate("window.refused")) == [
        "connect-src",
        "script-src-elem",
        "style-src-attr",
    ]
    assert page.evaluate("window.ran") is None
