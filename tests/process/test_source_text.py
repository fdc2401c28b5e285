"""What the text of a script says about where to stop and how it ends."""

from __future__ import annotations

import ast
import textwrap

import pytest

from gradscope.debuggee.source_text import Statement, Tail, statement_at, tails_of
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


DEFINITIONS = "def main(): pass\ndef parse(): pass\nclass C:\n    def fit(self): pass\n"


@pytest.mark.parametrize(
    ("text", "tails"),
    [
        ("a = 1\nmain()", [Tail(6, 6, frozenset({"main"}), "main")]),
        (
            "if __name__ == '__main__':\n    x = 1\n    sys.exit(main(\n        parse()))",
            [Tail(7, 8, frozenset({"main", "parse"}), "main")],
        ),
        ("with a:\n    b()", [Tail(6, 6, frozenset(), "")]),
        ("Fire(main)", [Tail(5, 5, frozenset({"main"}), "")]),
        (
            "try:\n    main()\nexcept E:\n    parse()",
            [Tail(6, 6, frozenset({"main"}), "main"), Tail(8, 8, frozenset({"parse"}), "parse")],
        ),
        ("try:\n    main()\nfinally:\n    parse()", [Tail(8, 8, frozenset({"parse"}), "parse")]),
        ("for i in x:\n    main()", []),
        ("result = C(parse).fit(a)", [Tail(5, 5, frozenset({"fit", "parse"}), "fit")]),
        ("", []),
    ],
)
def test_what_a_module_does_last(text: str, tails: list[Tail]) -> None:
    assert tails_of(ast.parse(DEFINITIONS + text)) == tails


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
