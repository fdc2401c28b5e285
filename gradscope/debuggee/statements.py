"""The statement at a line of a file, joined to one line, and the name it assigns its result to."""

from __future__ import annotations

import ast
import io
import linecache
import re
import tokenize
import warnings
from dataclasses import dataclass, field

Span = tuple[int, int, int, int]
"""line, end line, column, end column, as `co_positions` gives them: lines from 1, columns in bytes from 0"""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; of a compound one (`for`, `with`) the header only."""

    code: str
    target: str
    """The one name (or attribute) it assigns to, or into: `work` of `work[0] *= 3`; empty when there is none or several."""
    first: int
    last: int
    node: ast.stmt | None = field(default=None, repr=False, compare=False)


_PUTS = ("CopySlices", "IndexPutBackward0")
_NOTHING = Statement("", "", 0, 0)


@dataclass(slots=True)
class _File:
    lines: list[str]
    tree: ast.Module | None
    by_line: dict[int, list[ast.stmt]]


_files: dict[str, _File] = {}


def statement(file: str, line: int, column: int | None = None) -> Statement:
    """The statement at a place. Of several on one line the one at the byte column, else the first."""
    source = _read(file)
    if not 1 <= line <= len(source.lines):
        return _NOTHING
    here = source.by_line.get(line)
    if not here:
        return Statement(" ".join(source.lines[line - 1].split()), "", line, line)
    node = here[0]
    if column is not None:
        node = next((n for n in here if (n.lineno, n.col_offset) <= (line, column) < _end(n)), node)
    return Statement(_text(source.lines, node), _target(node), node.lineno, _header_end(node), node)


def tree(file: str) -> ast.Module | None:
    """The whole file; None where it cannot be read."""
    return _read(file).tree


def at_line(file: str, line: int) -> list[ast.stmt]:
    """The statements that touch a line; of compound ones those whose header does."""
    return _read(file).by_line.get(line, [])


def calls_at(file: str, line: int, span: Span | None) -> list[ast.Call]:
    """The call expressions at a place: the one with exactly this span when given, else all that touch the line, inner first."""
    found = []
    for node in _read(file).by_line.get(line, ()):
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and part.lineno <= line <= (part.end_lineno or part.lineno):
                if span is not None and span_of(part) == span:
                    return [part]
                found.append(part)
    return [] if span is not None else found[::-1]


def makes_result(made_by: ast.stmt, span: Span) -> bool:
    """Whether the expression with this span is the whole of what the statement assigns."""
    if isinstance(made_by, ast.AugAssign):
        return span in (span_of(made_by), span_of(made_by.target))
    if isinstance(made_by, ast.Assign) and len(made_by.targets) == 1 and isinstance(made_by.targets[0], ast.Subscript):
        return span_of(made_by.targets[0]) == span
    value = getattr(made_by, "value", None)
    return isinstance(value, ast.expr) and span_of(value) == span


def name_of_result(made_by: ast.stmt, span: Span, op: str) -> str:
    """What a node is the gradient of, where that is what the statement assigns: `work[0]`, or `work` once that is put back.

    An in-place operation on a view makes the view, and a `CopySlices` for the tensor that it is a view of, whose name is known
    only where the statement says it.

    Args:
        made_by: an assignment to one target.
        span: of the whole result (`makes_result`).
        op: the node's name.
    """
    if not isinstance(made_by, ast.AugAssign):
        return _target(made_by)
    if span == span_of(made_by):
        return "" if op in _PUTS else ast.unparse(made_by.target)
    return _target(made_by) if op in _PUTS else ""


def expression(file: str, span: Span) -> str:
    """The text with this span, joined to one line: the part of a statement that made one node."""
    line, end_line, column, end_column = span
    part = [text.encode() for text in _read(file).lines[line - 1 : end_line]]
    if not part:
        return ""
    part[-1] = part[-1][:end_column]
    part[0] = part[0][column:]
    return _one_line(b"".join(part).decode(errors="replace"), several=line != end_line)


def forget() -> None:
    """Read files anew at the next question."""
    _files.clear()


def _read(file: str) -> _File:
    known = _files.get(file)
    if known is None:
        try:
            lines = linecache.getlines(file)
        except Exception:
            lines = []
        known = _File(lines, None, {})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                known.tree = ast.parse("".join(lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass
        else:
            for node in ast.walk(known.tree):
                if isinstance(node, ast.stmt):
                    for line in range(node.lineno, _header_end(node) + 1):
                        known.by_line.setdefault(line, []).append(node)
            for here in known.by_line.values():
                here.sort(key=lambda node: (isinstance(getattr(node, "body", None), list), node.lineno, node.col_offset))
        if lines:
            _files[file] = known
    return known


def _header_end(node: ast.stmt) -> int:
    end: int = node.end_lineno or node.lineno
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return max(node.lineno, min(end, int(body[0].lineno) - 1))
    if isinstance(node, getattr(ast, "Match", ())):
        return node.lineno
    return end


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 1 << 30


def span_of(node: ast.expr | ast.stmt) -> Span:
    """Where the source has it, as `co_positions` would say."""
    return node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or 0


def _text(lines: list[str], node: ast.stmt) -> str:
    first, last = node.lineno, _header_end(node)
    part = [line.encode() for line in lines[first - 1 : last]]
    if (node.end_lineno, node.end_col_offset) and last == node.end_lineno:
        part[-1] = part[-1][: node.end_col_offset]
    part[0] = part[0][node.col_offset :]
    return _one_line(b"".join(part).decode(errors="replace"), several=first != last)


def _one_line(text: str, *, several: bool) -> str:
    """Code without its comments and line breaks, and without the blanks that brackets leave when `several` lines are joined."""
    if "#" in text:
        text = _without_comments(text)
    text = " ".join(text.replace("\\\n", " ").split())
    return re.sub(r",? ([)\]}])", r"\1", re.sub(r"([(\[{]) ", r"\1", text)) if several else text


def _without_comments(text: str) -> str:
    lines = text.splitlines(keepends=True)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line = lines[token.start[0] - 1]
                lines[token.start[0] - 1] = line[: token.start[1]] + line[token.end[1] :]
    except (tokenize.TokenError, SyntaxError):
        pass
    return "".join(lines)


def _target(node: ast.stmt) -> str:
    if isinstance(node, ast.Assign):
        target = node.targets[0] if len(node.targets) == 1 else None
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        target = node.target
    else:
        return ""
    if isinstance(target, ast.Subscript):
        target = target.value
    return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""
