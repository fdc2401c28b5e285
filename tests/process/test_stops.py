"""A script on a terminal of its own that stops, is asked, and goes on."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from children import PATIENCE, Live, Scripts, Start

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape
from gradscope.protocol.messages import (
    Captured,
    Committed,
    Configure,
    Died,
    Ending,
    Explore,
    Fetch,
    FetchTensors,
    LiveTensors,
    PickRoot,
    Recorded,
    Refused,
    Resume,
    Resumed,
    SeedText,
    SetBreaks,
    Source,
    Stopped,
    StopSoon,
    TensorBytes,
    TensorsDone,
    TensorSlice,
    TorchImported,
)

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
    w = torch.ones(2, requires_grad=True)
    for step in range(6):
        loss = (w * step).sum()
        loss.backward()
    print("grad", w.grad.tolist())
"""


def totals(live: Live, recorded: Recorded) -> dict[str, tuple[object, ...] | None]:
    """What each leaf's `.grad` will be."""
    graph = BackwardGraph(next(r.graph for r in reversed(live.reports) if isinstance(r, Captured)))
    tape = Tape(recorded.tape, graph)
    return {leaf.name: tape.summary(tape.leaf_after(i)).values for i, leaf in enumerate(graph.leaves) if leaf.node >= 0}


def test_stop_record_explore_resume(scripts: Scripts, start: Start) -> None:
    path = scripts.write(TWO_OUTPUTS)
    live = start("script.py")
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.call.file, stopped.call.line) == ("call", path, 6)
    assert (stopped.call.number, stopped.call.kind, stopped.call.code) == (1, "backward", "J.backward(gradient=v)")
    first = live.wait_for(Recorded)
    assert totals(live, first) == {"x": (34.0, 21.0)}
    assert any(isinstance(r, Source) and r.file == path for r in live.reports)

    live.send(Explore(7, [SeedText("1,1")]))
    second = live.wait_for(Recorded)
    assert (second.request, second.tape.number, second.tape.edited) == (7, 2, True)
    assert totals(live, second) == {"x": (7.0, 3.0)}
    live.send(Explore(8, [SeedText("1,1,1")]))
    refused = live.wait_for(Refused)
    assert (refused.request, refused.why) == (8, "3 cells for 2 elements")

    live.send(Resume())
    committed = live.wait_for(Committed)
    assert (committed.call, committed.exact, committed.edited, committed.error) == (1, "true", False, "")
    assert live.end() == 0
    assert b"grad [34.0, 21.0]" in live.printed
    assert live.of(Ending)[0].calls == 1


def test_resume_with_the_edited_seed(scripts: Scripts, start: Start) -> None:
    scripts.write(TWO_OUTPUTS)
    live = start("script.py")
    live.wait_for(Recorded)
    live.send(Explore(1, [SeedText("1,1")]))
    live.send(Resume(edited=True))
    committed = live.wait_for(Committed)
    assert (committed.exact, committed.edited) == ("true", True)
    assert live.end() == 0
    assert b"grad [7.0, 3.0]" in live.printed


def test_tensors_by_slice_and_whole(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        import torch
        x = torch.arange(12.0).reshape(3, 4).requires_grad_()
        (x * x).sum().backward()
        """
    )
    live = start("script.py")
    tape = live.wait_for(Recorded).tape
    (number,) = memoryview(tape.leaf_after).cast("i")
    live.send(Fetch(1, 1, number, [(0, 3, 2), (1, 3, 1)]))
    part = live.wait_for(TensorSlice)
    assert (tuple(part.shape), part.values) == ((2, 2), [2.0, 4.0, 18.0, 20.0])
    live.send(Fetch(2, 1, number, [(0, 3, 1)]))
    assert live.wait_for(Refused).request == 2
    live.send(Fetch(3, 1, 10_000, []))
    assert live.wait_for(Refused).request == 3
    live.send(FetchTensors(4, 1, [number, 10_000]))
    whole, done = live.wait_for(TensorBytes), live.wait_for(TensorsDone)
    assert (whole.dtype, tuple(whole.shape), len(whole.data)) == ("F32", (3, 4), 48)
    assert (done.request, done.missing) == (4, [10_000])
    live.send(Resume())
    assert live.end() == 0


def test_which_call_stops(scripts: Scripts, start: Start) -> None:
    scripts.write(LOOP)
    live = start("script.py", configure=Configure(stop_at="3"))
    assert live.wait_for(Stopped).call.number == 3
    live.send(Resume())
    assert live.wait_for(Stopped).call.number == 4
    live.send(Resume(stop_at="6"))
    assert live.wait_for(Stopped).call.number == 6
    live.send(Resume(stop_at="never"))
    assert live.end() == 0
    assert [report.call.number for report in live.of(Stopped)] == [3, 4, 6]


def test_stop_soon(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        import time, torch
        w = torch.ones(2, requires_grad=True)
        while True:
            w.sum().backward()
            time.sleep(0.001)
        """
    )
    live = start("script.py", configure=Configure(stop_at="never"))
    live.wait_for(TorchImported)
    live.send(StopSoon())
    assert live.wait_for(Stopped).reason == "call"


@pytest.mark.parametrize("condition", ["nan", "op:MulBackward0"])
def test_stop_where_a_condition_is_met(scripts: Scripts, start: Start, condition: str) -> None:
    scripts.write(
        """
        import torch
        w = torch.ones(2, requires_grad=True)
        for step in range(4):
            y = w + w if step < 2 else (w * float("nan"))
            y.sum().backward()
        """
    )
    live = start("script.py", configure=Configure(stop_at="never", breaks=[condition]))
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.detail, stopped.call.number) == ("breakpoint", condition, 3)
    live.wait_for(Recorded)
    live.send(SetBreaks([]))
    live.send(Resume(stop_at="break"))
    assert live.end() == 0


def test_the_seed_of_the_command_line(scripts: Scripts, start: Start) -> None:
    scripts.write(TWO_OUTPUTS)
    live = start("script.py", configure=Configure(gradient="1,1"))
    assert totals(live, live.wait_for(Recorded)) == {"x": (34.0, 21.0)}
    assert totals(live, live.wait_for(Recorded)) == {"x": (7.0, 3.0)}


def test_a_seed_that_torch_refuses(scripts: Scripts, start: Start) -> None:
    scripts.write(TWO_OUTPUTS.replace("gradient=v", ""))
    live = start("script.py")
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.findings[0].kind) == ("seed", "nonscalar-root")
    assert stopped.detail == "grad can be implicitly created only for scalar outputs"
    live.wait_for(Captured)
    live.send(Explore(1, [SeedText("1,10")]))
    assert totals(live, live.wait_for(Recorded)) == {"x": (34.0, 21.0)}
    live.send(Resume(edited=True))
    assert live.wait_for(Committed).exact == "true"
    assert live.end() == 0
    assert b"grad [34.0, 21.0]" in live.printed


def test_torchs_own_error_when_resumed_without_a_seed(scripts: Scripts, start: Start) -> None:
    scripts.write(TWO_OUTPUTS.replace("gradient=v", ""))
    live = start("script.py")
    live.wait_for(Captured)
    live.send(Resume())
    assert live.wait_for(Committed).error == "RuntimeError: grad can be implicitly created only for scalar outputs"
    assert live.end() == 1
    assert live.of(Died)[0].type == "RuntimeError"


def test_a_root_without_a_graph(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        import torch
        w = torch.ones(2, requires_grad=True)
        kept = w * 3
        loss = kept.detach().sum()
        loss.backward()
        """
    )
    live = start("script.py")
    assert live.wait_for(Stopped).reason == "no-graph"
    assert [tensor.name for tensor in live.wait_for(LiveTensors).tensors] == ["kept"]
    live.send(PickRoot(1, 0, SeedText("")))
    assert totals(live, live.wait_for(Recorded)) == {"w": (3.0, 3.0)}
    live.send(Resume())
    assert live.end() == 1


def test_once_records_the_call_itself(scripts: Scripts, start: Start) -> None:
    scripts.write(TWO_OUTPUTS)
    live = start("script.py", configure=Configure(once=True))
    recorded = live.wait_for(Recorded)
    assert recorded.tape.kind == "committed"
    assert totals(live, recorded) == {"x": (34.0, 21.0)}
    live.send(Explore(1, [SeedText("1,1")]))
    assert "--once" in live.wait_for(Refused).hint
    live.send(Resume())
    assert live.end() == 0


# ---------------------------------------------------------------- stops without a call

WITHOUT_CALL = """
    import torch
    def parse():
        unused = torch.ones(1, requires_grad=True) * 2
        return 3
    def main(count):
        x = torch.ones(count, requires_grad=True)
        outputs = [x * 2, x * 3]
        loss = outputs[1].sum()
        later = loss * 2
        print("through")
    if __name__ == "__main__":
        main(parse())
"""


def test_a_script_without_a_call_stops_at_its_end(scripts: Scripts, start: Start) -> None:
    path = scripts.write(WITHOUT_CALL)
    live = start("script.py")
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.call.number, stopped.call.kind, stopped.call.file) == ("end", 0, "none", path)
    tensors = live.wait_for(LiveTensors).tensors
    assert [(tensor.name, tensor.op) for tensor in tensors] == [
        ("loss", "SumBackward0"),
        ("later", "MulBackward0"),
        ("unused", "MulBackward0"),
        ("outputs[1]", "MulBackward0"),
        ("outputs[0]", "MulBackward0"),
    ]
    places = ["main() in script.py:9", "main() in script.py:10", "parse() in script.py:4", *2 * ["main() in script.py:8"]]
    assert [tensor.where for tensor in tensors] == places
    live.send(PickRoot(4, 0, SeedText("")))
    recorded = live.wait_for(Recorded)
    assert recorded.request == 4
    assert totals(live, recorded) == {"x": (3.0, 3.0, 3.0)}
    live.send(Explore(5, [SeedText("10")]))
    assert totals(live, live.wait_for(Recorded)) == {"x": (30.0, 30.0, 30.0)}
    live.send(PickRoot(6, 99, SeedText("")))
    assert live.wait_for(Refused).request == 6
    live.send(Resume())
    assert live.end() == 0
    assert b"through" in live.printed


def test_module_level_tensors_are_alive_at_the_end(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        import sys, torch
        class Box: pass
        x = torch.ones(2, requires_grad=True)
        box, table = Box(), {"y": x * 2}
        box.z = x.exp()
        sys.exit(3)
        """
    )
    live = start("script.py")
    assert sorted(tensor.name for tensor in live.wait_for(LiveTensors).tensors) == ["box.z", "table['y']"]
    live.send(Resume())
    assert live.end() == 3


@pytest.mark.parametrize("text", ["import torch", "print('no torch')", "import torch\nimport os\nx = torch.ones(1)"])
def test_nothing_alive_at_the_end(scripts: Scripts, start: Start, text: str) -> None:
    scripts.write(text)
    live = start("script.py")
    stopped = live.wait_for(Stopped)
    assert stopped.reason == "end"
    assert "--stop-at FILE:LINE" in stopped.detail or "not imported torch" in stopped.detail
    assert live.wait_for(LiveTensors).tensors == []
    live.send(Resume())
    assert live.end() == 0


def test_stop_at_a_line(scripts: Scripts, start: Start) -> None:
    path = scripts.write(WITHOUT_CALL)
    live = start("script.py", configure=Configure(stop_at="script.py:10"))
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.call.file, stopped.call.line, stopped.call.function) == ("line", path, 10, "main")
    assert [tensor.name for tensor in live.wait_for(LiveTensors).tensors] == ["loss", "outputs[1]", "outputs[0]"]
    live.send(Resume(stop_at="script.py:11"))
    assert live.wait_for(Stopped).call.line == 11
    live.send(Resume(stop_at="never"))
    assert live.end() == 0


def test_stop_at_a_line_that_goes_backward(scripts: Scripts, start: Start) -> None:
    scripts.write(LOOP)
    live = start("script.py", configure=Configure(stop_at="script.py:6"))
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.call.number) == ("call", 1)
    live.wait_for(Recorded)
    live.send(Resume(stop_at="script.py:7"))
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.call.line) == ("line", 7)
    live.send(Resume(stop_at="never"))
    assert live.end() == 0


def test_a_line_without_torch(scripts: Scripts, start: Start) -> None:
    scripts.write("x = 1\n\n# a comment\nx = 2\nprint('x', x)\n")
    live = start("script.py", configure=Configure(stop_at="script.py:3"))
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.call.line, stopped.detail) == ("line", 4, "the script has not imported torch")
    live.send(Explore(1, [SeedText("1")]))
    assert live.wait_for(Refused).request == 1
    live.send(Resume(stop_at="script.py:5"))
    assert live.wait_for(Stopped).call.line == 5
    live.send(Resume(stop_at="never"))
    assert live.end() == 0
    assert b"x 2" in live.printed


def test_a_line_that_is_never_reached(scripts: Scripts, start: Start) -> None:
    scripts.write(WITHOUT_CALL)
    live = start("script.py", configure=Configure(stop_at="script.py:99"))
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.detail) == ("end", "script.py:99 was not reached")


# ---------------------------------------------------------------- terminal and signals


def test_the_script_has_a_terminal(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        import getpass, os, sys
        print([stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)], os.get_terminal_size())
        print("foreground", os.getpgrp() == os.tcgetpgrp(0))
        print("hello", input("name? "))
        print(len(getpass.getpass("secret? ")))
        from tqdm import tqdm
        for _ in tqdm(range(3), desc="bar"): pass
        """
    )
    live = start("script.py", size=(30, 100), configure=Configure(stop_at="never"))
    live.wait_for_text("name? ")
    live.type("Ada\n")
    live.wait_for_text("secret? ")
    live.type("four\n")
    assert live.end() == 0
    text = live.printed.decode()
    assert "[True, True, True] os.terminal_size(columns=100, lines=30)" in text
    assert "foreground True" in text
    assert "hello Ada" in text
    assert "four" not in text
    assert "bar: 100%" in text


def test_a_resized_terminal(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        import os, signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
        print("ready", flush=True)
        signal.sigwait({signal.SIGWINCH})
        print("now", os.get_terminal_size().columns)
        """
    )
    live = start("script.py", configure=Configure(stop_at="never"))
    live.wait_for_text("ready")
    live.launched.resize(40, 132)
    assert live.end() == 0
    assert b"now 132" in live.printed


def test_a_megabyte_of_output(scripts: Scripts, start: Start) -> None:
    scripts.write("for i in range(20_000): print(f'{i:050}')")
    live = start("script.py", configure=Configure(stop_at="never"))
    assert live.end() == 0
    assert len(live.printed) == 20_000 * 52


def test_stdin_that_belongs_to_the_script(scripts: Scripts, start: Start) -> None:
    scripts.write("import sys; print(sys.stdin.read().upper(), sys.stdout.isatty())")
    (scripts.folder / "input").write_text("given")
    with open(scripts.folder / "input") as stream:
        live = start("script.py", stdin=stream.fileno(), configure=Configure(stop_at="never"))
    assert live.end() == 0
    assert b"GIVEN True" in live.printed


def test_control_c_typed_into_the_terminal(scripts: Scripts, start: Start) -> None:
    scripts.write("import time\nprint('ready', flush=True)\ntime.sleep(60)")
    live = start("script.py", configure=Configure(stop_at="never"))
    live.wait_for_text("ready")
    live.type("\x03")
    assert live.end() == 128 + signal.SIGINT
    assert b"KeyboardInterrupt" in live.printed


def test_interrupt_and_kill(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        while True:
            try:
                print("ready", flush=True)
                while True: pass
            except KeyboardInterrupt:
                print("ignored", flush=True)
        """
    )
    live = start("script.py", configure=Configure(stop_at="never"))
    live.wait_for_text("ready")
    live.launched.interrupt()
    live.wait_for_text("ignored")
    live.launched.kill()
    assert live.end() == 128 + signal.SIGKILL


def test_an_interrupt_while_stopped_goes_to_the_script(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        import torch
        x = torch.ones(2, requires_grad=True)
        try:
            x.sum().backward()
        except KeyboardInterrupt:
            print("interrupted", x.grad)
        x.sum().backward()
        print("grad", x.grad.tolist())
        """
    )
    live = start("script.py")
    live.wait_for(Recorded)
    live.launched.interrupt()
    live.wait_for(Resumed)
    live.wait_for_text("interrupted None")
    assert live.wait_for(Stopped).call.number == 2
    live.send(Resume())
    assert live.end() == 0
    assert b"grad [1.0, 1.0]" in live.printed


def test_a_handler_of_the_script_is_called_while_stopped(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        import signal, torch
        signal.signal(signal.SIGINT, lambda *_: print("handled", flush=True))
        x = torch.ones(2, requires_grad=True)
        x.sum().backward()
        print("grad", x.grad.tolist())
        """
    )
    live = start("script.py")
    live.wait_for(Recorded)
    live.launched.interrupt()
    live.wait_for_text("handled")
    live.send(Explore(1, [SeedText("2")]))
    live.wait_for(Recorded)
    live.send(Resume())
    assert live.end() == 0
    assert b"grad [1.0, 1.0]" in live.printed


def test_an_exploring_pass_can_be_interrupted(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        import time, torch
        class Slow(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x + 0
            @staticmethod
            def backward(ctx, gradient):
                time.sleep(slowly)
                return gradient
        slowly = 0.005
        x = torch.ones(2, requires_grad=True)
        y = x
        for _ in range(4000): y = Slow.apply(y)
        try:
            y.sum().backward()
        except KeyboardInterrupt:
            slowly = 0
            print("interrupted", x.grad)
        y.sum().backward()
        print("grad", x.grad.tolist())
        """
    )
    live = start("script.py")
    live.wait_for(Captured)
    live.launched.interrupt()
    live.wait_for(Resumed)
    live.wait_for_text("interrupted None")
    live.wait_for(Recorded)
    live.send(Resume())
    assert live.end() == 0
    assert b"grad [1.0, 1.0]" in live.printed


def test_without_a_session_the_script_goes_on(scripts: Scripts, start: Start) -> None:
    scripts.write(LOOP)
    live = start("script.py")
    live.wait_for(Recorded)
    live.launched.channel.shutdown()
    live.wait_for_text("grad [15.0, 15.0]")
    assert live.end() == 0


def test_a_terminal_that_goes_away_ends_the_script(scripts: Scripts, start: Start) -> None:
    scripts.write(LOOP)
    live = start("script.py")
    live.wait_for(Recorded)
    process = live.launched.process
    live.launched.close()
    assert process.wait(PATIENCE) in (0, 1, -signal.SIGHUP)


def test_a_child_that_holds_the_socket_does_not_hide_the_end(scripts: Scripts, start: Start) -> None:
    scripts.write("import os, time\nif os.fork() == 0:\n    time.sleep(60)\n    os._exit(0)\nprint('parent')")
    live = start("script.py", configure=Configure(stop_at="never"))
    assert live.end() == 0
    assert b"parent" in live.printed


def test_an_interpreter_that_is_not_there(scripts: Scripts) -> None:
    from gradscope.errors import UsageError
    from gradscope.session.launcher import launch

    with pytest.raises(UsageError, match="cannot start /nowhere/python") as error:
        launch(["script.py"], python="/nowhere/python")
    assert "No such file" in error.value.why


def test_our_own_stack_limit_is_put_back(scripts: Scripts, start: Start) -> None:
    before = subprocess.run(["sh", "-c", "ulimit -s"], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    scripts.write("pass")
    start("script.py", configure=Configure(stop_at="never")).end()
    after = subprocess.run(["sh", "-c", "ulimit -s"], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    assert before == after
    assert os.environ.get("GRADSCOPE_DEBUGGEE") is None
