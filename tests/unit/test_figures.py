"""Figures: what a reader finds in them, and the files they make."""

import math
import re
import subprocess
import sys
import warnings
import zlib
from pathlib import Path
from statistics import NormalDist
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import boxes, overlap_share, texts
from fakes import Averaging
from hypothesis import given, settings
from hypothesis import strategies as st
from made import explained, made
from matplotlib.figure import Figure

from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.methods.scores import DEFAULT_SCORE, SCORES
from slalom_xai.models.text import Unit
from slalom_xai.reports import figures
from slalom_xai.reports.colour import intensities, strongest_units
from slalom_xai.reports.figures.canvas import TITLES
from slalom_xai.reports.figures.passage import Chunk, Line, Run, scored_lines, visual_order
from slalom_xai.reports.figures.points import place_labels
from slalom_xai.reports.figures.words import merge_units, unit_labels, word_scores

ROOT = Path(__file__).parents[2]
REVIEW = "The opening is slow, but the two leads are wonderful and I would gladly watch it again."
AWKWARD = (
    "good",
    "$x_1$ costs $5",
    "\u05e1\u05e8\u05d8 \u05d8\u05d5\u05d1 very good",
    "好看的电影",
    "😀 👨\u200d👩\u200d👧 fine",
    "a\x1b[31m\u202eb c",
    "<b>&amp;</b>",
)
HANDLED = pytest.mark.filterwarnings("ignore:no installed font has")


def labels(figure):
    return [text.get_text() for text in texts(figure, "label-")]


class TestScatter:
    def test_every_word_is_named_once_and_no_label_lies_on_another(self):
        explanation = explained(REVIEW, errors=0.0)
        figure = figures.scatter(explanation)
        assert sorted(labels(figure)) == sorted(
            [unit.text for unit in explanation.units] + ["sink"]
        )
        assert overlap_share(boxes(figure, "label-")) == 0

    def test_points_stand_at_their_scores_and_their_markers_tell_the_sign(self):
        explanation = explained("good bad film", [2.0, -3.0, 0.1], [1.0, 0.5, -1.5], errors=0.0)
        axes = figures.scatter(explanation).axes[0]
        drawn = {points.get_gid(): points for points in axes.collections}
        shares = explanation.scores("shapley")
        for gid, sign in (("up", 1), ("down", -1)):
            places = [place for place in range(3) if shares[place] * sign > 0]
            found = sorted(map(tuple, drawn[gid].get_offsets().tolist()))
            assert found == sorted(
                zip(explanation.values[places], explanation.importances[places], strict=True)
            )
        up, down = (drawn[gid].get_paths()[0].vertices for gid in ("up", "down"))
        assert np.allclose(up[0], [0, 0.5])  # the tip
        assert np.allclose(down[0], [0, -0.5])

    def test_the_strongest_are_named_where_not_all_can_be(self):
        text = " ".join(f"w{place}" for place in range(120))
        explanation = explained(text, importances=[0.0] * 120, errors=0.0)
        strongest = np.argsort(-np.abs(explanation.scores("shapley")))[:10]
        assert set(labels(figures.scatter(explanation, labels=10))) <= {
            f"w{place}" for place in strongest
        } | {"sink"}
        assert len(labels(figures.scatter(explanation, labels=0))) == 1  # the sink

    def test_a_sink_far_away_is_at_the_border_with_its_numbers(self):
        explanation = explained("a b", [1.0, 2.0], [0.0, 0.0])
        assert "sink" not in labels(figures.scatter(explained("a b", sink=False)))
        assert any(
            text.startswith("sink, further out: (+0.25")
            for text in labels(figures.scatter(explanation))
        )

    def test_errors_reach_one_standard_error_both_ways(self):
        explanation = explained("good bad film", [2.0, -3.0, 0.1], [1.0, 0.5, -1.5], errors=0.001)
        axes = figures.scatter(explanation, errors=True).axes[0]
        arms = [
            segment
            for lines in axes.collections
            if hasattr(lines, "get_segments")
            for segment in lines.get_segments()
        ]
        lengths = sorted(float(np.abs(arm[1] - arm[0]).max()) for arm in arms)
        wanted = [
            2 * error
            for name in ("value", "importance")
            for error in explanation.standard_errors[name]
        ]
        assert np.allclose(lengths, sorted(wanted))

    def test_additive_explanations_have_no_plane(self):
        with pytest.raises(InputError, match="has no importances"):
            figures.scatter(explained(method="linear"))


class TestSources:
    """Figures say what was measured and what was fitted."""

    def test_on_the_axes_of_the_plane(self):
        axes = figures.scatter(made(measured=True)).axes[0]
        assert axes.get_xlabel() == "value, fitted (log odds of positive)"
        assert axes.get_ylabel() == "importance, fitted (log scale)"

    def test_below_bars_which_have_no_errors_where_the_answer_is_exact(self):
        measured = figures.bars(made(measured=True), score="removal").axes[0]
        assert measured.get_xlabel() == f"{TITLES['removal']}, measured (log odds of positive)"
        assert not [lines for lines in measured.collections if hasattr(lines, "get_segments")]
        fitted = figures.bars(made(), score="value").axes[0]
        assert fitted.get_xlabel() == "value, fitted (log odds of positive; bars: 90% intervals)"

    def test_beside_a_coloured_text(self):
        def key(explanation):
            found = [
                text.get_text() for text in texts(figures.highlighted(explanation, score="removal"))
            ]
            return [text for text in found if "measured" in text or "fitted" in text]

        assert key(made(measured=True)) == [f"score: {TITLES['removal']}, measured"]
        assert key(made()) == [f"score: {TITLES['removal']}, fitted"]
        assert key(made(additive=True)) == []
        pieces = (Unit("un", 0, 2), Unit("moved", 2, 7), Unit("film", 8, 12))
        tokens = made("unmoved film", units=pieces, measured=True, granularity="token")
        assert set(key(tokens)) == {
            f"score: {TITLES['removal']}, measured",
            "of words of several tokens: fitted",
        }
        heading = figures.side_by_side([tokens], score="removal").axes[0].get_title()
        assert heading == "slalom\npartly measured; reproduces 93%"

    def test_of_every_panel_and_of_a_corpus(self):
        both = [made(measured=True), made(additive=True)]
        headings = [axes.get_title() for axes in figures.side_by_side(both, score="removal").axes]
        assert headings == ["slalom\nmeasured; reproduces 93%", "linear\nreproduces 70%"]
        corpus = figures.corpus_scatter([made(measured=True), made()]).axes[0]
        assert corpus.get_xlabel().startswith("mean value, fitted (")
        assert corpus.get_ylabel() == "mean importance, fitted (log scale)"


@given(st.integers(1, 40), st.integers(0, 9))
@settings(max_examples=25)
def test_placed_labels_never_overlap(count, seed):
    rng = np.random.default_rng(seed)
    anchors = rng.uniform(0, [600, 350], (count, 2))
    sizes = np.column_stack([rng.uniform(10, 80, count), np.full(count, 12.0)])
    markers = np.column_stack([anchors, np.full(count, 4.0)])
    found = place_labels(
        anchors, sizes, markers, np.array([0.0, 0.0, 600.0, 350.0]), np.zeros((0, 4))
    )
    placed = [box for box in found if box is not None]
    assert overlap_share(placed) == 0
    assert len(placed) >= 0.9 * count
    for box, size in zip(found, sizes, strict=True):
        if box is not None:
            assert np.allclose(box[2:] - box[:2], size)
            assert (box >= -1e-9).all()
            assert (box <= [600 + 1e-9, 350 + 1e-9] * 2).all()


class TestWords:
    # "unwatchable" in three tokens, "film" in one
    pieces = ((0, 2), (2, 7), (7, 11), (12, 16), (16, 17))
    text = "unwatchable film."

    def test_sub_words_become_the_words_of_the_text(self):
        explanation = explained(self.text, units=self.pieces)
        assert [word.text for word in merge_units(explanation)] == ["unwatchable", "film", "."]
        assert unit_labels(explanation) == ["un", "-watch", "-able", "film", "."]

    def test_a_word_has_the_score_of_its_tokens_as_one_unit(self):
        """Tokens joined by hand (summed weights, weighted mean of values) are the same function."""
        values, importances = (
            np.array([1.0, -2.0, 0.5, 3.0, 0.2]),
            np.array([0.4, -0.3, 0.1, 0.8, -1.0]),
        )
        parts = explained(self.text, values, importances, units=self.pieces, sink=False)
        weights = np.exp(parts.importances)
        joined_weights = np.array([weights[:3].sum(), weights[3], weights[4]])
        joined_values = np.array([(weights[:3] * values[:3]).sum() / weights[:3].sum(), 3.0, 0.2])
        whole = explained(
            self.text,
            joined_values,
            np.log(joined_weights),
            units=((0, 11), (12, 16), (16, 17)),
            sink=False,
        )
        # importances of fewer units are normalised anew
        shift = np.log(joined_weights).mean()
        for name in SCORES[:-1]:
            found, wanted = word_scores(parts, merge_units(parts), name), whole.scores(name)
            wanted = (
                wanted + shift
                if name == "importance"
                else wanted * np.exp(shift)
                if name == "linearized"
                else wanted
            )
            if name not in ("shapley",):  # a fair part depends on who plays
                assert np.allclose(found, wanted), name
        assert math.isclose(
            word_scores(parts, merge_units(parts), "shapley").sum(), parts.scores("shapley").sum()
        )

    def test_a_word_of_a_bounded_formula_has_the_mean_of_its_values_behind_the_bound(self):
        units = tuple(Unit(self.text[start:end], start, end) for start, end in self.pieces)
        explanation = made(self.text, units=units, granularity="token")
        found = word_scores(explanation, merge_units(explanation), "value")
        form = explanation.function
        weights = form.importances[:3].exp()
        inner = (weights[:, None] * form.inner_values[:3]).sum(dim=0) / weights.sum()
        assert found[0] == pytest.approx(float(form.bound(inner)))
        assert found[1:] == pytest.approx(explanation.values[3:])
        low, high = explanation.range
        assert (low <= found).all()
        assert (found <= high).all()

    def test_values_are_averaged_before_the_bound(self):
        text = "An unforgettably slow film."
        explanation = Explainer(granularity="token", target=1, budget=60)(text)
        found = merge_units(explanation)
        (word,) = [index for index, one in enumerate(found) if len(one.indices) > 1]
        parts = list(found[word].indices)
        function = explanation.function
        shares = function.importances[parts].softmax(dim=0)
        wanted = function.bound(shares @ function.inner_values[parts])[0]
        value = word_scores(explanation, found, "value")[word]
        assert math.isclose(value, float(wanted), rel_tol=1e-6)

    def test_additive_parts_add_up(self):
        explanation = explained(
            self.text, [1.0, 2.0, 3.0, 4.0, 5.0], units=self.pieces, method="linear"
        )
        assert np.allclose(
            word_scores(explanation, merge_units(explanation), "removal"), [6.0, 4.0, 5.0]
        )

    def test_the_only_word_loses_everything(self):
        explanation = explained("unwatchable", units=self.pieces[:3])
        lost = word_scores(explanation, merge_units(explanation), "removal")
        assert np.allclose(lost, explanation.predict(np.ones((1, 3))) - explanation.base_value)

    @given(st.text(max_size=60))
    def test_every_character_with_a_score_is_in_one_word(self, text):
        explanation = explained(text) if text.split() else None
        if explanation is not None:
            indices = [index for word in merge_units(explanation) for index in word.indices]
            assert sorted(indices) == list(range(len(explanation.units)))


class TestHighlighted:
    def test_the_text_reads_as_written_in_lines_that_fit(self):
        figure = figures.highlighted(explained(REVIEW), width=3.0)
        rows = {}
        for text in texts(figure):
            rows.setdefault(round(text.get_position()[1]), []).append(text)
        lines = [
            "".join(
                text.get_text() for text in sorted(row, key=lambda text: text.get_position()[0])
            )
            for _, row in sorted(rows.items())
        ]
        assert REVIEW.replace(" ", "") in "".join(lines).replace(" ", "")
        assert len(lines) > 4
        assert all(box[2] <= figure.bbox.width for box in boxes(figure, ""))

    def test_boxes_are_as_strong_as_the_scores_and_dashes_are_negative(self):
        explanation = explained("good bad film", [2.0, -3.0, 0.1], [0.0, 0.0, 0.0], errors=0.0)
        axes = figures.highlighted(explanation).axes[0]
        strengths = [float(patch.get_gid()[3:]) for patch in axes.patches][
            :-2
        ]  # the last two are the key
        scores = explanation.scores(DEFAULT_SCORE)
        assert np.allclose(
            strengths,
            (scores / np.abs(scores).max())[np.abs(scores) >= 0.04 * np.abs(scores).max()],
            atol=1e-4,
        )
        assert len(axes.lines) == (scores < 0).sum() + 1

    @pytest.mark.slow
    def test_a_long_text_is_cut_and_says_so(self):
        figure = figures.highlighted(explained("word " * 20_000), score="removal", lines=5)
        (note,) = [text.get_text() for text in texts(figure) if "more words" in text.get_text()]
        shown = len(texts(figure, "word"))
        assert note == f"… and {20_000 - shown} more words"
        assert figure.get_figheight() < 3

    def test_a_word_wider_than_the_page_is_cut_into_lines(self):
        figure = figures.highlighted(explained("x" * 1000), width=2.0)
        assert "".join(text.get_text() for text in texts(figure, "word")) == "x" * 1000
        assert all(box[2] <= figure.bbox.width for box in boxes(figure, "word"))

    def test_words_from_right_to_left_are_in_that_order(self):
        row = [Chunk((Run(text, None),), True) for text in ("שלום", "עולם", "very", "good", "סוף")]
        assert [chunk.text for chunk in visual_order(Line(tuple(row), True))] == [
            "סוף",
            "very",
            "good",
            "עולם",
            "שלום",
        ]
        row = [Chunk((Run(text, None),), True) for text in ("so", "שלום", "עולם", "3", "end")]
        assert [chunk.text for chunk in visual_order(Line(tuple(row), False))] == [
            "so",
            "עולם",
            "שלום",
            "3",
            "end",
        ]

    def test_scripts_without_spaces_break_anywhere(self):
        lines = scored_lines(
            explained("好看的电影很长"), "value", 3.0, lambda text: float(len(text))
        )
        assert [len("".join(chunk.text for chunk in line.chunks)) for line in lines] == [3, 3, 1]

    def test_both_texts_of_a_pair_are_there(self):
        from dataclasses import replace

        explanation = explained("It rains.", units=((0, 2), (3, 8)))
        pair = replace(
            explanation,
            text_pair="Wet street.",
            units=(explanation.units[0], Unit("Wet", 0, 3, (), 1)),
        )
        assert [text.get_text() for text in texts(figures.highlighted(pair), "word")] == [
            "It",
            "Wet",
        ]


class TestBars:
    @pytest.mark.parametrize(
        ("interval", "factor"),
        [(None, 1.0), (0.9, NormalDist().inv_cdf(0.95)), (0.5, NormalDist().inv_cdf(0.75))],
    )
    def test_error_bars_span_what_the_standard_errors_say(self, interval, factor):
        explanation = explained(REVIEW, errors=1e-5)
        axes = figures.bars(explanation, score="value", interval=interval).axes[0]
        names = [tick.get_text() for tick in axes.get_yticklabels()]
        drawn = [patch.get_width() for patch in axes.patches]
        assert drawn == sorted(explanation.values, reverse=True)
        assert sorted(names) == sorted(unit.text for unit in explanation.units)
        (whiskers,) = [lines for lines in axes.collections if hasattr(lines, "get_segments")]
        order = np.argsort(-explanation.values, kind="stable")
        for place, segment in zip(order, whiskers.get_segments(), strict=True):
            error = factor * explanation.standard_errors["value"][place]
            assert np.allclose(
                segment[:, 0],
                [explanation.values[place] - error, explanation.values[place] + error],
            )

    def test_negative_bars_are_hatched(self):
        axes = figures.bars(explained("a b", [1.0, -1.0]), score="value").axes[0]
        assert [bool(patch.get_hatch()) for patch in axes.patches] == [False, True]

    def test_only_the_strongest_of_many(self):
        explanation = explained(" ".join(f"w{place}" for place in range(50)))
        axes = figures.bars(explanation, units=7).axes[0]
        assert len(axes.patches) == 7
        assert axes.get_title(loc="left").startswith("The 7 strongest of 50 tokens")

    @pytest.mark.parametrize("options", [{"units": 0}, {"interval": 1.0}, {"score": "weight"}])
    def test_what_cannot_be_drawn_is_refused(self, options):
        with pytest.raises(InputError):
            figures.bars(explained(), **options)


class TestSideBySide:
    def test_one_panel_for_each_with_the_same_words(self):
        slalom, linear = explained(REVIEW, errors=0.0), explained(REVIEW, method="linear")
        figure = figures.side_by_side([slalom, linear])
        assert [axes.get_title().splitlines()[0] for axes in figure.axes] == ["slalom", "linear"]
        assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == [
            unit.text for unit in slalom.units
        ]
        for axes, explanation in zip(figure.axes, (slalom, linear), strict=True):
            assert np.allclose(
                [patch.get_width() for patch in axes.patches], explanation.scores(DEFAULT_SCORE)
            )

    def test_four_classes_are_told_apart(self):
        explanation = explained(REVIEW, classes=4)
        figure = figures.side_by_side([explanation.for_target(index) for index in range(4)])
        assert [axes.get_title().splitlines()[0] for axes in figure.axes] == [
            f"class {index}" for index in range(4)
        ]

    def test_other_texts_and_other_words_are_refused(self):
        with pytest.raises(InputError, match="explanation 1 is of"):
            figures.side_by_side([explained("a b"), explained("a c")])
        with pytest.raises(InputError, match="other words"):
            figures.side_by_side([explained("a b"), explained("a b", units=((0, 3),))])
        with pytest.raises(InputError, match="nothing to compare"):
            figures.side_by_side([])
        with pytest.raises(InputError, match="titles"):
            figures.side_by_side([explained()], titles=["a", "b"])


class TestWithoutEffect:
    """What cannot be told from noise is grey and has no number."""

    # The effects of "good" and "bad" are far beyond their errors, and that of "film" is not.
    words = ("good", "bad", "film")

    def made(self):
        explanation = explained(" ".join(self.words), [4.0, -4.0, 0.3], [1.0, 1.0, -2.0])
        assert explanation.has_effect.tolist() == [True, True, False]
        return explanation

    def test_on_the_plane_it_is_a_small_circle_without_a_name(self):
        explanation = self.made()
        figure = figures.scatter(explanation)
        assert sorted(labels(figure)) == ["bad", "good", "sink"]
        drawn = {points.get_gid(): points for points in figure.axes[0].collections}
        assert drawn["without"].get_offsets().tolist() == [
            [explanation.values[2], explanation.importances[2]]
        ]
        assert drawn["without"].get_sizes()[0] < min(drawn["up"].get_sizes())
        legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        assert legend == ["argues for yes", "argues against", "without effect"]

    def test_as_a_bar_it_has_no_length(self):
        axes = figures.bars(self.made(), score="value").axes[0]
        names = [tick.get_text() for tick in axes.get_yticklabels()]
        widths = dict(zip(names, [patch.get_width() for patch in axes.patches], strict=True))
        assert widths == {"good": 4.0, "bad": -4.0, "film": 0.0}
        assert names[-1] == "film"
        assert [text.get_text().strip() for text in axes.texts] == ["no effect"]

    def test_where_not_all_find_room_it_is_left_out(self):
        axes = figures.bars(self.made(), units=2).axes[0]
        assert [tick.get_text() for tick in axes.get_yticklabels()] == ["good", "bad"]

    def test_in_the_text_it_has_grey_letters_and_no_box(self):
        figure = figures.highlighted(self.made(), score="importance")
        colours = {text.get_text(): text.get_color() for text in texts(figure, "word")}
        assert colours["good"] == colours["bad"] != colours["film"]
        assert any("without effect" in text.get_text() for text in texts(figure))

    def test_of_a_corpus_only_places_with_an_effect_count(self):
        types = {each.text: each for each in figures.token_types([self.made()])}
        assert [types[word].effects for word in self.words] == [1, 1, 0]
        assert sorted(labels(figures.corpus_scatter([self.made()]))) == ["bad", "good"]

    def test_it_ranks_last_and_has_no_colour(self):
        explanation = self.made()
        assert strongest_units(explanation, 3)[-1] == 2
        assert intensities(explanation)[2] == 0


def test_the_plane_shows_the_ends_of_the_range():
    explanation = Explainer(budget=60)("A slow start, but a wonderful film.")
    axes = figures.scatter(explanation).axes[0]
    ends = {line.get_gid(): line.get_xdata()[0] for line in axes.lines if line.get_gid()}
    assert (ends["lowest"], ends["highest"]) == explanation.range
    low, high = axes.get_xlim()
    assert low < ends["lowest"] < ends["highest"] < high


class TestFidelityCurve:
    def test_errors_are_those_of_the_predictions(self):
        """The fake model is nearly what our method fits, and not at all what a linear one does."""
        explainer = Explainer(Averaging(), budget=150)
        both = [explainer(REVIEW), Explainer(Averaging(), method="linear", budget=150)(REVIEW)]
        slalom, linear = figures.deletion_errors(explainer, both, most=6, rows=15)
        assert slalom.deleted.tolist() == [1, 2, 3, 4, 5, 6]
        assert (slalom.rows == 15).all()
        assert (slalom.mse < 0.1 * linear.mse).all()
        axes = figures.fidelity_curve([slalom, linear]).axes[0]
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["slalom", "linear"]
        for line, curve in zip(
            (container[0] for container in axes.containers), (slalom, linear), strict=True
        ):
            assert np.allclose(line.get_ydata(), curve.mse)
        styles = {
            (container[0].get_marker(), container[0].get_linestyle())
            for container in axes.containers
        }
        assert len(styles) == 2  # told apart without colours

    def test_texts_are_joined_by_method_and_short_ones_count_as_far_as_they_go(self):
        explainer = Explainer(Averaging())
        (curve,) = figures.deletion_errors(
            explainer, explainer(["one two three", "four five six seven"]), rows=50
        )
        assert curve.deleted.tolist() == [1, 2, 3]
        assert curve.rows.tolist() == [3 + 4, 3 + 6, 4]  # all there are

    def test_nothing_to_delete_is_said(self):
        explainer = Explainer(Averaging())
        with pytest.raises(InputError, match="nothing to delete"):
            figures.deletion_errors(explainer, [explainer("word")])
        with pytest.raises(InputError, match="at least one"):
            figures.fidelity_curve([])


class TestCorpus:
    def test_means_over_all_places(self):
        first = explained("good film good", [1.0, 2.0, 3.0], [0.0, 1.0, -1.0], errors=0.0)
        second = explained("good end", [5.0, 0.0], [0.5, -0.5], errors=0.0)
        types = {each.text: each for each in figures.token_types([first, second])}
        assert list(types) == ["good", "film", "end"]
        assert types["good"].count == 3
        assert math.isclose(types["good"].value, 3.0)
        assert math.isclose(types["good"].importance, np.mean([0.0, -1.0, 0.5]))
        assert [each.text for each in figures.token_types([first, second], least=2)] == ["good"]

    def test_the_strongest_are_named(self):
        texts_of = [
            explained(f"good bad film number{place}", [3.0, -3.0, 0.0, 0.1], errors=0.0)
            for place in range(30)
        ]
        figure = figures.corpus_scatter(texts_of, labels=2)
        assert sorted(labels(figure)) == ["bad", "good"]
        assert overlap_share(boxes(figures.corpus_scatter(texts_of), "label-")) == 0

    def test_what_does_not_belong_together_is_refused(self):
        with pytest.raises(InputError, match="use for_target"):
            figures.corpus_scatter([explained(), explained().for_target(0)])
        with pytest.raises(InputError, match="no importances"):
            figures.corpus_scatter([explained(method="linear")])
        with pytest.raises(InputError, match="10 times"):
            figures.corpus_scatter([explained()], least=10)


def every_kind(explanation):
    yield figures.scatter(explanation)
    yield figures.highlighted(explanation)
    yield figures.bars(explanation)
    yield figures.side_by_side([explanation, explanation])
    yield figures.corpus_scatter([explanation])


class TestFiles:
    @HANDLED
    @pytest.mark.slow
    @pytest.mark.parametrize("text", AWKWARD)
    def test_awkward_texts_make_valid_files(self, text, tmp_path):
        for place, figure in enumerate(every_kind(explained(text))):
            assert isinstance(figure, Figure)
            root = ElementTree.parse(figures.save(figure, tmp_path / f"{place}.svg")).getroot()
            assert root.tag.endswith("svg")
            assert (
                figures.save(figure, tmp_path / f"{place}.png").read_bytes().startswith(b"\x89PNG")
            )

    @pytest.mark.slow
    def test_the_same_bytes_twice_without_a_date(self, tmp_path):
        for suffix in ("svg", "pdf", "png"):
            contents = []
            for turn in range(2):
                path = figures.save(
                    figures.scatter(explained(REVIEW)), tmp_path / f"{turn}.{suffix}"
                )
                contents.append(path.read_bytes())
            assert contents[0] == contents[1]
            assert not re.search(rb"CreationDate|<dc:date>", contents[0])

    def test_fonts_are_embedded_in_pdf_and_outlines_in_svg(self, tmp_path):
        pdf = figures.save(figures.highlighted(explained(REVIEW)), tmp_path / "f.pdf").read_bytes()
        assert pdf.startswith(b"%PDF-")
        assert b"/FontFile2" in pdf  # TrueType, which publishers accept
        assert b"/Type3" not in pdf
        streams = [
            zlib.decompress(stream)
            for stream in re.findall(rb"/FlateDecode.*?stream\n(.*?)\nendstream", pdf, re.S)
        ]
        assert any(
            b"Tj" in stream or b"TJ" in stream for stream in streams
        )  # text, to search and to copy
        svg = figures.save(figures.highlighted(explained(REVIEW)), tmp_path / "f.svg").read_text()
        assert "<text" not in svg
        assert "yes: log odds" in svg  # the title, for those who cannot see

    def test_characters_without_a_font_are_named_once(self, tmp_path):
        figure = figures.highlighted(
            explained("good \U0001f9a9 film \ue123")
        )  # the second has no font anywhere
        with pytest.warns(UserWarning, match="no installed font has .*U\\+E123") as caught:
            figures.save(figure, tmp_path / "f.png")
        assert len(caught) == 1

    def test_bad_paths_are_one_line(self, tmp_path):
        figure = figures.bars(explained())
        for path in ("f.jpeg", "f", tmp_path / "none" / "f.svg"):
            with pytest.raises(InputError, match=r"ends in \.svg|cannot write"):
                figures.save(figure, path)

    def test_the_users_settings_stay_and_tokens_are_never_tex(self, tmp_path):
        import matplotlib

        before = dict(matplotlib.rcParams)
        with matplotlib.rc_context(
            {"text.usetex": True, "figure.facecolor": "black", "font.family": ["serif"]}
        ):
            figure = figures.scatter(explained("$\\frac{"))
            figures.save(figure, tmp_path / "f.svg")
        assert figure.get_facecolor() == (1, 1, 1, 1)
        assert texts(figure, "label-")[0].get_fontfamily() == ["serif"]
        assert dict(matplotlib.rcParams) == before

    def test_a_notebook_shows_it(self):
        assert figures.bars(explained())._repr_png_().startswith(b"\x89PNG")

    @pytest.mark.parametrize("count", [1, pytest.param(4000, marks=pytest.mark.long)])
    def test_one_token_and_thousands(self, count):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for figure in every_kind(explained(" ".join(f"w{place}" for place in range(count)))):
                figure.draw_without_rendering()

    @pytest.mark.slow
    def test_matplotlib_is_imported_to_draw_and_one_line_says_when_it_is_missing(self):
        code = (
            "import sys; sys.path.insert(0, 'tests/helpers')\n"
            "from slalom_xai.reports import figures\n"
            "from made import explained\n"
            "assert not any(name.startswith('matplotlib') for name in sys.modules)\n"
            "sys.modules['matplotlib'] = None\n"
            "try: figures.bars(explained())\n"
            "except ValueError as error: print(error)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
        )
        assert "needs the package matplotlib" in done.stdout, done.stderr
        assert done.stdout.count("\n") == 1


def test_every_figure_is_in_the_gallery_with_words_for_those_who_cannot_see_it():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert [name for name in figures.__all__ if name.islower() and f"{name}" not in page] == []
    blocks = re.findall(r"```\{drawn\} (\S+)\n(.*?)```", page, re.S)
    assert len(blocks) >= 7
    for file, block in blocks:
        assert block.startswith(":alt: "), file
        compile(block.split("\n", 1)[1], file, "exec")
