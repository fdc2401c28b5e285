"""Which functions of torch's cut a tensor off from its graph, and whose calls of them mean nothing by it."""

from __future__ import annotations

import os
from types import CodeType, FrameType, FunctionType
from typing import Any

CASTS = ("item", "tolist", "numpy", "float", "int")


def cutting(torch: Any) -> dict[Any, str]:
    """The functions that cut and give a tensor, as a function mode is given them, with what to call each."""
    tensor = torch.Tensor
    return {
        tensor.detach: "detach",
        tensor.detach_: "detach",
        torch.detach: "detach",
        torch.detach_: "detach",
        tensor.data.__get__: "data",
        torch.tensor: "copy",
        torch.as_tensor: "copy",
        torch.asarray: "copy",
        tensor.new_tensor: "copy",
    }


def casting(torch: Any) -> dict[Any, str]:
    """Those that make plain numbers."""
    tensor = torch.Tensor
    return {
        tensor.item: "item",
        tensor.tolist: "tolist",
        tensor.numpy: "numpy",
        tensor.__array__: "numpy",
        tensor.__float__: "float",
        tensor.__int__: "int",
    }


def flat(torch: Any) -> dict[Any, str]:
    """Those without a derivative, for who sees no more than that they are called."""
    names = ("argmax", "argmin", "argsort", "long", "int", "short", "bool", "byte", "nonzero", "isnan", "multinomial", "histc")
    homes = (torch.Tensor, torch)
    return {function: "flat" for home in homes for name in names if callable(function := getattr(home, name, None))}


def draws(function: Any) -> bool:
    """Whether it is the `sample` of one of torch's distributions, which runs without gradients."""
    return (
        type(function) is FunctionType
        and function.__name__ == "sample"
        and function.__module__.startswith("torch.distributions.")
    )


def of_numbers(args: tuple[Any, ...]) -> bool:
    """Whether a tensor that is made of these arguments is made of plain numbers, not whole, or of a NumPy array."""
    value = args[0] if args else None
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, float) or type(value).__module__ == "numpy"


def empty_handed(torch: Any) -> frozenset[Any]:
    """Those that take no more than the shape of what they are given."""
    names = [(home, name) for home in (torch.Tensor, torch) for name in dir(home)]
    return frozenset(
        getattr(home, name)
        for home, name in names
        if (name.endswith("_like") or (name.startswith("new_") and name != "new_tensor")) and callable(getattr(home, name))
    )


def choosing(torch: Any) -> list[Any]:
    """Those that give values, which have a derivative, together with whole numbers, which have none."""
    names = ("max", "min", "topk", "sort", "median", "mode", "kthvalue", "cummax", "cummin", "msort", "nanmedian")
    homes = (torch.Tensor, torch)
    return [getattr(home, name) for home in homes for name in names if hasattr(home, name)]


_SHOWING = frozenset({"__format__", "__repr__", "__deepcopy__", "__reduce_ex__", "_reduce_ex_internal", "__setstate__"})
"""of `torch/_tensor.py`"""
_KEEPING_HOUSE = (
    "_tensor_str.py",
    "nn/modules/module.py",
    "optim/",
    "serialization.py",
    "_utils.py",
    "nn/utils/parametrize.py",
    "nn/parallel/",
    "distributed/",
)
"""Files of torch's that print tensors, and save, load, move, share and update parameters."""
_CHECKING = frozenset({"__init__", "check", "_validate_sample"})
"""of `torch/distributions`: whether arguments are in their range"""


class Unmeant:
    """Tells calls that cut only in passing, such as those of a tensor that is printed or of a module that is saved."""

    def __init__(self, torch: Any) -> None:
        self._folder = os.path.dirname(torch.__file__) + os.sep
        self._known: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType) -> bool:
        code = frame.f_code
        found = self._known.get(code)
        if found is None:
            found = self._known[code] = self._judge(code)
        return found

    def _judge(self, code: CodeType) -> bool:
        file = code.co_filename
        if not file.startswith(self._folder):
            return False
        file = file[len(self._folder) :].replace(os.sep, "/")
        showing = file == "_tensor.py" and code.co_name in _SHOWING
        checking = file.startswith("distributions/") and code.co_name in _CHECKING
        return file.startswith(_KEEPING_HOUSE) or showing or checking
