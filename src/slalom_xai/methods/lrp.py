"""AttnLRP: relevance handed back from the output to the embeddings, layer by layer.

Rules change the gradients of attention, normalisations and
activations so that relevance is kept. A token's relevance is then the sum of its embedding times
the changed gradient (Achtibat et al., ICML 2024).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from slalom_xai.errors import InputError, ModelError, few_numbers
from slalom_xai.methods.base import Findings, register
from slalom_xai.methods.white_box import OpenModel, WhiteBoxEstimator, explain_tokens
from slalom_xai.models.internals import eager_attention
from slalom_xai.queries import Queries

# How gradients flow through torch functions under the rules of AttnLRP, one function per rule.
#
# Each rule is given the torch function, its arguments and its keyword arguments, as torch hands
# them to a ``TorchFunctionMode``. It returns what the function returns, with another gradient. A
# tensor depends on the input where it requires a gradient: parameters are frozen meanwhile.
#
# All rules but one are built on one device. With y = f(x) and a wanted derivative c, the tensor
#
#     detach(y) + c * (x - detach(x))
#
# has the value of y and the gradient c by x (``_rescale``). A detached tensor is a constant.


Function = Callable[..., Any]
Rule = Callable[[Function, Sequence[Any], Mapping[str, Any]], Any]

_HALF = (torch.float16, torch.bfloat16)


def depends(value: Any) -> bool:
    """Whether a tensor, or one of a list of them, comes from the input."""
    if isinstance(value, (list, tuple)):
        return any(depends(each) for each in value)
    return isinstance(value, Tensor) and value.requires_grad


def _count(values: Sequence[Any]) -> int:
    """How many of the values come from the input."""
    return sum(depends(value) for value in values)


def _rescale(source: Tensor, factor: Tensor | float, output: Tensor) -> Tensor:
    """``output``, whose gradient by the source is ``factor``."""
    return output.detach() + factor * (source - source.detach())


def _halve_gradients(values: Sequence[Any]) -> list[Any]:
    """The values, each of which passes on half of its gradient."""
    halves = []
    for value in values:
        if isinstance(value, Tensor) and value.requires_grad:
            value = _rescale(value, 0.5, value)
        halves.append(value)
    return halves


def passed(source: Tensor, output: Tensor) -> Tensor:
    """Identity rule: relevance goes through unchanged.

    Output times its gradient is source times the source's, so the gradient is output / source.
    """
    constant, result = source.detach(), output.detach()
    zero = constant == 0
    ratio = torch.where(zero, 0, result / torch.where(zero, 1, constant))
    return _rescale(source, ratio, result)


def activation(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Identity rule, for element-wise functions with f(0) = 0."""
    source, others, named = _first(args, kwargs)
    copy = source.detach().clone()  # the function may work in place
    return passed(source, func(copy, *others, **named))


def product(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Uniform rule, where both factors come from the input; else the product is linear."""
    factors = [*args, *kwargs.values()]
    if _count(factors) < 2:
        return func(*args, **kwargs)
    halves = _halve_gradients(factors)
    named = dict(zip(kwargs, halves[len(args) :], strict=True))
    return func(*halves[: len(args)], **named)


def product_in_place(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A product with a constant; another one cannot be halved in place."""
    if _count([*args, *kwargs.values()]) > 1:
        return refused(func, args, kwargs)
    return func(*args, **kwargs)


def sum_of_products(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``einsum`` of any number of factors: relevance is split evenly."""
    equation, *operands = args
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    count = _count(operands)
    shared = []
    for operand in operands:
        if depends(operand):
            operand = _rescale(operand, 1 / count, operand)
        shared.append(operand)
    return func(equation, *shared, **kwargs)


def added_product(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``baddbmm(input, batch1, batch2)`` and its like.

    The first is added, the others are multiplied.
    """
    start, others, named = _first(args, kwargs)
    names = [name for name in ("batch1", "batch2", "mat1", "mat2") if name in named]
    factors = [*others, *(named.pop(name) for name in names)]
    if _count(factors) > 1:
        factors = _halve_gradients(factors)
    return func(start, *factors, **named)


def division(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A denominator that comes from the input is a normalisation, and taken as constant."""
    above, others, named = _first(args, kwargs)
    below = others[0] if others else named.pop("other")
    if isinstance(below, Tensor):
        below = below.detach()
    return func(above, below, **named)


def constant(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a denominator is made of: no relevance goes through."""
    return func(*args, **kwargs).detach()


def power(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A negative power is a denominator, a positive one an activation."""
    base, others, named = _first(args, kwargs)
    exponent = others[0] if others else named["exponent"]
    if isinstance(exponent, Tensor) or not isinstance(base, Tensor):
        return refused(func, args, kwargs)
    if exponent < 0:
        return constant(func, args, kwargs)
    return activation(func, args, kwargs)


def _first(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, Sequence[Any], dict[str, Any]]:
    """The first argument, given by place or as ``input``, the others, and those given by name."""
    named = dict(kwargs)
    if args:
        return args[0], args[1:], named
    return named.pop("input"), (), named


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """LayerNorm whose standard deviation is a constant.

    The mean is linear, and keeps its gradient.
    """
    axes = tuple(range(-len(normalized_shape), 0))
    exact = _single(input)
    centred = exact - exact.mean(dim=axes, keepdim=True)
    deviation = (centred.detach().square().mean(dim=axes, keepdim=True) + eps).sqrt()
    return _affine((centred / deviation).to(input.dtype), weight, bias)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """RMSNorm whose root mean square is a constant."""
    axes = tuple(range(-len(normalized_shape), 0))
    exact = _single(input)
    floor = torch.finfo(input.dtype).eps if eps is None else eps
    size = (exact.detach().square().mean(dim=axes, keepdim=True) + floor).sqrt()
    return _affine((exact / size).to(input.dtype), weight, None)


def _single(input: Tensor) -> Tensor:
    """A tensor in float32 at least."""
    return input.float() if input.dtype in _HALF else input


def _affine(normed: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        normed = normed * weight
    if bias is not None:
        normed = normed + bias
    return normed


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Scaled dot-product attention (..., queries, width), with the uniform rule at both products.

    Dropout is left out: models are in evaluation mode.
    """
    if enable_gqa:
        heads = query.shape[-3]
        key = key.repeat_interleave(heads // key.shape[-3], dim=-3)
        value = value.repeat_interleave(heads // value.shape[-3], dim=-3)
    if scale is None:
        scale = query.shape[-1] ** -0.5
    scores = product(torch.matmul, (query, key.transpose(-2, -1)), {}) * scale
    if is_causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(ones.triu(1), -torch.inf)
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = functional.softmax(scores, dim=-1).to(value.dtype)
    mixed: Tensor = product(torch.matmul, (weights, value), {})
    return mixed


def instead(replacement: Callable[..., Tensor]) -> Rule:
    """A rule that computes with another function."""
    return lambda func, args, kwargs: replacement(*args, **kwargs)


def refused(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What is known not to be linear and has no rule."""
    raise InputError(
        "attn-lrp needs a rule for every function of a model, but has none for "
        f"{func.__name__}: it knows transformers made of attention, linear and norm layers, gates "
        "and common activations; use integrated-gradients, or a method that only asks"
    )


# Layer-wise relevance propagation as a changed backward pass: the rules of AttnLRP.
#
# The rules are those of Achtibat et al. (ICML 2024). With them in force, input times gradient is
# the relevance of the input. The forward pass computes what it always does; what changes is how
# gradients flow through a handful of torch functions, whoever calls them:
#
#     linear maps (matrices, sums, convolutions)   epsilon rule: the plain gradient
#     a product of two tensors that depend on      uniform rule: each factor's gradient is halved
#     the input (attention, gated layers)
#     softmax                                      Taylor rule: the plain gradient; its constant
#                                                  term stays unattributed
#     LayerNorm, RMSNorm, division                 the denominator is a constant
#     element-wise activations                     identity rule: the gradient is output / input
#
# Functions without a rule are refused where they are known not to be linear. The rules hold in
# the thread that asks for them; no attention has to be registered. They stand above, one by one.


_ACTIVATION = re.compile("elu|silu|swish|mish|tanh")
_NAMES_BY_RULE: tuple[tuple[Rule, str], ...] = (
    (product, "matmul __matmul__ __rmatmul__ bmm mm mul __mul__ __rmul__ __imul__ multiply"),
    (product_in_place, "mul_"),
    (added_product, "baddbmm addmm addbmm"),
    (sum_of_products, "einsum"),
    (division, "div divide true_divide div_ __truediv__ __itruediv__"),
    (constant, "rsqrt reciprocal __rtruediv__ __rdiv__"),
    (activation, "tanh relu relu_ relu6 gelu silu mish elu selu celu leaky_relu"),
    (activation, "hardswish hardtanh square abs"),
    (power, "pow __pow__"),
    (instead(layer_norm), "layer_norm"),
    (instead(rms_norm), "rms_norm"),
    (instead(attention), "scaled_dot_product_attention"),
    (refused, "exp log log1p expm1 sin cos erf sigmoid sigmoid_ softplus logsigmoid glu"),
    (refused, "lstm gru rnn_tanh rnn_relu cumprod multi_head_attention_forward group_norm"),
    (refused, "instance_norm normalize cosine_similarity __rpow__"),
)
_RULES = {name: rule for rule, names in _NAMES_BY_RULE for name in names.split()}


class _RulesInForce(TorchFunctionMode):
    """Sends every torch function that has a rule, and is given something of the input, to it."""

    def __init__(self) -> None:
        super().__init__()
        self.within_activation = 0

    def __torch_function__(
        self,
        func: Function,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if self.within_activation:
            return func(*args, **given)
        rule = _RULES.get(getattr(func, "__name__", ""))
        if rule is None or not any(depends(value) for value in (*args, *given.values())):
            return func(*args, **given)
        return rule(func, args, given)


@contextmanager
def relevance_rules(module: torch.nn.Module) -> Iterator[None]:
    """Runs the module under the rules of AttnLRP; everything is as it was afterwards.

    Raises:
        InputError: while the module runs, where it uses a function that has no rule.
    """
    in_force = _RulesInForce()

    def begin(*_: Any) -> None:
        in_force.within_activation += 1

    def end(_: Any, given: tuple[Any, ...], output: Any) -> Any:
        in_force.within_activation -= 1
        if in_force.within_activation:
            return output
        return passed(given[0], output)

    activations = [part for part in module.modules() if _is_activation(part)]
    handles = [part.register_forward_pre_hook(begin) for part in activations]
    handles += [part.register_forward_hook(end) for part in activations]
    trained = [entry for entry in module.parameters() if entry.requires_grad and entry.is_leaf]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        with in_force:
            yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
        for handle in handles:
            handle.remove()


def _is_activation(part: torch.nn.Module) -> bool:
    """An element-wise function with f(0) = 0, by its name.

    Some, as GPT-2's, are made of functions that have other rules.
    """
    named = _ACTIVATION.search(type(part).__name__.lower()) is not None
    return named and not any(True for _ in part.children())


# AttnLRP: relevance handed back from the output to the embeddings, layer by layer.


RULES_TOLERANCE = 1e-2  # absolute and relative; rules change gradients, and outputs by rounding


@register
@dataclass(frozen=True)
class AttnLRP(WhiteBoxEstimator):
    """Layer-wise relevance propagation with rules for attention, as input × changed gradient."""

    name: ClassVar[str] = "attn-lrp"
    summary: ClassVar[str] = (
        "relevance passed back layer by layer (AttnLRP): needs a transformer in torch, one "
        "forward pass and one backward pass per class"
    )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Runs the model under the rules and goes back once per column."""
        model = OpenModel(queries, self.name)
        full = model.full
        embeddings = model.embeddings[None].clone().requires_grad_()
        columns = model.columns(embeddings, _under_rules)[0]
        if not torch.allclose(columns.detach(), full, rtol=RULES_TOLERANCE, atol=RULES_TOLERANCE):
            raise ModelError(
                f"{queries.model.name} returns {few_numbers(full.tolist())}, but "
                f"{few_numbers(columns.tolist())} under the rules of attn-lrp, which should change "
                "nothing but gradients: use integrated-gradients, and please report this model"
            )
        relevances = []
        for column in columns:
            (gradient,) = torch.autograd.grad(column, embeddings, retain_graph=True)
            relevances.append((gradient * embeddings.detach())[0].sum(dim=1))
        tokens = torch.stack(relevances, dim=1)
        sums = tokens.sum(dim=0)
        worst = int((full - sums).abs().argmax())
        note = (
            f"The relevances of all tokens sum to {float(sums[worst]):.4g}, but the output is "
            f"{float(full[worst]):.4g}: biases, positions and the softmax hold the rest."
        )
        return explain_tokens(queries, tokens, rng, model.passes, (note,))


@contextmanager
def _under_rules(module: Any) -> Iterator[None]:
    # Attention goes in plain steps: the rules cannot see into fused kernels.
    with eager_attention(module), relevance_rules(module):
        yield
