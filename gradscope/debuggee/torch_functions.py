"""What a person calls a function of torch's: `torch.sin`, `Tensor.sin`, `torch.nn.functional.linear`."""

from __future__ import annotations

from typing import Any


def function_name(torch: Any, function: Any) -> str:
    """The public name of a function as a function mode is given it."""
    name = getattr(function, "__name__", type(function).__name__)
    if name in ("__get__", "__set__"):
        return f"Tensor.{getattr(getattr(function, '__self__', None), '__name__', '?')}"
    for prefix, holder in (("torch.nn.functional", torch.nn.functional), ("torch", torch), ("Tensor", torch.Tensor)):
        if vars(holder).get(name) is function or getattr(holder, name, None) is function:
            return f"{prefix}.{name}"
    for part in ("linalg", "special", "fft"):
        if getattr(getattr(torch, part, None), name, None) is function:
            return f"torch.{part}.{name}"
    owner = getattr(function, "__objclass__", None)
    return f"Tensor.{name}" if owner is not None else f"torch.{name}"
