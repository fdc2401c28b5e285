"""Where in the source an instruction stands: its line and, where Python tells, the expression it belongs to."""

from __future__ import annotations

from types import CodeType

from gradscope.debuggee.statements import Span


def position(code: CodeType, instruction: int) -> tuple[int, Span | None]:
    """Line of an instruction (`f_lasti`) and, on Python 3.11+, the span of the expression it belongs to."""
    if hasattr(code, "co_positions"):
        for offset, found in enumerate(code.co_positions()):
            if offset * 2 == instruction:
                line, end_line, column, end_column = found
                if line is None:
                    break
                if end_line is None or column is None or end_column is None:
                    return line, None
                return line, (line, end_line, column, end_column)
        return code.co_firstlineno, None
    best = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            best = line
    return best, None


def function_of(code: CodeType) -> str:
    """The function that runs the code: `Net.forward`; on Python 3.10 `forward`."""
    return str(getattr(code, "co_qualname", code.co_name))
