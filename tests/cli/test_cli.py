"""The real command, in processes of its own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from reports import two_outputs_report

import gradscope
from gradscope import cli
from gradscope.export.formats import export
from gradscope.export.json_report import schema

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "two_outputs.py"

SCRIPT = """
import sys
import torch
print("hello", sys.argv[1:])
w = torch.tensor([1.0, 2.0], requires_grad=True)
for _ in range(3):
    (w * w).sum().backward()
print(sys.stdin.read(), "stderr", file=sys.stderr)
sys.exit(5)
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def gradscope_command(*words: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gradscope", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(), input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


def test_json_of_the_example_on_stdout(tmp_path: Path) -> None:
    done = gradscope_command("--headless", "--export", "-", str(EXAMPLE), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout, parse_constant=lambda token: pytest.fail(f"{token} is not strict JSON"))
    Draft202012Validator(schema()).validate(document)
    assert document["exact"] is True
    (call,) = document["calls"]
    (leaf,) = call["leaves"]
    assert (leaf["name"], leaf["contribution"]["values"]) == ("x", [34.0, 21.0])
    assert sorted(step["node"] for step in call["steps"]) == [node["id"] for node in call["nodes"]]
    delivered = [sent["edge"] for step in call["steps"] for sent in step["contributions"]]
    assert sorted(delivered) == list(range(len(call["edges"])))
    to_x = [
        sent["values"]
        for step in call["steps"]
        for sent in step["contributions"]
        if call["edges"][sent["edge"]]["target"] == leaf["node"]
    ]
    assert [sum(column) for column in zip(*to_x, strict=True)] == [34.0, 21.0]


def test_the_script_keeps_its_streams_and_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(SCRIPT)
    done = gradscope_command(
        "--headless", "--calls", "all", "--export", "r.json", "s.py", "--lr", "3", folder=tmp_path, stdin="typed"
    )
    assert done.returncode == 5
    assert done.stdout == "hello ['--lr', '3']\n"
    assert "typed stderr\n" in done.stderr
    assert "3 backward calls recorded" in done.stderr
    assert len(json.loads((tmp_path / "r.json").read_text())["calls"]) == 3


def test_a_pipe_means_headless_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("print('x')")
    done = gradscope_command("--break", "nan", "s.py", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "x\n")
    assert done.stderr.splitlines()[0] == "gradscope: stdout is no terminal: headless"


@pytest.mark.parametrize("closing", ["2>&-", "2>/dev/full", "<&- >&- 2>&-", ">&-"])
def test_closed_and_full_streams_leave_the_exit_code_alone(tmp_path: Path, closing: str) -> None:
    (tmp_path / "s.py").write_text("import sys; print('x'); sys.exit(5)")
    line = f"{shlex.quote(sys.executable)} -m gradscope --headless --export r.json s.py {closing}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 5
    assert json.loads((tmp_path / "r.json").read_text())["calls"] == []


def test_stdout_takes_one_document(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("print('x')")
    done = gradscope_command("--headless", "--export", "-", "--export", "-", "s.py", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--export - is given twice" in done.stderr


@pytest.mark.parametrize(("words", "sites"), [(["--stop-at", "3"], [3]), (["--calls", "2"], [1, 2])])
def test_which_calls_are_recorded(tmp_path: Path, words: list[str], sites: list[int]) -> None:
    done = gradscope_command("--headless", *words, "--export", "r.json", str(EXAMPLE.with_name("accumulate.py")), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [call["number"] for call in json.loads((tmp_path / "r.json").read_text())["calls"]] == sites


def test_a_gradient_of_ones_own_is_one_more_pass(tmp_path: Path) -> None:
    done = gradscope_command("--headless", "--gradient", "1,1", "--export", "r.json", str(EXAMPLE), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (call,) = json.loads((tmp_path / "r.json").read_text())["calls"]
    assert call["leaves"][0]["contribution"]["values"] == [34.0, 21.0]
    assert [one["leaves"][0]["contribution"]["values"] for one in call["passes"]] == [[7.0, 3.0]]


def test_stdout_is_the_jsons_alone(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("print('x')")
    done = gradscope_command("--headless", "--export", "-", "s.py", folder=tmp_path)
    assert json.loads(done.stdout)["calls"] == []
    assert "x\n" in done.stderr


def test_all_forms_of_one_run(tmp_path: Path) -> None:
    forms = [f"run{ending}" for ending in (".gscope", ".json", ".graphml", ".dot", ".safetensors", ".txt", ".csv")]
    words = [word for form in forms for word in ("--export", form)]
    done = gradscope_command("--headless", *words, str(EXAMPLE), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(forms)
    report = gradscope.load(str(tmp_path / "run.gscope"))
    assert report.stops[0].sources[str(EXAMPLE)] == EXAMPLE.read_text()
    tape = report.stops[0].tapes[0]
    assert all(tape.tensors.held(tensor) for tensor in range(len(tape.tensors)))


def test_a_fault_leaves_no_traceback_on_the_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(words: object) -> None:
        raise KeyError("lost")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(cli, "parse", broken)
    assert cli.main(["x.py"]) == 70
    (log,) = tmp_path.iterdir()
    assert capsys.readouterr().err == f"gradscope: a fault of its own: KeyError: 'lost' (please report it with {log})\n"
    assert "Traceback" in log.read_text()


def test_usage_is_said_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0]) == ("", "gradscope: which script?")
    assert cli.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("gradscope: a terminal debugger")


def test_ctrl_c_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "parse", interrupted)
    assert cli.main([]) == 130


def test_a_snapshot_becomes_other_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(two_outputs_report(), str(tmp_path / "a.gscope"))
    export(two_outputs_report((1.0, 1.0)), str(tmp_path / "b.gscope"))
    assert cli.main(["open", str(tmp_path / "a.gscope"), "--export", str(tmp_path / "a.txt")]) == 0
    assert "J = a + b" in (tmp_path / "a.txt").read_text()
    assert cli.main([str(tmp_path / "a.gscope")]) == 2
    assert "stdout is no terminal" in capsys.readouterr().err
    assert cli.main(["diff", str(tmp_path / "a.gscope"), str(tmp_path / "a.gscope")]) == 0
    assert capsys.readouterr().out == "no difference\n"
    assert cli.main(["diff", str(tmp_path / "a.gscope"), str(tmp_path / "b.gscope")]) == 0
    assert "first step that differs" in capsys.readouterr().out
    assert cli.main(["diff", str(tmp_path / "a.gscope"), str(tmp_path / "a.txt")]) == 2
    assert "is no gradscope snapshot" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["--headless", "--export", "-", "s.py"]])
def test_a_reader_that_has_had_enough(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "s.py").touch()
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "gradscope", *words]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(write)
    assert done.returncode in (2, 141)
    assert "Exception" not in done.stderr
    assert "fault" not in done.stderr
