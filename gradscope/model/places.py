"""Where code is: the line of the person's that made a node, and stretches of source files."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A stretch of a source file."""

    file: str
    line: int
    function: str
    last: int = 0
    """the last line of it, where it is a whole function; else 0"""


@dataclass(frozen=True, slots=True)
class Origin:
    """The forward call that made a node: the innermost frame of the person's own code."""

    file: str
    """Absolute path, or `<string>` and the like as Python names it."""
    line: int
    function: str
    """`co_qualname` where Python has it, else `co_name`."""
    module: str = ""
    """Path of the innermost nn.Module whose forward was running: `h.5.attn`; empty outside modules."""
    module_type: str = ""
    """Class name of that module: `Attention`."""
    torch_function: str = ""
    """The public torch function called: `torch.nn.functional.linear`, `Tensor.sin`."""
    code: str = ""
    """The statement at that line as the person wrote it, joined to one line: `b = x.sin()`."""
    expression: str = ""
    """The part of the statement that is this call, where Python tells (3.11+): `x[0] ** 2`."""
    target: str = ""
    """The name the statement assigns its result to, if it does to exactly one: `b`."""
    frames: tuple[CodePlace, ...] = ()
    """The library frames below the person's, outermost first: where in torch's own modules, or another package's, the call is."""
