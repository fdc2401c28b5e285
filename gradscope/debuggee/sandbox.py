"""Saves what an exploring pass could disturb, and puts it back, also after an exception.

Where nothing but torch's own code runs in the backward, that is next to nothing: kept gradients of inner tensors and the default
generators. Foreign Python may write anywhere; what it can reach at arm's length is saved.
"""

from __future__ import annotations

import io
import sys
import threading
import warnings
from types import TracebackType
from typing import Any

import torch

from gradscope.debuggee import tensor_hooks
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.engine import AccumulateGrad
from gradscope.debuggee.foreign import kept_tensors
from gradscope.debuggee.saved_state import Containers, Generators, Living, Tensors, tensors_in


class _Thread(threading.local):
    depth = 0
    """sandboxes that this thread is in"""


_thread = _Thread()


def trying() -> bool:
    """Whether what runs on this thread is an exploring pass."""
    return _thread.depth > 0


class Sandbox:
    """A context round one exploring pass."""

    def __init__(self, captured: Captured) -> None:
        self._captured, self._foreign = captured, captured.foreign
        self._leaves = [leaf.variable for leaf in captured.leaves if leaf.variable is not None]
        self.notes: list[str] = []
        """side effects that were noticed"""
        self.printed = ""
        """what foreign Python wrote, and warnings"""

    def __enter__(self) -> Sandbox:
        self._kept = [(tensor, tensor.grad) for tensor in tensor_hooks.retaining()]
        self._tensors, self._containers = Tensors(), Containers()
        self._torch_own = Containers()  # what checkpoint keeps count in: nothing to tell a person
        self._gradients: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        self._buffers: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._dicts: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._stream = _Stream()
        living = self._captured.living if self._foreign else None
        self._generators = Generators(living.generators if living else (), python=living is not None)
        if living is not None:
            self._save(living)
        self._outside = sys.stdout, sys.stderr, warnings._showwarnmsg  # type: ignore[attr-defined]
        warnings._showwarnmsg = self._warned  # type: ignore[attr-defined]
        if living is not None:
            sys.stdout = sys.stderr = self._stream
        _thread.depth += 1
        self._will_run = torch._C._will_engine_execute_node
        if self._foreign:
            torch._C._will_engine_execute_node = self._runs
        return self

    def _save(self, living: Living) -> None:
        self._save_contexts()
        for function in self._foreign.functions:
            (self._torch_own if _is_torch_own(function) else self._containers).save_function(function)
        for module in living.modules:
            for name, buffer in module._buffers.items():
                self._tensors.save(buffer, f"buffer {name} of {type(module).__name__}")
            self._buffers.append((module._buffers, dict(module._buffers)))
        self._gradients = [(leaf, leaf.grad) for leaf in {id(leaf): leaf for leaf in (*self._leaves, *living.leaves)}.values()]
        if not self._foreign.touches_gradients:
            return
        for leaf, gradient in self._gradients:
            self._tensors.save(leaf, "a parameter")
            self._tensors.save(gradient, "a .grad")
        for optimizer in living.optimizers:
            self._containers.save(optimizer.state)
            self._containers.save(optimizer.param_groups)
            for state in list(optimizer.state.values()):
                for name, value in state.items() if isinstance(state, dict) else ():
                    if isinstance(value, torch.Tensor):
                        self._tensors.save(value, f"{name} of {type(optimizer).__name__}")

    def _save_contexts(self) -> None:
        """What custom Functions keep for their backward, which may take lists apart and use tensors' memory for its results."""
        self._dicts = [(node.__dict__, dict(node.__dict__)) for node in self._foreign.python_nodes]
        for attributes, _ in self._dicts:
            for name, value in attributes.items():
                self._containers.save(value)
                for tensor in tensors_in(value):
                    self._tensors.save(tensor, f"ctx.{name}")
        for node in self._foreign.python_nodes:
            for tensor in kept_tensors(node):
                self._tensors.save(tensor, "a tensor that a custom Function saved")
        for packed in self._foreign.packed:
            self._containers.save(packed)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _thread.depth -= 1
        torch._C._will_engine_execute_node = self._will_run
        sys.stdout, sys.stderr, warnings._showwarnmsg = self._outside  # type: ignore[attr-defined]
        self.printed = self._stream.getvalue()
        self._restore()

    def _runs(self, node: Any) -> bool:
        """What `register_multi_grad_hook` asks of each tensor's node. Torch knows it of leaves in a backward() only."""
        try:
            return bool(self._will_run(node))
        except RuntimeError:
            if type(node) is not AccumulateGrad:
                raise
            captured = self._captured
            return any(captured.nodes[captured.leaves[number].node] is node for number in captured.targets())

    def _restore(self) -> None:
        for present, earlier in (*self._dicts, *self._buffers):
            if not _same_dict(present, earlier):
                present.clear()
                present.update(earlier)
        for tensor, gradient in (*self._kept, *self._gradients):
            if tensor.grad is not gradient:
                tensor.grad = gradient
        changed = self._tensors.restore()
        if self._containers.restore():
            changed.append("variables that hooks or custom Functions write")
        self._torch_own.restore()
        self._generators.restore()
        if not (self._containers.complete and self._torch_own.complete):
            self.notes.append("custom Functions or hooks reach more lists and dicts than can be saved: some may not be put back")
        if changed:
            few = ", ".join(dict.fromkeys(changed[:5])) + (" …" if len(changed) > 5 else "")
            self.notes.append(f"the exploring pass changed {few}; all was put back")

    def _warned(self, message: Any) -> None:
        """A warning during an exploring pass: shown marked, and forgotten, so that the script's own call warns again."""
        self._stream.write(warnings._formatwarnmsg(message))  # type: ignore[attr-defined]
        text = message.message
        for module in list(sys.modules.values()):
            registry = getattr(module, "__dict__", {}).get("__warningregistry__")
            if registry:
                for line in (message.lineno, 0):
                    registry.pop((str(text), message.category, line), None)


def _is_torch_own(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("torch.")


def _same_dict(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return len(one) == len(other) and all(key in other and other[key] is value for key, value in one.items())


class _Stream(io.StringIO):
    """Takes what is printed; has a `buffer` for those who write bytes."""

    encoding = "utf-8"

    @property
    def buffer(self) -> Any:
        return _Bytes(self)


class _Bytes:
    def __init__(self, text: io.StringIO) -> None:
        self._text = text

    def write(self, data: bytes) -> int:
        self._text.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def flush(self) -> None:
        pass
