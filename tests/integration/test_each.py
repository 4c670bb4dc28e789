"""``Explainer.each``: many texts, of which some may fail."""

import math

import pytest
from alike import difference
from fakes import Averaging

from slalom_xai import Explainer, Explanation
from slalom_xai.errors import InputError, ModelError, ServiceError

TEXTS = ["a slow warm film", "", "a bad film to spoil it", "one more fine film", "so it ends well"]


def test_a_text_that_fails_does_not_stop_the_others():
    explainer = Explainer(Averaging(spoil=("spoil", math.nan)), show_progress=False)
    found = dict(explainer.each(TEXTS))
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert isinstance(found[1], InputError)
    assert "empty" in str(found[1])
    assert isinstance(found[2], ModelError)
    assert "nan" in str(found[2])
    for number in (0, 3, 4):
        assert isinstance(found[number], Explanation)
        alone = Explainer(Averaging(), show_progress=False)(TEXTS[number])
        assert found[number].text == TEXTS[number]
        assert difference(found[number], alone) < 1e-9


def test_a_first_text_that_fails_does_not_either():
    explainer = Explainer(Averaging(spoil=("slow", math.nan)), show_progress=False)
    found = dict(explainer.each(TEXTS))
    assert isinstance(found[0], ModelError)
    assert isinstance(found[4], Explanation)


def test_no_texts_give_nothing():
    assert list(Explainer(Averaging()).each([])) == []


def test_a_server_that_is_gone_ends_it_and_what_is_done_is_there():
    class Gone(Averaging):
        def answer(self, rows):
            if any("ends" in str(row) for row in rows):
                raise ServiceError("the server is gone")
            return super().answer(rows)

    results = Explainer(Gone(), show_progress=False).each([*TEXTS[3:], TEXTS[0]])
    number, first = next(results)
    assert number == 0
    assert isinstance(first, Explanation)
    with pytest.raises(ServiceError, match="gone"):
        list(results)


def test_a_list_call_still_stops_at_the_first_failure_and_keeps_what_is_done():
    explainer = Explainer(Averaging(spoil=("spoil", math.nan)), show_progress=False)
    with pytest.raises(ModelError) as raised:
        explainer([TEXTS[0], TEXTS[2], TEXTS[3]])
    assert TEXTS[0] in [explanation.text for explanation in raised.value.finished]
