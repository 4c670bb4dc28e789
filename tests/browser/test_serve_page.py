"""The page of ``slalom serve``: from an empty page to an exported report."""

import io

import numpy as np
import pytest
from page_served import REVIEW
from PIL import Image
from tiny import TEXT, log_odds, tiny

from slalom_xai import Explanation

NUMBER = "element => Number(element.value)"


def number(page, kind, card=0):
    """An exact number of the what-if."""
    found = page.locator(".card").nth(card).locator(f"data[data-kind={kind}]")
    found.wait_for()
    return found.evaluate(NUMBER)


def explanation(server, job):
    """A job's explanation as Python has it."""
    return Explanation.from_dict(server.get(f"api/explanations/{job['key']}"))


def word(page, text, card=0):
    return page.locator(".card").nth(card).get_by_role("button", name=text, exact=True)


def exported(page, name):
    page.locator("summary", has_text="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=name).click()
    return download.value.path()


def test_from_the_empty_page_to_an_exported_report(visit, show, tmp_path):
    page = visit()
    assert "importance" in page.locator(".empty").inner_text().lower()
    page.get_by_label("Model calls").fill("250")
    page.get_by_role("button", name="Explain an example").click()
    page.locator("summary", has_text="Export").wait_for()
    assert page.get_by_label("Text", exact=True).input_value().startswith("I had low hopes")
    assert page.locator(".empty").is_hidden()
    word(page, "dull").click()
    assert number(page, "edited") > number(page, "whole")
    file = tmp_path / "exported.html"
    file.write_bytes(exported(page, "Page (HTML)").read_bytes())
    report = show(file)
    assert "hopes" in report.locator(".words").inner_text()
    assert report.locator(".card h2").inner_text() == page.locator(".card h2").inner_text()


def test_exports(visit, server):
    job = server.explained()
    page = visit(f"?job={job['id']}")
    saved = Explanation.load(exported(page, "Data (JSON)"))
    assert saved.text == REVIEW
    assert exported(page, "Picture (SVG)").read_text(encoding="utf-8").lstrip().startswith("<?xml")
    assert Image.open(io.BytesIO(exported(page, "Picture (PNG)").read_bytes())).format == "PNG"
    page.locator("summary", has_text="Export").click()
    page.get_by_role("button", name="Python").click()
    dialog = page.get_by_role("dialog", name="Python that repeats this explanation")
    code = dialog.locator("pre").inner_text()
    compile(code, "snippet", "exec")
    assert f"text = {REVIEW!r}" in code
    assert "budget=60" in code
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


@pytest.mark.parametrize("method", ["slalom", "linear"])
def test_what_if_is_what_python_predicts(visit, server, method):
    job = server.explained(method=method)
    known = explanation(server, job)
    page = visit(f"?job={job['id']}")
    keep = np.ones((1, len(known.units)))
    assert number(page, "whole") == pytest.approx(known.predict(keep)[0], abs=1e-9)
    units = [unit.text.strip() for unit in known.units]
    for text, modifiers, count in (("thin", [], 0), ("wonderful", ["Shift"], 2)):
        keep[0, units.index(text)] = count
        word(page, text).click(modifiers=modifiers)
        assert number(page, "edited") == pytest.approx(known.predict(keep)[0], abs=1e-9)


def test_ask_the_model(visit, server):
    job = server.explained(model="second", text=TEXT, granularity="token", removal="delete")
    known = explanation(server, job)
    sign = 1 if known.target_index else -1
    page = visit(f"?job={job['id']}")
    places = [3, 7]
    for place in places:
        page.locator(".word").nth(place).click()
    page.get_by_role("button", name="Ask the model").click()
    asked = number(page, "asked")
    model, words = tiny("bert")
    content = words(TEXT, add_special_tokens=False)["input_ids"]
    kept = [token for place, token in enumerate(content) if place not in places]
    ids = [words.cls_token_id, *kept, words.sep_token_id]
    assert asked == pytest.approx(sign * log_odds(model, ids), abs=1e-4)
    keep = np.ones((1, len(known.units)))
    keep[0, places] = 0
    predicted = known.predict(keep)[0]
    assert number(page, "surrogate") == pytest.approx(predicted, abs=1e-9)
    assert number(page, "difference") == pytest.approx(predicted - asked, abs=1e-9)
    page.locator(".word").nth(9).click()  # an answer to another text is not left standing
    page.locator("data[data-kind=asked]").wait_for(state="detached")


def test_two_methods_side_by_side(visit, server):
    page = visit(f"?job={server.explained()['id']}")
    page.locator("summary", has_text="Export").wait_for()
    page.get_by_label("Method").select_option("linear")
    page.get_by_role("button", name="Explain beside").click()
    page.locator("summary", has_text="Export").nth(1).wait_for()
    names = [name.split(" ")[0] for name in page.locator(".card h2").all_inner_texts()]
    assert names == ["slalom", "linear"]
    word(page, "wonderful").hover()
    lit = page.locator(".card").nth(1).locator(".word.lit")
    lit.wait_for()
    assert lit.inner_text() == "wonderful"
    word(page, "tired", card=1).click()
    assert "removed" in word(page, "tired, removed").get_attribute("class")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export all (HTML)").click()
    assert download.value.path().read_text(encoding="utf-8").count('class="slalom-data"') == 2
    page.get_by_role("button", name="Take explanation").first.click()
    page.locator(".card").nth(1).wait_for(state="detached")
    assert page.locator(".card h2").inner_text().startswith("linear")


def test_two_models_and_two_texts_side_by_side(visit, server):
    other = "Wonderful jokes, and a plot that is never dull."
    jobs = [server.explained(), server.explained(model="second"), server.explained(text=other)]
    page = visit(f"?job={','.join(str(job['id']) for job in jobs)}")
    for card in range(3):
        page.locator(".card").nth(card).wait_for()
    word(page, "jokes").hover()
    for card in (1, 2):
        lit = page.locator(".card").nth(card).locator(".word.lit")
        lit.wait_for()
        assert lit.inner_text() == "jokes"
    word(page, "tired").hover()  # which the other text does not hold
    page.locator(".card").nth(2).locator(".word.lit").wait_for(state="detached")
    word(page, "plot").click()
    assert "removed" not in word(page, "plot", card=2).get_attribute("class")


def test_a_pair_of_texts(visit):
    page = visit()
    page.get_by_label("Model", exact=True).locator("option", has_text="second").wait_for(
        state="attached"
    )
    page.get_by_label("Model", exact=True).select_option("second")
    page.get_by_label("Text", exact=True).fill("a quiet film")
    page.get_by_text("Second text and other settings").click()
    page.get_by_label("Second text").fill("loud and long")
    page.get_by_label("Model calls").fill("60")
    page.get_by_role("button", name="Explain", exact=True).click()
    page.locator("summary", has_text="Export").wait_for()
    assert page.locator(".words p[dir]").all_inner_texts() == ["a quiet film", "loud and long"]
    page.locator(".word").first.click()
    page.get_by_role("button", name="Ask the model").click()
    assert np.isfinite(number(page, "asked"))
