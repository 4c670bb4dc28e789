"""The rules of AttnLRP: what each hands back, and that nothing is lost where nothing may be."""

import pytest
import torch
from torch.nn import functional

from slalom_xai.errors import InputError
from slalom_xai.methods.lrp import relevance_rules


class Module(torch.nn.Module):
    """A function of one tensor as a module, with layers to hook."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer.double())

    def forward(self, x):
        return self.function(self, x)


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def relevance(module, x, weights=None):
    """Input times gradient under the rules, and the output's own relevance, weighted."""
    x = x.clone().requires_grad_()
    with relevance_rules(module):
        output = module(x)
    weights = torch.ones_like(output) if weights is None else weights
    (gradient,) = torch.autograd.grad((output * weights).sum(), x)
    return (gradient * x).detach(), (output * weights).detach()


def rms(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def own_layer_norm(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-6)


def own_gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * torch.pow(x, 3))))


class OwnGELU(torch.nn.Module):
    def forward(self, x):
        return own_gelu(x)


MATRIX = drawn(6, 6, seed=1)
CONSERVING = {
    "linear": Module(lambda m, x: m.layer(x), layer=torch.nn.Linear(6, 4, bias=False)),
    "layer norm": Module(lambda m, x: m.norm(x), norm=torch.nn.LayerNorm(6, bias=False)),
    "layer norm by hand": Module(lambda m, x: own_layer_norm(x)),
    "rms norm": Module(lambda m, x: functional.rms_norm(x, (6,), eps=1e-6)),
    "rms norm by hand": Module(lambda m, x: rms(x)),
    "gelu": Module(lambda m, x: functional.gelu(x)),
    "tanh": Module(lambda m, x: x.tanh()),
    "relu": Module(lambda m, x: torch.nn.ReLU(inplace=True)(x + 0)),
    "relu squared": Module(lambda m, x: torch.square(torch.relu(x))),
    "a module of activation": Module(lambda m, x: m.act(x), act=OwnGELU()),
    "gated": Module(
        lambda m, x: functional.silu(m.gate(x)) * m.up(x),
        gate=torch.nn.Linear(6, 5, bias=False),
        up=torch.nn.Linear(6, 5, bias=False),
    ),
    "matrix product": Module(lambda m, x: (x @ MATRIX) @ x.transpose(-1, -2)),
    "bmm": Module(
        lambda m, x: torch.baddbmm(
            torch.zeros(1, 3, 3, dtype=x.dtype), x[None], (x @ MATRIX).mT[None]
        )
    ),
    "einsum": Module(lambda m, x: torch.einsum("id,jd->ij", x, x @ MATRIX)),
    "scores that weigh values": Module(lambda m, x: torch.relu(x @ x.mT) @ x),
    "residual": Module(lambda m, x: x + rms(x) @ MATRIX),
}


@pytest.mark.parametrize("name", CONSERVING)
def test_no_relevance_is_lost_without_biases(name):
    x = drawn(3, 6)
    found, output = relevance(CONSERVING[name], x)
    assert float(found.sum()) == pytest.approx(float(output.sum()), abs=1e-6)


@pytest.mark.parametrize("name", CONSERVING)
def test_the_forward_pass_is_the_same(name):
    x = drawn(3, 6)
    plain = CONSERVING[name](x.clone())
    with relevance_rules(CONSERVING[name]):
        ruled = CONSERVING[name](x.clone().requires_grad_())
    assert torch.allclose(plain, ruled.detach(), atol=1e-12)


def test_activations_pass_relevance_one_to_one():
    x = torch.tensor([-2.0, -0.3, 0.0, 0.4, 3.0], dtype=torch.float64)
    for activation in (functional.gelu, torch.tanh, functional.silu, torch.relu):
        found, output = relevance(Module(lambda m, x, f=activation: f(x)), x)
        assert torch.allclose(found, output)


def test_softmax_follows_the_taylor_rule():
    x, weights = drawn(5), drawn(5, seed=2)
    found, output = relevance(Module(lambda m, x: functional.softmax(x, dim=-1)), x, weights)
    assert torch.allclose(
        found, x * (output - x.softmax(-1) * output.sum())
    )  # Proposition 3.1 of Achtibat et al.


def test_matrix_products_follow_the_uniform_rule():
    a, b, weights = drawn(3, 4), drawn(4, 2, seed=1), drawn(3, 2, seed=2)
    x = torch.cat([a.flatten(), b.flatten()])
    found, _ = relevance(
        Module(lambda m, x: x[:12].reshape(3, 4) @ x[12:].reshape(4, 2)), x, weights
    )
    left = (
        torch.einsum("ji,ip,jp->ji", a, b, weights) / 2
    )  # half of A_ji V_ip R_jp / O_jp, with R = O × weights
    right = torch.einsum("ji,ip,jp->ip", a, b, weights) / 2
    assert torch.allclose(found, torch.cat([left.flatten(), right.flatten()]))


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_is_attention_in_steps(causal):
    def steps(m, x):
        query, key, value = x[None].chunk(3, dim=-1)
        scores = query @ key.mT * query.shape[-1] ** -0.5
        if causal:
            scores = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
        return scores.softmax(-1) @ value

    def fused(m, x):
        return functional.scaled_dot_product_attention(*x[None].chunk(3, dim=-1), is_causal=causal)

    x, weights = drawn(4, 9), drawn(1, 4, 3, seed=3)
    assert torch.allclose(
        relevance(Module(steps), x, weights)[0], relevance(Module(fused), x, weights)[0]
    )


def test_fused_attention_with_masks_and_shared_keys_computes_the_same():
    query, key = drawn(1, 4, 5, 6), drawn(1, 2, 5, 6, seed=1)
    for mask in (None, drawn(5, 5) > -1, drawn(5, 5)):
        plain = functional.scaled_dot_product_attention(
            query, key, key, attn_mask=mask, enable_gqa=True, scale=0.3
        )
        module = Module(
            lambda m, x, mask=mask: functional.scaled_dot_product_attention(
                x, key, key, attn_mask=mask, enable_gqa=True, scale=0.3
            )
        )
        with relevance_rules(module):
            assert torch.allclose(module(query.clone().requires_grad_()).detach(), plain)


def test_a_denominator_is_a_constant():
    x = drawn(3, 6)
    found, output = relevance(Module(lambda m, x: x / x.norm(dim=-1, keepdim=True)), x)
    assert torch.allclose(found, output)


def test_parameters_are_no_input():
    module = Module(lambda m, x: m.layer.weight * x, layer=torch.nn.Linear(6, 3))
    x = drawn(3, 6)
    found, output = relevance(module, x)
    assert torch.allclose(found, output)  # not half of it


@pytest.mark.parametrize(
    "function",
    [torch.exp, torch.sigmoid, lambda x: 2**x, lambda x: x.mul_(x + 1), functional.softplus],
)
def test_functions_without_a_rule_are_refused(function):
    module = Module(lambda m, x: function(x + 0), layer=torch.nn.Linear(2, 2))
    with (
        pytest.raises(InputError, match="attn-lrp needs a rule for every function"),
        relevance_rules(module),
    ):
        module(drawn(3).requires_grad_())
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert torch.exp(drawn(2).requires_grad_()).requires_grad  # nothing is refused afterwards


def test_everything_is_undone():
    module = Module(lambda m, x: m.act(m.layer(x)), act=OwnGELU(), layer=torch.nn.Linear(6, 3))
    module.layer.bias.requires_grad_(False)
    x = drawn(3, 6).requires_grad_()
    (before,) = torch.autograd.grad(module(x).sum(), x)
    relevance(module, x.detach())
    (after,) = torch.autograd.grad(module(x).sum(), x)
    assert torch.equal(before, after)
    assert module.layer.weight.requires_grad
    assert not module.layer.bias.requires_grad
    assert not module.act._forward_hooks
    assert not module.act._forward_pre_hooks
