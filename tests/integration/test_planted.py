"""A real transformer that is a SLALOM, through the ordinary adapter: the truth must come out."""

import numpy as np
import pytest
import torch
from marks import long_if
from planted import plant

from slalom_xai import Explainer
from slalom_xai.methods import SlalomEff, SlalomExact, SlalomFidel

CLOSE = 0.05  # of the spread, which is 2 for values and 1 for importances


def planted(types, folder, seed, classes=2):
    """Values, importances and the model's folder.

    Values are (types,) of the log odds, or (types, classes) of the centred logits.
    """
    generator = torch.Generator().manual_seed(seed)
    values = 2 * torch.randn(*([types] if classes == 2 else [types, classes]), generator=generator)
    importances = torch.randn(types, generator=generator)
    folder = plant(values, importances, folder)
    if classes > 2:
        values = values - values.mean(dim=1, keepdim=True)
    return values.double().numpy(), importances.double().numpy(), folder


def found_values(explanation, classes):
    if classes == 2:
        return explanation.values
    return np.stack([explanation.for_target(index).values for index in range(classes)], axis=1)


def rms(found, true):
    return float(np.sqrt(np.mean((found - true) ** 2)))


def text_of(places):
    return " ".join(f"t{place}" for place in places)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("types", [4, 20, 60])
def test_slalom_recovers_values_and_importances(types, seed, tmp_path):
    values, importances, folder = planted(types, tmp_path, seed)
    explanation = Explainer(str(folder), target="yes", random_state=seed)(text_of(range(types)))
    assert [unit.text for unit in explanation.units] == [f"t{index}" for index in range(types)]
    assert explanation.sink[1] < explanation.importances.min() - 3  # what is missing is not heard
    assert explanation.range is None  # and nothing bounds the output
    assert rms(explanation.values, values) < 2 * CLOSE
    assert rms(explanation.importances, importances - importances.mean()) < 1.5 * CLOSE
    assert explanation.fidelity.any.r2 > 0.999
    if types >= 20:
        assert explanation.fidelity.linear.any.r2 < 0.99


def test_slalom_predicts_a_long_planted_text(tmp_path):
    """Of 200 words in as many hundred calls, single scores are known less well."""
    values, importances, folder = planted(200, tmp_path, 0)
    explanation = Explainer(str(folder), target="yes")(text_of(range(200)))
    assert explanation.fidelity.any.r2 > 0.999
    assert np.corrcoef(explanation.values, values)[0, 1] > 0.95
    assert np.corrcoef(explanation.importances, importances)[0, 1] > 0.95


@pytest.mark.parametrize("types", [2, 3])
def test_every_perturbed_text_of_a_few_words_is_reproduced(types, tmp_path):
    """So few outputs leave open which values and importances they came from."""
    values, importances, folder = planted(types, tmp_path, 0)
    explanation = Explainer(str(folder), target="yes")(text_of(range(types)))
    assert explanation.calls == 2**types - 1
    assert explanation.trust.startswith("Not tested: the text has so few perturbed texts")
    keep = np.array([row for row in np.ndindex(*[2] * types) if any(row)], dtype=float)
    weights = keep * np.exp(importances)
    assert explanation.predict(keep) == pytest.approx(
        weights @ values / weights.sum(axis=1), abs=1e-2
    )


@pytest.mark.parametrize("types", [5, 20])
def test_slalom_recovers_four_classes(types, tmp_path):
    values, importances, folder = planted(types, tmp_path, 0, classes=4)
    explanation = Explainer(str(folder))(text_of(range(types)))
    assert rms(found_values(explanation, 4), values) < 2 * CLOSE
    assert rms(explanation.importances, importances - importances.mean()) < 1.5 * CLOSE


@pytest.mark.parametrize("granularity", ["word", "type"])
def test_repeated_words_get_the_scores_of_their_type(granularity, tmp_path):
    values, importances, folder = planted(20, tmp_path, 0)
    places = np.random.default_rng(0).integers(0, 20, 60)
    explanation = Explainer(str(folder), target="yes", granularity=granularity)(text_of(places))
    if granularity == "type":
        places = np.array([int(unit.text[1:]) for unit in explanation.units])
        assert len(set(places)) == len(places)
    assert explanation.fidelity.any.r2 > 0.999
    assert rms(explanation.values, values[places]) < 2 * CLOSE
    assert rms(explanation.importances, importances[places] - importances[places].mean()) < CLOSE


@pytest.mark.parametrize("classes", [2, 4])
def test_the_planted_model_is_a_slalom(classes, tmp_path):
    """The construction itself, against the formula: otherwise the tests here prove nothing."""
    values, importances, folder = planted(6, tmp_path, 1, classes)
    explainer = Explainer(str(folder))
    logits = (
        explainer.model.answer([explainer.model.read("t0 t3 t3 t5").compose(np.arange(4))])[0]
        .double()
        .cpu()
        .numpy()
    )
    kept = [0, 3, 3, 5]
    expected = np.average(values[kept], axis=0, weights=np.exp(importances[kept]))
    assert len(logits) == classes
    np.testing.assert_allclose(
        logits[1] - logits[0] if classes == 2 else logits - logits.mean(), expected, atol=1e-5
    )


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("types", long_if([200], [2, 20, 200]))
@pytest.mark.parametrize("method", ["slalom-eff", "slalom-exact", "slalom-fidel"])
def test_the_papers_estimators_recover_values_and_importances(method, types, classes, tmp_path):
    values, importances, folder = planted(types, tmp_path, 0, classes)
    # a few deletions of 200 tokens say so little of each that single precision would drown it
    dtype = "float64" if method == "slalom-fidel" and types == 200 else None
    explanation = Explainer(str(folder), method=method, granularity="token", target=1, dtype=dtype)(
        text_of(range(types))
    )
    assert explanation.sink is None
    assert rms(found_values(explanation, classes), values) < 1e-3
    assert rms(explanation.importances, importances - importances.mean()) < 1e-2
    if method == "slalom-exact":
        assert explanation.calls_fit == 2 * types - 1
        assert explanation.notes == ()


@pytest.mark.parametrize("granularity", ["token", "type"])
@pytest.mark.parametrize(
    "method",
    [
        SlalomEff(),
        pytest.param(SlalomEff(solver="sgd"), marks=pytest.mark.long),
        SlalomExact(),
    ],
)
def test_the_papers_estimators_recover_distinct_tokens(method, granularity, tmp_path):
    values, importances, folder = planted(12, tmp_path, 3)
    places = np.concatenate([np.arange(12), [0, 0, 5, 7]])
    explanation = Explainer(str(folder), method=method, granularity=granularity, target=1)(
        text_of(places)
    )
    expected = places if granularity == "token" else np.arange(12)
    assert len(explanation) == len(expected)
    values_within, importances_within = (2e-2, 2e-2) if "sgd" in repr(method) else (1e-3, 1e-2)
    assert rms(explanation.values, values[expected]) < values_within
    assert (
        rms(explanation.importances, importances[expected] - importances[expected].mean())
        < importances_within
    )
    assert explanation.fidelity.wide.r2 > 0.999
    if isinstance(method, SlalomExact):
        assert explanation.calls_fit == 2 * 12 - 1
        assert explanation.notes == ()


@pytest.mark.parametrize("solver", ["gauss-newton", "alternating"])
def test_fidel_predicts_a_few_deletions(solver, tmp_path):
    _, _, folder = planted(15, tmp_path, 4)
    explanation = Explainer(str(folder), method=SlalomFidel(solver=solver), budget=600)(
        text_of(range(15))
    )
    assert explanation.fidelity.local.r2 > (0.999 if solver == "gauss-newton" else 0.5)


def test_slalom_eff_can_do_without_a_test_and_says_so():
    """No row is then as long as the text but the text itself."""
    words = [f"w{number}" for number in range(30)]
    longest = []

    def model(texts):
        longest.extend(len(text.split()) for text in texts)
        return [[0.0, text.split().count("w3")] for text in texts]

    untested = SlalomEff(tested=False)
    found = Explainer(model, method=untested, budget=200, output="logits")(" ".join(words))
    assert sorted(longest)[-3:-1] == [2, 2]
    assert found.fidelity is None
    assert found.trust.startswith("Not tested")
    assert any("tested=False" in note for note in found.notes)
