"""Models that are no transformers classifiers: pipelines, torch modules, scikit-learn, ONNX."""

import warnings

import numpy as np
import pytest
import torch
import transformers
from alike import difference
from fakes import word_scores
from tiny import SIZE, TEXT, MambaClassifier, log_odds, tiny, tokenizer
from transformers import pipeline

from slalom_xai import Explainer, explain
from slalom_xai.errors import InputError, ModelError
from slalom_xai.models.text import words

TEXTS = [
    "a warm and funny film",
    "dull loud and long",
    "funny and moving",
    "a long mess",
    "warm and quiet",
    "loud and dull mess",
]
JUDGED = ["good", "bad", "good", "bad", "good", "bad"]


class Averaging(torch.nn.Module):
    """Averages a value per token under a weight per token: a SLALOM of its own making.

    Args:
        listens: whether it leaves out what the mask says.
    """

    def __init__(self, size, classes=2, listens=True):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.values = torch.nn.Embedding(
            size, classes, _weight=2 * torch.randn(size, classes, generator=generator)
        )
        self.weights = torch.nn.Embedding(
            size, 1, _weight=torch.randn(size, 1, generator=generator)
        )
        self.listens = listens

    def forward(self, input_ids, attention_mask):
        weights = self.weights(input_ids)[..., 0].exp() * (attention_mask if self.listens else 1)
        return (weights[..., None] * self.values(input_ids)).sum(dim=1) / weights.sum(
            dim=1, keepdim=True
        )


def plain_tokenizer():
    return tokenizer({"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}, None)


def test_a_torch_module_is_explained_and_left_alone():
    own = plain_tokenizer()
    module = Averaging(len(own)).train()
    explanation = Explainer(module, own, target=1)(TEXT)
    ids = torch.tensor(own(TEXT)["input_ids"])
    values, weights = module.values.weight[ids].detach(), module.weights.weight[ids, 0].detach()
    assert np.allclose(explanation.values, (values[:, 1] - values[:, 0]).numpy(), atol=0.05)
    assert np.allclose(explanation.importances, (weights - weights.mean()).numpy(), atol=0.05)
    assert explanation.model == "Averaging"
    assert explanation.target == "1"
    assert module.training


def test_a_module_may_give_probabilities_four_classes_or_an_object_with_logits():
    own = plain_tokenizer()
    module = Averaging(len(own), classes=4)
    four = explain(TEXT, module, own)
    assert four.outputs.labels == ("0", "1", "2", "3")
    softmax = explain(
        TEXT,
        lambda input_ids, attention_mask: module(input_ids, attention_mask).softmax(dim=1),
        own,
        output="probabilities",
    )
    wrapped = explain(
        TEXT,
        lambda **inputs: transformers.utils.ModelOutput(
            logits=module(inputs["input_ids"], inputs["attention_mask"])
        ),
        own,
    )
    for other in (softmax, wrapped):
        assert difference(other, four) < 1e-2


def test_a_module_that_ignores_the_mask_is_refused_in_one_line():
    own = plain_tokenizer()
    deaf = Averaging(len(own), listens=False)
    with pytest.raises(
        ModelError,
        match=r"Averaging ignores attention_mask: .* alone, "
        r"but .* padded to \d+ tokens; mask the padding",
    ) as caught:
        explain(TEXT, deaf, own)
    assert "\n" not in str(caught.value)
    alone = explain(TEXT, deaf, own, batch_tokens=1)
    assert difference(alone, explain(TEXT, Averaging(len(own)), own)) < 1e-2


def test_a_mamba_with_a_head_of_our_own():
    model, own = tiny("mamba")
    assert isinstance(model, MambaClassifier)
    explanation = explain(TEXT, model, own, budget=600, target=1)
    assert explanation.prediction == pytest.approx(
        log_odds(model, own(TEXT)["input_ids"]), abs=1e-4
    )
    assert explanation.fidelity.local.r2 > 0.8


def test_a_pipeline_is_its_model_and_tokenizer():
    model, own = tiny("bert")
    pipe = pipeline("text-classification", model=model, tokenizer=own)
    by_pipe = Explainer(pipe, budget=200)(TEXT)
    assert difference(by_pipe, Explainer(model, own, budget=200)(TEXT)) < 0.1
    sigmoid = pipeline(
        "text-classification", model=model, tokenizer=own, function_to_apply="sigmoid"
    )
    assert Explainer(sigmoid, budget=200)(TEXT).outputs.kind == "multilabel"


def test_a_pipeline_of_another_task_is_refused():
    _, own = tiny("bert")
    config = transformers.BertConfig(vocab_size=len(own), max_position_embeddings=128, **SIZE)
    other = pipeline("fill-mask", model=transformers.BertForMaskedLM(config), tokenizer=own)
    with pytest.raises(InputError, match=r"task is 'fill-mask'.*text-classification"):
        Explainer(other)


@pytest.mark.parametrize("last", ["logistic", "bayes", "svm", "three", "forest", "ridge"])
def test_scikit_learn_pipelines(last):
    pytest.importorskip("sklearn")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    models = {
        "logistic": LogisticRegression(),
        "bayes": MultinomialNB(),
        "svm": LinearSVC(),
        "three": LogisticRegression(),
        "forest": RandomForestClassifier(n_estimators=1, random_state=0),
        "ridge": Ridge(),
    }
    labels = {
        "three": ["good", "bad", "good", "bad", "so", "bad"],
        "ridge": [1.0, -1.0, 2.0, -2.0, 0.5, -2.5],
    }.get(last, JUDGED)
    model = make_pipeline(CountVectorizer(), models[last]).fit(TEXTS, labels)
    text = "a warm but loud film and funny too"
    if last == "forest":  # a leaf of one class says 0 or 1
        with pytest.raises(ModelError, match=r"RandomForestClassifier returned.*exactly 0 or 1"):
            explain(text, model)
        return
    explanation = explain(text, model)
    if last == "three":
        assert explanation.outputs.labels == ("bad", "good", "so")
    elif last == "ridge":
        assert explanation.prediction == pytest.approx(model.predict([text])[0])
    else:
        assert explanation.outputs.labels == ("bad", "good")
        true = (
            model.decision_function([text])[0]
            if last != "bayes"
            else np.diff(model.predict_log_proba([text])[0])[0]
        )
        assert explanation.prediction == pytest.approx(true)
    assert explanation.fidelity.wide.r2 > 0.99  # all but the forest add up words
    if last == "svm":
        with pytest.raises(
            InputError, match='LinearSVC has no predict_proba, which output="probabilities" needs'
        ):
            explain(text, model, output="probabilities")


def test_a_scikit_learn_model_without_a_vectorizer_says_what_is_missing():
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(ModelError, match=r"LogisticRegression failed on 'a text'.*list of texts"):
        explain("a text", LogisticRegression().fit([[0.0], [1.0]], [0, 1]))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The tiny BERT as an ONNX file beside its configuration and tokenizer."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    folder = tmp_path_factory.mktemp("onnx")
    model, own = tiny("bert")
    names = ("input_ids", "attention_mask", "token_type_ids")
    example = tuple(torch.ones(2, 6, dtype=torch.long) for _ in names)
    free = {0: torch.export.Dim("rows"), 1: torch.export.Dim("tokens")}
    with warnings.catch_warnings():  # torch's exporter warns about torch
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model,
            example,
            dynamo=True,
            input_names=names,
            output_names=["logits"],
            dynamic_shapes=(free,) * 3,
            verbose=False,
        )
    program.save(folder / "model.onnx")
    model.config.save_pretrained(folder)
    own.save_pretrained(folder)
    return folder


def test_onnx_runtime_answers_like_the_model(exported):
    import onnxruntime

    model, own = tiny("bert")
    true = explain(TEXT, model, own, budget=300, removal="delete", target=1)
    by_folder = explain(TEXT, str(exported), budget=300, target=1)
    assert by_folder.target == "good"
    assert difference(by_folder, true) < 0.1
    assert by_folder.prediction == pytest.approx(true.prediction, abs=1e-3)
    session = onnxruntime.InferenceSession(
        str(exported / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    by_session = explain(TEXT, session, own, budget=300, target=1)
    assert by_session.outputs.labels == ("0", "1")
    assert by_session.prediction == pytest.approx(true.prediction, abs=1e-3)
    with pytest.raises(InputError, match="needs its tokenizer"):
        Explainer(session)
    with pytest.raises(InputError, match="no CUDAExecutionProvider"):
        Explainer(str(exported / "model.onnx"), device="cuda")


def test_a_damaged_onnx_file_is_one_line(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    model, own = tiny("bert")
    model.config.save_pretrained(tmp_path)
    own.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot open .*model\.onnx") as caught:
        Explainer(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_tokenizer_that_is_not_the_models_own_is_refused():
    model, own = tiny("bert")
    larger = tokenizer({"pad_token": "[PAD]", "unk_token": "[UNK]"}, None)
    larger.add_tokens([f"extra{number}" for number in range(500)])
    with pytest.raises(
        InputError,
        match=rf"knows {len(larger)} tokens, but the model knows {len(own)}: "
        "it belongs to another model",
    ):
        Explainer(model, larger)
    config = transformers.RobertaConfig(vocab_size=4000, max_position_embeddings=130, **SIZE)
    with pytest.raises(
        InputError,
        match=r"knows \d+ tokens, but the model knows 4000, "
        r"and they disagree on pad_token_id \(0 and 1\)",
    ):
        Explainer(transformers.RobertaForSequenceClassification(config), own)
    with pytest.raises(ModelError, match="cannot load a tokenizer from 'bert-of-nowhere'"):
        Explainer(model, "bert-of-nowhere")


def test_a_tokenizer_may_be_named(tmp_path):
    model, own = tiny("bert")
    own.save_pretrained(tmp_path)
    assert (
        difference(
            explain(TEXT, model, str(tmp_path), budget=200), explain(TEXT, model, own, budget=200)
        )
        < 0.1
    )


@pytest.mark.parametrize("given", ["bert", "pipeline", None])
def test_output_is_for_functions_and_modules(given):
    model, own = tiny("bert")
    what = {
        "bert": (model, own),
        "pipeline": (pipeline("text-classification", model=model, tokenizer=own), None),
    }.get(given, (None, None))
    with pytest.raises(
        InputError, match='output="probabilities" is only for functions and modules'
    ):
        Explainer(*what, output="probabilities")
    with pytest.raises(
        InputError, match="unknown output 'percent': choose one of auto, probabilities, logits"
    ):
        Explainer(*what, output="percent")


def odds(texts):
    found = []
    for text in texts:
        values, weights = zip(
            (0.0, 2.0), *(word_scores(unit.text) for unit in words(text)), strict=True
        )
        found.append(np.average(values, weights=weights))
    return np.stack([np.zeros(len(found)), found], axis=1)


def test_words_without_spaces_are_characters_and_the_result_says_so():
    text = "電影 is 很好看 ภาษา"
    explanation = explain(text, odds, output="logits")
    assert [unit.text for unit in explanation.units] == [
        "電",
        "影",
        "is",
        "很",
        "好",
        "看",
        "ภ",
        "า",
        "ษ",
        "า",
    ]
    assert explanation.notes == (
        "Parts of the text are written without spaces: there, every character counts as a word.",
    )
    assert explanation.fidelity.wide.r2 > 0.99
    assert explain("plain words only", odds, output="logits").notes == ()
