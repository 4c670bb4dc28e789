"""The steps of the solver: their derivatives are exact, and they arrive."""

import pytest
import torch

from slalom_xai.slalom.settings import FIT
from slalom_xai.slalom.solver import (
    Masks,
    Point,
    Stack,
    compute_cost,
    compute_gradient,
    descend,
    differentiate,
    evaluate,
)


def make_stack(bounded=True, calls=40, columns=2, far=1.0, texts=1, units=8):
    """Problems with outputs that no formula follows exactly."""
    generator = torch.Generator().manual_seed(0)
    kept = (torch.rand(texts, calls, units, generator=generator) > 0.4).double()
    x = torch.cat([kept, (1 - kept).sum(dim=2, keepdim=True)], dim=2)
    effects = torch.randn(texts, units, columns, generator=generator).double()
    noise = 0.1 * torch.randn(texts, calls, columns, generator=generator).double()
    z = (torch.tanh(far * (kept @ effects)) * 0.97 + noise).transpose(1, 2)[:, None]
    one = torch.ones(texts, 1).double()
    ones = torch.ones(texts, 1, units + 1).double()
    bounds = torch.full((texts, 1), bounded)
    return Stack(Masks(x), z, torch.ones_like(z), ones, 0 * ones, one, bounds, FIT)


def make_point(stack):
    """Somewhere near the middle, with weak priors."""
    generator = torch.Generator().manual_seed(1)
    texts, _, p = stack.x.shape
    u = 0.5 * torch.randn(texts, 1, stack.z.shape[2], p, generator=generator).double()
    s = 0.5 * torch.randn(texts, 1, p, generator=generator).double()
    weak = torch.full((texts, 1), 1e-3).double()
    return Point(u, s, weak, weak)


@pytest.mark.parametrize("units", [8, 40])
def test_sums_of_products_are_those_of_their_definition(units):
    """Few elements take another way than many."""
    masks = make_stack(units=units, texts=3).masks
    factors = torch.randn(3, 5, 40, generator=torch.Generator().manual_seed(0)).double()
    expected = torch.einsum("bfm,bmi,bmj->bfij", factors, masks.x, masks.x)
    torch.testing.assert_close(masks.sum_products(factors), expected)


def compute_misfit(stack, u, s):
    """Half of the weighted squares, without priors."""
    return (stack.weights * (evaluate(stack, u, s).output - stack.z) ** 2).sum() / 2


@pytest.mark.parametrize("bounded", [True, False])
def test_a_newton_step_knows_the_second_derivatives(bounded):
    stack = make_stack(bounded)
    point = make_point(stack)
    columns = point.u.shape[2]
    at = evaluate(stack, point.u, point.s)
    # Outputs so near that no curvature by values is raised to keep it positive.
    stack.z.copy_(at.output + 0.05 * (stack.z - at.output))
    pull = compute_gradient(stack, point.u, at)
    found = differentiate(stack, point.u, at, torch.ones(1, 1).double(), pull)

    def misfit(u, s):
        return compute_misfit(stack, u, s)

    second = torch.autograd.functional.hessian(misfit, (point.u, point.s))
    (uu, us), (_, ss) = second
    uu, us, ss = uu[0, 0, :, :, 0, 0], us[0, 0, :, :, 0, 0], ss[0, 0, :, 0, 0]
    for column in range(columns):
        torch.testing.assert_close(found.uu[0, 0, column], uu[column, :, column])
        torch.testing.assert_close(found.us[0, 0, column], us[column])
    torch.testing.assert_close(found.ss[0, 0], ss)
    assert float(uu[0, :, 1].abs().max()) < 1e-12  # values of one output know of no other


def test_without_newton_the_curvature_is_gauss_and_newtons():
    stack = make_stack()
    point = make_point(stack)
    at = evaluate(stack, point.u, point.s)
    stack.z.copy_(at.output)  # without errors the two are the same
    gauss, newton = (
        differentiate(stack, point.u, at, flag, compute_gradient(stack, point.u, at))
        for flag in (None, torch.ones(1, 1).double())
    )
    for name in ("uu", "us", "ss"):
        torch.testing.assert_close(getattr(gauss, name), getattr(newton, name))


def test_a_fit_arrives_although_values_stand_at_the_end_of_the_range():
    stack = make_stack(far=8.0, calls=120, columns=1, texts=6)
    begun = make_point(stack)
    end = descend(stack, begun, 100, 1e-9)
    assert bool((end.u.abs() == FIT.farthest).any())  # otherwise nothing is held
    further = descend(stack, end, 100, 1e-9)
    costs = [
        compute_cost(stack, evaluate(stack, one.u, one.s).output, one) for one in (end, further)
    ]
    torch.testing.assert_close(costs[0], costs[1], rtol=1e-8, atol=0)


def test_a_problem_ends_where_it_would_end_alone():
    stack = make_stack(texts=5)
    begun = make_point(stack)
    together = descend(stack, begun, 30, 1e-9)
    for number in range(5):
        here = torch.tensor([number])
        alone = descend(stack.pick(here), begun.pick(here), 30, 1e-9)
        torch.testing.assert_close(together.u[here], alone.u, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(together.s[here], alone.s, rtol=1e-9, atol=1e-9)
