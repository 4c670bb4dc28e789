"""The transformer of App. B.1, and weights that make it a given SLALOM (Proposition 5.1, mended).

A SLALOM of K heads, n tokens and C outputs answers a row of tokens t with

    F_c = sum_k sum_t α_kt v_ktc,   α_k = the softmax of the importances s_kt over the row.

This is what an attention layer computes when its logits are the importances and its values are the
values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from slalom_xai.methods.paper.formula import SlalomSurrogate


class PlainTransformer(torch.nn.Module):
    """Attention and feed-forward layers with skip connections (Eqs. 7 to 13).

    There is no layer norm and there are no positions.
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
            heard = self.attention(hidden, layer) @ self._values(hidden, layer)  # (m, heads, n, d)
            hidden = hidden + torch.einsum("hed,mhnd->mne", self.project[layer], heard)
            hidden = hidden + torch.relu(hidden @ self.inner[layer].T) @ self.outer[layer].T
        read = hidden[:, 0]
        if self.causal:
            read = hidden[:, -1]
        return read @ self.classifier.T

    def attention(self, hidden: Tensor, layer: int) -> Tensor:
        """The attention weights (m, heads, n, n) of a layer for embeddings (m, n, d) (Eq. 10)."""
        queries = _mapped(hidden, self.query[layer], self.query_bias[layer])
        keys = _mapped(hidden, self.key[layer], self.key_bias[layer])
        logits = queries @ keys.transpose(-1, -2) / math.sqrt(hidden.shape[-1])
        if self.causal:
            later = torch.ones(logits.shape[-2:]).triu(1).bool()
            logits = logits.masked_fill(later, -math.inf)
        return torch.softmax(logits, dim=-1)

    def _values(self, hidden: Tensor, layer: int) -> Tensor:
        return _mapped(hidden, self.value[layer], self.value_bias[layer])


def _mapped(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Embeddings (m, n, d) through a linear map for each head, (m, heads, n, d)."""
    return torch.einsum("hed,mnd->mhne", weight, hidden) + bias[:, None]


def answers(model: PlainTransformer, rows: Sequence[Sequence[int]]) -> Tensor:
    """Outputs (m, C) for rows of any lengths; rows of a length together, so nothing is padded."""
    outputs = torch.zeros(len(rows), len(model.classifier), dtype=torch.float64)
    for length in {len(row) for row in rows}:
        indices = [index for index, row in enumerate(rows) if len(row) == length]
        ids = torch.tensor([list(rows[index]) for index in indices])
        with torch.no_grad():
            outputs[indices] = model(ids)
    return outputs


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
    read = torch.arange(width - outputs, width)  # what the classifier reads
    values = surrogate.values.permute(1, 0, 2).reshape(units, -1)  # (n, K * C)
    with torch.no_grad():
        model.embedding[:, :kinds] = surrogate.importances.T
        model.embedding[:, kinds : width - outputs] = values
        for head in range(kinds):
            own_values = kinds + head * outputs + torch.arange(outputs)
            model.query_bias[at, head, head] = math.sqrt(width)
            model.key[at, head] = torch.eye(width)
            model.value[at, head, read, own_values] = 1.0
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
    target = 1
    if move_values:
        target = 2
    with torch.no_grad():
        model.embedding[:, 0] = surrogate.importances[0]
        model.embedding[:, 1] = surrogate.values[0, :, 0]
        model.key_bias[0, 0, 0] = 1.0
        model.query[0, 0] = torch.eye(3)
        model.value[0, 0, target, 1] = 1.0
        model.project[0, 0] = torch.eye(3)
        model.classifier[0, 2] = 1.0
    return model


def random_slalom(
    units: int, *, heads: int = 1, outputs: int = 1, seed: int = 0
) -> SlalomSurrogate:
    """A SLALOM with values N(0, 2²) and importances N(0, 1).

    Importances sum to zero over the units, and values over the outputs where there are several.
    """
    generator = torch.Generator().manual_seed(seed)
    values = 2 * torch.randn(heads, units, outputs, generator=generator, dtype=torch.float64)
    if outputs > 1:
        values = values - values.mean(dim=2, keepdim=True)
    importances = torch.randn(heads, units, generator=generator, dtype=torch.float64)
    return SlalomSurrogate(values, importances).normalise()


def random_rows(count: int, units: int, longest: int, seed: int) -> list[list[int]]:
    """Rows of one to ``longest`` tokens, drawn evenly."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(units, (length,), generator=generator).tolist() for length in lengths]


def row_counts(rows: Sequence[Sequence[int]], units: int) -> Tensor:
    """How often each token occurs, (m, units)."""
    tokens = [torch.tensor(list(row), dtype=torch.long) for row in rows]
    return torch.stack([torch.bincount(row, minlength=units).double() for row in tokens])
