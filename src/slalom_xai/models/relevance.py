"""Layer-wise relevance propagation as a changed backward pass: the rules of AttnLRP.

The rules are those of Achtibat et al. (ICML 2024). With them in force, input times gradient is the
relevance of the input. The forward pass computes what it always does; what changes is how gradients
flow through a handful of torch functions, whoever calls them:

    linear maps (matrices, sums, convolutions)   epsilon rule: the plain gradient
    a product of two tensors that depend on      uniform rule: each factor's gradient is halved
    the input (attention, gated layers)
    softmax                                      Taylor rule: the plain gradient; its constant
                                                 term stays unattributed
    LayerNorm, RMSNorm, division                 the denominator is a constant
    element-wise activations                     identity rule: the gradient is output / input

Functions without a rule are refused where they are known not to be linear. The rules hold in the
thread that asks for them; no attention has to be registered. ``lrp_rules`` has them one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from slalom_xai.models import lrp_rules as rules

_ACTIVATION = re.compile("elu|silu|swish|mish|tanh")
_NAMES_BY_RULE: tuple[tuple[rules.Rule, str], ...] = (
    (rules.product, "matmul __matmul__ __rmatmul__ bmm mm mul __mul__ __rmul__ __imul__ multiply"),
    (rules.product_in_place, "mul_"),
    (rules.added_product, "baddbmm addmm addbmm"),
    (rules.sum_of_products, "einsum"),
    (rules.division, "div divide true_divide div_ __truediv__ __itruediv__"),
    (rules.constant, "rsqrt reciprocal __rtruediv__ __rdiv__"),
    (rules.activation, "tanh relu relu_ relu6 gelu silu mish elu selu celu leaky_relu"),
    (rules.activation, "hardswish hardtanh square abs"),
    (rules.power, "pow __pow__"),
    (rules.instead(rules.layer_norm), "layer_norm"),
    (rules.instead(rules.rms_norm), "rms_norm"),
    (rules.instead(rules.attention), "scaled_dot_product_attention"),
    (rules.refused, "exp log log1p expm1 sin cos erf sigmoid sigmoid_ softplus logsigmoid glu"),
    (rules.refused, "lstm gru rnn_tanh rnn_relu cumprod multi_head_attention_forward group_norm"),
    (rules.refused, "instance_norm normalize cosine_similarity __rpow__"),
)
_RULES = {name: rule for rule, names in _NAMES_BY_RULE for name in names.split()}


class _RulesInForce(TorchFunctionMode):
    """Sends every torch function that has a rule, and is given something of the input, to it."""

    def __init__(self) -> None:
        super().__init__()
        self.within_activation = 0

    def __torch_function__(
        self,
        func: rules.Function,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if self.within_activation:
            return func(*args, **given)
        rule = _RULES.get(getattr(func, "__name__", ""))
        if rule is None or not any(rules.depends(value) for value in (*args, *given.values())):
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
        return rules.passed(given[0], output)

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
