"""Layer-wise relevance propagation as a changed backward pass: the rules of AttnLRP (Achtibat et al., ICML 2024).

With these rules in force, input times gradient is the relevance of the input. The forward pass computes what it always does; what
changes is how gradients flow through a handful of torch functions, whoever calls them:

    linear maps (matrices, sums, convolutions)     epsilon rule: the plain gradient
    a product of two tensors that depend on the    uniform rule: each factor's gradient is halved
    input (attention, gated layers)
    softmax                                        Taylor rule: the plain gradient; its constant term stays unattributed
    LayerNorm, RMSNorm, division                   the denominator is a constant
    element-wise activations                       identity rule: the gradient is output / input

A tensor depends on the input where it requires a gradient, so parameters are frozen meanwhile. Functions without a rule are
refused where they are known not to be linear. The rules hold in the thread that asks for them; no attention has to be registered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from slalom_xai.errors import InputError

_Function = Callable[..., Any]
_Rule = Callable[[_Function, Sequence[Any], Mapping[str, Any]], Any]


class _Rules(TorchFunctionMode):
    """Sends every torch function that has a rule, and something of the input in its hands, to that rule."""

    def __init__(self) -> None:
        super().__init__()
        self.within_activation = 0

    def __torch_function__(
        self,
        func: _Function,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        rule = None if self.within_activation else _RULES.get(getattr(func, "__name__", ""))
        if rule is None or not any(_depends(value) for value in (*args, *given.values())):
            return func(*args, **given)
        return rule(func, args, given)


@contextmanager
def relevance_rules(module: torch.nn.Module) -> Iterator[None]:
    """Runs the module under the rules of AttnLRP; everything is as it was afterwards.

    Raises:
        InputError: while the module runs, where it uses a function that has no rule.
    """
    rules = _Rules()

    def begin(*_: Any) -> None:
        rules.within_activation += 1

    def end(_: Any, given: tuple[Any, ...], output: Any) -> Any:
        rules.within_activation -= 1
        return output if rules.within_activation else _passed(given[0], output)

    activations = [part for part in module.modules() if _is_activation(part)]
    handles = [part.register_forward_pre_hook(begin) for part in activations]
    handles += [part.register_forward_hook(end) for part in activations]
    trained = [
        parameter
        for parameter in module.parameters()
        if parameter.requires_grad and parameter.is_leaf
    ]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        with rules:
            yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
        for handle in handles:
            handle.remove()


def _is_activation(part: torch.nn.Module) -> bool:
    """An element-wise function with f(0) = 0 by its name; some, as GPT-2's, are made of functions that have other rules."""
    return re.search(
        "elu|silu|swish|mish|tanh", type(part).__name__.lower()
    ) is not None and not any(True for _ in part.children())


def _depends(value: Any) -> bool:
    """Whether a tensor, or one of a list of them, comes from the input."""
    if isinstance(value, (list, tuple)):
        return any(_depends(each) for each in value)
    return isinstance(value, Tensor) and value.requires_grad


def _rescaled(source: Tensor, factor: Tensor | float, output: Tensor | None = None) -> Tensor:
    """``output`` (or the source itself), whose gradient by the source is ``factor``."""
    return (source if output is None else output).detach() + factor * (source - source.detach())


def _passed(source: Tensor, output: Tensor) -> Tensor:
    """Identity rule: relevance goes through unchanged, as output times its gradient is source times the source's."""
    constant, result = source.detach(), output.detach()
    zero = constant == 0
    return _rescaled(source, torch.where(zero, 0, result / torch.where(zero, 1, constant)), result)


def _activation(func: _Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    others = dict(kwargs)
    source, rest = (args[0], args[1:]) if args else (others.pop("input"), ())
    return _passed(
        source, func(source.detach().clone(), *rest, **others)
    )  # a clone: it may work in place


def _halved(values: Sequence[Any]) -> list[Any]:
    return [
        _rescaled(value, 0.5) if isinstance(value, Tensor) and value.requires_grad else value
        for value in values
    ]


def _product(func: _Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Uniform rule, where both factors come from the input; else the product is linear."""
    factors = [*args, *kwargs.values()]
    if sum(_depends(factor) for factor in factors) < 2:
        return func(*args, **kwargs)
    halves = _halved(factors)
    return func(*halves[: len(args)], **dict(zip(kwargs, halves[len(args) :], strict=True)))


def _product_in_place(func: _Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if sum(_depends(factor) for factor in (*args, *kwargs.values())) > 1:
        return _refused(func, args, kwargs)
    return func(*args, **kwargs)


def _sum_of_products(func: _Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``einsum`` of any number of factors: relevance is split evenly."""
    operands = (
        list(args[1]) if len(args) == 2 and isinstance(args[1], (list, tuple)) else list(args[1:])
    )
    count = sum(_depends(operand) for operand in operands)
    shared = [
        _rescaled(operand, 1 / count) if _depends(operand) else operand for operand in operands
    ]
    return func(args[0], *shared, **kwargs)


def _added_product(func: _Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``baddbmm(input, batch1, batch2)`` and its like: the first is added, the others are multiplied."""
    named = dict(kwargs)
    start = args[0] if args else named.pop("input")
    names = [name for name in ("batch1", "batch2", "mat1", "mat2") if name in named]
    factors = [*args[1:], *(named.pop(name) for name in names)]
    if sum(_depends(factor) for factor in factors) > 1:
        factors = _halved(factors)
    return func(start, *factors, **named)


def _division(func: _Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A denominator that comes from the input is a normalisation, and taken as constant."""
    named = dict(kwargs)
    above = args[0] if args else named.pop("input")
    below = args[1] if len(args) > 1 else named.pop("other")
    return func(above, below.detach() if isinstance(below, Tensor) else below, **named)


def _constant(func: _Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return func(*args, **kwargs).detach()


def _power(func: _Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A negative power is a denominator, a positive one an activation."""
    base = args[0] if args else kwargs["input"]
    exponent = args[1] if len(args) > 1 else kwargs["exponent"]
    if isinstance(exponent, Tensor) or not isinstance(base, Tensor):
        return _refused(func, args, kwargs)
    return (_constant if exponent < 0 else _activation)(func, args, kwargs)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """LayerNorm whose standard deviation is a constant; the mean is linear, and keeps its gradient."""
    places = tuple(range(-len(normalized_shape), 0))
    exact = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    centred = exact - exact.mean(dim=places, keepdim=True)
    deviation = (centred.detach().square().mean(dim=places, keepdim=True) + eps).sqrt()
    return _affine((centred / deviation).to(input.dtype), weight, bias)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """RMSNorm whose root mean square is a constant."""
    places = tuple(range(-len(normalized_shape), 0))
    exact = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    floor = torch.finfo(input.dtype).eps if eps is None else eps
    size = (exact.detach().square().mean(dim=places, keepdim=True) + floor).sqrt()
    return _affine((exact / size).to(input.dtype), weight, None)


def _affine(normed: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = normed if weight is None else normed * weight
    return scaled if bias is None else scaled + bias


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
    """Scaled dot-product attention (..., queries, width), with the uniform rule at both of its products.

    Dropout is left out: models are in evaluation mode.
    """
    if enable_gqa:
        key, value = (
            part.repeat_interleave(query.shape[-3] // part.shape[-3], dim=-3)
            for part in (key, value)
        )
    scores = _product(torch.matmul, (query, key.transpose(-2, -1)), {}) * (
        query.shape[-1] ** -0.5 if scale is None else scale
    )
    if is_causal:
        scores = scores.masked_fill(
            torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1),
            -torch.inf,
        )
    if attn_mask is not None:
        scores = (
            scores.masked_fill(~attn_mask, -torch.inf)
            if attn_mask.dtype is torch.bool
            else scores + attn_mask
        )
    weights = functional.softmax(scores, dim=-1).to(value.dtype)
    mixed: Tensor = _product(torch.matmul, (weights, value), {})
    return mixed


def _instead(replacement: Callable[..., Tensor]) -> _Rule:
    return lambda func, args, kwargs: replacement(*args, **kwargs)


def _refused(func: _Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    raise InputError(
        f"attn-lrp needs a rule for every function of a model, but has none for {func.__name__}: it knows transformers made of attention, "
        "linear and norm layers, gates and common activations; use integrated-gradients, or a method that only asks"
    )


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(
        (
            "matmul",
            "__matmul__",
            "__rmatmul__",
            "bmm",
            "mm",
            "mul",
            "__mul__",
            "__rmul__",
            "__imul__",
            "multiply",
        ),
        _product,
    ),
    **dict.fromkeys(("baddbmm", "addmm", "addbmm"), _added_product),
    **dict.fromkeys(
        ("div", "divide", "true_divide", "div_", "__truediv__", "__itruediv__"), _division
    ),
    **dict.fromkeys(("rsqrt", "reciprocal", "__rtruediv__", "__rdiv__"), _constant),
    **dict.fromkeys(
        (
            "tanh",
            "relu",
            "relu_",
            "relu6",
            "gelu",
            "silu",
            "mish",
            "elu",
            "selu",
            "celu",
            "leaky_relu",
        ),
        _activation,
    ),
    **dict.fromkeys(("hardswish", "hardtanh", "square", "abs"), _activation),
    **dict.fromkeys(("pow", "__pow__"), _power),
    "mul_": _product_in_place,
    "einsum": _sum_of_products,
    "layer_norm": _instead(layer_norm),
    "rms_norm": _instead(rms_norm),
    "scaled_dot_product_attention": _instead(attention),
    **dict.fromkeys(
        (
            "exp",
            "log",
            "log1p",
            "expm1",
            "sin",
            "cos",
            "erf",
            "sigmoid",
            "sigmoid_",
            "softplus",
            "logsigmoid",
            "glu",
        ),
        _refused,
    ),
    **dict.fromkeys(
        (
            "lstm",
            "gru",
            "rnn_tanh",
            "rnn_relu",
            "cumprod",
            "multi_head_attention_forward",
            "group_norm",
        ),
        _refused,
    ),
    **dict.fromkeys(("instance_norm", "normalize", "cosine_similarity", "__rpow__"), _refused),
}
