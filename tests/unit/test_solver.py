"""The steps of the solver: their derivatives are exact, and they arrive."""

import pytest
import torch

from slalom_xai.slalom.settings import FIT
from slalom_xai.slalom.solver import (
    Point,
    Stack,
    compute_cost,
    descend,
    differentiate_for_step,
    evaluate,
)


def make_stack(bounded=True, calls=40, columns=2, far=1.0, problems=1):
    """Problems of eight units and the sink, with outputs that no formula follows exactly."""
    generator = torch.Generator().manual_seed(0)
    kept = (torch.rand(problems, calls, 8, generator=generator) > 0.4).double()
    x = torch.cat([kept, (1 - kept).sum(dim=2, keepdim=True)], dim=2)
    effects = torch.randn(problems, 8, columns, generator=generator).double()
    noise = 0.1 * torch.randn(problems, calls, columns, generator=generator).double()
    z = torch.tanh(far * (kept @ effects)) * 0.97 + noise
    ones = torch.ones(problems, 9).double()
    return Stack(x, z, torch.ones_like(z), ones, 0 * ones, torch.full((problems,), bounded), FIT)


def make_point(stack):
    """Somewhere near the middle, with weak priors."""
    generator = torch.Generator().manual_seed(1)
    problems, _, p = stack.x.shape
    u = 0.5 * torch.randn(problems, p, stack.z.shape[2], generator=generator).double()
    s = 0.5 * torch.randn(problems, p, generator=generator).double()
    weak = torch.full((problems,), 1e-3).double()
    return Point(u, s, weak, weak)


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
    found = differentiate_for_step(stack, point.u, at, torch.ones(1).double())

    def misfit(u, s):
        return compute_misfit(stack, u, s)

    second = torch.autograd.functional.hessian(misfit, (point.u, point.s))
    (uu, us), (_, ss) = second
    uu, us, ss = uu[0, :, :, 0], us[0, :, :, 0], ss[0, :, 0]  # (p, C, p, C), (p, C, p), (p, p)
    for column in range(columns):
        torch.testing.assert_close(found.uu[0, column], uu[:, column, :, column])
        torch.testing.assert_close(found.us[0, column], us[:, column])
    torch.testing.assert_close(found.ss[0], ss)
    assert float(uu[:, 0, :, 1].abs().max()) < 1e-12  # values of one output know of no other


def test_without_newton_the_curvature_is_gauss_and_newtons():
    stack = make_stack()
    point = make_point(stack)
    at = evaluate(stack, point.u, point.s)
    stack.z.copy_(at.output)  # without errors the two are the same
    gauss, newton = (
        differentiate_for_step(stack, point.u, at, flag * torch.ones(1).double()) for flag in (0, 1)
    )
    for name in ("uu", "us", "ss"):
        torch.testing.assert_close(getattr(gauss, name), getattr(newton, name))


def test_a_fit_arrives_although_values_stand_at_the_end_of_the_range():
    stack = make_stack(far=8.0, calls=120, columns=1, problems=6)
    begun = make_point(stack)
    end = descend(stack, begun, 60, FIT.settled)
    assert bool((end.u.abs() == FIT.farthest).any())  # otherwise nothing is held
    further = descend(stack, end, 60, FIT.settled)
    costs = [
        compute_cost(stack, evaluate(stack, one.u, one.s).output, one) for one in (end, further)
    ]
    torch.testing.assert_close(costs[0], costs[1], rtol=1e-8, atol=0)


def test_a_problem_ends_where_it_would_end_alone():
    stack = make_stack(problems=5)
    begun = make_point(stack)
    together = descend(stack, begun, 30, FIT.settled)
    for number in range(5):
        here = torch.tensor([number])
        alone = descend(stack.pick(here), begun.pick(here), 30, FIT.settled)
        torch.testing.assert_close(together.u[here], alone.u, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(together.s[here], alone.s, rtol=1e-9, atol=1e-9)
