import numpy as np
import pytest
import torch
from fakes import Averaging

from slalom_xai.errors import BudgetError, InputError, ModelError
from slalom_xai.explainer import Explainer
from slalom_xai.methods.base import attributed
from slalom_xai.models import prompt
from slalom_xai.queries import Batches, Queries

TEXT = " ".join(f"w{index}" for index in range(40))


def queries(model, budget=1000, tokens=None):
    return Queries(Batches(model, tokens), prompt(model.read(TEXT), "token"), budget=budget)


def random_rows(rows, seed=0):
    masks = np.random.default_rng(seed).random((rows, 40)) < 0.5
    masks[:, 0] = True
    return masks


def test_each_distinct_row_is_asked_once_and_counted():
    model = Averaging()
    asking = queries(model)
    masks = random_rows(50)
    first = asking.ask(masks)
    again = asking.ask(np.concatenate([masks, masks]), "check")
    assert torch.equal(again, torch.cat([first, first]))
    assert (asking.calls_fit, asking.calls_check, asking.calls) == (50, 0, 50)
    assert len(model.asked) == len(set(model.asked)) == 50
    asking.ask(random_rows(10, seed=1), "check")
    assert (asking.calls_fit, asking.calls_check) == (50, 10)


def test_a_row_that_is_looked_at_and_then_fitted_counts_as_fitted_once():
    asking = queries(Averaging())
    asking.ask(random_rows(5), "check")
    asking.ask(random_rows(5), "fit")
    asking.ask(random_rows(5), "check")
    assert (asking.calls_fit, asking.calls_check) == (5, 0)


def test_the_budget_is_never_passed():
    model = Averaging()
    asking = queries(model, budget=20)
    with pytest.raises(BudgetError, match="budget is 20"):
        asking.ask(random_rows(21))
    assert not model.asked


def test_batches_hold_rows_of_similar_length_under_the_token_budget():
    model = Averaging()
    queries(model, tokens=100).ask(random_rows(60))
    assert all(max(lengths) * len(lengths) <= 100 for lengths in model.batches)
    everything = [length for lengths in model.batches for length in lengths]
    assert everything == sorted(everything, reverse=True)


@pytest.mark.parametrize("limit", [40, 77, 200])
@pytest.mark.parametrize(
    "raises",
    [
        MemoryError("no"),
        RuntimeError("CUDA out of memory. Tried to allocate"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_out_of_memory_changes_nothing_but_the_batches(limit, raises):
    calm = Explainer(Averaging(), budget=300)(TEXT)
    model = Averaging(limit=limit, error=raises)
    explainer = Explainer(model, budget=300)
    with pytest.warns(RuntimeWarning, match="did not fit into memory.* batch_tokens=") as told:
        troubled = explainer(TEXT)
    assert len(told) == 1  # once, however often batches are halved
    assert model.refused
    assert troubled == calm
    before = model.refused
    explainer(TEXT)
    assert model.refused == before  # the smaller batch is remembered


def test_a_row_that_never_fits_is_an_error():
    with pytest.raises(ModelError, match="one row of 40 tokens does not fit into memory"):
        Explainer(Averaging(limit=10), budget=300)(TEXT)


def test_other_errors_of_the_model_are_not_taken_for_memory():
    with pytest.raises(ModelError, match=r"averaging failed on .*RuntimeError: broken"):
        Explainer(Averaging(limit=50, error=RuntimeError("broken")), budget=300)(TEXT)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_answers_that_are_not_finite_are_refused_with_the_text(bad):
    with pytest.raises(ModelError, match=r"for 'w.*finite"):
        Explainer(Averaging(spoil=("w7", bad)), budget=300)(TEXT)


@pytest.mark.parametrize(
    ("spoil", "returned"),
    [
        (lambda logits: logits.tolist(), "a list"),
        (lambda logits: logits[:, 0], r"a tensor of shape \(1,\)"),
        (lambda logits: logits[:, :1], r"a tensor of shape \(1, 1\)"),
        (lambda logits: torch.cat([logits, logits]), r"a tensor of shape \(2, 2\)"),
    ],
)
def test_answers_of_another_type_or_shape_are_refused(spoil, returned):
    class Spoilt(Averaging):
        def answer(self, rows):
            return spoil(super().answer(rows))

    message = (
        rf"averaging returned {returned}, but a tensor of shape \(1, 2\) was expected: "
        r"return logits for each row asked, one number per label \(no, yes\)"
    )
    with pytest.raises(ModelError, match=f"^{message}$"):
        queries(Spoilt()).ask_whole()


@pytest.mark.parametrize(
    ("scores", "given"),
    [
        (np.zeros((40, 1)), "of type ndarray"),
        (torch.zeros(40), r"a tensor of shape \(40,\)"),
        (torch.zeros(40, 2), r"a tensor of shape \(40, 2\)"),
    ],
)
def test_scores_of_another_type_or_shape_are_refused(scores, given):
    message = (
        rf"scores is {given}: give attributed a tensor of shape \(40, 1\), "
        "with a row for each unit and a number for each explained column"
    )
    with pytest.raises(InputError, match=f"^{message}$"):
        attributed(queries(Averaging()), scores, np.random.default_rng(0))


@pytest.mark.parametrize(("text", "units"), [("good", "1 unit"), ("good film", "2 units")])
def test_a_result_counts_its_units_in_words(text, units):
    assert f", {units}, slalom>" in repr(Explainer(Averaging(), budget=30)(text))
