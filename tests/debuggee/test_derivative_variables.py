"""Variables that hold gradients of which a graph was asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType

import pytest

from gradscope.debuggee.derivative_variables import is_derivative


def run(tmp_path: Path, text: str) -> dict[str, CodeType]:
    """The codes of a script by name, `code` for its own."""
    file = tmp_path / "script.py"
    file.write_text(text)
    code = compile(text, str(file), "exec")
    return {"code": code, **{one.co_name: one for one in code.co_consts if isinstance(one, CodeType)}}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("g, = torch.autograd.grad(y, x, create_graph=True)", True),
        ("g = grad(y, [x], create_graph=True)[0]", True),
        ("g, = torch.autograd.grad(y, x)", False),
        ("g, = torch.autograd.grad(y, x, create_graph=False)", False),
        ("g = torch.ones(2)", False),
        ("g, = torch.autograd.grad(y, x, create_graph=True); g = g.detach()", False),
        ("h, = torch.autograd.grad(y, x, create_graph=True)", False),
    ],
)
def test_what_the_variable_is_given(tmp_path: Path, line: str, expected: bool) -> None:
    codes = run(tmp_path, f"{line}\ndef f(y, x):\n    {line}\n    return g\n")
    assert [is_derivative(codes[name], "g") for name in ("code", "f")] == [expected, expected]


def test_what_has_no_name_or_no_source() -> None:
    assert not is_derivative(sys._getframe().f_code, "")
    assert not is_derivative(compile("g = 1", "<string>", "exec"), "g")
