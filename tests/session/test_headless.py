"""Scripts that really run without a screen."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gradscope.errors import FileError
from gradscope.findings.finding import Finding
from gradscope.model.report import Report
from gradscope.session import headless
from gradscope.settings import Options

LOOP = """
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
for step in range(3):
    loss = (w * w).sum()
    loss.backward()
print("grad", w.grad.tolist())
"""


class Runs:
    """Runs scripts and keeps what was exported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reports: list[tuple[str, Report[Finding]]] = []

    def __call__(self, text: str, **options: object) -> int:
        script = self.folder / "script.py"
        script.write_text(textwrap.dedent(text), encoding="utf-8")
        more = {"headless": True, "exports": ("a.json",), **options}
        return headless.run(Options(str(script), **more), self.export)  # type: ignore[arg-type]

    def export(self, report: Report[Finding], path: str) -> None:
        if path.startswith("/nowhere"):
            raise FileError(f"cannot write {path}", "no such folder")
        self.reports.append((path, report))

    @property
    def report(self) -> Report[Finding]:
        return self.reports[-1][1]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Runs(tmp_path)


def test_the_first_call_is_recorded_and_the_script_goes_on(run: Runs, capfd: pytest.CaptureFixture[str]):
    assert run(LOOP) == 0
    out, err = capfd.readouterr()
    assert out == "grad [6.0, 12.0]\n"
    assert "1 backward call recorded" in err
    assert "1 leaf · exact: true" in err
    assert "gradscope: wrote a.json" in err
    (stop,) = run.report.stops
    (tape,) = stop.tapes
    assert (stop.call.number, stop.call.reason, tape.kind, tape.exact) == (1, "recorded", "committed", "true")
    assert tape.tensors.values(tape.leaf_total(0)) == (2.0, 4.0)
    assert stop.committed is not None
    assert (stop.committed.exact, stop.committed.edited) == ("true", False)
    assert list(stop.sources) == [stop.call.site.file]


def test_all_calls(run: Runs):
    assert run(LOOP, calls=-1) == 0
    assert [stop.call.number for stop in run.report.stops] == [1, 2, 3]
    tapes = [stop.tapes[0] for stop in run.report.stops]
    assert [tape.tensors.values(tape.leaf_before(0)) for tape in tapes[1:]] == [(2.0, 4.0), (4.0, 8.0)]
    assert [stop.saved and (stop.saved.total, stop.saved.own, len(stop.saved)) for stop in run.report.stops] == [(8, 0, 2)] * 3


def test_exports_that_hold_tensors_get_them(run: Runs):
    text = "import torch\nw = torch.ones(10, 10, requires_grad=True)\n(w * w).sum().backward()\n"
    assert run(text, exports=("a.safetensors",)) == 0
    (stop,) = run.report.stops
    data = stop.tensors[1, stop.tapes[0].leaf_total(0)]
    assert (data.dtype, data.shape, len(data.data)) == ("F32", (10, 10), 400)
    assert run(text) == 0
    assert run.report.stops[0].tensors == {}


def test_json_on_stdout_has_stdout_for_itself(run: Runs, capfd: pytest.CaptureFixture[str]):
    assert run(LOOP, exports=("-",)) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert "grad [6.0, 12.0]" in err
    assert "wrote" not in err


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("import sys; sys.exit(4)", 4, "the script exited with code 4"),
        ("import os; os._exit(5)", 5, "the script exited with code 5"),
        ("raise ValueError('too bad')", 1, "the script ended: ValueError: too bad"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, "the script ended: killed by signal 9 (SIGKILL)"),
    ],
)
def test_the_scripts_own_code(run: Runs, capfd: pytest.CaptureFixture[str], line: str, code: int, said: str):
    assert run(LOOP + line + "\n") == code
    err = capfd.readouterr().err
    assert said in err
    assert len(run.report.stops) == 1
    assert len(run.report.stops[0].tapes) == 1


def test_no_backward_call(run: Runs, capfd: pytest.CaptureFixture[str]):
    assert run("print('hello')\n") == 0
    out, err = capfd.readouterr()
    assert (out, run.report.stops, run.report.torch) == ("hello\n", (), "")
    assert "the script made no backward call" in err


def test_a_call_that_torch_refuses(run: Runs, capfd: pytest.CaptureFixture[str]):
    assert run("import torch\ny = torch.ones(2, requires_grad=True) * 3\ny.backward()\n") == 1
    err = capfd.readouterr().err
    assert "RuntimeError: grad can be implicitly created only for scalar outputs" in err
    (stop,) = run.report.stops
    assert (stop.tapes, [finding.kind for finding in stop.findings]) == ((), ["nonscalar-root"])


def test_a_gradient_option_that_does_not_fit_is_told(run: Runs, capfd: pytest.CaptureFixture[str]):
    assert run(LOOP, gradient="1,2") == 2
    out, err = capfd.readouterr()
    assert out == "grad [6.0, 12.0]\n"
    assert "gradscope: --gradient 1,2: the seed does not fit" in err
    assert [tape.kind for tape in run.report.stops[0].tapes] == ["committed"]


def test_a_finding_that_must_not_be(run: Runs):
    text = "import torch\nw = torch.zeros(2, requires_grad=True)\nw.sqrt().sum().backward()\nraise SystemExit(1)\n"
    assert run(text, fail_on=("nonfinite-origin",)) == 3
    assert run(text, fail_on=("cut",)) == 1


STEPS_IN_VAIN = """
import torch
w = torch.nn.Parameter(torch.ones(2))
opt = torch.optim.SGD([w], 0.1)
for number in range(2):
    w.sum().backward()
    if number:
        opt.zero_grad()
    opt.step()
"""


def test_a_finding_from_outside_a_pass(run: Runs):
    """It belongs to a call that was not recorded, so to none in the report."""
    assert run(STEPS_IN_VAIN, fail_on=("step-without-gradient",)) == 3
    assert [finding.kind for finding in run.report.stops[0].findings] == []
    (finding,) = run.report.findings
    assert (finding.kind, finding.line, finding.call, finding.leaf) == ("step-without-gradient", 9, 2, "w")
    assert [place.line for place in finding.related] == [8]
    assert run(STEPS_IN_VAIN, calls=-1, fail_on=("step-without-gradient",)) == 3
    assert [finding.kind for finding in run.report.stops[1].findings if finding.kind.startswith("step")] == [finding.kind]


def test_an_export_that_fails_does_not_stop_the_others(run: Runs, capfd: pytest.CaptureFixture[str]):
    assert run(LOOP, exports=("/nowhere/a.json", "b.json")) == 2
    assert "gradscope: cannot write /nowhere/a.json\n  no such folder" in capfd.readouterr().err
    assert [path for path, _ in run.reports] == ["b.json"]


def test_the_script_keeps_its_stdin(run: Runs, capfd: pytest.CaptureFixture[str], tmp_path: Path):
    typed = tmp_path / "typed"
    typed.write_text("Ada\n", encoding="utf-8")
    with typed.open(encoding="utf-8") as file:
        assert run("print('hello', input())\n", script_stdin=file.fileno()) == 0
    assert capfd.readouterr().out == "hello Ada\n"
