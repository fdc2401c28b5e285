"""A line of the person's at which something happened, as cheap to note as a frame is to find: its text is read when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType

from gradscope.debuggee import person_code, statements
from gradscope.debuggee.code_position import function_of, position
from gradscope.model.places import Origin


@dataclass(frozen=True, slots=True)
class Moment:
    """Keeps the code, which lives anyway, and no frame."""

    code: CodeType
    instruction: int

    @classmethod
    def below(cls, frame: FrameType | None) -> Moment | None:
        """The innermost line of the person's own on the stack that ends with this frame, else of a library's."""
        found = person_code.innermost(frame)
        return None if found is None else cls(found.f_code, found.f_lasti)

    @property
    def line(self) -> int:
        return position(self.code, self.instruction)[0]

    @property
    def origin(self) -> Origin:
        """File, line, function and the statement that stands there."""
        return _origin(self.code, self.instruction)


@lru_cache(maxsize=1_000)
def _origin(code: CodeType, instruction: int) -> Origin:
    line, span = position(code, instruction)
    written = statements.statement(code.co_filename, line, span[2] if span else None)
    return Origin(code.co_filename, line, function_of(code), code=written.code)
