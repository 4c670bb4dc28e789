"""The data set on the page of ``slalom serve``: sorted, searched, paged, explained."""

import pytest
from page_served import ROWS
from servers import until


@pytest.fixture
def rows(visit, server):
    """Opens the table when the model has answered all rows."""
    until(lambda: server.get("api/data")["predicted"].get("embedded") == ROWS, "all predictions")

    def opened(query="", **options):
        page = visit(f"?tab=data{query}", **options)
        page.locator(".dataset tbody tr").first.wait_for()
        settled(page)
        return page

    return opened


def column(page, place):
    return page.locator(f".dataset tbody tr > *:nth-child({place})").all_inner_texts()


def settled(page):
    page.locator(".dataset[aria-busy]").wait_for(state="detached")


def test_pages_of_rows(rows):
    page = rows()
    assert column(page, 1) == [str(number) for number in range(1, 51)]
    page.get_by_role("button", name="Next page").click()
    page.get_by_text("Page 2.").wait_for()
    assert column(page, 1) == [str(number) for number in range(51, 101)]
    page.get_by_role("button", name="Next page").click()
    page.get_by_text("Page 3.").wait_for()
    assert column(page, 1) == [str(number) for number in range(101, ROWS + 1)]
    assert page.get_by_role("button", name="Next page").count() == 0
    page.get_by_role("button", name="Previous page").click()
    page.get_by_text("Page 2.").wait_for()
    page.reload()
    page.locator(".dataset tbody tr").first.wait_for()
    assert column(page, 1)[0] == "51"  # the address says which page
    page.go_back()
    page.wait_for_function(
        "() => document.querySelector('.dataset tbody td').textContent === '101'"
    )


def test_wrong_ones_first_and_searched_words(rows):
    page = rows()
    page.get_by_role("button", name="right?").click()
    page.wait_for_url("**sort=wrong*")
    settled(page)
    verdicts = column(page, 6)
    assert verdicts[: ROWS // 10] == ["✗ wrong"] * (ROWS // 10)
    assert verdicts[ROWS // 10] == "✓ right"
    page.get_by_label("Search").fill("dull numb*")
    page.get_by_text(f"{ROWS // 2} rows match.").wait_for()
    settled(page)
    assert all("dull" in text for text in column(page, 2))
    page.get_by_label("Search").fill("nowhere")
    page.get_by_text("No row matches.").wait_for()
    page.get_by_label("Search").fill("")
    page.wait_for_url(lambda url: "search" not in url)
    page.get_by_label("only wrong ones").check()
    page.get_by_text(f"{ROWS // 10} rows match.").wait_for()
    settled(page)
    assert len(column(page, 1)) == ROWS // 10
    page.get_by_label("Label in the file").select_option("positive")
    page.get_by_text("No row matches.").wait_for()  # all good ones with a wrong label say negative


def test_a_click_explains_and_back_is_the_same_table(rows):
    page = rows("&search=dull&sort=probability&order=down")
    text = column(page, 2)[1]
    page.locator(".dataset tbody tr").nth(1).get_by_role("button").click()
    page.locator("summary", has_text="Export").wait_for()
    assert page.locator(".words").inner_text().strip().endswith(text)
    assert page.get_by_label("Text", exact=True).input_value() == text
    page.go_back()
    page.locator(".dataset tbody tr").nth(1).wait_for()
    assert column(page, 2)[1] == text
    page.reload()
    page.locator(".dataset tbody tr").nth(1).wait_for()
    assert column(page, 7)[1] != "–"  # its fidelity is known now
