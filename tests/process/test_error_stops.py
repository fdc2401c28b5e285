"""A script that ends with an exception stops before it is torn down, and then ends as python ends it."""

from __future__ import annotations

import pytest
from children import NEVER, RECORD, Scripts, Start

from gradscope.protocol.messages import (
    Committed,
    Configure,
    Diagnosed,
    Died,
    LiveTensors,
    PickRoot,
    Recorded,
    Resume,
    SeedText,
    Stopped,
)

IN_PLACE = """
    import torch

    def forward(w, x):
        h = x * w
        w += 1
        return h

    def train():
        w = torch.ones(2, requires_grad=True)
        print("begins")
        forward(w, torch.ones(2))

    train()
"""


def test_stops_with_what_explains_it_and_ends_as_python_does(scripts: Scripts, start: Start) -> None:
    path = scripts.write(IN_PLACE)
    live = start("script.py")
    [finding] = live.wait_for(Diagnosed).findings
    assert (finding.kind, finding.severity, finding.file, finding.line, finding.leaf) == (
        "outside-backward",
        "error",
        path,
        6,
        "w",
    )
    assert finding.message.startswith("w is a leaf that requires a gradient, and w += 1 (script.py:6) writes into it")
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.call.kind, stopped.call.line, stopped.call.function) == ("error", "none", 6, "forward")
    assert stopped.detail == "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation."
    assert stopped.traceback.startswith("Traceback (most recent call last):")
    assert [tensor.name for tensor in live.wait_for(LiveTensors).tensors] == ["h"]
    live.send(PickRoot(1, 0, SeedText("ones")))
    assert live.wait_for(Recorded).tape.step_node
    live.send(Resume(stop_at="break"))
    assert live.end() == 1
    plain = scripts.plain("script.py")
    assert live.printed.decode().replace("\r\n", "\n") == plain.out + plain.err
    assert live.of(Died)[0].type == "RuntimeError"


def test_an_error_that_has_nothing_to_do_with_autograd_stops_without_a_finding(scripts: Scripts, start: Start) -> None:
    scripts.write("import torch\nx = torch.ones(1, requires_grad=True) * 2\n1 / 0")
    live = start("script.py")
    stopped = live.wait_for(Stopped)
    assert (stopped.reason, stopped.detail, stopped.call.line) == ("error", "ZeroDivisionError: division by zero", 3)
    assert live.of(Diagnosed) == []
    live.send(Resume(stop_at="break"))
    assert live.end() == 1


@pytest.mark.parametrize("text", ["import torch\n1 / 0", "1 / 0"])
def test_nothing_to_stop_for(scripts: Scripts, start: Start, text: str) -> None:
    scripts.write(text)
    live = start("script.py")
    assert live.end() == 1
    assert live.of(Stopped) == []


def test_who_wants_no_stop_gets_the_finding_alone(scripts: Scripts, start: Start) -> None:
    scripts.write(IN_PLACE)
    live = start("script.py", configure=NEVER)
    assert live.end() == 1
    assert live.of(Stopped) == []
    assert len(live.of(Diagnosed)) == 1


def test_headless_it_is_as_without_gradscope(scripts: Scripts) -> None:
    scripts.write(IN_PLACE)
    [diagnosed] = scripts.same("script.py", configures=[RECORD]).all(Diagnosed)
    assert diagnosed.findings[0].line == 6


def test_an_excepthook_of_the_scripts_own_is_called(scripts: Scripts) -> None:
    scripts.write(
        """
        import sys
        import torch

        def told(kind, error, place):
            print("own hook:", kind.__name__, place.tb_lineno)

        sys.excepthook = told
        w = torch.ones(2, requires_grad=True)
        w[0] = 1
        """
    )
    outcome = scripts.same("script.py", configures=[RECORD])
    assert outcome.out == "own hook: RuntimeError 10\n"
    assert outcome.only(Diagnosed).findings[0].line == 10


FREED = """
    import torch
    w = torch.ones(2, requires_grad=True)
    y = w.exp().sum()
    y.backward()
    y.backward()
"""


def test_a_call_that_was_recorded_is_not_explained_twice(scripts: Scripts) -> None:
    scripts.write(FREED)
    outcome = scripts.headless("script.py", configure=RECORD)
    assert outcome.code == 1
    assert [committed.error.partition(":")[0] for committed in outcome.all(Committed)] == ["", "RuntimeError"]
    assert outcome.all(Diagnosed) == []


def test_a_call_that_nobody_looked_at_is_explained_by_its_message(scripts: Scripts) -> None:
    scripts.write(FREED)
    [finding] = scripts.headless("script.py", configure=Configure(stop_at="never", record=1)).only(Diagnosed).findings
    assert (finding.kind, finding.line, finding.call) == ("freed-graph", 6, 2)
    assert "--stop-at 2" in finding.hint


def test_a_recorded_call_that_asks_in_vain_is_explained(scripts: Scripts) -> None:
    scripts.write(
        "import torch\n"
        "a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)\n"
        "torch.autograd.grad(a.sum(), (a, b))\n"
    )
    outcome = scripts.headless("script.py", configure=RECORD)
    assert outcome.code == 1
    (diagnosed,) = outcome.all(Diagnosed)
    assert [(one.kind, one.severity, one.leaf, one.line, one.call) for one in diagnosed.findings] == [
        ("missing-gradient", "error", "b", 3, 1)
    ]
