"""Which lines of a source file belong to one statement."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence

MOST_LINES = 20_000
"""a longer file is not parsed: that would be felt"""


class StatementLines:
    """The statements of one file. What is no Python, or is not whole, has none: each line then stands for itself."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._bounds: dict[int, tuple[int, int]] = {}
        """by line, of statements that take several"""
        if len(lines) <= MOST_LINES:
            for first, last in _statements("\n".join(lines)):
                self._bounds.update(dict.fromkeys(range(first, last + 1), (first, last)))

    def around(self, line: int) -> tuple[int, int]:
        """First and last line of the innermost statement that a line belongs to; of a block only its head."""
        return self._bounds.get(line, (line, line))


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Statements over several lines, outer ones first."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a person's invalid escapes are not ours to tell
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        inside = [
            child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
        ]
        todo += inside
        if isinstance(node, ast.stmt):
            last = node.end_lineno or node.lineno
            if inside:
                last = min(last, _line(inside[0]) - 1)
            if last > node.lineno:
                yield node.lineno, last


def _line(node: ast.AST) -> int:
    line: int = (node.pattern if isinstance(node, ast.match_case) else node).lineno  # type: ignore[attr-defined]
    return line
