"""Modes of the script: they see its own operations, and none of ours."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from passes import explored, recorded
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from gradscope.debuggee.capture import capture
from gradscope.debuggee.commit import Check
from gradscope.debuggee.explore import CannotExplore, explore
from gradscope.debuggee.modes import dispatch_mode, modes_off, modes_on

pytestmark = pytest.mark.usefixtures("noted")


class Log(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


def graph() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x * 2
    h.register_hook(lambda gradient: gradient * 10)
    return (h.exp() + h).sum(), x


_TAKEN = {"aten.detach.default", "aten.new_empty_strided.default", "aten.copy_.default", "aten.clone.default"}
"""how AccumulateGrad takes a gradient in depends on whether anybody holds it"""


def test_a_dispatch_mode_sees_the_recorded_call_and_nothing_else() -> None:
    root, x = graph()
    with Log() as plain:
        root.backward()
    root, x = graph()
    with Log() as log:
        passed = recorded(root)
    with Log() as seeding:
        torch.ones_like(root)  # by `recorded`
    expected = [name for name in seeding.seen + plain.seen if name not in _TAKEN]
    assert [name for name in log.seen if name not in _TAKEN] == expected
    assert passed.columns.exact == "true"
    assert torch.equal(passed.total(0), x.grad)


def test_a_call_under_a_dispatch_mode_is_not_tried_out_beforehand() -> None:
    root, _ = graph()
    with Log() as log, modes_off():
        captured = capture([root])
        with pytest.raises(CannotExplore) as caught:
            explore(captured, [torch.ones(())])
    assert "Log" in caught.value.why
    assert log.seen == []
    assert capture([root]).refusal == ""


def test_a_function_mode_sees_nothing_of_an_exploring_pass_but_what_hooks_do() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x * 2
    h.register_hook(lambda gradient: torch.mul(gradient, 10))
    root = h.exp().sum()
    seed = torch.ones(())
    with Functions() as log:
        captured = capture([root])
        log.seen.clear()
        tape, held = explore(captured, [seed])
        check = Check.of_tape(captured, tape, held)
        assert log.seen == [torch.mul]
        root.backward()
        log.seen.clear()
        assert check.verdict().exact == "true"
        assert log.seen == []


def test_a_default_device_moves_nothing_of_ours() -> None:
    root, x = graph()
    torch.set_default_device("meta")
    try:
        seed = torch.ones((), device="cpu")
        first = recorded(root, seed)
        root, _ = graph_on_cpu()
        second = explored(root, seed)
    finally:
        torch.set_default_device(None)
    assert (first.columns.exact, second.columns.exact) == ("true", "true")
    assert torch.equal(first.total(0), x.grad)
    assert torch.equal(second.total(0), x.grad)
    assert first.tape.norm(first.tape.leaf_total(0)) == pytest.approx(x.grad.norm().item())


def graph_on_cpu() -> tuple[torch.Tensor, torch.Tensor]:
    with torch.device("cpu"):
        return graph()


def test_modes_come_back_in_their_order() -> None:
    depth = torch._C._len_torch_function_stack
    with Functions() as outer, Functions() as inner, Log() as log:
        with modes_off():
            assert depth() == 0
            assert dispatch_mode() == "Log"
            torch.ones(2) + 1
            with modes_on():
                assert depth() == 2
                with modes_off():
                    assert depth() == 0
            assert depth() == 0
        assert (outer.seen, inner.seen, log.seen) == ([], [], [])
        assert [torch._C._get_function_stack_at(place) for place in range(depth())] == [outer, inner]
        torch.ones(2)
    assert (len(outer.seen), len(inner.seen), len(log.seen)) == (1, 1, 1)
    assert dispatch_mode() == ""
