"""The main job in a real terminal: stop, step, edit the seed, export, resume, quit."""

from __future__ import annotations

import json
import termios
from pathlib import Path

from driver import Program

TWO_OUTPUTS = """
    import torch
    x = torch.tensor([1., 2.], requires_grad=True)
    a = x * x
    b = x.sin()
    J = a + b
    print("before the backward pass")
    J.backward(gradient=torch.tensor([1., 10.]))
    print("x.grad is", x.grad.tolist())
"""


def test_step_edit_export_resume_quit(start, tmp_path: Path) -> None:
    program = start(TWO_OUTPUTS)
    program.wait("step 0/4")
    assert "libtorch" not in Path(f"/proc/{program.pid}/maps").read_text()
    program.press("n")
    program.wait("step 1/4")
    program.press("N")
    program.wait("step 0/4")
    program.press("c")
    program.wait("step 4/4")
    program.wait("35.93")
    program.press("s")
    program.wait("Esc leaves")
    program.press("1,1", "enter")
    program.wait("pass 2 of 2: SEED EDITED")
    assert "step 4/4" in program.wait("4.393")
    program.press("esc")
    program.wait(lambda text: "Esc leaves" not in text and "J =" not in text.splitlines()[-2])
    program.press("E")
    program.wait("a file:")
    _type_line(program, "saved.json")
    program.wait_for_file(tmp_path / "saved.json")
    program.press("r")
    program.wait("script's")
    program.settle()
    program.press("enter")
    program.wait("ended, exit 0")
    program.press("q")
    assert program.wait_for_end() == 0
    report = json.loads((tmp_path / "saved.json").read_text())
    assert report["format"] == "gradscope"
    after = program.output.decode(errors="replace").rpartition("\x1b[?1049l")[2]
    assert "before the backward pass" in after
    assert "x.grad is [2.540302276611328, 35.83853149414062" in after


def test_a_snapshot_opens_into_the_same_screen(start, tmp_path: Path) -> None:
    program = start(TWO_OUTPUTS)
    program.wait("step 0/4")
    program.press("c", "E")
    program.wait("a file:")
    _type_line(program, "saved.gscope")
    program.wait_for_file(tmp_path / "saved.gscope")
    program.press("q")
    program.wait("stop the script")
    program.settle()
    program.press("s")
    assert program.wait_for_end() == 143
    again = Program(["open", "saved.gscope"], cwd=str(tmp_path))
    try:
        assert "snapshot" in again.wait("step 0/4")
        again.press("c")
        again.wait("step 4/4")
        again.press("q")
        assert again.wait_for_end() == 0
    finally:
        again.close()


def test_the_terminal_is_as_it_was(start) -> None:
    program = start(TWO_OUTPUTS)
    before = program.before
    program.wait("step 0/4")
    program.press("q")
    program.wait("let it finish")
    program.settle()
    program.press("f")
    assert program.wait_for_end() == 0
    assert b"\x1b[?1049l" in program.output
    assert "x.grad is" in program.output.decode(errors="replace").rpartition("\x1b[?1049l")[2]
    assert termios.tcgetattr(program._terminal)[:4] == before[:4]


def test_quit_can_be_cancelled(start) -> None:
    program = start(TWO_OUTPUTS)
    program.wait("step 0/4")
    program.press("q")
    program.wait("let it finish")
    program.settle()
    program.press("c")
    program.wait(lambda text: "let it finish" not in text)
    program.press("n")
    program.wait("step 1/4")


def test_no_color_sends_no_colour(start) -> None:
    program = start(TWO_OUTPUTS, environment={"NO_COLOR": "1"})
    program.wait("step 0/4")
    assert b"\x1b[38;" not in program.output
    assert b";48;" not in program.output


def test_a_locale_without_the_signs_gets_ascii(start) -> None:
    program = start(TWO_OUTPUTS, environment={"LC_ALL": "C"})
    assert program.wait("step 0/4").isascii()


def _type_line(program: Program, text: str) -> None:
    program.settle()
    program.press(text, "enter")
