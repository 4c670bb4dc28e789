"""The interactive view as a reader uses it."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from made import ADDITIVE_FIDELITY, FIDELITY, SHAPES, TEXT, explanation_with, made, shaped
from marks import long_except

from slalom_xai.methods.additive import AdditiveSurrogate
from slalom_xai.methods.scores import DEFAULT_SCORE
from slalom_xai.models.text import Unit

# Each has what another lacks; the other shapes are left to make test-long.
SOME_SHAPES = (
    "pairs that are heard together",
    "four classes with pairs that are heard together",
    "a regression",
    "units that stand several times",
    "two heads without a sink",
    "an additive method",
    "a process of more than 48 units",
)
SHOWN = [name for name in SHAPES if "lengths" not in name]  # the page refuses the others


def words(page):
    return page.locator(".word")


def detail(page):
    """The shown numbers of the active unit, by score."""
    shown = page.locator(".detail dl > div").all()
    return {row.locator("dt span").inner_text(): row.locator("dd").inner_text() for row in shown}


def more(page):
    page.get_by_role("button", name="More scores").click()


def number(text):
    """A number as people read it."""
    return float(text.split(" ±")[0].replace("−", "-"))


def sure(explanation):
    """The same with so small errors of Shapley values that every unit has an effect."""
    columns = []
    for errors in explanation.column_errors:
        small = {"shapley": np.full(len(explanation), 1e-9)} if "shapley" in errors else {}
        columns.append({**errors, **small})
    return replace(explanation, column_errors=tuple(columns))


def choose(page, legend, option):
    group = page.locator("fieldset", has=page.locator("legend", has_text=legend))
    group.locator("label", has_text=option).filter(
        has=page.locator(f"span:text-is('{option}')")
    ).click()


def test_pointing_at_a_word_lights_its_point_and_the_other_way_round(show):
    explanation = made()
    page = show(explanation)
    assert words(page).all_inner_texts() == [unit.text for unit in explanation.units]
    for place in (1, 9):
        words(page).nth(place).hover()
        assert page.locator(".detail strong").inner_text() == explanation.units[place].text
        assert (
            page.locator(".marks [aria-selected=true]").get_attribute("aria-label")
            == explanation.units[place].text
        )
        assert (
            page.locator("tr.lit th, .word.lit").first.inner_text() == explanation.units[place].text
        )
    place = int(np.argmax(explanation.values))  # nothing lies on top of the rightmost point
    page.locator(".marks [role=option]").nth(place).hover()
    assert page.locator(".word.lit").all_inner_texts() == [explanation.units[place].text]
    page.locator("tbody tr").nth(3).hover()
    assert (
        page.locator(".word.lit").inner_text()
        == page.locator("tbody tr").nth(3).locator("th").inner_text()
    )


def test_the_keyboard_reaches_everything(show):
    explanation = made()
    page = show(explanation)
    page.locator(".words").evaluate("element => element.querySelector('.word').focus()")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".detail strong").inner_text() == explanation.units[2].text
    assert page.locator(".word[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    assert words(page).nth(2).get_attribute("aria-label") == f"{explanation.units[2].text}, removed"
    page.keyboard.press("Enter")
    for key in ("+", "+", "-", "+"):
        page.keyboard.press(key)
    assert page.locator(".stepper .number").inner_text() == "3"
    page.keyboard.press("Delete")
    assert page.locator(".stepper .number").inner_text() == "0"
    page.keyboard.press("End")
    assert page.locator(".detail strong").inner_text() == explanation.units[-1].text
    page.keyboard.press("ArrowUp")
    assert page.locator(".detail strong").inner_text() != explanation.units[-1].text
    page.locator(".marks").focus()
    by_value = np.argsort(explanation.values)
    here = by_value.tolist().index(
        next(
            i
            for i, u in enumerate(explanation.units)
            if u.text == page.locator(".word.lit").inner_text()
        )
    )
    page.keyboard.press("ArrowLeft" if here else "ArrowRight")
    expected = explanation.units[by_value[here - 1 if here else 1]].text
    assert page.locator(".word.lit").inner_text() == expected


def test_right_to_left_text_runs_right_to_left(show):
    page = show(made("הסרט היה נפלא ואני אראה אותו שוב"))
    words(page).first.focus()
    page.keyboard.press("ArrowLeft")  # on to the next word, which stands left of the first
    assert page.locator(".detail strong").inner_text() == "היה"
    first, second = words(page).nth(0).bounding_box(), words(page).nth(1).bounding_box()
    assert second["x"] < first["x"]


@pytest.mark.parametrize(
    "name",
    [
        "bounded",
        "the first of two classes",
        "an additive method",
        "four classes",
        "one head with a sink",
        "measured scores of the first of two classes",
    ],
)
def test_every_score_and_its_error_is_python_s(show, name):
    explanation = sure(shaped(name))
    page = show(explanation)
    more(page)
    names = explanation.score_names
    titles = {
        "value": "score" if explanation.importances is None else "value",
        "shapley": "Shapley value",
    }
    for score in names:
        title = titles.get(score, score)
        choose(page, "Colour shows", title)
        numbers = explanation.scores(score)
        largest = int(np.argmax(numbers))
        words(page).nth(largest).hover()
        shown = detail(page)
        for other in names:
            assert number(shown[titles.get(other, other)]) == pytest.approx(
                explanation.scores(other)[largest], abs=0.0051
            )
            errors = explanation.standard_errors.get(other)
            if explanation.source(other) == "measured":
                assert "±" not in shown[titles.get(other, other)]  # an exact answer of the model
            elif errors is not None:
                beside = shown[titles.get(other, other)].split("± ")[1]
                assert float(beside) == pytest.approx(errors[largest], abs=0.0055)  # rounded twice
        if score != "importance":
            sides = [word.get_attribute("class") for word in words(page).all()]
            assert ["up" in side for side in sides] == [value > 0 for value in numbers]
        first = (
            page.locator("tbody tr").first.locator("th").inner_text()
        )  # the table follows: largest first
        assert first == explanation.units[largest].text


def test_three_scores_are_in_front_and_the_others_one_click_away(show):
    explanation = sure(made())
    page = show(explanation)
    words(page).nth(3).hover()
    button = page.get_by_role("button", name="scores")
    head = page.locator("thead button[data-key]")

    def shown():
        offered = page.locator("fieldset", has_text="Colour shows").locator("input")
        choices = [choice.get_attribute("value") for choice in offered.all()]
        columns = [title.get_attribute("data-key") for title in head.all()]
        assert choices == [name for name in columns if name not in ("place", "text", "count")]
        assert len(detail(page)) == len(choices)
        return choices

    in_front = ["value", "importance", DEFAULT_SCORE]
    assert button.get_attribute("aria-expanded") == "false"
    assert shown() == in_front
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    assert shown() == list(explanation.score_names)
    choose(page, "Colour shows", "slope")
    button.click()
    assert shown() == in_front
    assert (
        "Shapley value (fitted)" in page.locator(".controls").inner_text()
    )  # what colours show again


def test_every_score_says_where_it_comes_from(show):
    explanation = sure(shaped("measured scores"))
    page = show(explanation)
    more(page)
    words(page).nth(3).hover()
    for score in explanation.score_names:
        source = explanation.source(score)
        title = page.locator(f"thead button[data-key={score}] small")
        assert title.inner_text().strip() == source
        beside = page.locator(f".detail [data-score={score}] dt small")
        assert beside.inner_text().strip() == source
        cells = page.locator(f"tbody td[data-score={score}]").all_inner_texts()
        assert ["±" in cell for cell in cells] == [source == "fitted"] * len(cells)
    page.get_by_text("How it was tested").click()
    assert "Measured: the model's own output." in page.locator(".trust").inner_text()


def test_additive_methods_claim_neither(show):
    page = show(made(additive=True))
    words(page).nth(3).hover()
    assert page.locator("thead small, .detail dt small").count() == 0
    assert "easured" not in page.locator(".card").inner_text()


def test_additive_methods_get_bars_and_the_page_says_why(show):
    explanation = made(additive=True)
    page = show(explanation)
    assert "no importance" in page.locator(".chart .caption").inner_text()
    assert page.locator(".marks rect").count() == len(explanation)
    order = page.locator(".marks rect").evaluate_all(
        "all => all.map(mark => mark.getAttribute('aria-label'))"
    )
    assert order == [explanation.units[place].text for place in np.argsort(-explanation.values)]
    assert page.locator("fieldset", has_text="Picture").count() == 0


def test_error_bars_bars_and_the_other_class(show):
    explanation = sure(made())
    page = show(explanation)
    assert page.locator(".errors line").count() == 0
    page.get_by_label("error bars").check()
    assert page.locator(".errors line").count() == 2 * len(explanation)
    choose(page, "Picture", "bars")
    assert page.locator(".marks rect").count() == len(explanation)
    page.get_by_label("Explained label").select_option("negative")
    place = 9
    words(page).nth(place).hover()
    assert number(detail(page)["value"]) == pytest.approx(-explanation.values[place], abs=0.0051)
    assert number(detail(page)["importance"]) == pytest.approx(
        explanation.importances[place], abs=0.0051
    )


@pytest.mark.parametrize("name", long_except(SOME_SHAPES, SHOWN))
def test_what_if_is_predict(show, name):
    explanation = shaped(name)
    page = show(explanation)
    if page.get_by_role("button", name="More scores").count():
        more(page)
    counts = np.ones(len(explanation))
    moves = random.Random(name)
    steps = page.locator("tbody .step")
    places = page.locator("tr[data-unit] td:first-child")
    order = [int(row) - 1 for row in places.all_inner_texts()]
    whole = page.locator("data[data-kind=whole]")
    assert float(whole.get_attribute("value")) == pytest.approx(
        explanation.predict(counts[None])[0], abs=1e-9
    )
    for _ in range(8):
        row, up = moves.randrange(len(order)), moves.random() < 0.5
        steps.nth(2 * row + up).click()
        counts[order[row]] = max(0, counts[order[row]] + (1 if up else -1))
        if not counts.any() or (counts == 1).all():
            continue
        edited = page.locator("data[data-kind=edited]")
        assert float(edited.get_attribute("value")) == pytest.approx(
            explanation.predict(counts[None])[0], abs=1e-9
        )
        if explanation.outputs.kind == "regression":
            assert edited.get_attribute("data-probability") is None
        else:
            assert float(edited.get_attribute("data-probability")) == pytest.approx(
                probability(explanation, counts), abs=1e-9
            )
    for word in words(page).all():
        word.focus()
        page.keyboard.press("Delete")
    if explanation.importances is not None and explanation.sink is None:
        assert "has no sink" in page.locator(".result .nothing").inner_text()
    else:
        empty = page.locator("data[data-kind=edited]")
        assert float(empty.get_attribute("value")) == pytest.approx(
            explanation.base_value, abs=1e-9
        )
        assert "Nothing is left" in page.locator(".result").inner_text()
    page.get_by_role("button", name="Reset").click()
    assert page.locator("data[data-kind=edited]").count() == 0
    assert page.locator(".word.removed").count() == 0


def probability(explanation, counts):
    """By the definition, from the outputs of every class."""
    every = [
        explanation.for_target(label).predict(counts[None])[0]
        for label in range(explanation.outputs.width)
    ]
    if explanation.outputs.kind == "multiclass":
        return np.exp(every[explanation.target_index]) / np.exp(every).sum()
    return 1 / (1 + np.exp(-every[explanation.target_index]))


def set_counts(page, counts):
    """Gives every word its count by the keyboard; every count was 1."""
    for place, count in enumerate(counts):
        words(page).nth(place).focus()
        for _ in range(abs(int(count) - 1)):
            page.keyboard.press("+" if count > 1 else "-")


@pytest.mark.parametrize(
    "name",
    ["bounded", "pairs that are heard together", "one head with a sink"],
)
def test_repeats_are_predicted_as_python_does(show, name):
    explanation = shaped(name)
    page = show(explanation)
    units = len(explanation)
    doubled, many, filled, half, mixed = np.ones((5, units))
    doubled[3] = 2
    many[3] = 9
    filled[:] = 0
    filled[3] = 9
    half[:] = 0
    half[[1, 4]] = 9
    mixed[[0, 1, 2, 3]] = 0, 2, 3, 0
    for counts in (doubled, many, filled, half, mixed):
        set_counts(page, counts)
        edited = float(page.locator("data[data-kind=edited]").get_attribute("value"))
        assert edited == pytest.approx(explanation.predict(counts[None])[0], abs=1e-9)
        page.get_by_role("button", name="Reset").click()


def test_clicks_remove_and_repeat_words(show):
    explanation = made()
    page = show(explanation)
    words(page).nth(9).click()
    assert "removed" in words(page).nth(9).get_attribute("class")
    words(page).nth(9).click()
    assert "removed" not in words(page).nth(9).get_attribute("class")
    choose(page, "A click on a word", "repeats it")
    words(page).nth(9).click()
    assert words(page).nth(9).get_attribute("data-count") == "×2"
    choose(page, "A click on a word", "only selects")
    words(page).nth(1).click()
    assert page.locator(".detail strong").inner_text() == explanation.units[1].text
    counts = np.ones((1, len(explanation)))
    counts[0, 9] = 2
    assert float(page.locator("data[data-kind=edited]").get_attribute("value")) == pytest.approx(
        explanation.predict(counts)[0], abs=1e-9
    )


def test_every_place_of_a_repeated_token_is_the_same_unit(show):
    page = show(shaped("units that stand several times"))
    assert words(page).all_inner_texts() == [
        "so",
        "good",
        "so",
        "very",
        "very",
        "good",
        "so",
        "it",
        "is",
    ]
    words(page).first.hover()
    assert page.locator(".word.lit").count() == 3
    words(page).first.click()
    assert page.locator(".word.removed").count() == 3


def test_the_table_sorts_and_filters(show):
    explanation = sure(made())
    page = show(explanation)
    column = page.locator("tbody td[data-score=value]")
    page.get_by_role("button", name="Show more").click()
    page.locator("thead [data-key=value]").click()
    found = [number(text) for text in column.all_inner_texts()]
    assert found == sorted(found, reverse=True)
    assert len(found) == len(explanation)
    page.get_by_label("Contains").fill("wo")
    assert set(page.locator("tbody th").all_inner_texts()) == {
        unit.text for unit in explanation.units if "wo" in unit.text
    }
    page.get_by_label("Contains").fill("")
    page.get_by_label("Shows").select_option("down")
    expected = {
        unit.text
        for unit, share in zip(explanation.units, explanation.scores(DEFAULT_SCORE), strict=True)
        if share < 0
    }
    page.wait_for_function(
        f"document.querySelectorAll('tbody tr').length === {min(12, len(expected))}"
    )
    assert set(page.locator("tbody th").all_inner_texts()) <= expected
    page.get_by_label("Contains").fill("nowhere")
    assert "Nothing matches" in page.locator(".table").inner_text()


@pytest.mark.parametrize(
    ("additive", "bars"),
    [
        (
            False,
            [
                ["these scores", FIDELITY.few],
                ["one score each", FIDELITY.one_score.few],
                ["linear", FIDELITY.linear.few],
                ["these scores", FIDELITY.any],
                ["one score each", FIDELITY.one_score.any],
                ["linear", FIDELITY.linear.any],
            ],
        ),
        (
            True,
            [
                ["this explanation", ADDITIVE_FIDELITY.few],
                ["this explanation", ADDITIVE_FIDELITY.any],
            ],
        ),
    ],
)
def test_trust_and_fidelity_are_shown(show, additive, bars):
    explanation = made(additive=additive)
    page = show(explanation)
    assert explanation.trust in page.locator(".trust").inner_text()
    assert not page.locator(".trust .row").first.is_visible()
    page.get_by_text("How it was tested").click()
    shown = [row.split("\n") for row in page.locator(".trust .row").all_inner_texts()]
    assert shown == [[name, f"{agreement.r2:.0%}"] for name, agreement in bars]


def test_words_without_effect_have_no_numbers(show):
    explanation = made()
    errors = {**explanation.column_errors[0]}
    errors["shapley"] = np.where(np.arange(len(explanation)) == 3, 1e3, errors["shapley"] / 1e3)
    explanation = replace(explanation, column_errors=(errors,))
    assert np.flatnonzero(~explanation.has_effect).tolist() == [3]
    page = show(explanation)
    assert page.locator(".word.faint").all_inner_texts() == [explanation.units[3].text]
    words(page).nth(3).hover()
    assert detail(page) == {}
    assert "cannot be told from noise" in page.locator(".detail").inner_text()
    page.get_by_role("button", name="Show more").click()
    assert "no effect" in page.locator("tr[data-unit='3']").inner_text()
    assert page.locator("td:text-is('no effect')").count() == 1


@pytest.mark.parametrize("target", [0, 1])
def test_what_is_heard_together_is_listed(show, target):
    explanation = made(together=True, target=target)
    page = show(explanation)
    rows = page.locator(".together tbody tr").all()
    assert len(rows) == len(explanation.interactions) > 1
    for row, pair in zip(rows, explanation.interactions, strict=True):
        assert row.locator("th").inner_text() == " ".join(pair.texts)
        shown = [number(text) for text in row.locator("td").all_inner_texts()]
        assert shown == pytest.approx([pair.value, pair.importance], abs=0.0051)
    page.get_by_label("Explained label").select_option(explanation.outputs.labels[1 - target])
    value = page.locator(".together td").first.inner_text()
    assert number(value) == pytest.approx(-explanation.interactions[0].value, abs=0.0051)
    assert show(made()).locator(".together").count() == 0


def test_explanations_of_one_text_stand_side_by_side_and_share_edits(show):
    page = show([made(), made(additive=True), made(heads=2, seed=3, method="other")])
    cards = page.locator(".card")
    assert cards.locator("h2").all_inner_texts() == [
        "slalom · made up",
        "linear · made up",
        "other · made up",
    ]
    cards.nth(0).locator(".word").nth(9).click()
    assert page.locator(".word.lit").all_inner_texts() == ["wonderful"] * 3
    assert page.locator(".word.removed").all_inner_texts() == ["wonderful"] * 3
    assert page.locator("nav").count() == 0


def test_a_list_of_texts_has_a_filter(show):
    texts = [TEXT, "A dull film.", "A very funny film."]
    page = show(
        [made(text, seed=place) for place, text in enumerate(texts)]
        + [made("A dull film.", additive=True)]
    )
    entries = page.locator("nav li")
    assert entries.count() == 3
    assert page.locator(".card").count() == 1
    page.get_by_label("Filter the texts").fill("film dull")
    assert page.locator("nav li:visible").count() == 1
    page.locator("nav li:visible button").click()
    assert page.locator(".card").count() == 2
    assert words(page).first.inner_text() == "A"
    page.get_by_label("Filter the texts").fill("linear")
    assert "1 of 3" in page.locator("nav").inner_text()


def test_a_list_of_texts_says_what_the_model_predicts(show):
    """A negative review is none of "positive" with a negative output."""
    texts = {TEXT: -3.22, "A very funny film.": 3.22}
    page = show([replace(made(text), full=(output,)) for text, output in texts.items()])
    captions = page.locator("nav li .caption").all_inner_texts()
    assert captions == ["negative 96.2%", "positive 96.2%"]


def test_an_answer_stands_beside_its_question_and_two_sentences_can_be_dropped(show):
    text = "Anna moved to Paris. Tom stayed. The weather was nice."
    places = [(0, 20), (21, 32), (33, 54)]
    explanation = explanation_with(
        AdditiveSurrogate(
            torch.tensor([[3.0, 2.0], [0.5, 0.0], [-0.25, 0.0]]).double(),
            torch.tensor([-4.0, 1.0]).double(),
        ),
        text,
        [Unit(text[start:end], start, end) for start, end in places],
        kind="answers",
        labels=("answer", "Paris"),
        target=0,
        full=(-4.0, 1.0),
        granularity="sentence",
        question="Where does Anna live?",
        reply="In Paris.",
    )
    page = show(explanation)
    assert page.locator(".conversation dd").all_inner_texts() == [
        "Where does Anna live?",
        "In Paris.",
    ]
    words(page).nth(0).click()
    words(page).nth(2).click()
    edited = page.locator("data[data-kind=edited]")
    predicted = explanation.predict([[0, 1, 0]])[0]
    assert float(edited.get_attribute("value")) == pytest.approx(predicted)
    page.get_by_label("Explained label").select_option("Paris")
    predicted = explanation.for_target("Paris").predict([[0, 1, 0]])[0]
    assert float(edited.get_attribute("value")) == pytest.approx(predicted)
