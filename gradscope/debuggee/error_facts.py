"""Facts about an exception that nothing in the script caught: the line it came through, and the tensors of that line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any

from gradscope.debuggee import code_places, optimizers, person_code
from gradscope.debuggee.code_position import function_of, position
from gradscope.debuggee.holdings import is_module
from gradscope.debuggee.live_roots import shape_of
from gradscope.debuggee.names import Names
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.written_tensors import Line, Written
from gradscope.model.facts import ErrorFacts, TensorThere
from gradscope.model.places import CodePlace, Origin

_INSIDE = 8
"""tensors of torch's own frames that are told of, the innermost first"""
_PASS_FUNCTIONS = ("torch/autograd/__init__.py backward", "torch/autograd/__init__.py grad")


def own_frames(error: BaseException) -> list[FrameType]:
    """The frames of the person's own code that an exception came through, innermost first."""
    return [place.tb_frame for place in reversed(_places(error)) if _kind(place) == person_code.PERSON]


def came_through_backward(error: BaseException) -> bool:
    """Whether a call of backward() or autograd.grad() raised it, whatever the person's code did in there."""
    return any(_function(place) in _PASS_FUNCTIONS for place in _places(error))


def error_facts(error: BaseException, origins: Origins | None, calls: int) -> ErrorFacts:
    """What is known of an exception.

    Args:
        error: with its traceback.
        origins: which line made which node.
        calls: how many backward calls the script has made.
    """
    places = _places(error)
    own = [number for number, place in enumerate(places) if _kind(place) == person_code.PERSON]
    facts = ErrorFacts(type(error).__qualname__, str(error), None)
    if not own:
        return facts
    at, inner = places[own[-1]], places[own[-1] + 1 :]
    below = tuple(map(_function, inner))
    line, span = position(at.tb_frame.f_code, at.tb_lasti)
    written = Line(at.tb_frame, line, span)
    names = Names(at.tb_frame, () if origins is None else origins.modules())
    told = _Told(names, origins)
    frames = [place.tb_frame for place in inner]
    called, optimizer = _module_at_work(frames), _optimizer_at_work(frames)
    site = Origin(
        at.tb_frame.f_code.co_filename,
        line,
        function_of(at.tb_frame.f_code),
        module="" if called is None else names.module(called),
        module_type="" if called is None else type(called).__name__,
        code=written.statement.code,
        expression=written.expression,
    )
    tensors = [told.of(one) for one in (*written.tensors(), *_inside(frames, names))]
    hooked, hooks = _full_hooks(frames, written.tensors(), names)
    return replace(
        facts,
        site=site,
        receiver=written.receiver,
        raised_there=not inner and written.raises,
        below=below,
        tensors=tuple(tensors),
        hooked=hooked,
        hooks=hooks,
        optimizer="" if optimizer is None else type(optimizer).__name__,
        stepped=() if optimizer is None else tuple(_ill_fitting(optimizer, names, told)),
        parameters=_of_reducer(frames),
        call=calls if came_through_backward(error) else 0,
    )


# ---------------------------------------------------------------- the traceback


def _places(error: BaseException) -> list[TracebackType]:
    """Outermost first, without frames of ours."""
    found, place = [], error.__traceback__
    while place is not None:
        if _kind(place) != person_code.OURS:
            found.append(place)
        place = place.tb_next
    return found


def _kind(place: TracebackType) -> int:
    return person_code.kind(place.tb_frame.f_code.co_filename)


def _function(place: TracebackType) -> str:
    """`torch/optim/sgd.py SGD.step`: the file below the folder of its package, and the function."""
    code = place.tb_frame.f_code
    file = code.co_filename.replace(os.sep, "/")
    package = file.rpartition("-packages/")[2] or os.path.basename(file)
    return f"{package} {function_of(code)}"


# ---------------------------------------------------------------- what is at work


def _held(frames: Sequence[FrameType], name: str) -> Iterator[Any]:
    """What the frames hold under a name, innermost first."""
    for frame in reversed(frames):
        if name in frame.f_code.co_varnames and (value := frame.f_locals.get(name)) is not None:
            yield value


def _module_at_work(frames: Sequence[FrameType]) -> Any:
    return next(filter(is_module, _held(frames, "self")), None)


def _optimizer_at_work(frames: Sequence[FrameType]) -> Any:
    kind = sys.modules["torch"].optim.Optimizer
    found = (value for value in _held(frames, "self") if isinstance(value, kind))
    return next(found, None) or next((value for value in _held(frames, "optimizer") if isinstance(value, kind)), None)


def _inside(frames: Sequence[FrameType], names: Names) -> Iterator[Written]:
    """Tensors that torch's functions hold, those of the innermost one first."""
    tensor_type, seen = sys.modules["torch"].Tensor, set[int]()
    for frame in reversed(frames):
        for value in list(frame.f_locals.values()):
            if isinstance(value, tensor_type) and id(value) not in seen and len(seen) < _INSIDE:
                seen.add(id(value))
                yield Written(_name(names, value), "inside", value)


def _name(names: Names, tensor: Any) -> str:
    """Its path in a module, else the variable that holds it; empty where there is neither."""
    [found] = names.leaves([tensor])
    return "" if found.name == "leaf 0" else found.name


def _of_reducer(frames: Sequence[FrameType]) -> tuple[str, ...]:
    """The parameters that a DistributedDataParallel counts, by name."""
    parallel = next((one for one in _held(frames, "self") if type(one).__name__ == "DistributedDataParallel"), None)
    inner: Any = getattr(parallel, "module", None)
    if not is_module(inner):
        return ()
    return tuple(name for name, parameter in inner.named_parameters() if parameter.requires_grad)


def _full_hooks(frames: Sequence[FrameType], written: Sequence[Written], names: Names) -> tuple[str, tuple[CodePlace, ...]]:
    """The module whose full backward hooks wrapped one of these tensors, and the hooks."""
    tensor_type = sys.modules["torch"].Tensor
    inside = (value for frame in reversed(frames) for value in list(frame.f_locals.values()) if isinstance(value, tensor_type))
    for tensor in (*(one.tensor for one in written), *inside):
        node = _node(tensor)
        if type(node).__name__ == "BackwardHookFunctionBackward":
            module, hooks = _hooks_of(node)
            if module is not None:
                return _spoken_module(names, module), hooks
    return "", ()


def _hooks_of(node: Any) -> tuple[Any, tuple[CodePlace, ...]]:
    from gradscope.debuggee.hooks import node_tables

    for table in node_tables(node):
        for function in list(table.values()):
            owner = code_places.module_hook(function)
            if owner is not None:
                places = (code_places.place_of(hook) for hook in (*owner.user_pre_hooks, *owner.user_hooks))
                return owner.module, tuple(place for place in places if place is not None)
    return None, ()


def _spoken_module(names: Names, module: Any) -> str:
    """`net.0 (Conv2d)`."""
    return f"{names.module(module)} ({type(module).__name__})"


def _ill_fitting(optimizer: Any, names: Names, told: _Told) -> Iterator[TensorThere]:
    """Parameters whose gradient, or whose state, has another shape, dtype, device or layout."""
    torch = sys.modules["torch"]
    state = getattr(optimizer, "state", {})
    for _, _, parameter in optimizers.parameters(optimizer):
        if not isinstance(parameter, torch.Tensor):
            continue
        gradient = parameter.grad if parameter.is_leaf else None
        kept = [one for one in dict(state.get(parameter, {})).values() if isinstance(one, torch.Tensor) and one.dim()]
        alike = all(_fits(parameter, one) for one in (*kept, *([] if gradient is None else [gradient])))
        if not parameter.is_leaf or not alike:
            yield told.of(Written(_name(names, parameter), "argument", parameter))


def _fits(parameter: Any, other: Any) -> bool:
    return bool(
        parameter.shape == other.shape
        and parameter.dtype == other.dtype
        and parameter.device == other.device
        and parameter.layout == other.layout
    )


# ---------------------------------------------------------------- tensors


class _Told:
    """Tells what there is to know of tensors."""

    def __init__(self, names: Names, origins: Origins | None) -> None:
        self._names, self._origins = names, origins

    def of(self, written: Written) -> TensorThere:
        tensor = written.tensor
        with sys.modules["torch"]._C.DisableTorchFunctionSubclass():
            node = _node(tensor)
            base = tensor._base
            return TensorThere(
                name=written.name or self._names.tensor(tensor),
                role=written.role,
                shape=shape_of(tensor),
                dtype=_dtype(tensor),
                device=str(tensor.device),
                leaf=tensor.is_leaf,
                requires_grad=tensor.requires_grad,
                inference=tensor.is_inference(),
                view_of="" if base is None else _name(self._names, base) or "?",
                op="" if node is None else node.name().rpartition("::")[2],
                gradient=_gradient(tensor),
                origin=self._origin(tensor, node),
            )

    def _origin(self, tensor: Any, node: Any) -> Origin | None:
        if node is None and not tensor.is_inference():
            return self._names.leaves([tensor])[0].origin
        if node is None:
            cut = None if self._origins is None else self._origins.boundaries.of(tensor)
            return None if cut is None or self._origins is None else self._origins.places.origin(cut.place)
        return None if self._origins is None else self._origins.lookup(node._sequence_nr(), node.name())


def _node(tensor: Any) -> Any:
    try:
        return tensor.grad_fn
    except RuntimeError:  # a view that torch cannot make one for any more
        return None


def _gradient(tensor: Any) -> str:
    """Of a non-leaf that keeps none `none`, without the warning that asking for it makes."""
    if not tensor.is_leaf and not tensor.retains_grad:
        return "none"
    gradient = tensor.grad
    if gradient is None:
        return "none"
    layout = "" if str(gradient.layout) == "torch.strided" else f" {str(gradient.layout).removeprefix('torch.')}"
    return f"{_dtype(gradient)} {list(shape_of(gradient))} on {gradient.device}{layout}"


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
