import math

import pytest
import torch
from games import surrogate

from slalom_xai.errors import InputError
from slalom_xai.methods.paper.formula import SlalomSurrogate


def test_two_tokens_by_hand():
    """Weights 3 and 1 average 2 and -2 to 1; a sink of weight 4 and value 0 halves that."""
    values, importances = (
        torch.tensor([[[2.0], [-2.0]]]).double(),
        torch.tensor([[math.log(3.0), 0.0]]).double(),
    )
    both = torch.ones(1, 2)
    assert SlalomSurrogate(values, importances).predict(both).item() == pytest.approx(1.0)
    with_sink = SlalomSurrogate(
        values, importances, torch.zeros(1, 1).double(), torch.tensor([math.log(4.0)]).double()
    )
    assert with_sink.predict(both).item() == pytest.approx(0.5)
    assert with_sink.predict(torch.zeros(1, 2)).item() == 0.0


def test_heads_add():
    two = surrogate(heads=2, classes=3)
    counts = torch.rand(4, 5).double()
    ones = [
        SlalomSurrogate(
            two.values[k : k + 1],
            two.importances[k : k + 1],
            two.sink_values[k : k + 1],
            two.sink_importances[k : k + 1],
        )
        for k in range(2)
    ]
    assert torch.allclose(two.predict(counts), ones[0].predict(counts) + ones[1].predict(counts))


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_gamma_fixes_the_sum_and_not_the_function(gamma):
    known = surrogate()
    moved = known.normalise(gamma)
    assert moved.importances.sum().item() == pytest.approx(gamma)
    counts = torch.rand(10, 5).double()
    assert torch.allclose(known.predict(counts), moved.predict(counts))


def test_an_empty_row_needs_a_sink():
    with pytest.raises(InputError, match="keeps no unit"):
        surrogate(sink=False).predict(torch.zeros(1, 5))
    with_sink = surrogate()
    assert torch.allclose(with_sink.predict(torch.zeros(1, 5))[0], with_sink.empty())
