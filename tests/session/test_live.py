"""A session and a real script: stop, step, edit the seed, resume."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path

import pytest
from living import living

from gradscope.errors import GradscopeError
from gradscope.protocol import messages as m
from gradscope.session.session import Session
from gradscope.session.view import State, View

TWO_OUTPUTS = """
import torch

x = torch.tensor([2.0, 3.0], requires_grad=True)
J = torch.stack([x[0] ** 2 + x[1], x[0] * x[1]])
v = torch.tensor([1.0, 10.0])
J.backward(gradient=v)
print("grad", x.grad.tolist())
"""

LOOP = """
import torch

torch.manual_seed(0)
net = torch.nn.Linear(2, 1)
for step in range(5):
    net.zero_grad()
    loss = net(torch.ones(3, 2)).pow(2).mean()
    loss.backward()
    print("step", step)
print("done")
"""


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


def total(view: View, name: str = "x") -> tuple[object, ...] | None:
    """What the pass shown brings to a leaf."""
    assert view.tape is not None
    assert view.graph is not None
    leaf = next(place for place, leaf in enumerate(view.graph.leaves) if leaf.name == name)
    return view.tape.tensors.values(view.tape.leaf_total(leaf))


def test_step_edit_the_seed_and_resume_with_the_scripts_own(write):
    with living(write(TWO_OUTPUTS)) as live:
        view = live.stopped_with_tape()
        assert view.stop is not None
        assert (view.stop.call.kind, view.stop.call.line, view.playhead) == ("backward", 7, 0)
        assert total(view) == (34.0, 21.0)
        assert view.tape is not None
        assert view.tape.exact == "true"
        for _ in range(2):
            live.session.step(1)
        live.session.step(-1)
        live.session.explore(["ones"])
        view = live.until(lambda view: view.edited)
        assert (total(view), view.playhead, view.tape and view.tape.number) == ((7.0, 3.0), 1, 2)
        live.session.jacobian_row(1)
        view = live.until(lambda view: view.busy is None and view.tape is not None and view.tape.number == 3)
        assert total(view) == (4.0, 1.0)
        live.session.resume()
        view = live.ended()
        assert view.stop is not None
        assert view.stop.committed is not None
        assert (view.state, view.stop.committed.exact, view.exit and view.exit.code) == (State.ENDED, "true", 0)
        assert live.text == "grad [34.0, 21.0]"
        assert live.errors == []


def test_resume_with_the_edited_seed(write):
    with living(write(TWO_OUTPUTS)) as live:
        live.stopped_with_tape()
        live.session.explore(["1,1"])
        live.until(lambda view: view.edited)
        assert live.session.can_resume_edited
        live.session.resume(edited=True)
        view = live.ended()
        assert live.text == "grad [7.0, 3.0]"
        assert view.stop is not None
        assert view.stop.committed is not None
        assert (view.stop.committed.edited, view.stop.committed.exact) == (True, "true")


def test_a_wrong_seed_is_refused_with_what_to_do(write):
    with living(write(TWO_OUTPUTS)) as live:
        live.stopped_with_tape()
        live.session.explore(["1,2,3"])
        live.until(lambda view: view.busy is None)
        (error,) = live.errors
        assert isinstance(error, GradscopeError)
        assert error.what
        assert error.why
        live.session.resume()
        live.ended()
        assert live.text == "grad [34.0, 21.0]"


def test_the_selected_rows_tensor_is_seeded(write):
    with living(write(TWO_OUTPUTS)) as live:
        view = live.stopped_with_tape()
        assert view.graph is not None
        assert view.tape is not None
        node = next(n for n in range(len(view.graph)) if view.graph.op(n).startswith("PowBackward"))
        live.session.go_to_node(node)
        live.session.seed_selected()
        view = live.until(lambda view: view.edited)
        assert total(view) == (4.0, 0.0)
        live.session.show_pass(-1)
        assert total(live.session.view()) == (34.0, 21.0)


def test_on_through_a_loop_and_back(write):
    with living(write(LOOP)) as live:
        view = live.stopped_with_tape()
        live.session.run_to_break_or_end(1)
        for number in (2, 3):
            live.session.on_next_call()
            view = live.until(lambda view, n=number: view.stops == n and view.tape is not None and view.busy is None)
            assert view.stop is not None
            assert view.tape is not None
            assert (view.stop.call.number, view.playhead) == (number, view.tape.steps)
        live.session.earlier_call()
        view = live.session.view()
        assert view.stop is not None
        assert view.stop.committed is not None
        assert (view.stop_number, view.stop.committed.exact) == (2, "true")
        live.session.resume()
        view = live.ended()
        assert (view.calls, live.text.splitlines()[-1]) == (5, "done")


def test_a_condition_stops_a_later_call(write):
    text = LOOP.replace("loss.backward()", "loss = loss * float('nan') if step == 3 else loss\n    loss.backward()")
    with living(write(text), stop_at="never", breaks=("nan",)) as live:
        view = live.stopped_with_tape()
        assert view.stop is not None
        assert (view.stop.reason, view.stop.call.number) == ("breakpoint", 4)


def test_a_slice_is_fetched_from_the_script(write):
    script = write("import torch\nw = torch.ones(20, 20, requires_grad=True)\n(w * torch.arange(20.0)).sum().backward()\n")
    with living(script) as live:
        view = live.stopped_with_tape()
        assert view.tape is not None
        got: list[object] = []
        live.session.fetch(view.tape, view.tape.leaf_total(0), [(3, 4, 1), (0, 20, 6)], got.append)
        live.until(lambda view: bool(got))
        (slice_,) = got
        assert isinstance(slice_, m.TensorSlice)
        assert (slice_.shape, slice_.values) == ((1, 4), [0.0, 6.0, 12.0, 18.0])
        missing: list[int] = []
        live.session.collect(missing.append)
        live.until(lambda view: bool(missing))
        assert missing == [0]
        data = live.session.report().stops[0].tensors[1, view.tape.leaf_total(0)]
        assert (data.dtype, data.shape, len(data.data)) == ("F32", (20, 20), 1600)


def test_a_seed_that_torch_would_refuse_stops_with_the_reason(write):
    script = write("import torch\nx = torch.ones(2, requires_grad=True)\ny = x * 3\ny.backward()\n")
    with living(script) as live:
        view = live.stopped()
        assert view.stop is not None
        assert (view.stop.reason, view.stop.detail) == ("seed", "grad can be implicitly created only for scalar outputs")
        live.session.explore(["1,10"])
        view = live.until(lambda view: view.tape is not None and view.busy is None)
        assert total(view) == (3.0, 30.0)
        live.session.resume()
        view = live.ended()
        assert view.exit is not None
        assert (view.state, view.exit.code) == (State.CRASHED, 1)
        assert view.exit.message == "RuntimeError: grad can be implicitly created only for scalar outputs"


def test_a_gradient_option_that_does_not_fit_is_kept_with_its_reason(write):
    """The pass of the script's own seed is there all the same, and a later call is not asked for it again."""
    with living(write(TWO_OUTPUTS), gradient="1,2,3,4") as live:
        view = live.until(lambda view: view.stop is not None and view.stop.refused_seed is not None)
        assert view.stop is not None
        refused = view.stop.refused_seed
        assert refused is not None
        assert (refused.text, view.stop.refusal) == ("1,2,3,4", "")
        assert [line.split() for line in refused.error.what.splitlines()] == [
            ["the", "seed", "does", "not", "fit"],
            ["J", "2", "float32", "cpu"],
            ["seed", "4", "float32", "cpu"],
        ]
        assert refused.error.why == "4 cells for 2 elements"
        assert (total(view), view.edited) == ((34.0, 21.0), False)
        live.session.explore(["1,2"])
        assert total(live.until(lambda view: view.edited)) == (10.0, 5.0)


def test_a_script_without_a_call_stops_at_its_end(write):
    script = write("import torch\nx = torch.tensor([1.0, 2.0], requires_grad=True)\ny = (x * x).sum()\n")
    with living(script) as live:
        view = live.until(lambda view: view.state is State.STOPPED and view.stop is not None and bool(view.stop.live))
        assert view.stop is not None
        names = [tensor.name for tensor in view.stop.live]
        live.session.pick_root(names.index("y"), "")
        view = live.stopped_with_tape()
        assert total(view) == (2.0, 4.0)
        live.session.resume()
        view = live.ended()
        assert (view.state, view.exit and view.exit.code) == (State.ENDED, 0)


@pytest.mark.parametrize(
    ("line", "state", "code"),
    [
        ("import os; os._exit(3)", State.ENDED, 3),
        ("import sys; sys.exit(4)", State.ENDED, 4),
        ("raise ValueError('too bad')", State.CRASHED, 1),
        ("import ctypes; ctypes.string_at(0)", State.CRASHED, 139),
    ],
)
def test_how_a_script_ends(write, line: str, state: State, code: int):
    with living(write(TWO_OUTPUTS + line + "\n")) as live:
        live.stopped_with_tape()
        live.session.resume()
        if "raise" in line:  # the error stops first: tensors with a graph are alive
            view = live.until(lambda view: view.stops == 2)
            assert view.stop is not None
            assert (view.stop.reason, view.stop.detail) == ("error", "ValueError: too bad")
            live.session.resume()
        view = live.ended()
        assert view.exit is not None
        assert (view.state, view.exit.code) == (state, code)
        live.session.earlier_call()
        live.session.step(1)
        assert live.session.view().playhead == 1


def test_a_script_that_loops_is_interrupted_then_killed(write):
    script = write("while True:\n    try:\n        input('ready')\n    except KeyboardInterrupt:\n        print('no')\n")
    with living(script) as live:
        live.until(lambda view: "ready" in live.text)
        live.session.interrupt()
        live.session.interrupt()
        live.until(lambda view: "no" in live.text)
        live.session.interrupt()
        view = live.ended()
        assert view.exit is not None
        assert (view.state, view.exit.code, view.exit.message) == (State.CRASHED, 137, "killed by signal 9 (SIGKILL)")


def test_the_script_reads_what_is_typed(write):
    script = write("name = input('name? ')\nprint('hello', name)\nimport torch\n" + TWO_OUTPUTS)
    with living(script) as live:
        live.until(lambda view: live.text == "name?")
        live.type("Ada\r")
        live.stopped_with_tape()
        assert live.text.splitlines() == ["name? Ada", "hello Ada"]


def test_what_a_hook_prints_in_an_exploring_pass_is_marked(write):
    script = write(TWO_OUTPUTS.replace("v =", "J.register_hook(lambda grad: print('in hook'))\nv ="))
    with living(script) as live:
        live.stopped_with_tape()
        assert live.text == "in hook"
        assert live.terminal.line(0)[0][1].marked
        live.session.resume()
        live.ended()
        assert live.text.splitlines() == ["in hook", "in hook", "grad [34.0, 21.0]"]
        assert not live.terminal.line(1)[0][1].marked


def test_an_endless_training_stops_when_asked(write):
    with living(write(LOOP.replace("range(5)", "__import__('itertools').count()")), stop_at="never") as live:
        live.until(lambda view: view.calls > 3)
        live.session.interrupt()
        view = live.stopped_with_tape()
        assert view.stop is not None
        assert (view.stop.reason, view.stops, view.tape and view.tape.exact) == ("call", 1, "true")
        live.session.resume()
        live.until(lambda view: view.stop is not None and view.stop.committed is not None)
        live.session.interrupt()
        live.session.interrupt()
        view = live.ended()
        assert view.exit is not None
        assert (view.exit.code, view.exit.message) == (130, "KeyboardInterrupt")


def test_a_breakpoint_set_while_stopped_stops_a_later_call(write):
    text = LOOP.replace("loss.backward()", "loss = loss.exp() if step == 3 else loss\n    loss.backward()")
    with living(write(text)) as live:
        live.stopped_with_tape()
        live.session.add_break("op:Exp")
        live.session.resume()
        view = live.until(lambda view: view.stops == 2 and view.busy is None and view.tape is not None)
        assert view.stop is not None
        assert (view.stop.reason, view.stop.call.number) == ("breakpoint", 4)
        live.session.to_step(0)
        live.session.run_to_break_or_end(1)
        view = live.session.view()
        assert view.graph is not None
        assert view.tape is not None
        assert view.graph.op(view.tape.node_at(view.playhead)) == "ExpBackward0"


def test_a_long_pass_is_given_up_and_the_stop_stays(write):
    script = write("""
        import torch, time

        class Slow(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                if SLOW:
                    time.sleep(0.01)
                return grad

        SLOW = False
        x = y = torch.ones(3, requires_grad=True)
        for _ in range(3000):
            y = Slow.apply(y)
        SLOW = __import__("sys").argv[1:] == ["slow"]
        y.sum().backward()
        print("grad", x.grad.tolist())
    """)
    with living(script, "slow") as live:
        live.until(lambda view: view.busy is not None and view.busy.done > 0)
        live.session.interrupt()
        view = live.stopped()
        assert view.stop is not None
        assert (view.tape, view.stop.refusal.splitlines()[0]) == (None, "the pass was given up")
        assert view.graph is not None
        live.session.kill_script()
        view = live.ended()
        assert view.exit is not None
        assert view.exit.code == 137


def test_a_saved_stop_opens_with_its_tensors(write, tmp_path: Path):
    from gradscope.export.formats import export
    from gradscope.export.snapshot import read

    script = write("import torch\nw = torch.ones(20, 20, requires_grad=True)\n(w * torch.arange(20.0)).sum().backward()\n")
    path = str(tmp_path / "a.gscope")
    with living(script) as live:
        live.stopped_with_tape()
        live.session.step(1)
        missing: list[int] = []
        live.session.collect(missing.append)
        live.until(lambda view: bool(missing))
        export(live.session.report(), path)
    session = Session.from_snapshot(read(path))
    view = session.view()
    assert view.tape is not None
    assert (view.state, view.stops, view.tape.steps, len(view.rows or ())) == (State.SNAPSHOT, 1, 3, 4)
    got: list[object] = []
    session.fetch(view.tape, view.tape.leaf_total(0), [(3, 4, 1), (0, 20, 6)], got.append)
    (slice_,) = got
    assert isinstance(slice_, m.TensorSlice)
    assert slice_.values == [0.0, 6.0, 12.0, 18.0]
    assert view.sources[str(script)][0] == "import torch"


def test_a_megabyte_of_output_loses_nothing_that_matters(write):
    script = write("for i in range(20000):\n    print('line', i, 'x' * 40)\n" + TWO_OUTPUTS)
    with living(script) as live:
        live.stopped_with_tape()
        assert live.text.splitlines()[-1] == "line 19999 " + "x" * 40
        out = io.BytesIO()
        live.terminal.log.write(out)
        assert out.getvalue().count(b"\n") == 20000


def test_workers_of_a_data_loader_do_not_disturb(write):
    script = write("""
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        if __name__ == "__main__":
            torch.manual_seed(0)
            net = torch.nn.Linear(3, 1)
            data = TensorDataset(torch.ones(8, 3))
            for (x,) in DataLoader(data, batch_size=4, num_workers=2, persistent_workers=True):
                net(x).sum().backward()
            print("grad", net.weight.grad.tolist())
    """)
    with living(script) as live:
        live.stopped_with_tape()
        live.session.on_next_call()
        live.until(lambda view: view.stops == 2 and view.busy is None and view.tape is not None)
        live.session.resume()
        view = live.ended()
        assert view.exit is not None
        assert (view.state, view.exit.code, live.text) == (State.ENDED, 0, "grad [[8.0, 8.0, 8.0]]")
