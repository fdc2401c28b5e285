"""The Step tab: what arrives at a node, what it makes of it, and how far the gradients it sends to have come.

A tensor of few elements is written out, elements under common columns; any other by its norm and counts. Every number is torch's:
sums and differences come from the tape, here they are only written.
"""

from __future__ import annotations

import math

from textual.content import Content

from gradscope.findings.hooked import late
from gradscope.model import compare, playhead
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.edge_names import sent_name
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Contribution, Tape
from gradscope.model.tensors import INLINE_VALUES, NO_TENSOR
from gradscope.session.view import View
from gradscope.tui import numbers
from gradscope.tui.colours import ACCENT, LEAF, MUTED, SEED, TEXT, WARNING
from gradscope.tui.widgets import remarks
from gradscope.tui.widgets.ledger import Ledger
from gradscope.tui.widgets.near import Near, near

LATE = ", in your script's own call only: .grad may become another"
STRONG = f"bold {TEXT}"

SLOTS_SHOWN = 6
"""gradient slots of one node: an unbind has thousands"""

TARGETS_SHOWN = 8

TARGET = 15
"""characters of a leaf's name among what is sent"""


class StepPage:
    """Writes one node, leaf or seed of a view into a ledger."""

    def __init__(self, view: View, graph: BackwardGraph, tape: Tape, most: int = INLINE_VALUES) -> None:
        self.view, self.graph, self.tape = view, graph, tape
        self.most = most
        """tensors of at most so many elements are written out, others have norms"""
        self.largest = 0
        """elements of the largest tensor that is"""
        self.ledger = Ledger()
        self._headed: tuple[int, ...] = ()

    # ------------------------------------------------------------ the kinds of page

    def seed(self) -> None:
        """The start of the pass: the seed of each root, and where it goes."""
        for seed in self.tape.seeds:
            root = self.graph.roots[seed.root] if self.tape.columns.root == UNKNOWN else None
            name = root.name if root else self.graph.label(self.tape.columns.root)
            how = seed.expression or ("given by the script" if seed.given else "implied: a scalar root is seeded with 1")
            self.tensor(Content.assemble(("seed", STRONG), "  ", (name, SEED)), seed.tensor, how, style=SEED)
            node, _ = self.tape.seed_slot(seed.root)
            if node != UNKNOWN:
                self.ledger.line(("  → ", MUTED), (self.graph.label(node), TEXT), (f"   step {self.tape.step_of(node)}", MUTED))
        remarks.of_pass(self.ledger, self.view, self.tape)

    def leaf(self, place: int) -> None:
        """A leaf: what was there, what came, what is to come."""
        leaf = self.graph.leaves[place]
        if 0 < math.prod(leaf.shape) <= self.most:
            self.heading(leaf.shape)
        self.gathering(leaf.node, leaf.input_nr)
        owner = leaf.owner or ("no optimizer holds it" if leaf.kind == "parameter" else "")
        kind = " ".join(part for part in (leaf.kind, leaf.dtype, numbers.shape(leaf.shape), leaf.device) if part)
        self.ledger.line()
        self.ledger.line((kind, MUTED), (f"   {owner}" if owner else "", MUTED))
        if leaf.aliases:
            self.ledger.line((f"also {', '.join(leaf.aliases)}", MUTED))
        remarks.of_failure(self.ledger, self.tape, leaf.node)

    def several(self, nodes: list[int], count: int) -> None:
        """Leaves that share a row."""
        for place, node in enumerate(nodes[:SLOTS_SHOWN]):
            if place:
                self.ledger.line()
            for leaf in self.graph.leaves_at(node):
                self.gathering(node, self.graph.leaves[leaf].input_nr)
        if count > SLOTS_SHOWN:
            self.ledger.line((f"… {count - SLOTS_SHOWN} more leaves", MUTED))

    def node(self, node: int) -> None:
        """Any other node: arrives × local = sends, then each target."""
        state = playhead.state(self.graph, self.tape, self.view.playhead, node)
        step = self.tape.step_of(node)
        if state == "run" and not self.tape.finished(node):
            self.came(node)
        elif state == "run":
            self.arrives(node)
            self.sends(step)
            self.targets(step)
        elif state == "never":
            self.ledger.line(("does not run in this pass", WARNING))
        else:
            self.ledger.line(("○ not run yet", MUTED), (f"   step {step}", MUTED))
            for input_nr in self.slots(node)[:SLOTS_SHOWN]:
                self.ledger.line()
                self.gathering(node, input_nr)
        remarks.of_node(self.ledger, self.graph, self.tape, node)

    # ------------------------------------------------------------ arrives

    def came(self, node: int) -> None:
        """Of the node that raised: what arrived, else what was delivered, as nothing tells what came between."""
        if self.tape.arrivals(node):
            self.arrives(node)
        else:
            for input_nr in self.slots(node)[:SLOTS_SHOWN]:
                self.gathering(node, input_nr)
            self.ledger.words("what its hooks or what-ifs made of this was not recorded", MUTED)
        self.ledger.row(Content.styled("sends", STRONG), text="nothing")
        if node in self.graph.columns.backward_code and self.view.state.value == "stopped":
            self.ledger.line(("i: this backward again, under pdb", MUTED))

    def arrives(self, node: int) -> None:
        arrivals = self.tape.arrivals(node)
        name = self.graph.gradient_name(node)
        for input_nr, tensor in arrivals[:SLOTS_SHOWN]:
            what = f"slot {input_nr}" if len(arrivals) > 1 else name if self.written_out(tensor) else ""
            came = near(self.tape, self.view.playhead, node, input_nr)
            self.tensor(Content.assemble(("arrives", STRONG), "  ", (what, MUTED)), tensor, self.origin(came), counts=True)
            if came.done > 1:
                self.contributions(came, pending=False)
            self.changed(node, input_nr)
        if len(arrivals) > SLOTS_SHOWN:
            self.ledger.line((f"… {len(arrivals) - SLOTS_SHOWN} more slots", MUTED))
        if self.tape.step_of(node) in self.tape.columns.hook_changed:
            self.ledger.line(("changed by a hook", WARNING), (": not the sum of what was sent", MUTED))

    def changed(self, node: int, input_nr: int) -> None:
        """The what-ifs at a gradient slot: what it would have been without each."""
        for change in self.tape.columns.changes:
            if (change.node, change.input_nr) == (node, input_nr):
                what = "" if change.edge == UNKNOWN else f"from {self.graph.short(self.graph.source[change.edge])} "
                note = Content.assemble((f"x {what}{change.text}", WARNING))
                self.tensor(Content.styled("  instead of", MUTED), change.before, note, style=MUTED)

    def origin(self, came: Near) -> Content:
        """`from Add, step 1`, or by how much it differs from the first pass."""
        if self.view.against is not None and (delta := self.delta_arrived(came)):
            return delta
        if not came.done:
            return Content()
        if came.done > 1:
            return Content.styled(f"sum of {came.done}", MUTED)
        one = came.last[0]
        return Content.styled(f"from {self.source(one)}{self.at_step(one)}", MUTED)

    # ------------------------------------------------------------ sends

    def sends(self, step: int) -> None:
        sent = self.sent(step)
        came = math.hypot(*(self.tape.norm(t) for _, t in self.tape.arrivals(self.tape.node_at(step)) if t != NO_TENSOR))
        for place, one in enumerate(sent):
            local = self.graph.local(one.edge)
            if local is not None and not self.written_out(one.tensor):
                local = None
            if local is not None:
                role = self.graph.role(one.edge) if len(sent) > 1 else ""
                self.ledger.row(
                    Content.assemble(("× local", STRONG), (f" {role}", MUTED)), local.values, Content.styled(local.text, MUTED)
                )
            head = ("= sends", STRONG) if local is not None else ("sends", STRONG)
            if place and local is None:
                head = ("", "")
            label = Content.assemble(head).pad_right(9 - len(head[0])) + Content.assemble(*self.target(one.edge))
            self.tensor(label, one.tensor, self.change(one, came))
        if (more := len(self.tape.sent_range(step)) - len(sent)) > 0:
            self.ledger.line((f"… {more} more", MUTED))
        if not sent:
            self.ledger.row(Content.styled("sends", STRONG), text="nothing")

    def sent(self, step: int) -> list[Contribution]:
        """The first of what a step sends, in slot order."""
        indices = self.tape.sent_range(step)[:TARGETS_SHOWN]
        return sorted(map(self.tape.contribution, indices), key=lambda one: one.edge)

    def target(self, edge: int) -> list[tuple[str, str]]:
        node = self.graph.target[edge]
        leaf = self.graph.leaf_at(node)
        if leaf is not None:
            return [("→ ", LEAF), (shorter(self.graph.leaves[leaf].name), LEAF)]
        return [("→ ", MUTED), (sent_name(self.graph, edge) or self.graph.short(node), TEXT)]

    def change(self, one: Contribution, came: float) -> Content:
        """By how much the step changed the norm; Δ to the first pass while a seed is edited."""
        if self.view.against is not None and (delta := self.delta_sent(one)):
            return delta
        if one.tensor == NO_TENSOR:
            return Content()
        norm = self.tape.norm(one.tensor)
        if not came or math.isnan(norm) or math.isnan(came):
            return Content.styled("" if came else "‖arrived‖ is 0", MUTED)
        return Content.styled(numbers.gain(norm / came) + (" in norm" if self.written_out(one.tensor) else ""), MUTED)

    # ------------------------------------------------------------ targets

    def targets(self, step: int) -> None:
        """The gradients that were sent to, each once."""
        seen: set[tuple[int, int]] = set()
        for one in self.sent(step):
            place = self.graph.target[one.edge], self.graph.input_nr[one.edge]
            if place not in seen:
                seen.add(place)
                self.gathering(*place, called=sent_name(self.graph, one.edge))

    def gathering(self, node: int, input_nr: int, called: str | None = None) -> None:
        """One gradient slot at the playhead: `x.grad  1 of 3 contributions` and the contributions.

        `called` is for what was just sent to, by the sending line: if it gets nothing else it needs no account of its own.
        """
        brief = called is not None
        slot = near(self.tape, self.view.playhead, node, input_nr)
        leaf = self.leaf_of(node, input_nr)
        if brief and leaf is None and slot.total == 1:
            return
        if brief:
            self.ledger.line()
        name = (f"∂{called}" if called else self.graph.gradient_name(node)) or f"gradient of {self.graph.short(node)}"
        if leaf is not None:
            name = self.leaf_gradient(leaf)
        elif len(self.slots(node)) > 1:
            name = f"{name} slot {input_nr}"
        plural = "contribution" if slot.total == 1 else "contributions"
        self.ledger.line((name, f"bold {LEAF}" if leaf is not None else STRONG), f"  {slot.done} of {slot.total} {plural}")
        if leaf is not None:
            self.grad_before(leaf)
        self.contributions(slot)
        if leaf is not None and slot.complete:
            self.total(leaf, slot)
            self.grad_after(leaf)
        elif slot.so_far != NO_TENSOR and (slot.total > 1 or leaf is not None):
            label = Content.styled("= total" if slot.complete else "= so far", STRONG)
            self.tensor(label, slot.so_far, self.delta_so_far(slot), style=STRONG)

    def contributions(self, slot: Near, pending: bool = True) -> None:
        """What came, `+`, and what is to come, `·`, near the playhead."""
        if slot.earlier:
            self.ledger.line((f"  … {slot.earlier} earlier", MUTED))
        for one in slot.last:
            now = one.step == self.view.playhead and self.view.playhead > 0
            note = Content.assemble((self.at_step(one).removeprefix(", "), f"bold {ACCENT}" if now else MUTED))
            if now:
                note = Content.assemble(note, ("  ◀ now", f"bold {ACCENT}"))
            label = Content.assemble(("+ ", TEXT), (self.source(one), TEXT), (self.role(one.edge, slot), MUTED))
            self.tensor(label, one.tensor, note)
        for one in slot.coming if pending else ():
            self.ledger.row(f"· {self.source(one)}{self.role(one.edge, slot)}", note=f"step {one.step}", style=MUTED)
        if pending and slot.later:
            self.ledger.line((f"  … {slot.later} more to come", MUTED))

    def grad_before(self, leaf: int) -> None:
        before = self.tape.leaf_before(leaf)
        if self.graph.leaves[leaf].kind == "input" or not self.view.accumulates(self.graph.leaves[leaf]):
            return
        self.tensor(Content.styled("  was", MUTED), before, undefined="None", style="" if before != NO_TENSOR else TEXT)

    def total(self, leaf: int, slot: Near) -> None:
        """What the pass brings to a leaf: the sum, what hooks make of it, and what a what-if puts in its place."""
        changes = [one for one in self.tape.columns.changes if (one.node, one.input_nr) == (slot.node, slot.input_nr)]
        whole = next((one for one in changes if one.edge == UNKNOWN), None)
        total = self.tape.arrived(slot.node, slot.input_nr)
        if slot.so_far != (total if whole is None else whole.before):
            self.tensor(Content.styled("= sum", STRONG), slot.so_far, "before hooks")
        self.changed(slot.node, slot.input_nr)
        if total != NO_TENSOR or slot.so_far != NO_TENSOR:
            against = self.view.against
            delta = None if against is None else self.delta(compare.arrived(self.tape, against, slot.node, slot.input_nr))
            self.tensor(Content.styled("= total", STRONG), total, delta or "", style=STRONG)

    def grad_after(self, leaf: int) -> None:
        """`.grad` after the call, where that is more than the total."""
        before, after = self.tape.leaf_before(leaf), self.tape.leaf_after(leaf)
        if not self.view.accumulates(self.graph.leaves[leaf]):
            return
        if before != NO_TENSOR and after != NO_TENSOR:
            self.tensor(Content.styled("  becomes", MUTED), after, "was + total")
        hooks = late(self.graph, self.tape, self.graph.leaves[leaf].node)
        if hooks:
            who = f"{hooks[0].name} runs" if len(hooks) == 1 else f"{len(hooks)} hooks run"
            self.ledger.words(f"  then {who}{LATE}", WARNING)

    # ------------------------------------------------------------ one tensor

    def tensor(
        self,
        label: Content,
        tensor: int,
        note: Content | str = "",
        undefined: str = "⟂ none",
        counts: bool = False,
        style: str = TEXT,
    ) -> None:
        """A tensor in a row: its elements, or its norm (with its type and counts where `counts`)."""
        if tensor == NO_TENSOR:
            self.ledger.row(label, text=undefined, note=note if undefined == "None" else "undefined: counts as zero", style=style)
            return
        values = self.tape.tensors.values(tensor)
        if values and self.written_out(tensor):
            self.heading(self.tape.tensors.shape(tensor))
            self.ledger.row(label, values, note, style=style)
        elif counts:
            self.summary(label, tensor, note)
        else:
            self.ledger.row(
                label, text=f"‖·‖ {numbers.norm(self.tape.summary(tensor).norm):<{numbers.NORM_WIDTH}}", note=note, style=style
            )

    def written_out(self, tensor: int) -> bool:
        """Whether the elements themselves stand on the page."""
        return tensor != NO_TENSOR and self.tape.tensors.numel(tensor) <= self.most and bool(self.tape.tensors.values(tensor))

    def heading(self, shape: tuple[int, ...]) -> None:
        self.largest = max(self.largest, math.prod(shape))
        if shape != self._headed:
            self.ledger.heading(shape)
            self._headed = shape

    def summary(self, label: Content, tensor: int, note: Content | str) -> None:
        """Type, shape, norm and extremes; then the counts that a person looks for first."""
        summary = self.tape.summary(tensor)
        self.ledger.line(
            label.pad_right(max(2, 9 - label.cell_length)) if label.cell_length != 9 else label,
            f"{summary.dtype} {numbers.shape(summary.shape)}  ‖·‖ {numbers.norm(summary.norm)}",
            *((("  ", MUTED), (f"max {numbers.norm(summary.max)}", TEXT)) if summary.max is not None else ()),
        )
        counts = [] if summary.min is None else [(f"min {numbers.norm(summary.min)}  mean {numbers.norm(summary.mean)}", MUTED)]
        for name, count in (("0", summary.zero), ("NaN", summary.nan), ("inf", summary.inf)):
            loud = (bool(count) and name != "0") or (name == "0" and count == summary.numel and summary.numel > 0)
            counts.append((f"{name}: {'?' if count is None else count}", WARNING if loud else MUTED))
        self.ledger.line("  ", Content("  ").join(Content.styled(*count) for count in counts))
        if summary.note:
            self.ledger.words(f"  {summary.note}", MUTED)
        if note and str(note):
            self.ledger.line("  ", (note, MUTED) if isinstance(note, str) else note)

    # ------------------------------------------------------------ Δ

    def delta_arrived(self, came: Near) -> Content | None:
        against = self.view.against
        return self.delta(compare.arrived(self.tape, against, came.node, came.input_nr)) if against is not None else None

    def delta_sent(self, one: Contribution) -> Content | None:
        against = self.view.against
        return self.delta(compare.edge(self.tape, against, one.edge)) if against is not None else None

    def delta_so_far(self, slot: Near) -> Content | str:
        """Of the running sum; the other pass at the same step."""
        against = self.view.against
        if against is None or against.order != self.tape.order:
            return ""
        before = playhead.sum_so_far(against, self.view.playhead, slot.node, slot.input_nr)
        return self.delta(compare.tensors(self.tape, slot.so_far, against, before)) or ""

    def delta(self, delta: compare.Delta) -> Content | None:
        """`Δ 0 -9.0000` against the first pass: element by element where they are written out, else of the norms."""
        if delta.values is not None and len(delta.values) <= self.most:
            return Content.assemble(("Δ ", MUTED), (" ".join(map(numbers.fixed, delta.values)), WARNING))
        if math.isnan(delta.change):
            return None
        return Content.assemble(("Δ‖·‖ ", MUTED), (numbers.norm(delta.change), WARNING))

    # ------------------------------------------------------------ words

    def slots(self, node: int) -> list[int]:
        """The gradient slots that something is or was sent to."""
        slots = {self.graph.input_nr[edge] for edge in self.graph.in_edges(node)}
        slots.update(number for where, number in map(self.tape.seed_slot, range(len(self.tape.seeds))) if where == node)
        return sorted(slots)

    def leaf_of(self, node: int, input_nr: int) -> int | None:
        return next((place for place in self.graph.leaves_at(node) if self.graph.leaves[place].input_nr == input_nr), None)

    def leaf_gradient(self, place: int) -> str:
        leaf = self.graph.leaves[place]
        return f"returned for {leaf.name}" if self.view.returns and leaf.target else self.view.gradient_of(leaf)

    def source(self, one: Contribution) -> str:
        return "seed" if one.source == UNKNOWN else self.graph.short(one.source)

    def at_step(self, one: Contribution) -> str:
        return f", step {one.step}" if one.step else ""

    def role(self, edge: int, slot: Near) -> str:
        """`self`, `other`: where a node sends to the same slot more than once."""
        if edge == UNKNOWN:
            return ""
        sources = [one.source for one in (*slot.last, *slot.coming)]
        role = self.graph.role(edge) if sources.count(self.graph.source[edge]) > 1 else ""
        return f"  {role}" if role else ""


def shorter(name: str) -> str:
    """The end of a dotted name, as much as fits behind `sends → `: `c_proj.weight`."""
    while len(name) > TARGET and "." in name:
        name = name.split(".", 1)[1]
    return name
