"""What a stop looks at: the captured graph with its names and lines, and the script's own seeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch

from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.call_facts import Ends, call_facts
from gradscope.debuggee.call_site import call_site, call_text
from gradscope.debuggee.capture import Captured, CapturedLeaf, capture
from gradscope.debuggee.explore import GivenSeed
from gradscope.debuggee.graph_columns import graph_columns
from gradscope.debuggee.history import History
from gradscope.debuggee.names import LeafName, Names
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.seeds import Root, numbered, parse_seed
from gradscope.errors import UsageError
from gradscope.model.columns import GraphColumns, Leaf
from gradscope.model.facts import CallFacts
from gradscope.model.places import UNKNOWN
from gradscope.protocol.messages import Call


@dataclass(slots=True)
class Subject:
    """Holds everything alive of one stop; `release` lets go of it."""

    captured: Captured
    columns: GraphColumns
    seeds: list[GivenSeed]
    """the script's own, one for each root; without a tensor where torch would refuse the call, or runs many passes at once"""
    frame: FrameType | None
    """whose variables a seed expression may use"""
    accumulates: bool = True
    create_graph: bool = False

    @property
    def empty(self) -> bool:
        """No root has a graph."""
        return not self.captured.nodes

    def root(self, place: int) -> Root:
        """What a seed for one of the call's roots must be like."""
        known = self.captured.roots[place]
        return Root(known.shape, known.dtype, known.device, self.columns.roots[place].name)

    def root_at(self, node: int, input_nr: int) -> Root:
        """What a seed for the tensor that a node made must be like.

        Raises:
            UsageError: torch does not say.
        """
        captured = self.captured
        kind = captured.slot_kind[captured.slot(node, input_nr)] if 0 <= node < len(captured) else -1
        if kind < 0:
            raise UsageError("this tensor cannot be seeded", "torch does not say what its gradient looks like")
        return Root(*captured.kinds[kind], name=captured.ops[node])

    def seed(self, text: str, root: Root, shown: GivenSeed | None) -> GivenSeed:
        """The seed that a person typed; the shown one is what `*2` multiplies.

        Raises:
            SeedError: it is none for this root.
        """
        present = None if shown is None else shown.tensor
        text = numbered(text)
        return GivenSeed(parse_seed(text, root, present, self.frame), text)

    def release(self) -> None:
        self.captured.release()
        self.seeds.clear()
        self.frame = None


def of_call(
    call: BackwardCall, origins: Origins | None, history: History | None = None, captured: Captured | None = None
) -> Subject:
    """What a backward call is about; with a history also what the findings need to know of it."""
    frame = call.script_frame
    text = call_text(frame, len(call.roots))
    captured = captured or capture(call.roots, call.inputs)
    names = _names(frame, origins, captured)
    roots = [written or _name_of(names, root) for written, root in zip(text.roots, call.roots, strict=True)]
    given = call.given
    script_seeds = [
        GivenSeed(None if call.batched else seed, written if is_given else "", is_given)
        for seed, written, is_given in zip(call.seeds, text.seeds, given, strict=True)
    ]
    unreached = _unreached(captured, names, () if history is None else history.cut_off(call))
    columns = _columns(captured, names, roots, origins, unreached)
    if call.inputs:
        asked = len(captured.leaves)
        columns.leaves[asked:] = [replace(leaf, target=False) for leaf in columns.leaves[asked:]]
    columns.leaves = _named_as_written(columns.leaves, captured, call.inputs, text.inputs)
    if history is not None:
        tensors = [*(leaf.variable for leaf in captured.leaves), *(tensor for tensor, _ in unreached)]
        columns.facts = _facts(call, captured, Ends(columns.leaves, tensors), names, origins, history)
    return Subject(captured, columns, script_seeds, frame, call.accumulates, call.create_graph)


def _facts(
    call: BackwardCall, captured: Captured, ends: Ends, names: Names, origins: Origins | None, history: History
) -> CallFacts:
    try:
        return call_facts(call, captured, ends, names, origins, history)
    except Exception:  # tensors of a kind that nobody has thought of: the call is looked at without them
        return CallFacts()


def _named_as_written(leaves: list[Leaf], captured: Captured, inputs: Sequence[Any], written: Sequence[str]) -> list[Leaf]:
    """The leaves, those that no variable names called what the call's `inputs` has for them."""
    texts = _one_each(written, len(inputs))
    ends = [_end(captured, leaf) for leaf in captured.leaves]
    named = list(leaves)
    for given, text in zip(inputs, texts, strict=True):
        end = id(given) if isinstance(given, torch.Tensor) else (given.node, given.output_nr)
        place = ends.index(end) if end in ends else UNKNOWN
        if text and place != UNKNOWN and named[place].name == f"leaf {place}":
            named[place] = replace(named[place], name=text)
    return named


def _one_each(written: Sequence[str], count: int) -> Sequence[str]:
    if len(written) == count:
        return written
    if len(written) == 1 and re.fullmatch(r"[\w.]+", written[0]):
        return [f"{written[0]}[{number}]" for number in range(count)]
    return [""] * count


def _end(captured: Captured, leaf: CapturedLeaf) -> Any:
    """What tells a leaf among the `inputs`: its tensor, else its gradient edge."""
    if leaf.variable is not None:
        return id(leaf.variable)
    return (captured.nodes[leaf.node], leaf.input_nr) if leaf.node != UNKNOWN else None


def of_tensor(tensor: torch.Tensor, name: str, frame: FrameType | None, origins: Origins | None) -> Subject:
    """What exploring below a live tensor is about."""
    captured = capture([tensor])
    names = _names(frame, origins, captured)
    return Subject(captured, _columns(captured, names, [name], origins, _unreached(captured, names)), [], frame)


def describe(call: BackwardCall) -> Call:
    """The call as the session knows it."""
    site = call_site(call.script_frame)
    return Call(
        number=call.number,
        kind=call.kind,
        file=site.file,
        line=site.line,
        function=site.function,
        code=site.code,
        retain_graph=call.keep_graph,
        create_graph=call.create_graph,
        has_inputs=bool(call.inputs),
        thread=call.thread,
    )


def _names(frame: FrameType | None, origins: Origins | None, captured: Captured) -> Names:
    ends = [leaf.variable for leaf in captured.leaves]
    return Names(frame, () if origins is None else origins.modules(), ends)


def _name_of(names: Names, root: Any) -> str:
    return names.tensor(root) if isinstance(root, torch.Tensor) else ""


def _columns(
    captured: Captured,
    names: Names,
    roots: Sequence[str],
    origins: Origins | None,
    unreached: Sequence[tuple[torch.Tensor, LeafName]],
) -> GraphColumns:
    with nullcontext() if origins is None else origins.naming_modules(names.module):
        return graph_columns(
            captured,
            origin_of=None if origins is None else origins.lookup,
            occurrences=None if origins is None else origins.occurrences,
            leaf_names=names.leaves,
            root_names=list(roots),
            unreached=[_leaf(tensor, name) for tensor, name in unreached],
        )


def _unreached(captured: Captured, names: Names, cut_off: Iterable[torch.Tensor] = ()) -> list[tuple[torch.Tensor, LeafName]]:
    """Tensors that could have a gradient and are not in the graph."""
    return names.unreached([leaf.variable for leaf in captured.leaves if leaf.variable is not None], cut_off)


def _leaf(tensor: torch.Tensor, name: LeafName) -> Leaf:
    return Leaf(
        node=UNKNOWN,
        input_nr=0,
        name=name.name,
        aliases=name.aliases,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
        kind=name.kind,
        owner=name.owner,
        requires_grad=tensor.requires_grad,
    )
