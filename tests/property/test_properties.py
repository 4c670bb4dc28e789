"""What holds for every SLALOM, whatever its numbers."""

import json
from dataclasses import replace
from html import unescape
from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from made import explanation_with, make_form

from slalom_xai.explanation import Explanation
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.paper.shapley import shapley_values
from slalom_xai.models.text import Unit, words
from slalom_xai.slalom.shapley import compute_shapley

numbers = st.floats(-5, 5, width=32)


@st.composite
def slaloms(draw, heads=None, sink=None):
    units, classes = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    count = heads or draw(st.integers(1, 3))
    with_sink = draw(st.booleans()) if sink is None else sink

    def tensor(*shape):
        return torch.tensor(draw(arrays(np.float64, shape, elements=numbers)))

    extra = (tensor(count, classes), tensor(count)) if with_sink else (None, None)
    return SlalomSurrogate(tensor(count, units, classes), tensor(count, units), *extra)


def rows(surrogate, seed, count=6):
    """Rows of counts with at least one unit each."""
    generator = np.random.default_rng(seed)
    counts = generator.integers(0, 4, (count, surrogate.units))
    counts[np.arange(count), generator.integers(0, surrogate.units, count)] += 1
    return torch.tensor(counts).double()


@given(slaloms(), numbers, st.integers(0, 99))
def test_a_shift_of_all_importances_changes_nothing(surrogate, shift, seed):
    sink = None if surrogate.sink_importances is None else surrogate.sink_importances + shift
    moved = SlalomSurrogate(
        surrogate.values, surrogate.importances + shift, surrogate.sink_values, sink
    )
    counts = rows(surrogate, seed)
    assert torch.allclose(surrogate.predict(counts), moved.predict(counts))
    assert torch.allclose(surrogate.normalise().predict(counts), surrogate.predict(counts))


@given(slaloms(heads=1), st.integers(0, 99))
def test_one_head_stays_within_its_values(surrogate, seed):
    predicted = surrogate.predict(rows(surrogate, seed))
    columns = surrogate.slot_values()[0]
    assert (predicted <= columns.amax(dim=0) + 1e-9).all()
    assert (predicted >= columns.amin(dim=0) - 1e-9).all()


@given(slaloms(), st.integers(0, 99))
def test_a_count_of_n_equals_n_repeats(surrogate, seed):
    counts = rows(surrogate, seed, count=1)
    repeated = [j for j in range(surrogate.units) for _ in range(int(counts[0, j]))]
    spelled = SlalomSurrogate(
        surrogate.values[:, repeated],
        surrogate.importances[:, repeated],
        surrogate.sink_values,
        surrogate.sink_importances,
    )
    assert torch.allclose(surrogate.predict(counts), spelled.predict(torch.ones(1, len(repeated))))


@given(slaloms(), st.randoms(use_true_random=False), st.integers(0, 99))
def test_the_order_of_units_does_not_matter(surrogate, random, seed):
    order = list(range(surrogate.units))
    random.shuffle(order)
    shuffled = SlalomSurrogate(
        surrogate.values[:, order],
        surrogate.importances[:, order],
        surrogate.sink_values,
        surrogate.sink_importances,
    )
    counts = rows(surrogate, seed)
    assert torch.allclose(surrogate.predict(counts), shuffled.predict(counts[:, order]))
    assert torch.allclose(shapley_values(surrogate)[order], shapley_values(shuffled), atol=1e-7)


@given(slaloms(), st.randoms(use_true_random=False), st.integers(0, 99))
def test_heads_may_be_permuted_and_shifted_against_each_other(surrogate, random, seed):
    heads = surrogate.values.shape[0]
    order = list(range(heads))
    random.shuffle(order)
    shift = torch.tensor([random.uniform(-2, 2) for _ in range(heads)]).double()
    shift = (shift - shift.mean())[:, None, None]
    sink_values = (
        None if surrogate.sink_values is None else (surrogate.sink_values + shift[:, 0])[order]
    )
    sink_importances = (
        None if surrogate.sink_importances is None else surrogate.sink_importances[order]
    )
    moved = SlalomSurrogate(
        (surrogate.values + shift)[order],
        surrogate.importances[order],
        sink_values,
        sink_importances,
    )
    counts = rows(surrogate, seed)
    assert torch.allclose(surrogate.predict(counts), moved.predict(counts))
    assert torch.allclose(shapley_values(surrogate), shapley_values(moved), atol=1e-7)


@given(slaloms())
def test_shapley_values_sum_to_what_all_units_do(surrogate):
    total = surrogate.predict(torch.ones(1, surrogate.units))[0] - surrogate.empty()
    assert torch.allclose(shapley_values(surrogate).sum(dim=0), total, atol=1e-6)


def explanation(surrogate, text=""):
    classes = surrogate.empty().shape[0]
    kind = {1: "single", 2: "multilabel"}.get(classes, "multiclass")
    letters = "abcdefgh"[: surrogate.units]
    return explanation_with(
        surrogate,
        letters + text,
        [Unit(letter, index, index + 1, (index,)) for index, letter in enumerate(letters)],
        kind=kind,
        labels=tuple(f"c{c}" for c in range(classes)),
        target=0,
        errors={"value": np.array([0.5, float("nan")] * 4)[: surrogate.units]},
        method="slalom",
    )


@st.composite
def forms(draw, bounded=None):
    """The main method's formula, bounded or not, with pairs or without."""
    units, classes = draw(st.integers(1, 7)), draw(st.integers(1, 3))

    def tensor(*shape):
        return torch.tensor(draw(arrays(np.float64, shape, elements=numbers)))

    neighbours = [(first, first + 1) for first in range(units - 1)]
    pairs = sorted(draw(st.sets(st.sampled_from(neighbours)))) if neighbours else []
    is_bounded = draw(st.booleans()) if bounded is None else bounded
    return make_form(
        tensor(units, classes),
        tensor(units),
        (tensor(classes), float(draw(numbers))),
        centre=float(draw(numbers)),
        half_width=float(draw(st.floats(0.5, 20))) if is_bounded else None,
        pairs=pairs,
        pair_values=tensor(len(pairs), classes),
        pair_importances=tensor(len(pairs)),
    )


@given(forms(bounded=True), st.integers(0, 99))
def test_predictions_and_values_stay_inside_the_range(form, seed):
    low, high = form.range
    for outputs in (form.predict(rows(form, seed)), form.values, form.sink_value[None]):
        assert (outputs >= low - 1e-9).all()
        assert (outputs <= high + 1e-9).all()


@given(forms(), st.integers(0, 99))
def test_predictions_lie_between_the_lowest_and_the_highest_value(form, seed):
    shown = torch.cat([form.values, form.sink_value[None], form.bound(form.pair_values)])
    predicted = form.predict(rows(form, seed))
    assert (predicted >= shown.amin(dim=0) - 1e-9).all()
    assert (predicted <= shown.amax(dim=0) + 1e-9).all()


@given(forms(), numbers, st.integers(0, 99))
def test_a_shift_of_all_importances_of_a_form_changes_nothing(form, shift, seed):
    moved = replace(
        form,
        importances=form.importances + shift,
        sink_importance=form.sink_importance + shift,
        pair_importances=form.pair_importances + shift,
    )
    counts = rows(form, seed)
    assert torch.allclose(form.predict(counts), moved.predict(counts))
    assert torch.allclose(compute_shapley(form.split()), compute_shapley(moved.split()), atol=1e-7)


@given(forms(), st.randoms(use_true_random=False), st.integers(0, 99))
def test_each_row_is_predicted_by_itself(form, random, seed):
    counts = rows(form, seed)
    order = list(range(len(counts)))
    random.shuffle(order)
    predicted = form.predict(counts)
    assert torch.allclose(form.predict(counts[order]), predicted[order], rtol=1e-12, atol=1e-12)
    alone = torch.cat([form.predict(row[None]) for row in counts])
    assert torch.allclose(alone, predicted, rtol=1e-12, atol=1e-12)


@given(forms())
def test_shapley_values_of_a_form_sum_to_what_all_units_do(form):
    total = form.predict(torch.ones(1, form.units))[0] - form.empty()
    assert torch.allclose(compute_shapley(form.split()).sum(dim=1), total, atol=1e-9)
    assert torch.allclose(form.empty(), form.predict(torch.zeros(1, form.units))[0])


@given(forms(), numbers, st.floats(0.1, 10), st.integers(0, 99))
def test_outputs_on_another_scale_have_predictions_on_that_scale(form, shift, factor, seed):
    moved = replace(
        form,
        inner_values=shift + factor * form.inner_values,
        inner_sink=shift + factor * form.inner_sink,
        pair_values=shift + factor * form.pair_values,
        centre=shift + factor * form.centre,
        curvature=form.curvature / factor,
    )
    counts = rows(form, seed)
    assert torch.allclose(moved.predict(counts), shift + factor * form.predict(counts), atol=1e-9)


@given(st.one_of(slaloms(), forms()), st.text())
def test_saving_and_loading_gives_the_same_explanation(function, text):
    if isinstance(function, SlalomSurrogate):
        function = function.normalise()
    known = explanation(function, text)
    loaded = Explanation.from_dict(json.loads(json.dumps(known.to_dict(), allow_nan=False)))
    assert loaded == known
    for name in known.score_names:
        assert np.array_equal(loaded.scores(name), known.scores(name))
    assert loaded.sink == known.sink
    assert loaded.range == known.range
    assert loaded.interactions == known.interactions
    for row in (
        np.ones((1, function.units)),
        np.eye(function.units)[:1],
        np.full((1, function.units), 0.3),
    ):
        assert np.array_equal(loaded.predict(row), known.predict(row))


@given(st.text())
def test_words_cover_everything_but_white_space(text):
    units = words(text)
    assert "".join(unit.text for unit in units) == "".join(text.split())
    assert all(before.end <= after.start for before, after in pairwise(units))


@given(st.text(min_size=1))
def test_html_never_lets_a_text_through(text):
    surrogate = SlalomSurrogate(torch.ones(1, 1, 1).double(), torch.zeros(1, 1).double())
    hostile = text + "<script>alert(1)</script>&\"'"
    html = explanation(surrogate, hostile)._repr_html_()
    assert html.count("<") == 2  # the frame begins and ends
    assert html.count('"') == 10
    page = unescape(html[html.index('srcdoc="') : html.rindex('"')])
    assert page.count("<script") == 3  # the list, the data and the view itself
    assert page.count("</script") == 3
