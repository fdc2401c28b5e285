"""What-ifs in exploring passes: against numbers by hand, and against torch with the edge cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from passes import Pass

from gradscope.debuggee.capture import Captured, capture
from gradscope.debuggee.change_text import ChangeError, changed
from gradscope.debuggee.changes import WhatIfs
from gradscope.debuggee.exactness import same_bits
from gradscope.debuggee.explore import explore
from gradscope.debuggee.seeds import Root
from gradscope.model.columns import Change
from gradscope.model.places import UNKNOWN

pytestmark = pytest.mark.usefixtures("noted")


def what_if(captured: Captured, *changes: Change, seed: Any = None, **options: Any) -> Pass:
    """A pass with changes, its sums checked."""
    seeds = [torch.ones(root.shape, dtype=root.dtype) if seed is None else seed for root in captured.roots]
    passed = Pass(captured, *explore(captured, seeds, what_ifs=WhatIfs(captured, changes), **options))
    if passed.columns.failure is None:
        assert passed.columns.exact == "true", passed.columns.exact_reason
    return passed


def at(captured: Captured, op: str, text: str, place: int = 0, input_nr: int = 0) -> Change:
    """A change of what arrives at the node of that name, the `place`-th."""
    nodes = [node for node, name in enumerate(captured.ops) if name.startswith(op)]
    return Change(nodes[place], input_nr, UNKNOWN, text)


def over(captured: Captured, source: str, text: str, slot: int = 0) -> Change:
    """A change of what a node sends over one of its edges."""
    edge = captured.first_edge[captured.ops.index(source)] + slot
    return Change(captured.edge_target[edge], captured.edge_input_nr[edge], edge, text)


def sine_and_double() -> tuple[torch.Tensor, torch.Tensor]:
    """y = sin(3x) + 3x·2: two ways from y to x."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x * 3
    return h.sin() + h * 2, x


BY_HAND: list[tuple[str, list[float]]] = [
    ("*0.5", [0.5, 1.0]),
    ("/ 2", [0.5, 1.0]),
    ("*-1", [-1.0, -2.0]),
    ("zeros", [0.0, 0.0]),
    ("0", [0.0, 0.0]),
    ("7,8", [7.0, 8.0]),
    ("clip(1.5)", [1.0, 1.5]),
    ("clip(1.25, 1.75)", [1.25, 1.75]),
    ("clipnorm(1)", [1 / 5**0.5, 2 / 5**0.5]),
    ("clipnorm(3)", [1.0, 2.0]),
    ("g.flip(0) + 1", [3.0, 2.0]),
    ("g.mul_(4)", [4.0, 8.0]),
    ("g / g.sum()", [1 / 3, 2 / 3]),
    ("onehot(1)", [0.0, 1.0]),
    ("torch.tensor(5)", [5.0, 5.0]),
    ("*g", [1.0, 4.0]),
]


@pytest.mark.parametrize(("text", "becomes"), BY_HAND)
def test_what_a_text_makes_of_a_gradient(text: str, becomes: list[float]) -> None:
    gradient = torch.tensor([1.0, 2.0])
    made = changed(text, Root.of(gradient), gradient)
    assert made is not None
    assert made.tolist() == pytest.approx(becomes)
    assert gradient.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("text", ["none", "*2", "clip(1)", "clipnorm(1)"])
def test_what_has_nothing_to_scale_stays_undefined(text: str) -> None:
    assert changed(text, Root((2,), torch.float32, torch.device("cpu")), None) is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "nothing was typed"),
        ("1,2,3", "3 cells for 2 elements"),
        ("torch.ones(3)", "the shapes differ"),
        ("g.nothing", "no attribute 'nothing'"),
        ("g[:1] @ g", "size"),
        ("clip()", "wrong number of limits"),
        ("clip(1, 2, 3)", "wrong number of limits"),
        ("clip('a')", "clip('a')"),
        ("g +", "no expression"),
        ("1j", "takes a real change"),
        ("g.to_sparse()", "another kind"),
    ],
)
def test_what_makes_no_gradient_says_why(text: str, part: str) -> None:
    gradient = torch.tensor([1.0, 2.0])
    with pytest.raises(ChangeError) as refused:
        changed(text, Root.of(gradient, "MulBackward0"), gradient)
    assert part in str(refused.value)


def test_a_gradient_that_is_not_there_cannot_be_computed_with() -> None:
    with pytest.raises(ChangeError, match="g is undefined"):
        changed("g + 1", Root((2,), torch.float32, torch.device("cpu")), None)


def test_a_scaled_gradient_keeps_its_strides() -> None:
    gradient = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    made = changed("*2", Root.of(gradient), gradient)
    assert made is not None
    assert made.stride() == gradient.stride()


def test_a_sparse_gradient_stays_sparse() -> None:
    table = torch.nn.Embedding(5, 2, sparse=True)
    captured = capture([table(torch.tensor([1, 3, 1])).sum()])
    total = what_if(captured, at(captured, "AccumulateGrad", "*2")).total(0)
    assert total is not None
    assert total.is_sparse
    assert total.to_dense().tolist() == [[0, 0], [4, 4], [0, 0], [2, 2], [0, 0]]
    norm = what_if(captured, at(captured, "AccumulateGrad", "clipnorm(1)")).total(0)
    assert norm is not None
    assert torch.linalg.vector_norm(norm.to_dense()).item() == pytest.approx(1)
    with pytest.raises(ChangeError, match="another kind"):
        what_if(captured, at(captured, "AccumulateGrad", "ones"))


# ---------------------------------------------------------------- where


def test_what_arrives_is_changed_after_all_contributions() -> None:
    y, x = sine_and_double()
    captured = capture([y])
    change = at(captured, "MulBackward0", "*10", 1)  # h, where both ways meet
    passed = what_if(captured, change)
    (plain,) = torch.autograd.grad(y, x, torch.ones(2), retain_graph=True)
    assert torch.allclose(passed.total(0), plain * 10)  # type: ignore[arg-type]
    (kept,) = passed.columns.changes
    before, arrived = passed.tensor(kept.before), passed.tensor(passed.tape.arrived(change.node, 0))
    assert before is not None
    assert same_bits(arrived, before * 10)  # type: ignore[arg-type]
    assert kept.before == passed.tape.to(change.node, 0)[-1].so_far
    assert (passed.columns.hook_changed, passed.columns.mismatches) == ([], [])


def test_what_goes_over_one_edge_is_changed_alone() -> None:
    y, _ = sine_and_double()
    captured = capture([y])
    change = over(captured, "AddBackward0", "0", 1)  # to h * 2
    passed = what_if(captured, change)
    assert torch.allclose(passed.total(0), 3 * torch.tensor([3.0, 6.0]).cos())  # type: ignore[arg-type]
    contribution = passed.tape.contribution_of_edge(change.edge)
    assert contribution is not None
    assert passed.tensor(contribution.tensor).tolist() == [0, 0]  # type: ignore[union-attr]
    assert passed.tensor(passed.columns.changes[0].before).tolist() == [1, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["zeros", "none"])
def test_without_a_gradient_it_is_as_if_the_edge_were_detached(text: str) -> None:
    def build(cut: Callable[[torch.Tensor], torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        generator = torch.Generator().manual_seed(0)
        w, v = (torch.randn(3, 3, generator=generator, requires_grad=True) for _ in range(2))
        h = torch.tanh(w @ v)
        return (cut(h.exp()) @ v + h).square().sum(), [w, v]

    root, _ = build(lambda h: h)
    detached, leaves = build(lambda h: h.detach())
    truth = torch.autograd.grad(detached, leaves)
    captured = capture([root])
    passed = what_if(captured, at(captured, "ExpBackward0", text))
    variables = [leaf.variable for leaf in captured.leaves]
    order = [place for leaf in leaves for place, known in enumerate(variables) if torch.equal(known, leaf)]  # type: ignore[arg-type]
    assert len(order) == 2
    for place, gradient in zip(order, truth, strict=True):
        assert torch.allclose(passed.total(place), gradient)  # type: ignore[arg-type]


def test_a_leaf_a_root_and_a_leaf_that_is_a_root() -> None:
    y, x = sine_and_double()
    captured = capture([y])
    (plain,) = torch.autograd.grad(y, x, torch.ones(2), retain_graph=True)
    leaf = what_if(captured, at(captured, "AccumulateGrad", "clip(5)"))
    assert torch.equal(leaf.total(0), plain.clamp(-5, 5))  # type: ignore[arg-type]
    assert torch.equal(leaf.after(0), plain.clamp(-5, 5))  # type: ignore[arg-type]
    assert x.grad is None
    root = what_if(captured, at(captured, "AddBackward0", "2,0"))
    assert root.total(0).tolist() == pytest.approx([2 * plain[0].item(), 0.0])  # type: ignore[union-attr]
    both = capture([x])
    assert what_if(both, at(both, "AccumulateGrad", "*3")).total(0).tolist() == [3, 3]  # type: ignore[union-attr]


def test_a_leaf_keeps_its_gradient_when_it_becomes_undefined() -> None:
    y, x = sine_and_double()
    x.grad = torch.tensor([1.0, 1.0])
    captured = capture([y])
    passed = what_if(captured, at(captured, "AccumulateGrad", "none"))
    assert passed.total(0) is None
    assert passed.after(0).tolist() == [1, 1]  # type: ignore[union-attr]


def test_one_of_several_slots() -> None:
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    a, b, c = x.unbind()
    captured = capture([a + 10 * b + 100 * c])
    passed = what_if(captured, at(captured, "UnbindBackward0", "*7", input_nr=1))
    assert passed.total(0).tolist() == [1, 70, 100]  # type: ignore[union-attr]


def test_several_changes_at_one_place_build_on_each_other() -> None:
    y, _ = sine_and_double()
    captured = capture([y])
    texts = ("*2", "g + 1", "none", "5,6")
    passed = what_if(captured, *(at(captured, "SinBackward0", text) for text in texts))
    before = [passed.tensor(change.before) for change in passed.columns.changes]
    assert [None if one is None else one.tolist() for one in before] == [[1, 1], [2, 2], [3, 3], None]
    assert [change.text for change in passed.columns.changes] == list(texts)
    expected = 3 * (torch.tensor([5.0, 6.0]) * torch.tensor([3.0, 6.0]).cos() + 2)
    assert torch.allclose(passed.total(0), expected)  # type: ignore[arg-type]


def test_an_inner_tensor_that_the_call_asks_for() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x.sin()
    captured = capture([h * 5], [h])
    assert what_if(captured, at(captured, "SinBackward0", "*2")).total(0).tolist() == [10, 10]  # type: ignore[union-attr]
    captured = capture([h * 5], [h, x])
    passed = what_if(captured, at(captured, "SinBackward0", "*2"))
    assert torch.allclose(passed.total(1), 10 * x.detach().cos())  # type: ignore[arg-type]


# ---------------------------------------------------------------- undefined gradients, custom Functions, hooks


class Half(torch.autograd.Function):
    """Two outputs; its backward prints what comes, as all else that it does in an exploring pass is undone."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, one: Any, other: Any) -> Any:
        print(*("nothing" if g is None else g.tolist() for g in (one, other)))
        return sum((factor * g for factor, g in ((2, one), (3, other)) if g is not None), torch.zeros(()))


def test_a_gradient_can_be_put_where_none_arrives() -> None:
    x = torch.tensor([1.0, 1.0], requires_grad=True)
    one, _ = Half.apply(x)
    captured = capture([one.sum()])
    passed = what_if(captured, at(captured, "HalfBackward", "5", input_nr=1))
    assert passed.columns.printed == "[1.0, 1.0] [5.0, 5.0]\n"
    assert passed.total(0).tolist() == [17, 17]  # type: ignore[union-attr]
    assert passed.columns.changes[0].before == -1
    stays = what_if(captured, at(captured, "HalfBackward", "*5", input_nr=1))
    assert stays.total(0).tolist() == [2, 2]  # type: ignore[union-attr]
    gone = what_if(captured, at(captured, "HalfBackward", "none"))
    assert gone.columns.printed == "nothing nothing\n"
    assert gone.columns.failure is not None  # torch's own word on a backward that returns the wrong shape
    with pytest.raises(ChangeError, match="g is undefined"):
        what_if(captured, at(captured, "HalfBackward", "g * 2", input_nr=1))


def test_a_hook_sees_what_came_before_and_is_told_apart() -> None:
    def double(g: torch.Tensor) -> torch.Tensor:
        print(g.tolist())
        return g * 2

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x * 3
    h.register_hook(double)
    x.register_hook(double)
    captured = capture([h.sum()])
    passed = what_if(captured, at(captured, "MulBackward0", "*10"))
    assert passed.columns.printed == "[1.0, 1.0]\n[60.0, 60.0]\n"
    assert passed.total(0).tolist() == [120, 120]  # type: ignore[union-attr]
    assert passed.tensor(passed.columns.changes[0].before).tolist() == [2, 2]  # type: ignore[union-attr]
    assert [passed.graph.op(passed.tape.node_at(step)) for step in passed.columns.hook_changed] == [
        "MulBackward0",
        "AccumulateGrad",
    ]
    leaf = what_if(captured, at(captured, "AccumulateGrad", "1"))
    assert leaf.total(0).tolist() == [1, 1]  # type: ignore[union-attr]
    assert leaf.tensor(leaf.columns.changes[0].before).tolist() == [12, 12]  # type: ignore[union-attr]


def test_a_pass_inside_a_hook_is_left_alone() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x * 3
    root = h.sum()
    running: list[bool] = []

    def nested(_: torch.Tensor) -> None:
        if not running:
            running.append(True)
            print(torch.autograd.grad(h, x, torch.ones(2), retain_graph=True)[0].tolist())
            running.clear()

    h.register_hook(nested)
    captured = capture([root])
    passed = what_if(captured, at(captured, "MulBackward0", "*10"))
    assert passed.columns.printed == "[3.0, 3.0]\n"
    assert passed.total(0).tolist() == [30, 30]  # type: ignore[union-attr]


# ---------------------------------------------------------------- refused


def test_what_is_not_there_is_refused() -> None:
    y, x = sine_and_double()
    captured = capture([y])
    for change, part in [
        (Change(99, 0, UNKNOWN, "0"), "no such node"),
        (Change(0, 1, UNKNOWN, "0"), "no gradient 1"),
        (Change(0, 0, 99, "0"), "no such edge"),
        (Change(0, 0, 0, "0"), "goes elsewhere"),
    ]:
        with pytest.raises(ChangeError, match=part):
            what_if(captured, change)
    with pytest.raises(ChangeError, match="the shapes differ"):
        what_if(captured, at(captured, "SinBackward0", "torch.ones(3)"))
    with pytest.raises(ChangeError, match="no attribute"):
        what_if(captured, at(captured, "AccumulateGrad", "g.nothing"))
    sine = captured.ops.index("SinBackward0")
    with pytest.raises(ChangeError, match="AddBackward0 does not run"):
        explore(captured, [torch.ones(2)], root=(sine, 0), what_ifs=WhatIfs(captured, [at(captured, "AddBackward0", "0")]))
    assert x.grad is None
    assert what_if(captured).columns.changes == []


def test_the_rng_stays_where_it_is() -> None:
    y, _ = sine_and_double()
    captured = capture([y])
    torch.manual_seed(0)
    state = torch.get_rng_state()
    passed = what_if(captured, at(captured, "SinBackward0", "torch.randn(2)"))
    assert torch.equal(torch.get_rng_state(), state)
    sample = what_if(captured, at(captured, "SinBackward0", "randn")).columns.changes[0].text
    assert sample.startswith("randn(")
    assert torch.equal(passed.total(0), what_if(captured, at(captured, "SinBackward0", "torch.randn(2)")).total(0))  # type: ignore[arg-type]


# ---------------------------------------------------------------- scaling a cut scales all that lies below


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([-2.0, 0.5, 4.0]))
def test_scaling_every_slot_of_a_cut_scales_all_below(seed: int, factor: float) -> None:
    """Powers of two, so that scaling commutes with rounding bit for bit."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, generator=generator, requires_grad=True)
    below = [x.sin(), x.exp(), x * x]
    choose = torch.randint(0, 3, (4,), generator=generator).tolist()
    cut = [below[place] * float(place + 1) for place in sorted(set(choose))]
    root = torch.stack([cut[place % len(cut)].cos() * cut[(place + 1) % len(cut)] for place in choose]).sum()
    captured = capture([root])
    nodes = [node for node, one in enumerate(captured.nodes) if one in [tensor.grad_fn for tensor in cut]]
    passed = what_if(captured, *(Change(node, 0, UNKNOWN, f"*{factor}") for node in nodes))
    plain = what_if(captured)
    waiting, scaled = list(nodes), set()
    while waiting:
        node = waiting.pop()
        scaled.add(node)
        waiting.extend(captured.edge_target[captured.first_edge[node] : captured.first_edge[node + 1]])
    for node in range(len(captured)):
        here, there = passed.tensor(passed.tape.arrived(node, 0)), plain.tensor(plain.tape.arrived(node, 0))
        assert here is not None
        assert there is not None
        assert same_bits(here, there * factor if node in scaled else there), captured.ops[node]
