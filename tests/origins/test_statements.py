"""The statement at a line: joined, its target, several on a line, and files that are not there or not Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.debuggee.statements import Statement, statement

SOURCE = '''\
import torch
a = 1; b = f(a)
c = g(
    a,  # the first
    "#  no comment",
)
for x in h(
    c
):
    self.w = x
    y[0] = x
    y += x
    p, q = x
    z: int = 3
    if x: t = 5
    return (
        x
    )
with m() as k:
    k()
d = \\
    e
s = """one
two"""
é = "ü"; ß = ω(1)
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("source") / "script.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("line", "code", "target", "first", "last"),
    [
        (1, "import torch", "", 1, 1),
        (2, "a = 1", "a", 2, 2),
        (3, 'c = g(a, "# no comment")', "c", 3, 6),
        (5, 'c = g(a, "# no comment")', "c", 3, 6),
        (7, "for x in h(c):", "", 7, 9),
        (9, "for x in h(c):", "", 7, 9),
        (10, "self.w = x", "self.w", 10, 10),
        (11, "y[0] = x", "y", 11, 11),
        (12, "y += x", "y", 12, 12),
        (13, "p, q = x", "", 13, 13),
        (14, "z: int = 3", "z", 14, 14),
        (17, "return (x)", "", 16, 18),
        (19, "with m() as k:", "", 19, 19),
        (22, "d = e", "d", 21, 22),
        (24, 's = """one two"""', "s", 23, 24),
    ],
)
def test_statement(file: str, line: int, code: str, target: str, first: int, last: int) -> None:
    assert statement(file, line) == Statement(code, target, first, last)


def test_several_on_a_line_by_column(file: str) -> None:
    assert statement(file, 2, 7).code == "b = f(a)"
    assert statement(file, 2, 0).code == "a = 1"
    assert statement(file, 15, 10).code == "t = 5"
    assert (statement(file, 25, 16).code, statement(file, 25, 16).target) == ("ß = ω(1)", "ß")


def test_nothing_there(file: str, tmp_path: Path) -> None:
    nothing = Statement("", "", 0, 0)
    for name, line in ((file, 0), (file, 99), ("<stdin>", 1), (str(tmp_path / "gone.py"), 3), ("", 1), ("bad\0name", 1)):
        assert statement(name, line) == nothing


def test_not_python(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def f(:\n    x  =   1\n", encoding="utf-8")
    assert statement(str(path), 2) == Statement("x = 1", "", 2, 2)
    binary = tmp_path / "binary.py"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    assert statement(str(binary), 1).target == ""
