from __future__ import annotations

import textwrap
import warnings

from gradscope.model.statement_lines import MOST_LINES, StatementLines

TEXT = textwrap.dedent(
    """\
    import torch

    x = model(
        torch.relu(a)
        + b,
    )
    with torch.no_grad(), \\
         open("a") as f:
        y = (
            1
        )
    def forward(
        self,
        x,
    ):
        return x
    match x:
        case [
            1, 2
        ]:
            z = f(
                1)
    if a: b = (1,
        2)
    """
).splitlines()


def test_a_line_knows_its_statement() -> None:
    lines = StatementLines(TEXT)
    assert [lines.around(line) for line in (1, 3, 4, 6)] == [(1, 1), (3, 6), (3, 6), (3, 6)]


def test_of_a_block_only_the_head_belongs_together() -> None:
    lines = StatementLines(TEXT)
    assert [lines.around(line) for line in (7, 8, 9, 10, 12, 15, 16)] == [
        *((7, 8), (7, 8), (9, 11), (9, 11), (12, 15), (12, 15), (16, 16)),
    ]
    assert lines.around(22) == (21, 22)
    assert lines.around(24) == (23, 24)


def test_what_is_no_python_has_no_statements() -> None:
    assert StatementLines(["x = (", "1"]).around(1) == (1, 1)
    assert StatementLines(["\0", "1"]).around(1) == (1, 1)
    assert StatementLines(["(", ")"] * MOST_LINES).around(1) == (1, 1)


def test_an_invalid_escape_of_the_persons_warns_nobody() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert StatementLines(["x = ('\\d',", "1)"]).around(2) == (1, 2)
