"""A torch classifier seen from within: its input embeddings, gradients and attention weights."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from slalom_xai.errors import InputError, ModelError
from slalom_xai.models.configurations import takes


class Internals:
    """One row of a torch classifier, with its embeddings open to change.

    The module stays in the mode, precision and configuration it has; calls take turns with every
    other call to it.

    Args:
        module: takes token ids by name and answers logits, or an object with ``logits``.
        inputs: one row: ``input_ids`` and whatever goes with it, (1, tokens) each.
        lock: calls take turns.
        name: of the model, for messages.
        ready: what else must hold while the module runs, such as a padding token; nothing by
            default.
    """

    def __init__(
        self,
        module: Any,
        inputs: Mapping[str, Tensor],
        lock: threading.RLock,
        name: str,
        ready: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.module = module
        self._inputs = dict(inputs)
        self._lock = lock
        self._name = name
        self._ready = ready
        self._tables = _token_tables(module, name)

    @property
    def tokens(self) -> int:
        """How many tokens the row has, special ones included."""
        return int(self._inputs["input_ids"].shape[1])

    def embeddings(self) -> Tensor:
        """What the model looks up for the row's tokens, (tokens, width)."""
        lookups: list[Tensor] = []

        def keep(_: Tensor, looked_up: Tensor) -> Tensor:
            lookups.append(looked_up)
            return looked_up

        with self._running(), torch.no_grad(), self._hook_embeddings(keep):
            self.module(**self._inputs)
        if not lookups:
            raise ModelError(
                f"{self._name} does not look up its tokens in its table of embeddings: "
                "use a method that needs no gradients"
            )
        first = lookups[0].detach()
        if first.shape[0] == 1:
            return first[0]
        return first[:, 0]  # XLNet has tokens before rows

    def lookup(self, token: int) -> Tensor:
        """What the model looks up for a token, (width,)."""
        table = self._tables[0]
        with self._lock, torch.no_grad():
            embedding: Tensor = table(torch.tensor([token], device=table.weight.device))[0]
        return embedding

    def logits(
        self,
        embeddings: Tensor,
        around: Callable[[Any], AbstractContextManager[Any]] = lambda _: nullcontext(),
    ) -> Tensor:
        """Logits (m, outputs) for embeddings in place of the looked-up ones; gradients flow.

        Args:
            embeddings: (m, tokens, width), of the row, or of points beside it.
            around: what is to hold while the module runs, given the module; it is undone before
                another call gets its turn.
        """
        ids = self._inputs["input_ids"]
        inputs = {
            name: tensor.expand(len(embeddings), *tensor.shape[1:])
            for name, tensor in self._inputs.items()
        }

        def swap(asked: Tensor, looked_up: Tensor) -> Tensor:
            return _replace_embeddings(asked, looked_up, ids[0], embeddings)

        with self._running(), torch.enable_grad(), self._hook_embeddings(swap), around(self.module):
            answer = self.module(**inputs)
        logits: Tensor = getattr(answer, "logits", answer)
        return logits

    def attentions(self) -> Tensor:
        """Attention weights (layers, heads, queries, keys).

        They are those of the encoder, or of the decoder where there is no encoder.
        """
        if not takes(self.module.forward, "output_attentions"):
            raise InputError(
                f"{self._name} does not give its attention weights: "
                "use a transformers model, or another method"
            )
        with self._running(), torch.no_grad(), eager_attention(self.module):
            answer = self.module(**self._inputs, output_attentions=True)
        of_encoder = getattr(answer, "encoder_attentions", None)
        layers = of_encoder or getattr(answer, "attentions", None)
        if not layers or any(layer is None for layer in layers):
            raise InputError(
                f"{self._name} does not give its attention weights: "
                "use a transformers model with attention, or another method"
            )
        self._check_shapes([tuple(layer.shape) for layer in layers])
        return torch.stack([layer[0].float() for layer in layers])

    def _check_shapes(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Refuses attention weights that are not (rows, heads, tokens, tokens) in each layer."""
        first = shapes[0]
        square = len(first) == 4 and first[-2:] == (self.tokens, self.tokens)
        if square and len(set(shapes)) == 1:
            return
        shown = ", ".join(str(shape) for shape in shapes[:3])
        raise InputError(
            f"{self._name} gives attention weights of shapes {shown} for {self.tokens} tokens, "
            "which do not say how much each token attends to each other one: use another method"
        )

    @contextmanager
    def _running(self) -> Iterator[None]:
        with self._lock, evaluation_mode(self.module), self._ready():
            yield

    @contextmanager
    def _hook_embeddings(self, act: Callable[[Tensor, Tensor], Tensor]) -> Iterator[None]:
        """Lets ``act(ids, looked up)`` decide what every look-up of tokens returns."""
        handles = [
            table.register_forward_hook(lambda _, given, out: act(given[0], out))
            for table in self._tables
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _replace_embeddings(asked: Tensor, out: Tensor, ids: Tensor, embeddings: Tensor) -> Tensor:
    """What a look-up returns: the embeddings, where it is the row that is looked up.

    Decoders of T5 and BART look up the row moved by one.

    Args:
        asked: the ids that are looked up.
        out: what was looked up for them.
        ids: of the row, (tokens,).
        embeddings: what to put in their place, (m, tokens, width).
    """
    tokens_first = (len(ids), len(embeddings))  # as XLNet has them
    if asked.shape == tokens_first and bool((ids == asked.T).all()):
        return embeddings.transpose(0, 1)
    if asked.shape != (len(embeddings), len(ids)):
        return out
    if bool((asked == ids).all()):
        return embeddings
    if bool((asked[:, 1:] == ids[:-1]).all()):
        return torch.cat([out[:, :1], embeddings[:, :-1]], dim=1)
    return out


def _token_tables(module: Any, name: str) -> list[torch.nn.Embedding]:
    """Every embedding that shares the weights of the model's token table.

    Encoder and decoder may have one each.
    """
    if hasattr(module, "get_input_embeddings"):
        table = module.get_input_embeddings()
    else:
        table = only_token_table(module)
    if table is None:
        raise InputError(
            f"{name} has no single table of token embeddings: give it get_input_embeddings(), "
            "or use a method that needs no gradients"
        )
    shared = table.weight.data_ptr()
    embeddings = [part for part in module.modules() if isinstance(part, torch.nn.Embedding)]
    return [part for part in embeddings if part.weight.data_ptr() == shared]


def only_token_table(module: torch.nn.Module) -> torch.nn.Embedding | None:
    """A module's one table of embeddings; None where there are several or none.

    Those of positions do not count; they are told by their name.
    """
    tables = []
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.Embedding) and "pos" not in name:
            tables.append(part)
    return tables[0] if len(tables) == 1 else None


@contextmanager
def eager_attention(model: Any) -> Iterator[None]:
    """Attention in plain steps, which keeps its weights, and the usual kind again afterwards."""
    usual = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if usual in (None, "eager") or not hasattr(model, "set_attn_implementation"):
        yield
        return
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(usual)


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """Switches dropout off, and every module back to its own mode afterwards."""
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
