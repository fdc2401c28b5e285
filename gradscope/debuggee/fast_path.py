"""Keep torch's fast paths as they are while a function mode of ours is in force.

`has_torch_function` is true under any mode, and some of torch's own code then leaves its fast path and computes other numbers
(TransformerEncoder and MultiheadAttention in eval). While ours is the only mode, the answer given here is the one without it.
"""

from __future__ import annotations

import sys
from typing import Any

_NAMES = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_CALLING_THEMSELVES = ("rename", "rename_")
"""Methods of named tensors (torch has given them up) that call C++ ones of their own name, which would come back to them with
other arguments were the mode not off meanwhile: these keep torch's answer."""


class FastPath:
    """Stand-ins for torch's three questions, put into every torch module that imported one."""

    def __init__(self, torch: Any, mode: object) -> None:
        originals = [getattr(torch.overrides, name) for name in _NAMES]
        self._pairs = {id(original): ours for original, ours in zip(originals, _without(torch, mode, originals), strict=True)}
        self._originals = {id(original): original for original in originals}
        self._places: list[tuple[dict[str, Any], str, Any, Any]] = []
        for original, ours in zip(originals, self._pairs.values(), strict=True):
            _let_scripts_compile(torch, ours)
            del original
        self.collect()

    def collect(self) -> None:
        """Find the modules that hold one of the originals under any name."""
        self._places = [
            (vars(module), name, value, self._pairs[id(value)])
            for module_name, module in list(sys.modules.items())
            if module_name.split(".", 1)[0] == "torch" and module_name != "torch._C" and hasattr(module, "__dict__")
            for name, value in list(vars(module).items())
            if id(value) in self._pairs and name in _NAMES
        ]

    def enter(self) -> None:
        """Put the stand-ins in."""
        for namespace, name, _, ours in self._places:
            namespace[name] = ours

    def leave(self) -> None:
        """Put torch's own back."""
        for namespace, name, original, _ in self._places:
            namespace[name] = original


def _let_scripts_compile(torch: Any, ours: Any) -> None:
    """torch.jit.script meets our functions in the source of nn.functional: tell it that they are its builtin."""
    register = getattr(getattr(torch.jit, "_builtins", None), "_register_builtin", None)
    if register is not None:
        register(ours, "aten::has_torch_function")


def _without(torch: Any, mode: object, originals: list[Any]) -> tuple[Any, Any, Any]:
    """The three questions as answered without the mode: it is off the stack while torch's own function is asked."""
    general, unary, variadic = originals
    depth = torch._C._len_torch_function_stack
    at = torch._C._get_function_stack_at
    pop = torch._C._pop_torch_function_stack
    push = torch._C._push_on_torch_function_stack
    tensor = torch.Tensor
    parameter = torch.nn.Parameter
    again = frozenset(getattr(getattr(tensor, name, None), "__code__", None) for name in _CALLING_THEMSELVES) - {None}

    def has_torch_function(args: Any) -> bool:
        if not general(args):
            return False
        if depth() != 1 or at(0) is not mode:
            return True
        pop()
        try:
            return bool(general(args))
        finally:
            push(mode)

    def has_torch_function_unary(arg: Any) -> bool:
        if not unary(arg):
            return False
        if depth() != 1 or at(0) is not mode:
            return True
        if type(arg) is tensor or type(arg) is parameter:
            return bool(again) and sys._getframe(1).f_code in again
        pop()
        try:
            return bool(unary(arg))
        finally:
            push(mode)

    def has_torch_function_variadic(*args: Any) -> bool:
        if not variadic(*args):
            return False
        if depth() != 1 or at(0) is not mode:
            return True
        pop()
        try:
            return bool(variadic(*args))
        finally:
            push(mode)

    return has_torch_function, has_torch_function_unary, has_torch_function_variadic
