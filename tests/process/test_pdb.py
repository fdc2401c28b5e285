"""pdb in the backward of a custom Function, in the script's own terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from living import Living, living

from gradscope.session.view import View

SCRIPT = """
import torch

uses = []

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, how):
        ctx.save_for_backward(x)
        ctx.how, ctx.count = how, 0
        return x ** 3

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        ctx.count += 1
        uses.append(1)
        while ctx.how == "spin":
            pass
        if ctx.how == "fail":
            raise ValueError("no cube today")
        print("inside")
        return 3 * g * x ** 2, None

x = torch.tensor([1.0, 2.0], requires_grad=True)
y = Cube.apply(x, "plain") * 2
z = Cube.apply(x, "fine")
(y + z).sum().backward()
print("grad", x.grad.tolist(), len(uses))
print("you said", input("say: "))
"""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Living]:
    script = tmp_path / "cube.py"
    script.write_text(textwrap.dedent(SCRIPT))
    with living(script) as live:
        live.stopped_with_tape()
        yield live


def node_of(view: View, op: str, place: int = 0) -> int:
    assert view.graph is not None
    return [node for node in range(len(view.graph)) if view.graph.op(node).startswith(op)][place]


def prompts(live: Living) -> int:
    return live.text.count("(Pdb)")


def until_prompt(live: Living, act: Callable[[], object]) -> None:
    before = prompts(live)
    act()
    live.until(lambda view: prompts(live) > before)


def test_a_person_walks_through_a_backward(live: Living) -> None:
    first = node_of(live.session.view(), "CubeBackward")
    until_prompt(live, lambda: live.session.debug(first))
    view = live.session.view()
    assert view.busy is not None
    assert view.busy.typing
    assert "-> (x,) = ctx.saved_tensors" in live.text  # the person's first line, not that of torch's decorator
    live.until(lambda view: live.launched.waits_for_input())
    for command, answer in [
        ("p g.tolist(), ctx.how", "([1.0, 1.0], 'fine')"),
        ("ctx.how = 'spin'", ""),
        ("n;;n;;n;;p ctx.count, len(uses)", "(1, 1)"),
    ]:
        until_prompt(live, lambda command=command: live.type(command + "\n"))  # type: ignore[misc]
        assert answer in live.text
    live.type("c\n")
    until_prompt(live, live.launched.interrupt)  # Ctrl-C while it spins stops there
    assert "Program interrupted" in live.text
    until_prompt(live, live.launched.interrupt)  # and at the prompt gives another prompt
    until_prompt(live, lambda: live.type("ctx.how = 'fail'\n"))
    live.type("c\n")
    view = live.stopped()
    assert view.notice == "pdb is over: the backward raised ValueError: no cube today"
    live.until(lambda view: "ValueError: no cube today\nthe backward is over" in live.text)
    assert "bdb.py" not in live.text

    until_prompt(live, lambda: live.session.debug(first))
    live.type("q\n")
    assert live.stopped().notice == "pdb is over"

    until_prompt(live, lambda: live.session.debug(node_of(view, "CubeBackward", 1)))
    until_prompt(live, lambda: live.type("p g.tolist(), ctx.count\n"))
    assert "([2.0, 2.0], 0)" in live.text  # what arrives in this pass; and what was written is put back
    live.type("c\n")
    live.stopped()
    live.until(lambda view: "c\ninside\nthe backward is over" in live.text)  # prints go to the terminal

    live.session.debug(node_of(view, "MulBackward"))
    live.stopped()
    assert [str(error).splitlines()[0] for error in live.errors] == ["MulBackward0 has no Python of yours to step through"]

    live.session.resume()
    live.until(lambda view: "say:" in live.text)
    live.type("hello\n")
    view = live.ended()
    assert view.exit is not None
    assert view.exit.code == 0
    assert "grad [9.0, 36.0] 2" in live.text  # three times 3 x², each call of backward counted once
    assert "you said hello" in live.text


def test_a_backward_that_fails_is_walked_through_on_what_arrived(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text(textwrap.dedent(SCRIPT).replace('"plain"', '"fail"'))
    with living(script) as live:
        view = live.stopped_with_tape()
        assert view.tape is not None
        assert view.tape.failure is not None
        until_prompt(live, lambda: live.session.debug(view.tape.failure.node))  # type: ignore[union-attr]
        until_prompt(live, lambda: live.type("p g.tolist()\n"))
        assert "[2.0, 2.0]" in live.text
        live.type("c\n")
        assert live.stopped().notice == "pdb is over: the backward raised ValueError: no cube today"


def test_the_script_can_be_let_go_on_from_within_pdb(live: Living) -> None:
    until_prompt(live, lambda: live.session.debug(node_of(live.session.view(), "CubeBackward")))
    live.session.let_finish()
    live.until(lambda view: "say:" in live.text)
    live.type("hello\n")
    view = live.ended()
    assert view.exit is not None
    assert view.exit.code == 0
    assert "grad [9.0, 36.0] 2" in live.text
