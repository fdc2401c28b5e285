"""Checks of custom Functions: right ones are right, and each way to be wrong is found and named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.autograd.function import once_differentiable

from gradscope.debuggee import apply_inputs
from gradscope.debuggee.capture import capture
from gradscope.debuggee.checking import check
from gradscope.debuggee.node_calls import materialized
from gradscope.debuggee.record import Cancelled
from gradscope.errors import UsageError
from gradscope.model.checks import RIGHT, UNKNOWN_RESULT, WRONG, CheckResult, CheckRow

LINEAR = "linear in the incoming gradient"
UNTOUCHED = "leaves the incoming gradient as it is"
SAME = "the same again makes the same"
COUNT = "one gradient for each input"
SHAPE = "each gradient has its input's shape"
CALLS_ARE_SEEN = hasattr(torch.autograd.Function.apply, "__func__")
"""torch 2.14 calls Functions in C"""
RECORDED = "the recorded step against float64"


@pytest.fixture(autouse=True)
def inputs_are_noted(noted: None) -> Iterator[None]:
    uninstall = apply_inputs.install()
    yield
    uninstall()


def made(backward: Callable[..., Any], forward: Callable[..., Any] | None = None) -> Any:
    """A Function of x whose forward is 5·x³ unless told."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.k = 5.0
            return (forward or (lambda x: x**3 * 5))(x)  # type: ignore[no-any-return]

    Cube.backward = staticmethod(backward)  # type: ignore[assignment]
    return Cube


def right(ctx: Any, g: torch.Tensor) -> Any:
    (x,) = ctx.saved_tensors
    return g * 3 * x**2 * ctx.k


def checked(root: torch.Tensor, poll: Any = None) -> CheckResult:
    captured = capture([root])
    number = next(n for n, op in enumerate(captured.ops) if op.endswith("Backward"))
    slots = captured.first_slot[number + 1] - captured.first_slot[number]
    return check(captured, number, [None] * slots, poll)


def rows_of(result: CheckResult) -> dict[str, CheckRow]:
    return {row.what: row for row in result.rows}


def applied(function: Any) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.linspace(0.5, 2, 4).requires_grad_()
    return function.apply(x), x


def test_a_right_one_is_right_in_every_respect() -> None:
    result = checked(applied(made(right))[0])
    assert [(row.what, row.verdict, row.why) for row in result.rows] == [
        (UNTOUCHED, RIGHT, ""),
        (SAME, RIGHT, ""),
        (COUNT, RIGHT, ""),
        (SHAPE, RIGHT, ""),
        (LINEAR, RIGHT, ""),
        ("∂x against finite differences", RIGHT, ""),
        (RECORDED, RIGHT, ""),
    ]
    rows = rows_of(result)
    assert rows["∂x against finite differences"].error is not None
    assert rows["∂x against finite differences"].error < 1e-7
    assert result.how.startswith("the forward of Cube.apply (test_checking.py:")
    assert result.how.endswith(" again in float64")


def test_a_wrong_factor_is_found_element_by_element() -> None:
    def wrong(ctx: Any, g: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        factor = torch.ones_like(x)
        factor[2] = 2.0
        return g * 3 * x**2 * ctx.k * factor

    rows = rows_of(checked(applied(made(wrong))[0]))
    row = rows["∂x against finite differences"]
    assert row.verdict == WRONG
    assert row.error is not None
    assert row.why.startswith("element [2]: backward says ")
    backward, differences = (float(part.split(" ")[-1]) for part in row.why.split(","))
    assert backward == pytest.approx(2 * differences, rel=1e-4)
    assert rows[LINEAR].verdict == RIGHT
    assert rows[RECORDED].verdict == RIGHT


WAYS: list[tuple[str, Callable[..., Any], str]] = [
    (LINEAR, lambda ctx, g: g.sign(), "gradient 0: f(0.75·g₁ -1.5·g₂) is not 0.75·f(g₁) -1.5·f(g₂)"),
    (LINEAR, lambda ctx, g: g / (g.norm() + 1), "gradient 0"),
    (UNTOUCHED, lambda ctx, g: g.mul_(2), "gradient 0 was edited in place"),
    (SAME, lambda ctx, g: g * torch.rand(()), "two runs on the same gradient differ"),
    (COUNT, lambda ctx, g: (), "0 gradients for 1 inputs"),
    (COUNT, lambda ctx, g: (g, g), "2 gradients for 1 inputs"),
    (SHAPE, lambda ctx, g: g[:2], "gradient 0 is [2], the input [4]"),
    (SHAPE, lambda ctx, g: 1.0, "gradient 0 is no tensor but float"),
]


@pytest.mark.parametrize(("what", "backward", "why"), WAYS)
def test_each_way_to_be_wrong_is_named(what: str, backward: Callable[..., Any], why: str) -> None:
    row = rows_of(checked(applied(made(backward))[0]))[what]
    assert row.verdict == WRONG
    assert row.why.startswith(why)


def test_what_torch_puts_right_is_remarked() -> None:
    def wide(ctx: Any, g: torch.Tensor) -> Any:
        return right(ctx, g.double()).expand(2, 4) / 2

    rows = rows_of(checked(applied(made(wide))[0]))
    assert rows[SHAPE] == CheckRow(
        SHAPE,
        RIGHT,
        why="gradient 0 is [2, 4], the input [4]: torch sums it; gradient 0 is float64, the input float32: torch casts it",
    )
    assert rows["∂x against finite differences"].verdict == RIGHT


def test_a_missing_gradient_counts_as_zero() -> None:
    rows = rows_of(checked(applied(made(lambda ctx, g: None))[0]))
    row = rows["∂x against finite differences"]
    assert (row.verdict, row.error) == (WRONG, pytest.approx(1.0))
    assert "backward says 0" in row.why


def test_a_straight_through_estimator_is_told_from_a_derivative() -> None:
    rows = rows_of(checked(applied(made(lambda ctx, g: g, lambda x: x.round()))[0]))
    row = rows["∂x against finite differences"]
    assert row.verdict == WRONG
    assert row.why.endswith("differences say 0; 2 left out: the forward has a kink there")  # where it jumps


def test_setup_context_several_inputs_and_outputs() -> None:
    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return a @ b, a.sum()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor) -> Any:
            a, b = ctx.saved_tensors
            return g @ b.t() + h, a.t() @ g * 1.5

    a, b = torch.rand(2, 3, requires_grad=True), torch.rand(3, 2, requires_grad=True)
    one, _ = Pair.apply(a, b)
    rows = rows_of(checked(one.sum()))
    assert rows["∂a against finite differences"].verdict == RIGHT
    wrong = rows["∂b against finite differences"]
    assert (wrong.verdict, wrong.error) == (WRONG, pytest.approx(0.5, abs=1e-5))
    assert (rows[LINEAR].verdict, rows[COUNT].verdict) == (RIGHT, RIGHT)


def test_inputs_that_are_gone_leave_linearity() -> None:
    def by_result(ctx: Any, g: torch.Tensor) -> Any:
        return g * 2, None

    class Plain(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, k: Any) -> torch.Tensor:
            return x * 2

        backward = staticmethod(by_result)

    leaf = torch.ones(3, requires_grad=True)
    kept: list[torch.Tensor] = []

    def edited(h: torch.Tensor) -> Any:
        kept.append(h)
        out = Plain.apply(h, 1)
        with torch.no_grad():
            h.add_(1)
        return out

    def unseen() -> Any:
        out = Plain.apply(leaf, 1)
        apply_inputs._calls.clear()
        return out

    no_call = "its call was not seen, and x is not among the tensors that it saved"
    builds: list[tuple[Callable[[], torch.Tensor], str]] = [
        (lambda: Plain.apply(leaf * 2, 1), "its inputs are gone: x was freed"),
        (lambda: edited(leaf * 2), "its inputs are gone: x was edited in place since"),
        (lambda: Plain.apply(leaf, [1, 2]), "its inputs are not kept: k is a list"),
        (unseen, no_call),
    ]
    for build, why in builds:
        result = checked(build())
        rows = rows_of(result)
        row = rows["against finite differences"]
        why = why if CALLS_ARE_SEEN else no_call
        assert (row.verdict, row.why, rows[LINEAR].verdict) == (UNKNOWN_RESULT, why, RIGHT)
        assert result.how.startswith("the backward of Plain (test_checking.py:")


def test_inputs_that_were_saved_are_enough_where_the_call_was_not_seen() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(b, a)
            return a * b * b

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            b, a = ctx.saved_tensors
            return g * b * b, g * a * b

    a, b = (torch.rand(3, requires_grad=True) for _ in range(2))
    y = Product.apply(a * 2, b)
    apply_inputs._calls.clear()
    rows = rows_of(checked(y))
    assert rows["∂a against finite differences"].verdict == RIGHT
    assert rows["∂b against finite differences"].verdict == WRONG
    assert rows["∂b against finite differences"].error == pytest.approx(0.5)


def test_a_forward_that_draws_is_checked_with_the_same_numbers() -> None:
    class Drop(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.mask = (torch.rand(x.shape) > 0.5).to(x.dtype) * 2
            return x * ctx.mask

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return g * ctx.mask

    x = torch.ones(20, requires_grad=True)
    y = Drop.apply(x)
    state = torch.get_rng_state()
    rows = rows_of(checked(y))
    assert torch.equal(torch.get_rng_state(), state)
    assert rows["∂x against finite differences"].verdict == RIGHT
    assert rows[RECORDED].verdict == UNKNOWN_RESULT
    assert "random numbers" in rows[RECORDED].why


def test_a_context_that_has_changed_since_is_found() -> None:
    y, _ = applied(made(right))
    y.grad_fn.k = 6.0  # type: ignore[union-attr]
    rows = rows_of(checked(y))
    assert rows["∂x against finite differences"].verdict == RIGHT
    row = rows[RECORDED]
    assert (row.verdict, row.error) == (WRONG, pytest.approx(0.2, rel=1e-5))
    assert "what it keeps has changed?" in row.why


def test_plain_arguments_are_those_of_the_call() -> None:
    class Power(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, exponent: int, shifts: tuple[float, ...]) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.exponent = exponent
            return x**exponent + shifts[1]

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return g * ctx.exponent * x ** (ctx.exponent - 1), None, None

    rows = checked(Power.apply(torch.rand(3, requires_grad=True) * 2, 4, (0.5, 1.5))).rows
    assert {row.verdict for row in rows} == ({RIGHT} if CALLS_ARE_SEEN else {RIGHT, UNKNOWN_RESULT})


def test_everything_is_as_it_was() -> None:
    count: list[int] = []

    def counting(ctx: Any, g: torch.Tensor) -> Any:
        ctx.k += 0.0
        ctx.uses = getattr(ctx, "uses", 0) + 1
        count.append(1)
        return right(ctx, g)

    y, x = applied(made(counting))
    version, numbers = x._version, x.detach().clone()
    x.grad = torch.ones(4)
    gradient = x.grad
    checked(y)
    assert count == []
    assert not hasattr(y.grad_fn, "uses")
    assert (x._version, torch.equal(x.detach(), numbers)) == (version, True)
    assert x.grad is gradient
    y.sum().backward()
    assert count == [1]
    assert torch.allclose(x.grad, 1 + 15 * numbers**2)


def test_a_backward_that_fails_says_so() -> None:
    def fails(ctx: Any, g: torch.Tensor) -> Any:
        raise ValueError("no cube today")

    rows = rows_of(checked(applied(made(fails))[0]))
    assert rows[LINEAR].why == "the backward raised ValueError: no cube today"
    assert "ValueError: no cube today" in rows["against finite differences"].why


def test_functions_of_torchs_own_are_left_to_the_engine() -> None:
    layer = torch.nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda module, grads, outputs: None)
    result = checked(layer(torch.ones(1, 2, requires_grad=True)).sum())
    assert [(row.verdict, row.why) for row in result.rows] == [
        (UNKNOWN_RESULT, "BackwardHookFunction is a Function of torch's own")
    ]


def test_it_can_be_given_up() -> None:
    y, _ = applied(made(right))
    with pytest.raises(Cancelled):
        checked(y, lambda done: done > 3)
    with pytest.raises(UsageError, match="no such node"):
        check(capture([y]), 99, None)


@pytest.mark.parametrize("materialize", [True, False])
def test_undefined_gradients_come_as_the_function_wants_them(materialize: bool) -> None:
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.set_materialize_grads(materialize)
            ctx.save_for_backward(x)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return (0 if g is None else 2 * g) + (0 if h is None else 3 * h)

    x = torch.ones(2, requires_grad=True)
    one, _ = Two.apply(x)
    captured = capture([one])
    backward = Two.backward
    given = materialized(captured, 0, [torch.ones(2), None])
    assert [None if g is None else g.tolist() for g in given] == [[1, 1], [0, 0] if materialize else None]
    assert Two.backward is backward
    assert {row.verdict for row in checked(one).rows} == {RIGHT}
