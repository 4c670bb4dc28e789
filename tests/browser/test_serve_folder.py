"""The folder of a corpus on the page of ``slalom serve``."""

import pytest
from servers import serving
from stored import TEXTS, stored_corpus
from tabs import Tabs


def test_a_stored_text_is_shown_with_its_scores(browser, tmp_path):
    pytest.importorskip("fastapi", reason="slalom serve needs fastapi: pip install fastapi")
    with serving(tmp_path / "store", "--folder", stored_corpus(tmp_path)) as server:
        tabs = Tabs(browser, (server.address.partition("?")[0],))
        page = tabs.open(server.address)
        rows = page.locator(".dataset tbody tr")
        rows.first.wait_for()
        assert rows.locator("th").all_inner_texts() == [text or "(empty)" for text in TEXTS]
        rows.nth(5).get_by_role("button").click()
        page.locator(".card .words .word").first.wait_for()
        assert page.locator(".card .words p[dir]").inner_text() == TEXTS[5]
        stored = server.get("/api/folder/texts/6").json
        place = max(place for place, unit in enumerate(stored["units"]) if unit["effect"])
        unit = stored["units"][place]
        page.locator(".card .words .word").nth(place).click()
        value = page.locator(".detail [data-score=value] dd").inner_text()
        assert float(value.split()[0].replace("−", "-")) == pytest.approx(unit["value"], abs=0.01)
        assert page.locator(".whatif").count() == 0  # nothing is stored that predicts edits
        page.go_back()
        page.locator(".card").wait_for(state="detached")
        page.get_by_label("Order of the texts").select_option("failed")
        page.wait_for_function("() => document.querySelector('.dataset td').textContent === '5'")
        rows.first.get_by_role("button").click()
        page.get_by_role("heading", name="This text could not be explained").wait_for()
        tabs.close()
    assert tabs.heard == []
