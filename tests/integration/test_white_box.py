"""Methods that look inside: gradients, attention and relevance, on models with known answers."""

import copy
import functools
import re
import sys
import threading

import numpy as np
import pytest
import torch
import transformers
from tiny import ARCHITECTURES, TEXT, tiny, tokenizer

import slalom_xai
from slalom_xai import Explainer
from slalom_xai.errors import InputError, ModelError
from slalom_xai.methods import AttentionMean, Gradient, IntegratedGradients, SmoothGrad
from slalom_xai.methods.attention import reading_position, rollout, seen
from slalom_xai.methods.white_box import rounding

GRADIENTS = ("gradient", "integrated-gradients", "smoothgrad")
ATTENTION = ("attention-mean", "attention-max", "attention-rollout")
METHODS = (*GRADIENTS, *ATTENTION, "attn-lrp")
BUDGET = 100
explain = functools.partial(slalom_xai.explain, target=1)  # what is known is known of class 1
architectures = pytest.mark.parametrize("architecture", ARCHITECTURES)


def needs_captum(method):
    if method in GRADIENTS:
        pytest.importorskip("captum.attr")


@pytest.fixture
def captum():
    return pytest.importorskip("captum.attr")


class Bag(torch.nn.Module):
    """Adds up the embeddings; what a token contributes to a logit is its embedding times the head.

    Args:
        bend: a function of the sum, between it and the head.
    """

    def __init__(self, size, classes=2, bend=lambda x: x, probabilities=False):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = torch.nn.Embedding(size, 5, _weight=torch.randn(size, 5, generator=generator))
        self.head = torch.nn.Linear(5, classes)
        self.head.weight.data = torch.randn(classes, 5, generator=generator)
        self.bend = bend
        self.probabilities = probabilities

    def forward(self, input_ids, attention_mask):
        logits = self.head(
            self.bend((self.table(input_ids) * attention_mask[..., None]).sum(dim=1))
        )
        return logits.softmax(dim=1) if self.probabilities else logits

    def contributions(self, ids):
        return (self.table.weight[ids] @ self.head.weight.T).detach().numpy()


def plain_tokenizer():
    return tokenizer({"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}, None)


@pytest.mark.parametrize(
    "method", ["gradient", "integrated-gradients", SmoothGrad(samples=3), "attn-lrp"]
)
@pytest.mark.parametrize("classes", [2, 4])
def test_contributions_to_a_linear_model_are_exact(method, classes):
    needs_captum(method if isinstance(method, str) else method.name)
    own = plain_tokenizer()
    module = Bag(len(own), classes)
    explanation = explain(TEXT, module, own, method=method, budget=BUDGET)
    known = module.contributions(own(TEXT)["input_ids"])
    if classes == 2:
        assert np.allclose(explanation.values, known[:, 1] - known[:, 0], atol=1e-5)
    else:
        for index in range(classes):
            assert np.allclose(
                explanation.for_target(index).values,
                (known - known.mean(axis=1, keepdims=True))[:, index],
                atol=1e-5,
            )
    assert explanation.fidelity.wide.r2 == pytest.approx(1, abs=1e-6)


def test_gradients_are_those_of_autograd(captum):
    own = plain_tokenizer()
    module = Bag(len(own), bend=torch.tanh)
    vectors = module.table.weight[torch.tensor(own(TEXT)["input_ids"])].detach().requires_grad_()
    logits = module.head(torch.tanh(vectors.sum(dim=0)))
    (gradient,) = torch.autograd.grad(logits[1] - logits[0], vectors)
    by_hand = {
        "times-input": (gradient * vectors).sum(dim=1),
        "mean": gradient.mean(dim=1),
        "l1": gradient.abs().sum(dim=1),
        "l2": gradient.norm(dim=1),
    }
    for reduction, known in by_hand.items():
        explanation = explain(
            TEXT, module, own, method=Gradient(reduction=reduction), budget=BUDGET
        )
        assert np.allclose(explanation.values, known.detach().numpy(), atol=1e-5)
        assert ("do not predict deletions" in " ".join(explanation.notes)) == (
            reduction != "times-input"
        )


def test_words_get_the_sum_of_their_tokens(captum):
    model, own = tiny("bert")
    text = "an astonishingly quiet film that grows on nobody in particular"
    tokens, words = (
        explain(text, model, own, method="gradient", budget=BUDGET, granularity=g)
        for g in ("token", "word")
    )
    assert words.values.sum() == pytest.approx(tokens.values.sum(), abs=1e-4)
    assert len(words) < len(tokens)


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "xlnet", "t5", "mamba"])
@pytest.mark.parametrize("baseline", ["zero", "pad", "mask"])
def test_integrated_gradients_add_up_to_the_reported_gap(captum, architecture, baseline):
    model, own = tiny(architecture)
    method = IntegratedGradients(steps=300, baseline=baseline)
    if baseline != "zero" and getattr(own, f"{baseline}_token_id") is None:
        with pytest.raises(
            InputError, match=f'baseline="{baseline}" needs a tokenizer with a {baseline} token'
        ):
            explain(TEXT, model, own, method=method, budget=BUDGET)
        return
    explanation = explain(TEXT, model, own, method=method, budget=BUDGET)
    note = next(note for note in explanation.notes if "baseline" in note)
    change, gap = (
        float(number)
        for number in re.search(
            r"baseline by (\S+); the scores miss this by (\S+)\. ", note
        ).groups()
    )
    assert abs(explanation.values.sum() - change) <= 1.1 * gap + 1e-3 * abs(change)
    assert gap < 0.1 * np.abs(explanation.values).sum()
    if baseline == "mask" and architecture == "bert":  # the baseline is a text, too
        ids = torch.tensor([own(TEXT)["input_ids"]])
        ids[0, 1:-1] = own.mask_token_id
        with torch.no_grad():
            masked = model(input_ids=ids).logits[0].diff()[0]
        assert change == pytest.approx(explanation.prediction - float(masked), abs=1e-2)


def test_passes_over_embeddings_are_told_and_not_counted(captum):
    model, own = tiny("bert")
    explanation = explain(TEXT, model, own, method=IntegratedGradients(steps=20), budget=BUDGET)
    assert "23 passes over embeddings came on top of the calls counted." in explanation.notes
    assert explanation.calls_fit == 0
    assert explanation.calls == explanation.calls_check <= BUDGET


def test_large_scores_of_special_tokens_are_told(captum):
    model, own = tiny("bert")
    explanation = explain(TEXT, model, own, method="gradient", budget=BUDGET)
    assert any(
        re.match(r"Special tokens hold \d+% of the absolute scores", note)
        for note in explanation.notes
    )
    model, own = tiny("gpt2")  # which has none
    assert not any(
        "Special" in note
        for note in explain(TEXT, model, own, method="gradient", budget=BUDGET).notes
    )


def test_smoothgrad_is_seeded_in_every_thread(captum):
    model, own = tiny("gpt2")
    explainers = [
        Explainer(model, own, method="smoothgrad", budget=BUDGET, random_state=seed)
        for seed in (0, 0, 1)
    ]
    found = [None] * 3

    def work(place):
        found[place] = explainers[place](TEXT).values

    threads = [threading.Thread(target=work, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])
    calm = explain(TEXT, model, own, method=SmoothGrad(samples=2, noise=0), budget=BUDGET)
    assert np.allclose(
        calm.values, explain(TEXT, model, own, method="gradient", budget=BUDGET).values, atol=1e-5
    )


def test_rollout_by_hand():
    first = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0, 1]])
    second = torch.tensor([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]])
    # With the residual stream, first becomes [1 0 0; 1/4 3/4 0; 0 0 1] and second
    # [1/2 1/2 0; 0 1/2 1/2; 1/2 0 1/2].
    known = torch.tensor([[5 / 8, 3 / 8, 0], [1 / 8, 3 / 8, 1 / 2], [1 / 2, 0, 1 / 2]])
    assert torch.allclose(rollout(torch.stack([first, second])[:, None]), known)
    heads = torch.stack(
        [torch.stack([2 * first, torch.zeros(3, 3)]), torch.stack([second, second])]
    )  # the mean is the same
    assert torch.allclose(rollout(heads), known)


def test_attention_by_hand():
    attentions = torch.zeros(2, 2, 3, 3)
    attentions[0, 0, 0], attentions[0, 1, 0] = (
        torch.tensor([0.2, 0.8, 0]),
        torch.tensor([0.6, 0.2, 0.2]),
    )
    attentions[1, 0, 0], attentions[1, 1, 0] = (
        torch.tensor([0.4, 0.0, 0.6]),
        torch.tensor([0, 0.5, 0.5]),
    )
    read = torch.tensor([1.0, 0, 0])
    assert torch.allclose(seen(attentions, read), attentions[1, :, 0])
    assert torch.allclose(
        seen(attentions, read, "mean").mean(dim=0), torch.tensor([0.3, 0.375, 0.325])
    )
    assert torch.allclose(
        seen(attentions, read, "mean").amax(dim=0), torch.tensor([0.3, 0.4, 0.35])
    )


@architectures
def test_attention_is_read_where_the_classifier_reads(architecture):
    model, own = tiny(architecture)
    if architecture == "mamba":
        with pytest.raises(InputError, match="does not give its attention weights"):
            explain(TEXT, model, own, method="attention-mean", budget=BUDGET)
        return
    for method in (*ATTENTION, AttentionMean(layers="mean")):
        explanation = explain(TEXT, model, own, method=method, budget=BUDGET)
        assert (explanation.values >= 0).all()
        assert (
            0
            < explanation.values.sum()
            <= (2 if explanation.method == "attention-max" else 1 + 1e-5)
        )
        place = (
            "last"
            if architecture in ("xlnet", "gpt2", "llama", "qwen2", "bloom", "t5", "bart")
            else "first"
        )
        said = [note for note in explanation.notes if "not hidden" not in note]
        assert f"the {place} token" in said[0]
        assert "no sign" in said[1]


def test_the_reading_position_may_be_stated():
    full, causal = torch.full((1, 1, 4, 4), 0.25), torch.full((1, 1, 4, 4), 0.25).tril()
    for stated, known in (("cls", [1, 0, 0, 0]), ("mean", [0.25] * 4)):
        config = transformers.ModernBertConfig(classifier_pooling=stated)
        assert reading_position(config, full)[0].tolist() == known
    assert reading_position(None, causal)[0].tolist() == [0, 0, 0, 1]


def test_attention_is_that_of_the_model():
    model, own = tiny("bert")
    slow = copy.deepcopy(model)
    if hasattr(slow, "set_attn_implementation"):
        slow.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = slow(**own(TEXT, return_tensors="pt"), output_attentions=True).attentions
    known = attentions[-1][0].mean(dim=0)[0, 1:-1]
    assert np.allclose(
        explain(TEXT, model, own, method="attention-mean", budget=BUDGET).values,
        known.numpy(),
        atol=1e-6,
    )


def twice_as_loud(model):
    """The model with twice the logits: every rule of relevance is linear in them."""
    louder = copy.deepcopy(model)
    linear = [part for part in louder.modules() if isinstance(part, torch.nn.Linear)]
    head = [part for part in linear if part.out_features == 2][-1]
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.mul_(2)
    return louder


@architectures
def test_relevance_reaches_the_tokens_of_every_transformer(architecture):
    model, own = tiny(architecture)
    if architecture == "mamba":
        with pytest.raises(
            InputError,
            match="attn-lrp needs a rule for every function of a model, but has none for softplus",
        ):
            explain(TEXT, model, own, method="attn-lrp", budget=BUDGET)
        return
    explanation = explain(TEXT, model, own, method="attn-lrp", budget=BUDGET)
    note = next(note for note in explanation.notes if "relevances" in note)
    reached, output = (
        float(number)
        for number in re.search(r"sum to (\S+), but the output is (\S+):", note).groups()
    )
    assert output == pytest.approx(explanation.prediction, rel=1e-3)
    if architecture in ("gpt2", "qwen2", "bloom"):  # without special tokens the units have it all
        assert explanation.values.sum() == pytest.approx(reached, rel=1e-3)
    largest = np.abs(explanation.values).max()
    assert largest > 0
    louder = explain(TEXT, twice_as_loud(model), own, method="attn-lrp", budget=BUDGET)
    assert np.allclose(louder.values, 2 * explanation.values, atol=1e-4 * largest)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "modernbert"])
def test_relevance_is_whole_in_models_without_biases_and_attention(architecture):
    """Where attention adds nothing: the library's own norms, gates, activations and residuals."""
    model, own = copy.deepcopy(tiny(architecture)[0]), tiny(architecture)[1]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("o_proj.weight", "attn.Wo.weight", "bias")):
                parameter.zero_()
    explanation = explain(TEXT, model, own, method="attn-lrp", budget=BUDGET)
    note = next(note for note in explanation.notes if "relevances" in note)
    reached, output = (
        float(number)
        for number in re.search(r"sum to (\S+), but the output is (\S+):", note).groups()
    )
    assert reached == pytest.approx(output, rel=1e-3)


def test_relevance_is_the_same_for_fused_attention_and_attention_in_steps():
    model, own = tiny("llama")
    if not hasattr(model, "set_attn_implementation"):
        pytest.skip("this transformers cannot switch attention")
    slow = copy.deepcopy(model)
    slow.set_attn_implementation("eager")
    bare = (
        torch.nn.Module()
    )  # not a transformers model: attention stays fused, and the rule for it is used
    bare.inner = copy.deepcopy(model)
    bare.get_input_embeddings = bare.inner.get_input_embeddings
    bare.forward = lambda input_ids, attention_mask: (
        bare.inner(input_ids=input_ids, attention_mask=attention_mask).logits
    )
    found = [
        explain(TEXT, each, own, method="attn-lrp", budget=BUDGET).values
        for each in (model, slow, bare)
    ]
    assert np.allclose(found[0], found[1], atol=1e-5)
    assert np.allclose(found[0], found[2], atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("architecture", ["bert", "gpt2", "llama"])
def test_a_model_is_left_as_it_was(architecture, method):
    needs_captum(method)
    model, own = copy.deepcopy(tiny(architecture)[0]), tiny(architecture)[1]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.train()
    model.base_model.eval()
    next(model.parameters()).requires_grad_(False)

    def state():
        parts = list(model.modules())
        return (
            [part.training for part in parts],
            [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in parts],
            [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()],
            model.config._attn_implementation,
            model.config.pad_token_id,
        )

    with (
        torch.no_grad()
    ):  # transformers leaves hooks of its own the first time attention is asked for
        model(**own(TEXT, return_tensors="pt"), output_attentions=True)
    known = state()
    explain(TEXT, model, own, method=method, budget=BUDGET)
    assert state() == known
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("method", METHODS)
def test_several_classes_at_once(method):
    needs_captum(method)
    torch.manual_seed(0)
    _, own = tiny("gpt2")
    model = transformers.GPT2ForSequenceClassification(
        transformers.GPT2Config(
            vocab_size=len(own), n_positions=128, n_embd=32, n_layer=2, n_head=2, num_labels=3
        )
    ).eval()
    explanation = explain(TEXT, model, own, method=method, budget=BUDGET)
    columns = np.stack([explanation.for_target(index).values for index in range(3)])
    assert columns.shape == (3, len(explanation))
    if method in ATTENTION:
        assert np.array_equal(columns[0], columns[1])
    else:
        assert np.allclose(
            columns.sum(axis=0), 0, atol=1e-4
        )  # centred over classes, as the outputs are


@pytest.mark.parametrize("method", METHODS)
def test_half_precision(method):
    needs_captum(method)
    model, own = tiny("llama")
    half = copy.deepcopy(model).to(torch.float16)
    scores = explain(TEXT, half, own, method=method, budget=BUDGET).values
    known = explain(TEXT, model, own, method=method, budget=BUDGET).values
    assert np.abs(scores - known).max() < 0.1 * np.abs(known).max()
    assert np.corrcoef(scores, known)[0, 1] > 0.999


@pytest.mark.parametrize("method", METHODS)
def test_black_boxes_are_refused(method):
    with pytest.raises(
        InputError, match=f"method '{method}' looks inside the model, but .* can only be asked"
    ):
        explain("some plain words here", lambda texts: [[0.3, 0.7]] * len(texts), method=method)


@pytest.mark.parametrize("method", ["gradient", "attn-lrp"])
def test_functions_of_tokens_and_probabilities_are_refused(method):
    own = plain_tokenizer()
    module = Bag(len(own))
    with pytest.raises(
        InputError, match="is a function, and a method cannot look inside a function"
    ):
        explain(
            TEXT,
            lambda input_ids, attention_mask: module(input_ids, attention_mask),
            own,
            method=method,
            budget=BUDGET,
        )
    likely = Bag(len(own), probabilities=True)
    likely.head.weight.data *= 0.05  # not so sure that it says 0 or 1
    with pytest.raises(InputError, match="give a module that returns logits"):
        explain(TEXT, likely, own, method=method, budget=BUDGET, output="probabilities")


def test_a_module_of_torchs_own_attention_is_refused():
    own = plain_tokenizer()

    class Encoder(Bag):
        def __init__(self, size):
            super().__init__(size)
            self.attention = torch.nn.MultiheadAttention(5, 1, batch_first=True)

        def forward(self, input_ids, attention_mask):
            hidden = self.table(input_ids)
            mixed = self.attention(
                hidden, hidden, hidden, key_padding_mask=attention_mask == 0, need_weights=False
            )[0]
            return self.head(mixed[:, 0])

    with pytest.raises(InputError, match="none for multi_head_attention_forward"):
        explain(TEXT, Encoder(len(own)).eval(), own, method="attn-lrp", budget=BUDGET)


def test_a_missing_captum_is_one_line(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "captum.attr", None
    )  # importing it fails, as it does where it is not installed
    model, own = tiny("bert")
    with pytest.raises(InputError, match=r"needs the package captum.*pip install captum") as caught:
        explain(TEXT, model, own, method="gradient", budget=BUDGET)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gradient(reduction="max"), "unknown reduction 'max': choose one of times-input"),
        (lambda: IntegratedGradients(steps=0), "steps is 0"),
        (lambda: IntegratedGradients(baseline="blank"), "unknown baseline 'blank'"),
        (lambda: SmoothGrad(samples=True), "samples is True"),
        (lambda: SmoothGrad(noise=-1), "noise is -1"),
        (lambda: AttentionMean(layers="first"), "unknown layers 'first'"),
    ],
)
def test_options_are_checked(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_model_that_runs_out_of_memory_when_it_is_looked_into_is_one_line():
    model, words = tiny("bert")
    explainer = Explainer(model, words, method="gradient")

    def full(*_):
        if torch.is_grad_enabled():
            torch.empty(2**60)  # more than any machine has

    hook = model.register_forward_pre_hook(full)
    try:
        with pytest.raises(ModelError, match="takes more memory than there is"):
            explainer("a warm and funny film")
    finally:
        hook.remove()  # other tests share the model


def test_a_gpu_may_round_more_than_a_cpu_and_half_precision_more_than_both():
    """A GPU multiplies in TF32 when asked, with about three digits, and not from within."""
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert rounding(torch.float32, cpu) < 2**-9 < rounding(torch.float32, gpu)
    assert rounding(torch.float32, gpu) < rounding(torch.bfloat16, gpu)
    assert rounding(torch.bfloat16, gpu) == rounding(torch.bfloat16, cpu)
