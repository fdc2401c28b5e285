"""Every hook of a graph in the order in which it runs, and what each made of its gradient, against torch itself."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from passes import Pass, explored, recorded
from torch import nn
from torch.autograd.function import once_differentiable

from gradscope.debuggee.capture import capture
from gradscope.debuggee.changes import WhatIfs
from gradscope.debuggee.commit import Check
from gradscope.debuggee.explore import explore
from gradscope.debuggee.other_passes import note_caller
from gradscope.findings import diagnose
from gradscope.model.columns import Change, Hook

pytestmark = pytest.mark.usefixtures("noted")


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers or (1.0, 2.0), requires_grad=True)


def look(gradient: torch.Tensor) -> None:
    pass


def twice(gradient: torch.Tensor) -> torch.Tensor:
    return gradient * 2


def clip(gradient: torch.Tensor) -> None:
    gradient.clamp_(max=10)


def scaled(factor: float, gradient: torch.Tensor) -> torch.Tensor:
    return gradient * factor


def hooks_of(passed: Pass, op: str) -> list[Hook]:
    node = next(node for node in range(len(passed.captured)) if passed.graph.op(node) == op)
    return [hook for _, hook in passed.graph.hooks_of(node)]


def made(passed: Pass, name: str, kind: str = "tensor") -> tuple[Any, Any]:
    """What one hook was given and what it made of it."""
    [place] = [n for n, hook in enumerate(passed.graph.columns.hooks) if hook.name.endswith(name) and hook.kind == kind]
    effect = passed.tape.effect(place)
    assert effect is not None
    assert passed.tape.node_at(effect.step) == passed.graph.columns.hooks[place].node
    before, after = passed.tensor(effect.before), passed.tensor(effect.after)
    return before if before is None else before.tolist(), after if after is None else after.tolist()


def all_kinds() -> tuple[torch.Tensor, torch.Tensor]:
    x = leaf()
    h = x * 3  # 3, 6
    h.grad_fn.register_hook(lambda sent, handed: (sent[0] * 10, None))
    h.grad_fn.register_prehook(lambda handed: (handed[0] + 1,))
    h.retain_grad()
    h.register_hook(look)
    h.register_hook(twice)
    h.register_hook(clip)
    return (h * h).sum(), x


def test_the_hooks_of_a_node_in_the_order_in_which_they_run() -> None:
    y, x = all_kinds()
    x.register_post_accumulate_grad_hook(look)
    x.register_hook(functools.partial(scaled, 3.0))
    passed = explored(y)
    first, last = passed.graph.columns.hooks[0].node, passed.graph.columns.hooks[-1].node
    assert [(hook.kind, hook.name, hook.input_nr) for _, hook in passed.graph.hooks_of(first)] == [
        ("tensor", "look", 0),
        ("tensor", "twice", 0),
        ("tensor", "clip", 0),
        ("retain", "retain_grad", 0),
        ("pre", "all_kinds.<lambda>", -1),
        ("post", "all_kinds.<lambda>", -1),
    ]
    assert [(hook.kind, hook.name) for _, hook in passed.graph.hooks_of(last)] == [("tensor", "scaled"), ("accumulate", "look")]
    place = passed.graph.columns.hooks[1].place
    assert place is not None
    line = twice.__code__.co_firstlineno
    assert (place.file, place.line, place.function, place.last) == (__file__, line, "twice", line + 1)


@pytest.mark.parametrize("run", [explored, recorded])
def test_each_hook_by_itself(run: Any) -> None:
    y, _ = all_kinds()
    passed = run(y)
    assert made(passed, "look") == ([6.0, 12.0], [6.0, 12.0])
    assert made(passed, "twice") == ([6.0, 12.0], [12.0, 24.0])
    assert made(passed, "clip") == ([12.0, 24.0], [10.0, 10.0])
    assert made(passed, "<lambda>", "pre") == ([10.0, 10.0], [11.0, 11.0])
    assert made(passed, "<lambda>", "post") == ([33.0, 33.0], [330.0, 330.0])
    assert passed.total(0).tolist() == [330.0, 330.0]
    [step] = passed.columns.hook_changed
    assert passed.tape.node_at(step) == passed.graph.columns.hooks[0].node


PATIENCE = 60.0


@contextmanager
def another_thread(*, calls: bool) -> Iterator[None]:
    """One that lives meanwhile; with `calls` one that makes backward calls of the script's."""
    begun, over = threading.Event(), threading.Event()

    def live() -> None:
        if calls:
            note_caller()
        begun.set()
        over.wait(PATIENCE)

    thread = threading.Thread(target=live)
    thread.start()
    assert begun.wait(PATIENCE)
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE)


@pytest.mark.parametrize("run", [explored, recorded])
def test_a_thread_that_calls_no_backward_is_no_company(run: Any) -> None:
    with another_thread(calls=True):
        pass  # its number is given to the next one
    y, _ = all_kinds()
    with another_thread(calls=False):
        passed = run(y)
    assert made(passed, "twice") == ([6.0, 12.0], [12.0, 24.0])
    assert made(passed, "clip") == ([12.0, 24.0], [10.0, 10.0])


@pytest.mark.parametrize("run", [explored, recorded])
def test_beside_another_thread_that_calls_backward_only_lone_hooks_are_told(run: Any) -> None:
    y, _ = all_kinds()
    x = leaf()
    x.register_hook(twice)
    with another_thread(calls=True):
        several, lone = run(y), run((x * 3).sum())
    assert [effect.hook for effect in several.columns.hook_effects] == []
    assert made(lone, "twice") == ([3.0, 3.0], [6.0, 6.0])
    assert made(run(all_kinds()[0]), "twice") == ([6.0, 12.0], [12.0, 24.0])


def test_a_hook_that_changes_nothing_has_one_number() -> None:
    x = leaf()
    x.register_hook(look)
    passed = explored((x * x + x).sum())
    effect = passed.tape.effect(0)
    assert effect is not None
    assert effect.before == effect.after == passed.tape.arrived(passed.tape.node_at(effect.step))
    assert passed.columns.hook_changed == []


def test_two_hooks_that_undo_each_other_did_change_it() -> None:
    x = leaf()
    h = x * 1
    h.register_hook(twice)
    h.register_hook(lambda gradient: gradient / 2)
    passed = explored((h + 1).sum())
    assert made(passed, "twice") == ([1.0, 1.0], [2.0, 2.0])
    assert len(passed.columns.hook_changed) == 1
    assert passed.columns.exact == "true"


def test_tables_are_what_they_were() -> None:
    x = leaf()
    h = x * 3
    handles = [h.register_hook(look)]

    def remove(gradient: torch.Tensor) -> torch.Tensor:
        handles[1].remove()
        h.register_hook(clip)
        return gradient * 5

    handles.append(h.register_hook(remove))
    h.register_hook(twice)
    before = list(h._backward_hooks.items())
    y = (h * 1).sum()
    for _ in range(2):
        assert explored(y).total(0).tolist() == [30.0, 30.0]
        assert list(h._backward_hooks.items()) == before
    y.backward(retain_graph=True)
    assert x.grad.tolist() == [30.0, 30.0]
    assert [hook.__name__ for hook in h._backward_hooks.values()] == ["look", "twice", "clip"]


def test_in_the_scripts_own_call_hooks_may_remove_themselves() -> None:
    x = leaf()
    h = x * 3
    h.register_hook(look)
    handle = h.register_hook(lambda gradient: handle.remove())
    recorded((h * 1).sum())
    assert [hook.__name__ for hook in h._backward_hooks.values()] == ["look"]


def test_tables_are_put_back_after_an_error() -> None:
    def fails(gradient: torch.Tensor) -> None:
        raise ValueError("no")

    x = leaf()
    h = x * 3
    h.register_hook(twice)
    h.register_hook(fails)
    before = list(h._backward_hooks.items())
    passed = explored((h * 1).sum())
    assert passed.columns.failure is not None
    assert list(h._backward_hooks.items()) == before


def test_module_hooks_go_by_the_persons_names() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2, bias=False)
            nn.init.eye_(self.fc.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x)

    def triple(module: nn.Module, sent: Any, handed: Any) -> Any:
        return (sent[0] * 3,)

    def negate(module: nn.Module, handed: Any) -> Any:
        return (-handed[0],)

    net = Net()
    net.fc.register_full_backward_hook(triple)
    net.fc.register_full_backward_hook(lambda module, sent, handed: None)
    net.fc.register_full_backward_pre_hook(negate)
    x = leaf()
    passed = explored(net(x * 1).sum())
    listed = [(hook.kind, hook.name.rpartition(".")[2]) for hook in passed.graph.columns.hooks]
    assert listed == [("module_pre", "negate"), ("module", "triple"), ("module", "<lambda>")]
    assert made(passed, "negate", "module_pre") == ([1.0, 1.0], [-1.0, -1.0])
    assert made(passed, "triple", "module") == ([-1.0, -1.0], [-3.0, -3.0])
    assert made(passed, "<lambda>", "module") == ([-3.0, -3.0], [-3.0, -3.0])
    [at_x] = [place for place, one in enumerate(passed.captured.leaves) if one.variable is x]
    assert passed.total(at_x).tolist() == [-3.0, -3.0]
    told = [one.message for one in diagnose(passed.graph, passed.tape) if one.kind == "hook-changed"]
    assert [message.rpartition(": norm ")[2] for message in told] == ["1.41 before it, 1.41 after", "1.41 before it, 4.24 after"]
    why = " ".join(passed.graph.columns.foreign.values())
    assert "triple (test_hooks.py:" in why
    assert "negate (test_hooks.py:" in why


def test_a_node_hook_of_several_slots_has_an_effect_for_each() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    first, second = x.unbind()
    first.grad_fn.register_prehook(lambda handed: (handed[0], handed[1] * 7))
    passed = explored((first + second).sum())
    assert [(passed.tensor(one.before).tolist(), passed.tensor(one.after).tolist()) for one in passed.tape.effects(0)] == [
        ([1.0, 1.0], [1.0, 1.0]),
        ([1.0, 1.0], [7.0, 7.0]),
    ]
    effect = passed.tape.effect(0)
    assert effect is not None
    assert effect.slot == 1


@pytest.mark.parametrize("run", [explored, recorded])
@pytest.mark.parametrize("own", [False, True])
def test_what_retain_grad_stores(run: Any, own: bool) -> None:
    x = leaf()
    h = x * 3
    h.retain_grad()
    h.register_hook(twice)
    if own:
        h.grad_fn.register_prehook(lambda handed: (handed[0] + 100,))
    y = (h * h).sum()
    passed = run(y)
    assert made(passed, "retain_grad", "retain") == ([12.0, 24.0], [12.0, 24.0])
    if run is explored:
        y.backward()
    assert h.grad.tolist() == [12.0, 24.0]


def test_what_retain_grad_stores_is_not_the_what_if() -> None:
    h = leaf() * 3
    h.retain_grad()
    captured = capture([(h * h).sum()])
    changes = [Change(captured.ops.index("MulBackward0", captured.ops.index("MulBackward0") + 1), 0, text="*2")]
    passed = Pass(captured, *explore(captured, [torch.ones(())], what_ifs=WhatIfs(captured, changes)))
    assert made(passed, "retain_grad", "retain") == ([6.0, 12.0], [6.0, 12.0])
    assert passed.total(0).tolist() == [36.0, 72.0]


def test_post_accumulate_hooks_in_the_scripts_own_call() -> None:
    x = leaf()
    x.grad = torch.tensor([100.0, 200.0])

    def halve(parameter: torch.Tensor) -> None:
        parameter.grad.mul_(0.5)

    x.register_post_accumulate_grad_hook(halve)
    passed = recorded((x * x).sum())
    assert made(passed, "halve", "accumulate") == ([102.0, 204.0], [51.0, 102.0])
    assert x.grad.tolist() == [51.0, 102.0]
    assert explored((x * x).sum()).tape.effect(0) is None


def test_a_call_is_not_called_exact_where_hooks_write_a_gradient_themselves() -> None:
    def quarter(parameter: torch.Tensor) -> None:
        parameter.grad.mul_(0.25)

    x, z = leaf(), leaf()
    z.register_post_accumulate_grad_hook(quarter)
    y = (x * z).sum()
    passed = explored(y)
    check = Check.of_tape(passed.captured, passed.columns, passed.held)
    y.backward()
    verdict = check.verdict()
    why = "hooks write into .grad themselves, of 1 of 2 leaves; the others are what this says"
    assert (verdict.exact, verdict.reason, verdict.differing) == ("unchecked", why, ())
    [place] = [place for place, one in enumerate(passed.captured.leaves) if one.variable is z]
    assert passed.total(place).tolist() == [1.0, 2.0]
    assert z.grad.tolist() == [0.25, 0.5]


def test_a_seed_that_a_hook_edits_in_place() -> None:
    seed, again = torch.ones(2), torch.ones(2)
    x = leaf()
    y = x * 2
    y.register_hook(lambda gradient: gradient.mul_(2))
    for _ in range(2):
        passed = explored(y, seed)
        assert passed.total(0).tolist() == [4.0, 4.0]
    assert seed.tolist() == [1.0, 1.0]
    passed = recorded(y, again)
    assert passed.tensor(passed.tape.seeds[0].tensor).tolist() == [1.0, 1.0]
    assert (again.tolist(), x.grad.tolist()) == ([2.0, 2.0], [4.0, 4.0])


def test_hooks_of_saved_tensors() -> None:
    def unpack(packed: torch.Tensor) -> torch.Tensor:
        return packed

    x = leaf()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = (x * x).sum()
    [hook] = hooks_of(explored(y), "MulBackward0")
    assert (hook.kind, hook.name.rpartition(".")[2]) == ("unpack", "unpack")


def test_a_hook_of_many_tensors_goes_by_the_persons_function() -> None:
    x, z = leaf(), leaf()
    seen = []

    def both(gradients: Any) -> None:
        seen.append(len(gradients))

    torch.autograd.graph.register_multi_grad_hook((x, z), both)
    passed = explored((x * z).sum())
    assert {hook.name.rpartition(".")[2] for hook in passed.graph.columns.hooks} == {"both"}


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        return a.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2  # the last line


class InTwoSteps(torch.autograd.Function):
    @staticmethod
    def forward(a: torch.Tensor) -> torch.Tensor:
        return a.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vjp(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


@pytest.mark.parametrize(("function", "name", "method"), [(Once, "backward", Once.backward), (InTwoSteps, "vjp", InTwoSteps.vjp)])
def test_where_the_backward_of_a_custom_function_is(function: Any, name: str, method: Any) -> None:
    passed = explored(function.apply(leaf()).sum())
    [place] = passed.graph.columns.backward_code.values()
    code = getattr(method, "__wrapped__", method).__code__
    assert (place.file, place.line, place.function) == (__file__, code.co_firstlineno, f"{function.__name__}.{name}")
    with open(__file__, encoding="utf-8") as lines:
        last = lines.readlines()[place.last - 1]
    assert ("the last line" if function is Once else "return gradient") in last
