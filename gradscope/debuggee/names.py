"""Names that a person would give to tensors and modules: `fc1.weight`, `x`, `params['w']`, `loss`.

Parameters are named by their path from the root-most module that holds them: `fc1.weight`. The variable of that module comes
first where the path alone says too little: `net.weight` of a lone layer, `net.0.weight` of an nn.Sequential, `G.fc.weight` when
the script trains several nets. The other form is an alias. Everything else is named by the variable that holds it, in the
innermost frame that has one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from gradscope.debuggee import alive, leaf_lines, person_code
from gradscope.debuggee.holdings import Holdings, is_module
from gradscope.debuggee.owners import Owners
from gradscope.model.places import Origin


@dataclass(frozen=True, slots=True)
class LeafName:
    """What a leaf is called and who steps it."""

    name: str
    aliases: tuple[str, ...]
    kind: str
    """`parameter` or `tensor`"""
    owner: str
    """`SGD[0]`, or empty"""
    origin: Origin | None = None
    """the line that made it, where that is certain"""


class Names:
    """The names in force at one backward call: made anew for each, because variables move."""

    def __init__(self, frame: FrameType | None = None, modules: Iterable[Any] = (), ends: Sequence[Any] = ()) -> None:
        """Search the frames from this one upward, and below modules known from elsewhere. `ends` are the call's leaves."""
        self._holdings = Holdings(person_code.frames(frame), ends)
        for module in modules:
            self._holdings.add_module(module)
        self._owners = Owners(self._holdings.optimizer_name, ends)
        self._searched_everywhere = False

    def leaves(self, tensors: Sequence[Any]) -> list[LeafName]:
        """Names for leaves, in order."""
        found = self._holdings
        if any(_is_parameter(tensor) and not found.in_modules(tensor) for tensor in tensors):
            self._search_everywhere()
        several = found.trained_roots() > 1
        return [
            self._leaf(tensor, number, several) if tensor is not None else LeafName(f"leaf {number}", (), "tensor", "")
            for number, tensor in enumerate(tensors)
        ]

    def unreached(self, reached: Sequence[Any], cut_off: Iterable[Any] = ()) -> list[tuple[Any, LeafName]]:
        """Tensors that could get a gradient and are not among the leaves: parameters of modules and optimizers at work.

        Of those known to be `cut_off` also the ones that a variable holds.
        """
        seen = {id(tensor) for tensor in reached}
        missing = []
        with sys.modules["torch"]._C.DisableTorchFunctionSubclass():
            held = [tensor for tensor in cut_off if self._holdings.variables_of(tensor)]
            for tensor in [*self._holdings.parameters(), *self._owners.parameters(), *held]:
                if id(tensor) not in seen and tensor.requires_grad and tensor.grad_fn is None:
                    seen.add(id(tensor))
                    missing.append(tensor)
        return list(zip(missing, self.leaves(missing), strict=True))

    def tensor(self, tensor: Any) -> str:
        """The variable that holds this very tensor, or an empty string."""
        names = self._holdings.variables_of(tensor)
        return names[0] if names else ""

    def held(self) -> Iterator[tuple[Any, str]]:
        """Every tensor that a module or a variable holds: `parameter fc1.weight`, `buffer bn.running_mean`, `variable h`."""
        found, several = self._holdings, self._holdings.trained_roots() > 1
        for tensor in found.tensors():
            names = self._paths(tensor, several)
            kind = ("parameter" if _is_parameter(tensor) else "buffer") if names else "variable"
            names = names or found.variables_of(tensor)
            if names:
                yield tensor, f"{kind} {names[0]}"

    def inner(self) -> Iterator[tuple[Any, str]]:
        """Every tensor with a graph that a variable holds, with the best of its names."""
        for tensor in self._holdings.tensors():
            if tensor.grad_fn is not None and (variables := self._holdings.variables_of(tensor)):
                yield tensor, variables[0]

    def module(self, module: Any) -> str:
        """Path of a module from the root-most one that holds it; for a root the variable, else the class name."""
        if not self._holdings.knows(module):
            self._search_everywhere()
        return self._holdings.module_path(module, self._holdings.trained_roots() > 1)

    def _search_everywhere(self) -> None:
        if not self._searched_everywhere:
            self._searched_everywhere = True
            for module in filter(is_module, alive.instances(sys.modules["torch"].nn.Module)):
                self._holdings.add_module(module)

    def _leaf(self, tensor: Any, number: int, several: bool) -> LeafName:
        place = self._owners.place(tensor)
        variables = [name for name in self._holdings.variables_of(tensor) if place is None or ".param_groups[" not in name]
        names = self._paths(tensor, several) or variables
        if not names:
            names = [f"leaf {number}" if place is None else place.text]
        name, *aliases = dict.fromkeys(names)
        kind = "parameter" if _is_parameter(tensor) else "tensor"
        scope = self._holdings.scope_of(tensor)
        origin = leaf_lines.made_at(scope, name) if scope is not None and name.isidentifier() else None
        return LeafName(name, tuple(aliases), kind, "" if place is None else place.owner, origin)

    def _paths(self, tensor: Any, several: bool) -> list[str]:
        """Its names in the modules that hold it, the best first."""
        short, long = self._holdings.paths_of(tensor)
        return [*long, *short] if several or any(_says_little(path) for path in short[:1]) else [*short, *long]


def leaf_names(tensors: Sequence[Any], frame: FrameType | None) -> list[LeafName]:
    """Names for the leaves of a call made in this frame."""
    return Names(frame, ends=tensors).leaves(tensors)


def _says_little(path: str) -> bool:
    """`weight` or `0.weight`: of what?"""
    return "." not in path or path[0].isdigit()


def _is_parameter(tensor: Any) -> bool:
    parameter = sys.modules["torch"].nn.Parameter
    return issubclass(type(tensor), parameter) or (tensor is not None and "_is_param" in getattr(tensor, "__dict__", ()))
