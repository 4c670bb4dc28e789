"""A sink that is always there, told as one that stands for what is missing: ``docs/theory.md``."""

import numpy as np
import torch

from slalom_xai.surrogates.formula import SlalomSurrogate, TwoScores


def test_two_scores_read_from_a_slalom_with_a_sink_are_that_slalom_up_to_the_texts_length():
    rng = np.random.default_rng(0)
    units = 6
    values, importances = (
        torch.tensor(rng.normal(0, 3, units)),
        torch.tensor(rng.normal(0, 1, units)),
    )
    sink_value, sink_importance = torch.tensor(0.7), torch.tensor(1.1)
    slalom = SlalomSurrogate(
        values[None, :, None],
        importances[None],
        sink_value.reshape(1, 1).double(),
        sink_importance.reshape(1).double(),
    )
    filled = slalom.predict(units * torch.eye(units).double())
    shared = torch.log(torch.exp(importances) + torch.exp(sink_importance) / units)
    two = TwoScores(filled, shared, sink_value.reshape(1).double(), sink_importance.double())
    counts = torch.tensor(rng.integers(0, 3, (400, units)), dtype=torch.float64)
    counts = counts[counts.sum(dim=1) <= units]
    assert bool((counts > 1).any())
    assert bool((counts.sum(dim=1) == units).any())
    torch.testing.assert_close(two.predict(counts), slalom.predict(counts))
    longer = torch.full((1, units), 2.0, dtype=torch.float64)
    assert float((two.predict(longer) - slalom.predict(longer)).abs()) > 0.01
