"""The Hooks tab: what a pass calls at a node besides its function, and what each made of the gradient."""

from __future__ import annotations

import os

from textual.content import Content

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Hook, HookEffect
from gradscope.model.places import UNKNOWN, CodePlace
from gradscope.model.tape import Tape
from gradscope.model.tensors import INLINE_VALUES, NO_TENSOR
from gradscope.session.view import View
from gradscope.tui import numbers
from gradscope.tui.colours import MUTED, TEXT, WARNING
from gradscope.tui.widgets.jumps import leads
from gradscope.tui.widgets.selected import Selected, selected
from gradscope.tui.widgets.step_tab import SLOTS_SHOWN, STRONG, StepPage

KINDS = {
    "tensor": "tensor hook",
    "pre": "node pre-hook",
    "post": "node hook",
    "module": "module backward hook",
    "module_pre": "module backward pre-hook",
    "accumulate": "post-accumulate hook",
    "retain": "retain_grad",
    "unpack": "unpack hook",
}
"""`Hook.kind` in words"""

AFTER_THE_PASS = "runs only in your script's own call, once .grad is there"
WITH_THE_LEAF = "runs only in your script's own call, beside AccumulateGrad: .grad may become another"
UNPACKS = "gives back what the node saved; sees no gradient"
NOT_RECORDED = "what it saw was not recorded"
NO_CHANGE = "changed nothing"

SHOWN = 200
"""hooks of a group that are listed"""


def count(view: View) -> int | None:
    """How many hooks the selected row has; None where nothing is recorded."""
    row = selected(view)
    return None if row is None else len(_hooks(row))


def write(view: View, width: int) -> list[Content]:
    """The hooks of the selected row: of a node with gradients before and after, of a group in a list."""
    row = selected(view)
    if row is None:
        return [Content.styled("nothing is recorded here", MUTED)]
    hooks = _hooks(row)
    if not hooks:
        return _none(row.graph)
    if row.node is None:
        return _list(view, row.graph, row.tape, hooks, width)
    most = INLINE_VALUES
    while True:
        page = StepPage(view, row.graph, row.tape, most)
        for place, (index, hook) in enumerate(hooks):
            if place:
                page.ledger.line()
            _hook(page, index, hook)
        lines = page.ledger.draw(width, cut=not page.largest)
        if lines is not None:
            return lines
        most = page.largest - 1


def _hooks(row: Selected) -> list[tuple[int, Hook]]:
    """Hooks with their places in the graph's columns, by node and in the order in which they run."""
    if row.node is not None:
        return row.graph.hooks_of(row.node)
    return [(index, hook) for index, hook in enumerate(row.graph.columns.hooks) if row.holds(hook.node)]


def _none(graph: BackwardGraph) -> list[Content]:
    lines = [Content.styled("no hooks here", MUTED)]
    if graph.columns.hooks:
        lines.append(Content.styled(f"all {len(graph.columns.hooks)} of the graph: the seed's row (g)", MUTED))
    return lines


# ---------------------------------------------------------------- one node


def _hook(page: StepPage, index: int, hook: Hook) -> None:
    """Who it is, what it saw, what it made of that."""
    slots = page.slots(hook.node)
    slot = f"   slot {hook.input_nr}" if hook.input_nr != UNKNOWN and len(slots) > 1 else ""
    kind = KINDS.get(hook.kind, hook.kind)
    page.ledger.line((kind, STRONG), "" if hook.name == kind else f"  {hook.name}", (slot, MUTED))
    if hook.place is not None:
        page.ledger.line((f"  {hook.place.file}:{hook.place.line}", MUTED))
    if hook.kind == "unpack":
        page.ledger.words(f"  {UNPACKS}", MUTED)
        return
    effects = page.tape.effects(index)
    if not effects:
        page.ledger.words(f"  {_why_not(page, hook)}", MUTED)
    elif effects[0].step > page.view.playhead:
        page.ledger.line((f"  ○ not run yet   step {effects[0].step}", MUTED))
    else:
        for effect in effects[:SLOTS_SHOWN]:
            _saw(page, effect, f" [{effect.slot}]" if len(effects) > 1 else "")
        if len(effects) > SLOTS_SHOWN:
            page.ledger.line((f"  … {len(effects) - SLOTS_SHOWN} more", MUTED))


def _why_not(page: StepPage, hook: Hook) -> str:
    """Why it is not known what a hook saw."""
    if page.tape.kind != "explored":
        return NOT_RECORDED
    if hook.kind == "accumulate":
        return AFTER_THE_PASS
    return WITH_THE_LEAF if hook.kind in ("pre", "post") and page.graph.is_accumulate(hook.node) else NOT_RECORDED


def _saw(page: StepPage, effect: HookEffect, slot: str) -> None:
    """One gradient before and after; where it is the same, once."""
    if page.graph.columns.hooks[effect.hook].kind == "retain":
        page.tensor(Content.styled("  stores", MUTED), effect.after)
    elif effect.before == effect.after:
        page.tensor(Content.styled(f"  saw{slot}", MUTED), effect.before, Content.styled(NO_CHANGE, MUTED))
    else:
        page.tensor(Content.styled(f"  before{slot}", MUTED), effect.before)
        page.tensor(Content.styled(f"  after{slot}", STRONG), effect.after, Content.styled("changed", WARNING))


# ---------------------------------------------------------------- a group


def _list(view: View, graph: BackwardGraph, tape: Tape, hooks: list[tuple[int, Hook]], width: int) -> list[Content]:
    """One line each, those of a step after the other; each leads to its node."""
    hooks = sorted(hooks, key=lambda one: (tape.step_of(one[1].node) or tape.steps + 1, one[0]))
    lines = [Content.styled(f"{len(hooks)} hook{'' if len(hooks) == 1 else 's'}, by step", MUTED)]
    lines += [_listed(view, graph, tape, index, hook, width) for index, hook in hooks[:SHOWN]]
    if len(hooks) > SHOWN:
        lines.append(Content.styled(f"… {len(hooks) - SHOWN} more: select a row further down", MUTED))
    return lines


def _listed(view: View, graph: BackwardGraph, tape: Tape, index: int, hook: Hook, width: int) -> Content:
    """`Mul      tensor hook  clip (a.py:12)  10.05 → 1.000`."""
    leaf = graph.leaf_at(hook.node)
    name = graph.leaves[leaf].name if leaf is not None else graph.short(hook.node)
    what, style = _effect(view, tape, hook, tape.effect(index))
    kind = KINDS.get(hook.kind, hook.kind)
    line = Content.assemble(
        (f"{name:<12}  ", TEXT),
        (kind, MUTED),
        "" if hook.name == kind else f"  {hook.name}{_where(hook.place)}",
        (f"   {what}" if what else "", style),
    )
    return leads(line.truncate(width, ellipsis=True), hook.node)


def _effect(view: View, tape: Tape, hook: Hook, effect: HookEffect | None) -> tuple[str, str]:
    if effect is None or hook.kind == "unpack":
        return "", MUTED
    if effect.step > view.playhead:
        return "○", MUTED
    if hook.kind == "retain":
        return f"stores ‖·‖ {_norm(tape, effect.after)}", MUTED
    if effect.before == effect.after:
        return NO_CHANGE, MUTED
    before, after = (_norm(tape, tensor) for tensor in (effect.before, effect.after))
    return f"‖·‖ {before} → {after}", WARNING


def _norm(tape: Tape, tensor: int) -> str:
    return "⟂" if tensor == NO_TENSOR else numbers.norm(tape.summary(tensor).norm)


def _where(place: CodePlace | None) -> str:
    return "" if place is None else f" ({os.path.basename(place.file)}:{place.line})"
