import numpy as np
import pytest
import torch
from games import surrogate

from slalom_xai.methods.additive import fit_additive
from slalom_xai.methods.held_out import ROW_WEIGHTS, inverse_variance
from slalom_xai.methods.paper.distinct_units import moves_of, standard_errors
from slalom_xai.methods.paper.fit import fit_slalom
from slalom_xai.methods.scores import slalom_score
from slalom_xai.slalom.plan import plan_rows


def design(units, rows, seed=0):
    plan = plan_rows(np.arange(units), rows, 2 * units + 1, np.random.default_rng(seed))
    return torch.tensor(plan.fit).double()


def rms(a, b):
    return float((a - b).pow(2).mean().sqrt())


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_recovers_a_slalom_without_a_sink(classes, seed):
    truth = surrogate(20, classes=classes, sink=False, seed=seed)
    counts = design(20, 400, seed)
    fit = fit_slalom(counts, truth.predict(counts), sink=False, prior=1e-8)
    assert fit.converged
    assert rms(fit.surrogate.values, truth.values) < 1e-4
    assert rms(fit.surrogate.importances, truth.importances) < 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_with_a_sink_predicts_unseen_rows(seed):
    truth = surrogate(30, seed=seed)
    counts, fresh = design(30, 600, seed), design(30, 600, seed + 100)
    fit = fit_slalom(counts, truth.predict(counts), prior=1e-4)
    error = (fit.surrogate.predict(fresh) - truth.predict(fresh)).pow(2).mean()
    assert error < 1e-3 * truth.predict(fresh).var()


def test_values_of_many_classes_sum_to_zero():
    truth = surrogate(8, classes=4)
    counts = design(8, 150)
    outputs = truth.predict(counts)
    outputs = outputs - outputs.mean(dim=1, keepdim=True)
    fit = fit_slalom(counts, outputs)
    assert fit.surrogate.values.sum(dim=2).abs().max() < 1e-8
    assert fit.surrogate.sink_values.sum(dim=1).abs().max() < 1e-8


def test_rows_without_weight_do_not_matter():
    truth = surrogate(10, sink=False)
    counts = design(10, 300)
    outputs = truth.predict(counts)
    spoiled = outputs.clone()
    spoiled[1::5] += 50
    row_weights = torch.ones(len(counts)).double()
    row_weights[1::5] = 1e-12
    fit = fit_slalom(counts, spoiled, row_weights=row_weights, sink=False, prior=1e-8)
    assert rms(fit.surrogate.values, truth.values) < 1e-3


def test_a_constant_output_gives_equal_importances():
    counts = design(6, 63)
    fit = fit_slalom(counts, torch.full((len(counts), 1), 1.5).double())
    assert torch.allclose(fit.surrogate.predict(counts), torch.tensor(1.5).double(), atol=1e-6)
    assert fit.surrogate.importances.abs().max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("score", ["value", "importance", "removal", "shapley"])
def test_standard_errors_match_the_spread_over_repeated_noise(score):
    truth = surrogate(6, seed=5)
    counts = torch.cat([design(6, 63)] * 4)
    clean = truth.predict(counts)
    found, stated = [], []
    for seed in range(60):
        noise = (
            0.05 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed)).double()
        )
        fit = fit_slalom(counts, clean + noise, prior=1e-4)
        found.append(slalom_score(fit.surrogate, score, 0))
        stated.append(standard_errors(fit.surrogate, moves_of(fit), 0)[score])
    ratio = torch.stack(stated).mean(dim=0) / torch.stack(found).std(dim=0)
    assert 0.7 < float(ratio.median()) < 1.4


def test_no_standard_error_where_parameters_use_up_the_rows():
    truth = surrogate(2, sink=False)
    counts = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]).double()
    outputs = truth.predict(counts)
    fit = fit_slalom(counts, outputs, sink=False, prior=1e-10)
    assert standard_errors(fit.surrogate, moves_of(fit), 0)["value"].isnan().all()


def test_weights_follow_the_growth_of_errors():
    deleted = torch.arange(1, 401).double()
    residuals = (deleted * torch.where(torch.arange(400) % 2 == 0, 1.0, -1.0))[:, None]
    ratio = inverse_variance(residuals, deleted)
    assert float(ratio[49] / ratio[199]) == pytest.approx(16**ROW_WEIGHTS.evenness, rel=0.3)


def test_linear_recovers_additive_scores_and_passes_through_the_whole_text():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(15, 2, generator=generator).double()
    counts = design(15, 300)
    full = torch.tensor([3.0, -1.0]).double()
    fit = fit_additive(counts, full - (1 - counts) @ scores, full)
    assert rms(fit.surrogate.unit_scores, scores) < 1e-4
    assert torch.equal(fit.surrogate.predict(torch.ones(1, 15))[0], full)
