"""Adapters on real models: special tokens, padding, limits, loading."""

import threading
import time

import numpy as np
import pytest
import torch
from alike import difference
from fakes import word_scores
from tiny import ARCHITECTURES, SIZE, TEXT, log_odds, tiny
from transformers import BertConfig, BertForSequenceClassification, BertModel

from slalom_xai import Explainer, explain
from slalom_xai.errors import InputError, ModelError
from slalom_xai.models.load import text_model
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.text import words


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_batches_answer_like_single_rows(architecture, side):
    model, tokenizer = tiny(architecture)
    original, tokenizer.padding_side = tokenizer.padding_side, side
    try:
        adapter = text_model(model, tokenizer)
        reading = adapter.read(TEXT)
        rows = [
            reading.compose(np.arange(length)) for length in range(1, len(reading.pieces) + 1, 3)
        ]
        answers = adapter.answer(rows)
    finally:
        tokenizer.padding_side = original
    alone = [log_odds(model, *row) for row in rows]
    assert np.allclose((answers[:, 1] - answers[:, 0]).numpy(), alone, atol=1e-4)
    assert 0 < adapter.probe_calls <= 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_that_ignores_its_mask_is_never_padded(dtype):
    model, tokenizer = tiny("bert")

    class Deaf(type(model)):
        def forward(self, input_ids=None, attention_mask=None, **options):
            return super().forward(input_ids=input_ids, **options)

    deaf = Deaf(model.config)
    deaf.load_state_dict(model.state_dict())
    deaf.eval().to(dtype)
    adapter = text_model(deaf, tokenizer)
    reading = adapter.read(TEXT)
    rows = [reading.compose(np.arange(length)) for length in range(1, len(reading.pieces) + 1)]
    answers = adapter.answer(rows)
    assert np.allclose(
        (answers[:, 1] - answers[:, 0]).numpy(),
        [log_odds(deaf, list(row[0])) for row in rows],
        atol=1e-4,
    )


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "llama"])
def test_a_saved_folder_explains_like_the_model_object(architecture, tmp_path):
    model, tokenizer = tiny(architecture)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    by_object = explain(TEXT, model, tokenizer, budget=200)
    by_folder = explain(TEXT, str(tmp_path), budget=200, device="cpu")
    assert by_folder.model == str(tmp_path)
    assert by_folder.prediction == pytest.approx(by_object.prediction, rel=1e-3, abs=1e-4)
    assert difference(by_folder, by_object) < 0.1


@pytest.mark.parametrize(
    ("architecture", "limit"),
    [
        ("bert", 128),
        pytest.param("roberta", 128, marks=pytest.mark.long),
        ("gpt2", 128),
        pytest.param("llama", 128, marks=pytest.mark.long),
    ],
)
def test_a_text_beyond_the_limit_is_an_error_or_cut_and_reported(architecture, limit):
    model, tokenizer = tiny(architecture)
    text = " ".join([TEXT] * 12)
    length = len(tokenizer(text)["input_ids"])
    assert length > limit
    with pytest.raises(InputError, match=rf"{length} tokens .*at most {limit}.*truncation=True"):
        Explainer(model, tokenizer)(text)
    explanation = Explainer(model, tokenizer, truncation=True, budget=300)(text)
    special = len(tokenizer(text)["input_ids"]) - len(
        tokenizer(text, add_special_tokens=False)["input_ids"]
    )
    assert len(explanation) == limit - special
    assert explanation.left_out
    assert text.endswith(explanation.left_out)
    assert explanation.units[-1].end == len(text) - len(explanation.left_out)


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "modernbert"])
def test_a_tokenizer_may_make_segments_that_the_model_does_not_take(architecture):
    model, (_, tokenizer) = tiny(architecture)[0], tiny("bert")
    assert "token_type_ids" in tokenizer(TEXT)
    explanation = explain(TEXT, model, tokenizer, budget=100, target="good")
    assert explanation.prediction == pytest.approx(
        log_odds(model, tokenizer(TEXT)["input_ids"]), abs=1e-4
    )


def test_units_point_into_the_text():
    text = 'He said: "C\'est la vie" — 👩‍👩‍👧 مرحبا <b>bold</b>\x07\n\tend'
    for architecture in ARCHITECTURES:
        explanation = Explainer(*tiny(architecture), method="occlusion")(text)
        covered = set()
        for unit in explanation.units:
            assert text[unit.start : unit.end] == unit.text
            covered.update(range(unit.start, unit.end))
        assert {i for i, c in enumerate(text) if not c.isspace()} <= covered


def test_two_threads_get_what_each_would_get_alone():
    model, tokenizer = tiny("gpt2")
    texts = [TEXT, " ".join(reversed(TEXT.split()))]
    alone = [Explainer(model, tokenizer, budget=300)(text) for text in texts]
    together: dict[int, object] = {}
    workers = [
        threading.Thread(
            target=lambda i=i: together.update(
                {i: Explainer(model, tokenizer, budget=300)(texts[i])}
            )
        )
        for i in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for one, other in zip([together[0], together[1]], alone, strict=True):
        assert one.prediction == pytest.approx(other.prediction, rel=1e-3, abs=1e-4)
        assert one.calls == other.calls
        assert difference(one, other) < 0.1


def averaging(texts):
    """A probability from words: a softmax average with a sink, so the truth is known."""
    odds = []
    for text in texts:
        values, weights = zip(
            (0.0, 2.0), *(word_scores(unit.text) for unit in words(text)), strict=True
        )
        odds.append(np.average(values, weights=weights))
    p = 1 / (1 + np.exp(-np.array(odds)))
    return np.stack([1 - p, p], axis=1)


def test_a_function_is_explained_by_words():
    text = "An odd slow film, rather wonderful to me but it isn't for everyone!"
    explanation = explain(text, averaging)
    assert [unit.text for unit in explanation.units] == [unit.text for unit in words(text)]
    assert explanation.token_ids == ()
    assert explanation.fidelity.wide.r2 > 0.999
    rows = np.random.default_rng(0).random((50, len(explanation))) < 0.5
    pieces = [
        " ".join(unit.text for unit, kept in zip(explanation.units, row, strict=True) if kept)
        for row in rows
    ]
    true = averaging(pieces)
    assert np.allclose(explanation.predict(rows), np.log(true[:, 1] / true[:, 0]), atol=0.05)


def test_functions_may_return_one_column_logits_tensors_or_many_classes():
    text = "four plain words here now"
    both = explain(text, averaging)
    one = explain(text, lambda texts: averaging(texts)[:, 1], output="probabilities")
    logits = explain(text, lambda texts: torch.tensor(np.log(averaging(texts))), output="logits")
    for other in (one, logits):
        assert difference(other, both) < 1e-2
    three = explain(
        text,
        lambda texts: np.column_stack(
            [averaging(texts)[:, 0], averaging(texts)[:, 1:] / 2, averaging(texts)[:, 1:] / 2]
        ),
    )
    assert three.outputs.kind == "multiclass"
    assert sum(three.for_target(c).values for c in range(3)) == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda texts: np.full((len(texts), 2), np.nan), r"\[nan, nan\].*for 'good film'"),
        (lambda texts: np.full((len(texts), 2), np.inf), r"\[inf, inf\].*for 'good film'"),
        (
            lambda texts: np.zeros((len(texts) + 1, 2)),
            r"returned shape \(2, 2\) for 1 texts, the first 'good film'",
        ),
        (lambda texts: np.zeros((len(texts), 2, 2)), r"shape \(1, 2, 2\)"),
        (lambda texts: [None] * len(texts), "finite|not numbers"),
        (lambda texts: ["yes"] * len(texts), "not numbers"),
        (
            lambda texts: np.tile([0.7, 0.7], (len(texts), 1)),
            r"\[0.7, 0.7\] for 'good film'.*sum to 1.*output=\"logits\"",
        ),
        (lambda texts: np.tile([-3.0, 4.0], (len(texts), 1)), 'output="logits"'),
        (lambda texts: np.tile([0.0, 1.0], (len(texts), 1)), "exactly 0 or 1"),
    ],
)
def test_unusable_answers_show_the_text_and_what_came(function, message):
    with pytest.raises(ModelError, match=message):
        explain("good film", function)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (0.4, r'returned 0.4 for .*may be a probability or not: pass output="probabilities"'),
        (-0.4, r'returned -0.4 for .*no probability: pass output="logits".*cosine'),
        (3, r"returned 3 for .*looks like a label.*predict_proba"),
        (True, r"returned 1 for .*looks like a label.*predict_proba"),
        (93.5, r"returned 93.5 for .*divide percentages by 100"),
        ([93.5, 6.5], r"\[93.5, 6.5\] .*sum to 100 and not to 1: divide percentages by 100"),
        ([0, 1], r"exactly 0 or 1.*decisions.*predict_proba"),
        ("pos", r"returned 'pos' for 'good film', not numbers: .*predict_proba"),
        ({"label": "pos", "score": 0.4}, r"returned a dict of label, score .*not numbers"),
    ],
    ids=str,
)
def test_answers_that_may_mean_something_else_are_refused_as_they_came(answer, said):
    with pytest.raises(ModelError, match=said):
        explain("good film", lambda texts: [answer] * len(texts))


def test_a_score_that_turns_negative_is_no_probability_even_if_the_caller_says_so():
    def cosine(texts):
        return [0.4 if "film" in text else -0.2 for text in texts]

    with pytest.raises(ModelError, match=r'returned -0.2 for \'good\'.*pass output="logits"'):
        explain("good film", cosine, output="probabilities")
    as_it_is = explain("good film", cosine, output="logits")
    assert as_it_is.outputs.kind == "single"
    assert as_it_is.prediction == pytest.approx(0.4)


def test_a_method_that_predicts_labels_names_what_to_pass():
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["good film", "bad film", "good", "bad"]
    pipe = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, [3, 1, 3, 1])
    with pytest.raises(
        ModelError, match=r"returned 3 for 'good film'.*the Pipeline itself, or its predict_proba"
    ):
        explain("good film", pipe.predict)
    assert explain("good film", pipe.predict_proba).prediction > 0


def test_models_without_logits_or_of_another_kind_are_refused():
    model, tokenizer = tiny("bert")
    with pytest.raises(ModelError, match=r"no logits.*classification head"):
        explain("good film", BertModel(model.config), tokenizer)
    with pytest.raises(InputError, match="needs its tokenizer"):
        Explainer(model)
    with pytest.raises(InputError, match="move or cast a model object yourself"):
        Explainer(model, tokenizer, device="cpu")
    with pytest.raises(InputError, match="cannot explain a int"):
        Explainer(3)


def test_an_adapter_is_told_what_it_lacks():
    class Unfinished:
        name = "unfinished"
        outputs = Outputs("binary", ("no", "yes"))
        device = torch.device("cpu")

        def read(self, text, text_pair=None, *, truncation=False, removal="delete"):
            raise NotImplementedError

        def answer(self, rows):
            raise NotImplementedError

        def size(self, row):
            raise NotImplementedError

    message = (
        "cannot explain a Unfinished: it has read and answer, but lacks probe_calls, show; "
        "give it all that TextModel in slalom_xai.models lists"
    )
    with pytest.raises(InputError, match=f"^{message}$"):
        Explainer(Unfinished())


def test_a_folder_without_a_trained_head_is_refused(tmp_path):
    model, tokenizer = tiny("bert")
    BertModel(model.config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"no trained classification head \(missing: classifier"):
        Explainer(str(tmp_path))


@pytest.mark.parametrize("name", ["no/such-model-anywhere", "nothing here"])
def test_a_model_that_cannot_be_found_is_one_line(name):
    with pytest.raises(ModelError, match=f"(there is no folder|from) '{name}'") as caught:
        Explainer(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "problem", "kind"),
    [
        (1, None, "single"),
        (1, "regression", "regression"),
        (2, "regression", "regression"),
        (3, "multi_label_classification", "multilabel"),
        (4, None, "multiclass"),
    ],
)
def test_outputs_of_every_kind_are_explained_from_the_same_calls(labels, problem, kind):
    _, tokenizer = tiny("bert")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=128,
        num_labels=labels,
        problem_type=problem,
        **SIZE,
    )
    model = BertForSequenceClassification(config).eval()
    model.get_input_embeddings().weight.data.mul_(10)
    explanation = Explainer(model, tokenizer, budget=300)(TEXT)
    assert explanation.outputs.kind == kind
    assert explanation.calls <= 300
    logits = (
        model(**tokenizer(TEXT, return_tensors="pt", return_token_type_ids=False))
        .logits[0]
        .detach()
        .double()
    )
    raw = logits - logits.mean() if kind == "multiclass" else logits
    for target in range(labels):
        other = explanation.for_target(target)
        assert other.prediction == pytest.approx(float(raw[target]), abs=1e-5)
        assert other.fidelity.wide.r2 > 0.5
    if kind == "multiclass":
        assert sum(explanation.for_target(c).values for c in range(labels)) == pytest.approx(
            0, abs=1e-8
        )


def test_threads_take_turns_with_a_function():
    inside, most = [0], [0]

    def function(texts):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        inside[0] -= 1
        return [[0.3, 0.7]] * len(texts)

    workers = [
        threading.Thread(target=lambda: explain("some plain words here", function))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most[0] == 1
