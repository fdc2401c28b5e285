"""What the text of a script says about where to stop and how it ends."""

from __future__ import annotations

import ast
import textwrap

import pytest

from gradscope.debuggee.source_text import Statement, statement_at, tail_of
from gradscope.debuggee.stops import Place, Stops

TEXT = textwrap.dedent(
    """\
    import torch

    def f(x):
        # a comment
        y = torch.stack(
            [x, x],
        )
        return y

    for i in range(3):
        loss = f(i)
        loss.backward()
    g = torch.autograd.grad(loss, x)
    """
)


@pytest.mark.parametrize(
    ("line", "statement"),
    [
        (1, Statement(1, 1, False)),
        (2, Statement(3, 4, False)),
        (3, Statement(3, 4, False)),
        (5, Statement(5, 7, False)),
        (6, Statement(5, 7, False)),
        (9, Statement(10, 10, False)),
        (12, Statement(12, 12, True)),
        (13, Statement(13, 13, True)),
        (14, None),
    ],
)
def test_statement_at(line: int, statement: Statement | None) -> None:
    assert statement_at(ast.parse(TEXT), line) == statement


@pytest.mark.parametrize(
    ("text", "lines", "names"),
    [
        ("a = 1\nmain()", {2}, {"main"}),
        ("if __name__ == '__main__':\n    x = 1\n    sys.exit(main(\n        1))", {3, 4}, {"sys", "exit", "main"}),
        ("with a:\n    b()", {2}, {"b"}),
        ("try:\n    run()\nexcept E:\n    fail()", {2, 4}, {"run", "fail"}),
        ("try:\n    run()\nfinally:\n    clean()", {4}, {"clean"}),
        ("for i in x:\n    f(i)", set(), set()),
        ("result = Trainer().fit(a)", {1}, {"Trainer", "fit", "a"}),
        ("", set(), set()),
    ],
)
def test_what_a_module_does_last(text: str, lines: set[int], names: set[str]) -> None:
    tail = tail_of(ast.parse(text))
    assert (tail.lines, tail.names) == (lines, names)


@pytest.mark.parametrize(
    ("stop_at", "stopping"),
    [("first", [1, 2, 3]), ("next", [1, 2, 3]), ("never", []), ("break", []), ("2", [2]), ("a.py:2", [])],
)
def test_which_calls_stop(stop_at: str, stopping: list[int]) -> None:
    stops = Stops(stop_at)
    assert [call for call in (1, 2, 3) if stops.at(call)] == stopping
    assert stops.wanted == (stop_at not in ("never", "break"))
    stops.soon()
    assert stops.at(3)


def test_a_place() -> None:
    assert Place.parse("C:/a b.py:12") == Place("C:/a b.py", 12)
    assert Place.parse("12") is None
    assert Place("train.py", 1).is_in("/somewhere/train.py")
    assert not Place("train.py", 1).is_in("/somewhere/pretrain.py")
    assert Place(__file__, 1).is_in(__file__)
    assert not Place(__file__, 1).is_in("/elsewhere/test_source_text.py")
