"""Jobs on the page of ``slalom serve``: progress, reload, cancel, history, links, keyboard."""

from page_served import REVIEW

LONG = " ".join([REVIEW] * 12)  # with a large budget it is under way until it is cancelled


def fill(page, text, budget="60"):
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_label("Model calls").fill(budget)


def done(page, card=0):
    page.locator("summary", has_text="Export").nth(card).wait_for()


def test_a_job_refines_and_a_reload_goes_on_following(visit):
    page = visit()
    # Long enough for the rounds to be seen.
    text = " ".join(
        [REVIEW, "I would gladly see the film again. It is warm, and truly moving."] * 6
    )
    fill(page, text, "")  # as many calls as it takes, in rounds
    page.get_by_role("button", name="Explain", exact=True).click()
    page.get_by_text("preliminary", exact=True).wait_for()
    address = page.url
    page.reload()
    assert page.url == address
    page.locator(".word").nth(5).click()
    done(page)
    assert page.get_by_text("preliminary", exact=True).count() == 0
    assert page.get_by_label("Text", exact=True).input_value() == text
    assert page.locator(".word.removed").count() == 1  # the reader's own edits survive the rounds
    assert page.locator("data[data-kind=edited]").is_visible()


def test_cancel_after_a_reload(visit, server):
    page = visit()
    fill(page, LONG, "20000")
    page.get_by_role("button", name="Explain", exact=True).click()
    page.locator("progress[value]").wait_for()
    page.reload()
    page.locator("progress[value]").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled before there was a result.").wait_for()
    job = page.url.partition("job=")[2]
    assert server.get(f"api/jobs/{job}")["state"] == "cancelled"
    page.get_by_role("link", name="History").click()
    first = page.locator(".asked-list li").first
    first.wait_for()
    assert "cancelled" in first.inner_text()


def test_history_opens_what_was_asked(visit, server):
    first, second = server.explained(), server.explained(method="linear")
    page = visit("?tab=history")
    entry = page.locator(".asked-list .open").first
    entry.wait_for()
    assert REVIEW in entry.inner_text()
    assert "linear" in entry.inner_text()
    entry.click()
    done(page)
    assert page.url.endswith(f"?job={second['id']}")
    assert page.get_by_label("Method").input_value() == "linear"
    page.get_by_role("link", name="History").click()
    page.get_by_role("button", name=f"Put explanation {first['id']} beside").click()
    done(page, 1)
    assert page.url.endswith(f"?job={second['id']},{first['id']}")


def test_history_says_what_the_model_predicts_with_its_probability(visit, server):
    """Also where another class was explained."""
    job = server.explained("A dull and tired film, awful to the end.", target="positive")
    assert job["prediction"] < 0
    page = visit("?tab=history")
    entry = page.locator(".asked-list .open").first
    entry.wait_for()
    assert "negative" in entry.inner_text()
    assert "positive" not in entry.inner_text()
    assert "%" in entry.inner_text()
    assert "−" not in entry.inner_text()


def test_older_questions_are_a_page_away(visit, server):
    for number in range(33):
        server.ask(text=f"Film number {number}.", budget=40, method="linear", granularity="token")
    page = visit("?tab=history")
    entries = page.locator(".asked-list li")
    entries.first.wait_for()
    assert entries.count() == 30
    page.get_by_role("button", name="Show older").click()
    entries.nth(32).wait_for()
    texts = entries.all_inner_texts()
    assert "Film number 32." in texts[0]
    assert "Film number 0." in texts[32]


def test_a_link_shows_the_same_and_back_goes_back(visit, server):
    page = visit(f"?job={server.explained()['id']}")
    done(page)
    page.get_by_role("button", name="tired", exact=True).click()
    page.get_by_role("button", name="wonderful", exact=True).click(modifiers=["Shift"])
    page.wait_for_url("**edit=*-*")
    assert "wonderful" not in page.url  # an address holds no text
    edited = page.locator("data[data-kind=edited]").get_attribute("value")
    other = visit(page.url.rpartition("/")[2])
    done(other)
    assert other.locator("data[data-kind=edited]").get_attribute("value") == edited
    fill(page, REVIEW, "70")
    page.get_by_role("button", name="Explain", exact=True).click()
    done(page)
    page.get_by_role("link", name="History").click()
    page.locator(".history").wait_for()
    page.go_back()
    page.locator(".history").wait_for(state="hidden")
    page.go_back()
    page.locator("data[data-kind=edited]").wait_for()
    assert page.locator("data[data-kind=edited]").get_attribute("value") == edited


def test_what_was_asked_before_is_known_already(visit, server):
    server.explained(seed=7)
    page = visit(f"?job={server.explained(seed=7)['id']}")
    page.get_by_text("known already").wait_for()


def test_errors_are_told_in_a_line(visit):
    page = visit(quiet=False)  # a refused request is also a line in the console
    page.get_by_role("button", name="Explain", exact=True).click()
    alert = page.get_by_role("alert")
    alert.get_by_text("There is no text to explain").wait_for()
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    fill(page, REVIEW, "3000000")
    page.get_by_role("button", name="Explain", exact=True).click()
    alert.get_by_text("3,000,000 calls was given").wait_for()
    fill(page, REVIEW, "2")
    page.get_by_role("button", name="Explain", exact=True).click()
    page.get_by_text("This could not be explained").wait_for()
    assert "budget" in page.locator(".status").inner_text()
    assert page.get_by_role("button", name="Ask again").is_visible()
    page = visit("?job=999999", quiet=False)
    page.get_by_text("There is no job 999999").wait_for()


def test_nothing_left_is_told_beside_the_question(visit, server):
    page = visit(f"?job={server.explained(text='Warm film.', budget=40)['id']}", quiet=False)
    page.locator(".word").first.wait_for()
    for word in page.locator(".word").all():
        word.click()
    page.get_by_role("button", name="Ask the model").click()
    page.get_by_text("Every unit was removed: keep at least one.").wait_for()


def test_with_the_keyboard_alone(visit):
    page = visit()

    def reach(condition):
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(f"(element => {condition})(document.activeElement)"):
                return
        raise AssertionError(f"Tab never reached {condition}")

    reach("element.matches('textarea')")
    page.keyboard.type(REVIEW)
    reach("element.matches('input[type=number]')")
    page.keyboard.type("60")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+Enter")
    done(page)
    reach("element.matches('.word')")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator("data[data-kind=edited]").wait_for()
    reach("element.textContent === 'Ask the model'")
    page.keyboard.press("Enter")
    page.locator("data[data-kind=asked]").wait_for()
    page.keyboard.press("Shift+Tab")
    reach("element.matches('.marks')")
    page.locator("main").focus()
    reach("element.matches('.menu summary')")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Data (JSON)").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Data (JSON)").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.matches('summary')")
