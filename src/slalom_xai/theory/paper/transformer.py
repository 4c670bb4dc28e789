"""The transformer of the paper's App. B.1, and the weights that make it a given SLALOM (Proposition 5.1, mended)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from slalom_xai.surrogates.formula import SlalomSurrogate


class PlainTransformer(torch.nn.Module):
    """Attention and feed-forward layers with skip connections, no layer norm, no positions (Eqs. 7 to 13).

    All weights start at zero, which forwards every embedding unchanged. Matrices act from the left,
    as in App. B.5.

    Args:
        tokens: how many kinds there are.
        width: of an embedding.
        outputs: how many numbers come out: one for log odds, one per class for logits.
        layers: how many.
        heads: of each layer; each is as wide as an embedding.
        causal: a decoder: tokens see what is before them and the last one is read; else all see all
            and the first is read.
    """

    def __init__(
        self,
        tokens: int,
        width: int,
        outputs: int,
        *,
        layers: int = 1,
        heads: int = 1,
        causal: bool = False,
    ) -> None:
        super().__init__()

        def weight(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.zeros(*shape, dtype=torch.float64))

        self.causal = causal
        self.embedding = weight(tokens, width)
        self.query, self.key, self.value, self.project = (
            weight(layers, heads, width, width) for _ in range(4)
        )
        self.query_bias, self.key_bias, self.value_bias = (
            weight(layers, heads, width) for _ in range(3)
        )
        self.inner, self.outer = weight(layers, 2 * width, width), weight(layers, width, 2 * width)
        self.classifier = weight(outputs, width)

    def forward(self, ids: Tensor) -> Tensor:
        """Token ids (m, n) to outputs (m, outputs)."""
        hidden = self.embedding[ids]
        for layer in range(len(self.query)):
            mixed = torch.einsum(
                "hed,mhnd->mne",
                self.project[layer],
                self.attention(hidden, layer) @ self._values(hidden, layer),
            )
            hidden = hidden + mixed
            hidden = hidden + torch.relu(hidden @ self.inner[layer].T) @ self.outer[layer].T
        return hidden[:, -1 if self.causal else 0] @ self.classifier.T

    def attention(self, hidden: Tensor, layer: int) -> Tensor:
        """The attention weights (m, heads, n, n) of a layer for embeddings (m, n, d) (Eq. 10)."""
        queries = (
            torch.einsum("hed,mnd->mhne", self.query[layer], hidden)
            + self.query_bias[layer][:, None]
        )
        keys = (
            torch.einsum("hed,mnd->mhne", self.key[layer], hidden) + self.key_bias[layer][:, None]
        )
        logits = queries @ keys.transpose(-1, -2) / math.sqrt(hidden.shape[-1])
        if self.causal:
            logits = logits.masked_fill(torch.ones(logits.shape[-2:]).triu(1).bool(), -math.inf)
        return torch.softmax(logits, dim=-1)

    def _values(self, hidden: Tensor, layer: int) -> Tensor:
        return (
            torch.einsum("hed,mnd->mhne", self.value[layer], hidden)
            + self.value_bias[layer][:, None]
        )


def answers(model: PlainTransformer, rows: Sequence[Sequence[int]]) -> Tensor:
    """Its outputs for rows of any lengths, (m, outputs); rows of a length together, so that nothing is padded."""
    made = torch.zeros(len(rows), len(model.classifier), dtype=torch.float64)
    for length in {len(row) for row in rows}:
        places = [place for place, row in enumerate(rows) if len(row) == length]
        with torch.no_grad():
            made[places] = model(torch.tensor([list(rows[place]) for place in places]))
    return made


def planted(
    surrogate: SlalomSurrogate,
    *,
    layers: int = 1,
    heads: int | None = None,
    at: int = 0,
    causal: bool = False,
) -> PlainTransformer:
    """A transformer that is this SLALOM.

    A token is embedded as its importances (one per head of the SLALOM), its values (one per head
    and class), and a zero per class. Head k has the constant query sqrt(d) e_k and the embeddings
    as keys, so that every query sees the logits s_k; its value map moves the values of head k to
    the zeros, which the classifier reads. Other heads and layers add nothing.

    Args:
        surrogate: without a sink, K heads, n units, C outputs. A sink is a token that stands in
            every row.
        layers: how many.
        heads: of each layer, at least K; None: K.
        at: the layer that does the work.
        causal: a decoder.
    """
    kinds, units, outputs = surrogate.values.shape
    width = kinds + kinds * outputs + outputs
    model = PlainTransformer(
        units, width, outputs, layers=layers, heads=heads or kinds, causal=causal
    )
    read = torch.arange(width - outputs, width)
    with torch.no_grad():
        model.embedding[:, :kinds] = surrogate.importances.T
        model.embedding[:, kinds : width - outputs] = surrogate.values.permute(1, 0, 2).reshape(
            units, -1
        )
        for head in range(kinds):
            model.query_bias[at, head, head] = math.sqrt(width)
            model.key[at, head] = torch.eye(width)
            model.value[at, head, read, kinds + head * outputs + torch.arange(outputs)] = 1.0
            model.project[at, head] = torch.eye(width)
        model.classifier[torch.arange(outputs), read] = 1.0
    return model


def printed(surrogate: SlalomSurrogate, *, move_values: bool = False) -> PlainTransformer:
    """The construction as App. B.5 prints it, for a SLALOM of one head and one output.

    Its keys are constant and its queries are the embeddings, so all logits of a query are equal;
    and its value map, diag(0, 1, 0), leaves the component that the classifier reads at zero.

    Args:
        surrogate: one head, one output, no sink.
        move_values: mend the value map alone, as the line below it in the paper intends.
    """
    model = PlainTransformer(surrogate.units, 3, 1)
    with torch.no_grad():
        model.embedding[:, 0], model.embedding[:, 1] = (
            surrogate.importances[0],
            surrogate.values[0, :, 0],
        )
        model.key_bias[0, 0, 0] = 1.0
        model.query[0, 0] = torch.eye(3)
        model.value[0, 0, 2 if move_values else 1, 1] = 1.0
        model.project[0, 0] = torch.eye(3)
        model.classifier[0, 2] = 1.0
    return model


def random_slalom(
    units: int, *, heads: int = 1, outputs: int = 1, seed: int = 0
) -> SlalomSurrogate:
    """Values N(0, 2²), with zero sum over several outputs, and importances N(0, 1) with sum zero."""
    generator = torch.Generator().manual_seed(seed)
    values = 2 * torch.randn(heads, units, outputs, generator=generator, dtype=torch.float64)
    if outputs > 1:
        values = values - values.mean(dim=2, keepdim=True)
    return SlalomSurrogate(
        values, torch.randn(heads, units, generator=generator, dtype=torch.float64)
    ).normalised()


def random_rows(count: int, units: int, longest: int, seed: int) -> list[list[int]]:
    """Rows of one to ``longest`` tokens, drawn evenly."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(units, (length,), generator=generator).tolist() for length in lengths]


def row_counts(rows: Sequence[Sequence[int]], units: int) -> Tensor:
    """How often each token occurs, (m, units)."""
    return torch.stack(
        [
            torch.bincount(torch.tensor(list(row), dtype=torch.long), minlength=units).double()
            for row in rows
        ]
    )
