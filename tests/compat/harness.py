"""A row of the compatibility table: a small script, what gradscope does with it, and the proof.

Each script runs four times from the same random state: alone; alone with torch's own leaf gradients noted; with a stop at each
backward call, where two more passes with other seeds are explored before it goes on; and recorded while it runs. What it gives,
prints, warns of and raises must be the same to the bit, and so must the random state it leaves.
"""

from __future__ import annotations

import contextlib
import io
import random
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from played import OTHER_SEEDS, Bytes, Seen, calls_in, gradscope
from torch import autograd
from torch.autograd import graph
from torch.autograd.graph import get_gradient_edge

from gradscope.debuggee.exactness import same_bits
from gradscope.debuggee.foreign import TELLS_HOOKS
from gradscope.debuggee.tensor_data import bytes_of

_ONCE = (DeprecationWarning, FutureWarning)
"""of torch's own modules, when they are first imported"""
Script = Callable[[], Any]

DOES = {
    "explored": "explored and recorded, exact",
    "recorded": "recorded while it runs, not explored",
    "passed": "passed through untouched",
    "refused": "not recorded; your own call runs untouched",
}


@dataclass(frozen=True)
class Row:
    """One kind of autograd.

    Args:
        title: the README's first column.
        script: gives what must not depend on gradscope; None for a row that runs as a process, from `source`.
        expect: `explored`, `recorded` (its own call only), `passed` (no stop), `refused` (a stop without a pass).
        why: what the screen says of it, at least.
        what: the README's second column; by default what `expect` means, and `why`.
        exact: `exact` of its passes; one for each call where they differ.
        recorded: `exact` where the call is recorded while it runs, unless it is as `exact`.
        commit: the verdict on the call; None for `true` of a backward() and `unchecked` of a grad(). Likewise.
        calls: how many backward calls it makes.
        values: the leaves' gradients on the tape are those that torch gives.
        once: it wants `--once`.
        unpacks: unpack hooks run, which older versions of torch do not show: there it is recorded only.
    """

    title: str
    script: Script | None = None
    expect: str = "explored"
    why: str = ""
    what: str = ""
    exact: str | tuple[str, ...] = "true"
    recorded: str = ""
    commit: str | tuple[str, ...] | None = None
    calls: int = 1
    values: bool = True
    once: bool = False
    unpacks: bool = False
    source: str = ""

    @property
    def cell(self) -> str:
        if self.what:
            return self.what
        does = DOES[self.expect]
        if self.expect == "explored" and self.exact != "true":
            does = "explored and recorded, not checked"
        elif self.expect == "explored" and self.commit:
            does += "; `.grad` after the call is not compared"
        elif self.expect == "explored":
            return does
        return does + (f": {self.why}" if self.why else "")

    @property
    def name(self) -> str:
        """For the test."""
        return getattr(self.script, "__name__", "") or self.title


class Rows(list[Row]):
    """Rows in the order of the README's table."""

    def add(self, title: str, **expected: Any) -> Callable[[Script], Script]:
        """Decorates the script of a row."""

        def keep(script: Script) -> Script:
            self.append(Row(title, script, **expected))
            return script

        return keep


@dataclass
class Outcome:
    """What can be told of a run from outside."""

    results: Any
    printed: str
    warned: list[str]
    raised: list[str]
    random: Any

    def unlike(self, other: Outcome) -> list[str]:
        return unlike(vars(self), vars(other))


def check(row: Row) -> None:
    """Run the row's script in all ways.

    Raises:
        AssertionError: gradscope does something else than the row says, or the script can tell.
    """
    assert row.script is not None
    alone = outcome(row.script)
    with noted_by_torch() as expected:
        again = outcome(row.script)
    assert alone.unlike(again) == [], ("the script does not do the same each time", alone, again)
    for ways in ({"stop_at": "first", "once": row.once}, {"stop_at": "never", "record": -1, "send_tensors": True}):
        with gradscope(**ways) as link:
            ours = outcome(row.script)
        assert alone.unlike(ours) == [], (ways, alone, ours)
        seen = calls_in(link.reports)
        assert len(seen) == (0 if row.expect == "passed" else row.calls)
        for place, (one, leaves) in enumerate(zip(seen, expected, strict=False)):
            _check_call(row, place, one, leaves)
        assert not seen or "record" in ways or row.why in (words := "\n".join(one.words for one in seen)), words


def _check_call(row: Row, place: int, seen: Seen, leaves: list[Bytes | None]) -> None:
    words, stopped = seen.words, seen.stopped.reason != "recorded"
    exact = row.exact if isinstance(row.exact, str) else row.exact[place]
    commit = row.commit[place] if isinstance(row.commit, tuple) else row.commit
    assert "fault of gradscope" not in "".join(one.hint for one in seen.refused), words
    assert "was not recorded" not in words
    assert seen.committed is not None
    if row.expect == "refused":
        assert all(tape.edited and tape.exact == "true" for tape in seen.tapes), words
        assert stopped or not seen.tapes, words
        assert seen.committed.exact == "unchecked", words
        return
    assert seen.tapes, words
    explored = stopped and row.expect == "explored" and (TELLS_HOOKS or not row.unpacks)
    exact = exact if explored else row.recorded or exact
    checked = "true" if seen.stopped.call.kind == "backward" else "unchecked"
    assert seen.committed.exact == ((commit or checked) if explored else exact), words
    assert [tape.kind for tape in seen.tapes] == (["explored"] * (1 + len(OTHER_SEEDS)) if explored else ["committed"]), words
    assert [tape.exact for tape in seen.tapes] == [exact] * len(seen.tapes), words
    assert not any(tape.mismatches for tape in seen.tapes)
    if row.values:
        assert seen.leaf_values == leaves


def outcome(script: Script) -> Outcome:
    """Run a script from a known random state."""
    torch.manual_seed(0)
    random.seed(0)
    printed, raised, results = io.StringIO(), [], None
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(printed), _each_warning():
        try:
            results = script()
        except Exception as error:
            raised = [type(error).__name__, str(error), *_frames(error)]
    said = [f"{one.category.__name__}: {str(one.message).splitlines()[0]}" for one in warned if one.category not in _ONCE]
    return Outcome(results, printed.getvalue(), said, raised, (torch.get_rng_state(), random.random()))


@contextmanager
def _each_warning() -> Iterator[None]:
    """Python's and torch's own, each time."""
    earlier = torch.is_warn_always_enabled()
    warnings.simplefilter("always")
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(earlier)


def _frames(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno}" for frame in frames if frame.filename != __file__]


def unlike(one: Any, other: Any, name: str = "") -> list[str]:
    """Where two results differ, to the bit."""
    if isinstance(one, torch.Tensor):
        return [] if isinstance(other, torch.Tensor) and _same(one, other) else [name]
    if isinstance(one, Mapping):
        if not isinstance(other, Mapping) or list(one) != list(other):
            return [name]
        return [bad for key in one for bad in unlike(one[key], other[key], f"{name}.{key}")]
    if isinstance(one, (list, tuple)):
        if not isinstance(other, (list, tuple)) or len(one) != len(other):
            return [name]
        return [bad for place, pair in enumerate(zip(one, other, strict=True)) for bad in unlike(*pair, f"{name}[{place}]")]
    return [] if repr(one) == repr(other) else [name]


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    alike = type(one) is type(other) and one.requires_grad == other.requires_grad
    return alike and _strides(one) == _strides(other) and same_bits(one, other)


def _strides(tensor: torch.Tensor) -> list[int]:
    """Of the dimensions where they mean something: a recorded call clones a gradient that it would else have stolen."""
    if tensor.layout != torch.strided or tensor.is_nested:
        return []
    return [stride for stride, extent in zip(tensor.stride(), tensor.shape, strict=True) if extent > 1]


# ---------------------------------------------------------------- what torch itself says


@contextmanager
def noted_by_torch() -> Iterator[list[list[Bytes | None]]]:
    """For each outermost backward call the gradients of its leaves, or what it gives: noted without gradscope's means."""
    original, calls = graph._engine_run_backward, []

    def run(roots: Any, *arguments: Any, **more: Any) -> Any:
        if torch._C._current_graph_task_id() != -1 or any(map(_is_traced, roots)):
            return original(roots, *arguments, **more)
        inputs = arguments[3]
        inside = _nodes(roots)
        leaves = list({_key(one): one for one in inputs}.values()) or [
            node.variable for node in inside if hasattr(node, "variable")
        ]
        place = len(calls)
        calls.append([])
        result = original(roots, *arguments, **more)
        if more.get("accumulate_grad"):
            gradients = [_gradient(leaf) for leaf in leaves]
        else:
            gradients = [result[[_key(one) for one in inputs].index(_key(leaf))] for leaf in leaves]
        reached = [_key(leaf)[0] in inside for leaf in leaves]
        calls[place] = [None if g is None else _bytes(g) for g, there in zip(gradients, reached, strict=True) if there]
        return result

    graph._engine_run_backward = autograd._engine_run_backward = run
    try:
        yield calls
    finally:
        graph._engine_run_backward = autograd._engine_run_backward = original


def _is_traced(root: Any) -> bool:
    """A tensor of a transform or of a compiler's trace: no numbers flow."""
    if not isinstance(root, torch.Tensor):
        return False
    names = {kind.__name__ for kind in type(root).__mro__}
    return torch._C._functorch.is_functorch_wrapped_tensor(root) or not names.isdisjoint({"FakeTensor", "FunctionalTensor"})


def _nodes(roots: Any) -> list[Any]:
    """Breadth first, as gradscope numbers them."""
    nodes = list(dict.fromkeys(_key(root)[0] for root in roots if not isinstance(root, torch.Tensor) or root.requires_grad))
    seen = set(nodes)
    for node in nodes:
        for target, _ in node.next_functions:
            if target is not None and target not in seen:
                seen.add(target)
                nodes.append(target)
    return nodes


def _key(one: Any) -> Any:
    if isinstance(one, torch.Tensor) and one.is_leaf:
        with torch.enable_grad():
            above = torch.ops.aten.alias(one) if one.is_nested and one.layout == torch.strided else _Ends.apply(one)
            return above.grad_fn.next_functions[0]
    edge = get_gradient_edge(one) if isinstance(one, torch.Tensor) else one
    return edge.node, edge.output_nr


class _Ends(torch.autograd.Function):
    """Its node leads to that of a leaf. Torch's own `get_gradient_edge` takes a view of it: some tensors warn, or refuse."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor) -> torch.Tensor:
        return torch.zeros(())


def _gradient(leaf: Any) -> Any:
    variable = leaf if isinstance(leaf, torch.Tensor) else getattr(leaf.node, "variable", None)
    return None if variable is None else variable.grad


def _bytes(gradient: torch.Tensor) -> Bytes | None:
    try:
        return bytes_of(gradient.detach().clone())
    except Exception:  # nested and the like: their numbers are not sent whole
        return None
