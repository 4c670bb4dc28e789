"""The main method's own room: formula, Shapley values, fit, range and trust, with known answers."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from made import make_form

from slalom_xai.slalom.fit import (
    FitRequest,
    begin_fits,
    complete_fits,
    fit_forms,
    fit_one_scores,
)
from slalom_xai.slalom.formula import score_units
from slalom_xai.slalom.output_range import probe_range
from slalom_xai.slalom.shapley import ENUMERATED, compute_shapley, fit_rest
from slalom_xai.slalom.trust import (
    NOTHING_CHANGES,
    Agreement,
    FewAndAny,
    Fidelity,
    compare_changes,
)

UNITS = 12


def tensor(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def by_hand(counts, values, importances, sink, ends=None, pairs=()):
    """One row of the formula, in plain numbers; a pair is (first, second, value, importance)."""
    above = below = 0.0
    for count, value, importance in zip(counts, values, importances, strict=True):
        above += count * math.exp(importance) * value
        below += count * math.exp(importance)
    for first, second, value, importance in pairs:
        together = counts[first] * counts[second]
        above += together * math.exp(importance) * value
        below += together * math.exp(importance)
    missing = sum(max(1 - count, 0) for count in counts)
    above += missing * math.exp(sink[1]) * sink[0]
    below += missing * math.exp(sink[1])
    average = above / below
    if ends is None:
        return average
    centre, half = sum(ends) / 2, (ends[1] - ends[0]) / 2
    return centre + half * math.tanh((average - centre) / half)


class TestFormula:
    def test_two_words_by_hand(self):
        """Weights 3 and 1 average 2 and -2 to 1; without the second, a sink of 0 and weight 1."""
        form = make_form(tensor([2.0], [-2.0]), tensor(math.log(3), 0.0), (tensor(0.0), 0.0))
        predicted = form.predict(tensor([1, 1], [1, 0], [0, 1], [0, 0]))[:, 0]
        assert predicted.tolist() == pytest.approx([1.0, 1.5, -1.0, 0.0])

    def test_the_bound_by_hand(self):
        form = make_form(
            tensor([2.0], [-2.0]),
            tensor(math.log(3), 0.0),
            (tensor(0.0), 0.0),
            centre=1.0,
            half_width=2.0,
        )
        predicted = form.predict(tensor([1, 1], [1, 0], [0, 1]))[:, 0]
        expected = [1.0, 1 + 2 * math.tanh(0.25), 1 + 2 * math.tanh(-1)]
        assert predicted.tolist() == pytest.approx(expected)
        shown = [1 + 2 * math.tanh(0.5), 1 + 2 * math.tanh(-1.5)]
        assert form.values[:, 0].tolist() == pytest.approx(shown)
        assert [float(end) for end in form.range] == [-1.0, 3.0]

    @pytest.mark.parametrize("ends", [None, (-3.0, 4.0)])
    def test_counts_soft_removals_and_pairs_by_hand(self, ends):
        values, importances, sink = [3.0, -2.0, 0.5], [0.5, -0.2, -0.3], (-1.0, 0.4)
        bound = {} if ends is None else {"centre": sum(ends) / 2, "half_width": 3.5}
        form = make_form(
            tensor(values).T,
            tensor(*importances),
            (tensor(sink[0]), sink[1]),
            **bound,
            pairs=[(0, 1)],
            pair_values=tensor([-6.0]),
            pair_importances=tensor(0.7),
        )
        for row in ([1, 1, 1], [2, 1, 0], [0, 3, 1], [0.5, 0.25, 1], [0.3, 0, 0], [1, 0, 1]):
            expected = by_hand(row, values, importances, sink, ends, [(0, 1, -6.0, 0.7)])
            assert form.predict(tensor(row)).item() == pytest.approx(expected), row

    def test_nothing_kept_is_the_sink(self):
        form = make_form(tensor([3.0], [1.0]), tensor(0.2, -0.2), (tensor(-1.5), 2.0), half_width=2)
        empty = form.predict(torch.zeros(1, 2))[0]
        assert torch.equal(empty, form.empty())
        assert empty.item() == pytest.approx(2 * math.tanh(-0.75))

    def test_a_wide_range_is_no_range(self):
        known = {"values": tensor([3.0], [-1.0]), "importances": tensor(0.4, -0.4)}
        rows = tensor([1, 1], [1, 0], [0.3, 0.8])
        wide, none = make_form(**known, half_width=1e6), make_form(**known)
        assert torch.allclose(wide.predict(rows), none.predict(rows), atol=1e-9)
        assert all(math.isinf(end) for end in none.range)

    def test_a_loud_word_decides_alone_and_a_silent_one_not_at_all(self):
        form = make_form(tensor([3.0], [-1.0], [0.5]), tensor(300.0, 0.0, -300.0))
        predicted = form.predict(tensor([1, 1, 1], [0, 1, 1]))[:, 0]
        assert predicted[0].item() == pytest.approx(3.0)
        without_last = form.predict(tensor([1, 1, 0], [1, 1, 1]))[:, 0]
        assert without_last[0] == without_last[1]

    def test_without_a_sink_it_is_the_papers(self):
        form = make_form(tensor([3.0], [-1.0], [2.0]), tensor(0.5, 0.0, -0.5), (tensor(0.0), -60.0))
        weights = np.exp([0.5, 0.0])
        expected = (weights * [3.0, -1.0]).sum() / weights.sum()
        assert form.predict(tensor([1, 1, 0])).item() == pytest.approx(expected)

    def test_equal_importances_are_one_score_per_unit(self):
        form = make_form(tensor([4.0], [-2.0], [1.0]), tensor(0.0, 0.0, 0.0), (tensor(-1.0), 0.0))
        whole = form.predict(torch.ones(1, 3))
        for row in itertools.product([0.0, 1.0], repeat=3):
            lost = sum((1 - kept) * (v + 1) / 3 for kept, v in zip(row, (4, -2, 1), strict=True))
            assert form.predict(tensor(row)).item() == pytest.approx(whole.item() - lost)

    def test_scores_are_predictions_for_certain_texts(self):
        form = drawn_form(5, half_width=3.0, pairs=[(1, 2)])
        whole, each = form.predict(torch.ones(1, 5)), torch.eye(5).double()
        assert torch.allclose(score_units(form, "alone", 0), form.predict(each)[:, 0])
        assert torch.allclose(
            score_units(form, "removal", 0), (whole - form.predict(1 - each))[:, 0]
        )
        assert torch.allclose(score_units(form, "slope", 0), (form.predict(1 + each) - whole)[:, 0])
        assert torch.equal(score_units(form, "value", 0), form.values[:, 0])
        linearized = form.values[:, 0] * form.importances.exp()
        assert torch.equal(score_units(form, "linearized", 0), linearized)

    def test_one_column_is_that_of_all(self):
        form = drawn_form(6, columns=3, half_width=2.0, pairs=[(0, 1), (3, 4)])
        rows = drawn_rows(20, 6)
        for column in range(3):
            alone = form.of_column(column).predict(rows)[:, 0]
            assert torch.allclose(alone, form.predict(rows)[:, column])


def drawn_form(units, columns=1, seed=0, sink=0.5, **options):
    """Values N(0, 2²) and importances N(0, 1), with as many pairs as are named."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    pairs = options.get("pairs", ())
    return make_form(
        2 * draw(units, columns),
        draw(units),
        (draw(columns), sink),
        pair_values=3 * draw(len(pairs), columns),
        pair_importances=draw(len(pairs)),
        **options,
    )


def drawn_rows(count, units, seed=0, least=1):
    """The whole text, then texts with any number of units missing, all numbers equally likely."""
    rng = np.random.default_rng(seed)
    rows = np.ones((count, units))
    for row in rows[1:]:
        row[rng.permutation(units)[: rng.integers(1, units + 1 - least)]] = 0
    return torch.tensor(rows)


def by_definition(form):
    """Shapley values: the mean gain of each unit over all subsets of the others."""
    n = form.units
    rows = torch.tensor(list(itertools.product([0.0, 1.0], repeat=n))).double()
    outputs = form.predict(rows)
    sizes, places = rows.sum(dim=1).long(), 2 ** torch.arange(n - 1, -1, -1)
    weights = tensor(*(1 / (n * math.comb(n - 1, size)) for size in range(n)))
    shares = []
    for unit in range(n):
        without = torch.nonzero(rows[:, unit] == 0)[:, 0]
        gains = outputs[without + places[unit]] - outputs[without]
        shares.append(weights[sizes[without]] @ gains)
    return torch.stack(shares)


class TestShapley:
    @pytest.mark.parametrize("units", [1, 2, 3, 7, ENUMERATED])
    @pytest.mark.parametrize("half_width", [None, 2.0])
    def test_short_texts_have_exact_ones(self, units, half_width):
        pairs = [(0, 1), (1, 2)] if units > 2 else []
        form = drawn_form(units, columns=2, half_width=half_width, pairs=pairs)
        assert torch.allclose(compute_shapley(form.split()).T, by_definition(form), atol=1e-10)

    @pytest.mark.parametrize("half_width", [None, 2.0])
    @pytest.mark.parametrize("seed", range(3))
    def test_orders_are_within_a_hundredth_of_the_largest(self, half_width, seed):
        form = drawn_form(14, half_width=half_width, pairs=[(3, 4), (8, 9)], seed=seed)
        exact, found = by_definition(form), compute_shapley(form.split()).T
        assert (found - exact).abs().max() < 0.01 * exact.abs().max()

    @pytest.mark.parametrize("units", [4, ENUMERATED + 1, 60, 200])
    def test_they_sum_to_what_all_units_do(self, units):
        form = drawn_form(units, columns=2, half_width=3.0, pairs=[(0, 1)])
        total = form.predict(torch.ones(1, units))[0] - form.empty()
        assert torch.allclose(compute_shapley(form.split()).T.sum(dim=0), total, atol=1e-9)

    def test_additive_formulas_have_their_own_terms(self):
        form = make_form(tensor([4.0], [-2.0], [1.0]), tensor(0.0, 0.0, 0.0), (tensor(-1.0), 0.0))
        assert compute_shapley(form.split()).T[:, 0].tolist() == pytest.approx(
            [5 / 3, -1 / 3, 2 / 3]
        )

    def test_what_the_formula_leaves_is_shared_out_and_sums_to_nothing(self):
        rows = drawn_rows(400, 6, least=0)
        terms = tensor(1.0, -0.5, 0.2, 0.0, -0.4, -0.3)
        assert terms.sum().item() == pytest.approx(0)
        found = fit_rest(rows, (rows @ terms)[:, None])
        assert torch.allclose(found[:, 0], terms, atol=0.01)
        assert found.sum().item() == pytest.approx(0, abs=1e-9)


def request(rows, outputs, **options):
    """A text to fit, with the range of what was seen."""
    outputs = outputs.reshape(len(rows), -1)
    ends = {"low": outputs.amin(dim=0), "high": outputs.amax(dim=0)}
    occurrences = torch.zeros(rows.shape[1], dtype=torch.float64)
    return FitRequest(rows, outputs, occurrences, **(ends | options))


def share(form, rows, outputs):
    """R² of a formula's predictions."""
    outputs = outputs.reshape(len(rows), -1)
    left = ((form.predict(rows) - outputs) ** 2).sum()
    return 1 - float(left / ((outputs - outputs.mean(dim=0)) ** 2).sum())


def has(unit):
    return lambda rows: rows[:, unit : unit + 1]


def not_good(rows):
    """ "good" is +2, unless "not" stands before it: then both together are -3; others add."""
    terms = torch.linspace(-0.3, 0.3, UNITS).double()
    terms[4:6] = 0
    both = rows[:, 4] * rows[:, 5]
    return (rows @ terms + 2 * rows[:, 5] - 5 * both)[:, None]


LINEAR = torch.linspace(-1, 1.5, UNITS).double()
PLANTED = {
    "the paper's": drawn_form(UNITS, sink=-60.0).predict,
    "with a sink": drawn_form(UNITS).predict,
    "bounded": drawn_form(UNITS, half_width=2.0).predict,
    "two outputs": drawn_form(UNITS, columns=2, half_width=2.0).predict,
    "linear": lambda rows: (rows @ LINEAR)[:, None],
    "one word decides": lambda rows: 5 * has(3)(rows) - 2,
    "a pair": not_good,
}


class TestFit:
    @pytest.mark.parametrize("name", PLANTED)
    def test_planted_models_come_back(self, name):
        model = PLANTED[name]
        rows, fresh = drawn_rows(500, UNITS), drawn_rows(400, UNITS, seed=1)[1:]
        [begun] = begin_fits([request(rows, model(rows))])
        assert begun.left_out_r2 > 0.9 or name == "a pair"  # pairs are looked for later
        [fitted] = complete_fits([begun])
        assert share(fitted.form, fresh, model(fresh)) > 0.97
        whole = model(torch.ones(1, UNITS).double())
        removal = (whole - model(1 - torch.eye(UNITS).double()))[:, 0]
        clear = removal.abs() > 0.1 * removal.abs().max()
        found = score_units(fitted.form, "removal", 0)
        assert torch.equal(found[clear].sign(), removal[clear].sign())

    def test_scores_of_a_planted_formula_come_back(self):
        truth = drawn_form(UNITS, half_width=2.0)
        rows = drawn_rows(800, UNITS, least=0)
        low, high = truth.range
        [fitted] = fit_forms([request(rows, truth.predict(rows), low=low, high=high)])
        form = fitted.form
        heard = truth.importances > -1
        correlation = np.corrcoef(form.values[heard, 0], truth.values[heard, 0])[0, 1]
        assert correlation > 0.99
        assert np.corrcoef(form.importances, truth.importances)[0, 1] > 0.95
        whole = truth.predict(torch.ones(1, UNITS))
        argues = (form.values - whole)[heard].sign()
        assert torch.equal(argues, (truth.values - whole)[heard].sign())
        assert form.importances.sum().item() == pytest.approx(0, abs=1e-9)
        assert form.sink_value.item() == pytest.approx(truth.sink_value.item(), abs=0.1)

    def test_one_score_is_the_best_there_is(self):
        """Else the comparison with it would flatter two scores."""
        truth = drawn_form(UNITS, half_width=1.0)
        truth = replace(
            truth, importances=torch.zeros(UNITS).double(), sink_importance=tensor(0)[0]
        )
        rows, fresh = drawn_rows(500, UNITS), drawn_rows(400, UNITS, seed=1)[1:]
        low, high = truth.range
        [fitted] = fit_forms([request(rows, truth.predict(rows), low=low, high=high)])
        [one_score] = fit_one_scores([fitted])
        assert share(one_score.form, fresh, truth.predict(fresh)) > 0.9999

    def test_outputs_beyond_the_known_range_widen_it(self):
        rows = drawn_rows(300, UNITS)
        outputs = drawn_form(UNITS, half_width=0.5).predict(rows)
        narrow = {"low": outputs.median(dim=0)[0] - 0.01, "high": outputs.median(dim=0)[0] + 0.01}
        [fitted] = fit_forms([request(rows, outputs, **narrow)])
        low, high = (float(end) for end in fitted.form.range)
        assert -math.inf < low < outputs.min()
        assert outputs.max() < high < math.inf

    def test_a_pair_is_found_and_named(self):
        rows, fresh = drawn_rows(500, UNITS), drawn_rows(400, UNITS, seed=1)[1:]
        with_pairs, without = fit_forms(
            [request(rows, not_good(rows), most_pairs=most) for most in (5, 0)]
        )
        assert [4, 5] in with_pairs.form.pairs.tolist()
        assert len(without.form.pairs) == 0
        better = share(with_pairs.form, fresh, not_good(fresh))
        assert better > share(without.form, fresh, not_good(fresh)) + 0.02

    @pytest.mark.parametrize("calls", [20, 35])
    def test_a_few_calls_name_no_pair(self, calls):
        """Where there are hardly more calls than numbers to find, any pair would fit them."""
        rows = drawn_rows(calls, UNITS)
        [fitted] = fit_forms([request(rows, not_good(rows))])
        assert len(fitted.form.pairs) == 0

    def test_where_nothing_is_heard_together_no_pair_is_named(self):
        rows = drawn_rows(500, UNITS)
        [fitted] = fit_forms([request(rows, PLANTED["with a sink"](rows))])
        assert len(fitted.form.pairs) == 0

    def test_a_constant_model_is_predicted_as_it_is(self):
        rows = drawn_rows(200, UNITS)
        [fitted] = fit_forms([request(rows, torch.full((200, 1), 1.5).double())])
        predicted = fitted.form.predict(drawn_rows(50, UNITS, seed=1))
        assert torch.allclose(predicted, torch.full_like(predicted, 1.5), atol=1e-4)

    def test_without_a_bound_where_calls_say_so(self):
        """A linear model has no bound; of a saturated one, the bound is found."""
        rows = drawn_rows(500, UNITS)
        steep = drawn_form(UNITS, half_width=0.5)
        wide = {"low": tensor(-100.0), "high": tensor(100.0)}
        bounded, known = fit_forms(
            [
                request(rows, steep.predict(rows)),
                request(rows, (rows @ LINEAR)[:, None], bounded=False, **wide),
            ]
        )
        assert bounded.form.curvature.item() > 0
        assert known.form.curvature.item() == 0

    @pytest.mark.parametrize(
        ("lengths", "most_pairs"),
        [((12, 12, 12, 12), 0), ((12, 11, 12, 9), 5)],
        ids=["of one length", "of several lengths"],
    )
    def test_several_texts_at_once_are_fitted_as_each_alone(self, lengths, most_pairs):
        requests = []
        for seed, units in enumerate(lengths):
            rows = drawn_rows(120, units, seed)
            truth = drawn_form(units, half_width=2.0, seed=seed)
            noise = torch.randn(120, 1, generator=torch.Generator().manual_seed(seed)).double()
            outputs = truth.predict(rows) + 0.05 * noise
            requests.append(request(rows, outputs, most_pairs=most_pairs))
        for together, one in zip(fit_forms(requests), requests, strict=True):
            [alone] = fit_forms([one])
            two, whole = (fit.form.predict(one.counts) for fit in (together, alone))
            assert torch.allclose(two, whole, atol=1e-6, rtol=0)
            assert torch.allclose(together.left_out, alone.left_out, atol=1e-5, rtol=0)
            assert torch.equal(together.form.pairs, alone.form.pairs)

    def test_left_out_predictions_go_where_refits_go(self):
        rows = drawn_rows(60, 8)
        noise = torch.randn(60, 1, generator=torch.Generator().manual_seed(0)).double()
        outputs = drawn_form(8, half_width=2.0).predict(rows) + 0.2 * noise
        ends = {"low": outputs.amin(dim=0), "high": outputs.amax(dim=0), "most_pairs": 0}
        [whole] = fit_forms([request(rows, outputs, **ends)])
        places = range(1, 60, 3)
        refits = fit_forms(
            [
                request(rows[others], outputs[others], **ends)
                for place in places
                for others in [torch.arange(60) != place]
            ]
        )
        inside = whole.form.predict(rows)
        stated = [float(whole.left_out[place] - inside[place]) for place in places]
        true = [
            float(refit.form.predict(rows[place : place + 1]) - inside[place])
            for place, refit in zip(places, refits, strict=True)
        ]
        largest = np.argsort(-np.abs(true))[:12]
        agree = np.sign(stated)[largest] == np.sign(true)[largest]
        assert agree.mean() > 0.9
        assert np.corrcoef(stated, true)[0, 1] > 0.5  # a refit also chooses its priors anew

    def test_errors_grow_with_the_noise_of_the_outputs(self):
        rows = drawn_rows(300, UNITS)
        truth = drawn_form(UNITS, half_width=2.0).predict(rows)
        noise = torch.randn(300, 1, generator=torch.Generator().manual_seed(0)).double()
        spreads = []
        for level in (0.02, 0.2):
            [fitted] = fit_forms([request(rows, truth + level * noise)])
            lost = fitted.jackknife[0].score("removal")
            spreads.append(float(lost.std(dim=0).median()))
        assert spreads[1] > 2 * spreads[0] > 0

    @pytest.mark.parametrize("seed", range(4))
    def test_noise_never_makes_importances_spread(self, seed):
        truth, rows = drawn_form(UNITS, seed=seed), drawn_rows(400, UNITS, seed)
        outputs = truth.predict(rows)
        noise = torch.randn(400, 1, generator=torch.Generator().manual_seed(seed)).double()
        noisy = outputs + 0.6 * outputs.std() * noise
        exact, doubtful = (
            float(fitted.form.importances.std())
            for fitted in fit_forms([request(rows, given) for given in (outputs, noisy)])
        )
        assert exact == pytest.approx(float(truth.importances.std()), rel=0.05)
        assert doubtful < exact

    def test_texts_fitted_together_are_fitted_as_alone(self):
        """Also where choices are made on a part of the calls, and texts differ in size."""
        asked = []
        for calls, units in ((1000, UNITS), (900, UNITS + 2)):
            rows = drawn_rows(calls, units)
            bent = (
                drawn_form(units, half_width=2.0).predict(rows) + 0.3 * rows[:, :1] * rows[:, 5:6]
            )
            asked.append(request(rows, bent))
        for together, own in zip(fit_forms(asked), asked, strict=True):
            [alone] = fit_forms([own])
            one_scores = [one.form.values for one in fit_one_scores([together, alone])]
            assert torch.allclose(together.form.values, alone.form.values, atol=1e-5)
            assert torch.allclose(together.form.importances, alone.form.importances, atol=1e-5)
            assert torch.allclose(*one_scores, atol=1e-5)

    def test_a_formula_through_all_calls_does_not_look_good(self):
        """Noise cannot be predicted, though 41 units pass through 32 outputs of it."""
        rows, shares = drawn_rows(32, 41), []
        for seed in range(7):  # of one draw, the best of several fits may look good by chance
            noise = torch.randn(
                32, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
            )
            [fitted] = fit_forms([request(rows, noise)])
            [one_score] = fit_one_scores([fitted])
            errors = torch.stack([fitted.left_out, one_score.left_out]) - noise
            shares.append((errors**2).mean(dim=(1, 2)) / noise.var())
        assert (torch.stack(shares).median(dim=0)[0] > 0.7).all()

    def test_a_sure_class_is_predicted_though_the_others_move_more(self):
        """The first of three outputs hardly moves until much is gone; the others always do."""
        rng = np.random.default_rng(0)
        effects, others = np.abs(rng.normal(size=24)), rng.normal(size=(24, 2))

        def outputs(rows):
            lost = (1 - rows) @ effects
            sure = 4 - 0.02 * lost - 4 / (1 + np.exp(0.7 * effects.sum() - lost))
            missing = (1 - rows).sum(axis=1, keepdims=True)
            loose = 0.1 * ((1 - rows) @ others + missing * np.sin(7 * rows @ others)) - 2
            return torch.tensor(np.column_stack([sure, loose]))

        few = drawn_rows(300, 24, seed=1, least=14).numpy()
        rows = np.concatenate([few, drawn_rows(300, 24, seed=2).numpy()])
        [fitted] = fit_forms([request(torch.tensor(rows), outputs(rows), probed=True)])
        for least, share in ((14, 0.5), (1, 0.9)):  # few removed, and any number
            fresh = drawn_rows(300, 24, seed=3, least=least)
            true = outputs(fresh.numpy())[:, 0]
            wrong = fitted.form.predict(fresh)[:, 0] - true
            assert 1 - float(wrong.var() / true.var()) > share

    def test_a_constant_output_takes_nothing_from_the_others(self):
        rows = drawn_rows(300, UNITS)
        bent = drawn_form(UNITS, half_width=2.0).predict(rows)
        bent = bent + 0.3 * rows[:, :1] * rows[:, 5:6] * rows[:, 2:3]
        other = 0.5 * bent - 0.2 * rows[:, 3:4] * rows[:, 8:9]
        outputs = torch.cat([bent, other, torch.full_like(bent, 0.1)], dim=1)
        errors = []
        for told in (outputs[:, :2], outputs):
            [fitted] = fit_forms([request(rows, told)])
            errors.append((fitted.form.predict(rows) - told)[:, :2].var(dim=0))
        assert (errors[1] < 1.5 * errors[0]).all()

    def test_one_score_has_equal_importances(self):
        rows = drawn_rows(300, UNITS)
        [fitted] = fit_forms([request(rows, PLANTED["bounded"](rows))])
        [one_score] = fit_one_scores([fitted])
        assert one_score.form.importances.abs().max() < 1e-3
        assert len(one_score.form.pairs) == 0

    def test_a_range_of_no_width_and_of_outputs_beyond_it(self):
        rows = drawn_rows(200, UNITS)
        outputs = PLANTED["bounded"](rows)
        known = outputs[0]
        [fitted] = fit_forms([request(rows, outputs, low=known, high=known)])
        low, high = fitted.form.range
        assert low <= outputs.min()
        assert outputs.max() <= high
        assert torch.isfinite(fitted.form.predict(rows)).all()


class TestRange:
    def test_the_ends_are_those_that_strong_words_reach(self):
        strength = {f"w{index}": index - 50.0 for index in range(100)}
        sent = []

        def send(texts):
            sent.extend(texts)
            total = [sum(strength[word] for word in text.split()) for text in texts]
            return torch.tanh(torch.tensor(total, dtype=torch.float64)[:, None] / 50) * 4

        found = probe_range(list(strength), send)
        assert found.low.item() == pytest.approx(-4, abs=0.05)
        assert found.high.item() == pytest.approx(4, abs=0.05)
        assert found.calls == len(sent)

    def test_a_constant_model_has_a_range_of_no_width(self):
        found = probe_range(
            ["a", "b", "c"], lambda texts: torch.full((len(texts), 1), 2.0).double()
        )
        assert (found.low.item(), found.high.item()) == (2.0, 2.0)


def agreement(r2, low=None, change=1.0):
    low = r2 - 0.05 if low is None else low
    return Agreement(r2, 0.1, 100, low, min(r2 + 0.05, 1.0), 0.05, 0.2, change)


def fidelity(few, whole, low=None, linear=0.5, one_score=0.6, change=1.0):
    return Fidelity(
        agreement(few, change=change),
        agreement(whole, low),
        FewAndAny(agreement(linear), agreement(linear)),
        FewAndAny(agreement(one_score), agreement(one_score)),
        80,
        100,
    )


class TestTrust:
    def test_a_good_explanation_beside_the_better_single_score(self):
        assert fidelity(0.79, 0.84, linear=0.7, one_score=0.73).sentence("words") == (
            "These scores reproduce 84% of what removing words does to this prediction "
            "(79% when only a few go). One score per word reproduces 73%."
        )
        assert "One score per token reproduces 91%." in fidelity(
            0.79, 0.84, linear=0.91, one_score=0.73
        ).sentence("tokens")

    def test_a_bad_one_warns_first_and_says_what_to_do(self):
        bad = fidelity(0.2, 0.4)
        assert bad.doubtful
        assert bad.sentence("words") == (
            "Do not trust this explanation: its scores reproduce 40% of what removing words does "
            "to this prediction. One score per word reproduces 60%. Allow more calls (a larger "
            "budget), or explain sentences in their place."
        )
        assert "or explain larger parts." in bad.sentence("sentences")

    def test_one_that_may_be_bad_says_how_bad(self):
        unsure = fidelity(0.5, 0.6, low=0.1)
        assert unsure.doubtful
        said = unsure.sentence("words")
        assert said.startswith("Do not trust this explanation: its scores reproduce 60%")
        assert "and perhaps only 10%" in said

    def test_worse_than_nothing_is_none(self):
        assert "reproduce none of" in fidelity(-1.0, -2.0).sentence()

    def test_a_saturated_prediction_says_that_no_few_words_decide_it(self):
        assert fidelity(0.1, 0.9).sentence("words", 0.004) == (
            "These scores reproduce 90% of what removing words does to this prediction. One score "
            "per word reproduces 60%. No few words decide it: removing up to 10 moves its "
            "probability by less than 0.5 points."
        )
        assert "by less than 2 points" in fidelity(0.1, 0.9).sentence("words", 0.015)
        moved = fidelity(0.1, 0.9).sentence("words", 0.2)
        assert "No few words" not in moved
        assert "Do not rely on them for single words: more calls may help." in moved
        assert "No few words" not in fidelity(0.8, 0.9).sentence("words", 0.004)

    def test_nothing_changes(self):
        nothing = Agreement(math.nan, 0.0, 50)
        assert Fidelity(nothing, nothing, changed=0, calls=100).sentence() == NOTHING_CHANGES
        rare = Fidelity(nothing, nothing, changed=2, calls=100)
        assert rare.sentence().startswith(
            "Do not trust this explanation: the output differs in only 2 of 100 perturbed texts"
        )
        assert not rare.doubtful

    def test_old_names_still_work(self):
        known = fidelity(0.8, 0.9)
        assert known.local is known.few
        assert known.wide is known.any

    def test_agreement_by_hand(self):
        true = tensor(1.0, -1.0, 3.0, -3.0)
        predicted = torch.stack([true, true + 1, torch.zeros(4).double()])
        exact, shifted, nothing = compare_changes(predicted, true, 1.0)
        assert exact.r2 == 1
        assert (shifted.mse, shifted.r2) == (1.0, pytest.approx(0.8))
        assert (nothing.mse, nothing.r2) == (5.0, 0.0)
        assert exact.r2_low == exact.r2_high == 1
        assert shifted.r2_low <= shifted.r2 <= shifted.r2_high

    def test_changes_within_rounding_are_none(self):
        tiny = 1e-9 * tensor(1.0, -1.0, 2.0)
        [found] = compare_changes(0 * tiny[None], tiny, 10.0)
        assert math.isnan(found.r2)
        [same] = compare_changes(torch.full((1, 3), 2.0).double(), tensor(2.0, 2.0, 2.0), 1.0)
        assert same.r2 == 0

    def test_a_lower_end_is_never_above_the_share(self):
        assert replace(agreement(0.5), r2_low=0.7).at_least == 0.5
        assert Agreement(0.5, 0.1, 9).at_least == 0.5
