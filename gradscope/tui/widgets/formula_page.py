"""The Formula tab: what a node computes, as torch's own derivative table has it, with the numbers put in where they are few."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from textual.content import Content

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.formulas import NOT_READ, Formula, Formulas, target_name
from gradscope.model.tensors import NO_TENSOR, TensorTable
from gradscope.session.view import View
from gradscope.tui import numbers
from gradscope.tui.colours import LEAF, MUTED, TEXT, WARNING
from gradscope.tui.widgets.jumps import leads
from gradscope.tui.widgets.ledger import Ledger

STRONG = f"bold {TEXT}"

MOST = (64, 16, 9, 4, 1)
"""elements of the largest tensor that is written out: as many as fit"""

TARGETS_SHOWN = 4

SLOTS_SHOWN = 6

UNSET = ("dim", "max", "min", "rounding_mode")
"""arguments whose absence makes a formula simpler"""

CODE_SHOWN = 200
"""lines of a backward"""


def write(view: View, node: int, width: int) -> list[Content]:
    """The page of one node.

    Args:
        view: what is shown.
        node: of its graph.
        width: of the lines.
    """
    if view.graph is None:
        return []
    for most in MOST:
        page = _Page(view, view.graph, node, width, most)
        page.write()
        lines = page.ledger.draw(width, cut=most == MOST[-1])
        if lines is not None:
            return lines
    return []


def known(view: View, node: int) -> dict[str, str]:
    """The forward's numbers and flags, as the node keeps them: `alpha` -> `1`, `dim` -> `[1]`."""
    inspected = view.inspected.get(node)
    found = {}
    for name, text in inspected.attributes if inspected is not None else ():
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            continue
        if isinstance(value, int | float | bool):
            found[name] = repr(value)
        elif value is None and name in UNSET:
            found[name] = "None"
        elif isinstance(value, tuple | list) and value and all(isinstance(one, int) for one in value):
            found[name] = repr(list(value))
    return found


def shapes_sent(view: View, graph: BackwardGraph, node: int) -> dict[int, tuple[int, ...]]:
    """By edge of a node, the shape of what the pass sent over it."""
    if view.tape is None:
        return {}
    came = {edge: view.tape.contribution_of_edge(edge) for edge in graph.out_edges(node)}
    return {edge: view.tape.tensors.shape(one.tensor) for edge, one in came.items() if one and one.tensor != NO_TENSOR}


class _Page:
    """Writes one node into a ledger."""

    def __init__(self, view: View, graph: BackwardGraph, node: int, width: int, most: int) -> None:
        self.view, self.graph, self.node, self.width, self.most = view, graph, node, width, most
        formulas = view.formulas if view.formulas is not None else Formulas({})
        self.formula: Formula = formulas.of(graph, node, known(view, node), shapes_sent(view, graph, node))
        self.ledger = Ledger()
        self._headed: tuple[int, ...] = ()

    def write(self) -> None:
        self.forward()
        if self.formula.code is not None:
            self.code()
        elif self.formula.outputs:
            if self.ledger.rows:
                self.ledger.line()
            self.outputs()
            for line in self.formula.where:
                self.wrapped("  ", line, MUTED)
        else:
            self.ledger.words(self.why_not(), MUTED)
        self.numbers()
        if self.formula.source and self.formula.code is None:
            self.ledger.line()
            self.ledger.line((f"from {self.formula.source}", MUTED))

    # ------------------------------------------------------------ what it computes

    def forward(self) -> None:
        """The person's statement, and the operation of torch that it came to."""
        made = self.graph.makes(self.node)
        if made:
            self.wrapped("", made, STRONG)
        if self.formula.forward:
            self.wrapped("  ", self.formula.forward, MUTED)
        if self.formula.names and not self.graph.is_accumulate(self.node):
            spoken = ", ".join(f"{argument} = {name}" for argument, name in self.formula.names.items())
            self.wrapped("  ", spoken, MUTED)

    def outputs(self) -> None:
        """`∂self = grad @ mat2ᵀ   → x [2,3]`, a line or more for each."""
        leaf = self.graph.leaf_at(self.node)
        if leaf is not None and self.graph.is_accumulate(self.node):
            self.accumulated(leaf)
            return
        for argument, text in self.formula.outputs:
            edges = self.formula.edges.get(argument, [])
            label = f"∂{argument} = "
            target = self.targets(edges)
            lines = textwrap.wrap(text, max(12, self.width - len(label)), break_long_words=False) or [""]
            for place, line in enumerate(lines):
                head = (label, TEXT) if not place else (" " * len(label), TEXT)
                content = Content.assemble(head, (line, STRONG))
                fits = place == len(lines) - 1 and content.cell_length + 3 + target.cell_length <= self.width
                if fits:
                    content = Content.assemble(content, "   ", target)
                self.ledger.line(leads(content, self.graph.target[edges[0]]) if edges else content)
            if edges and not fits:
                self.ledger.line(leads(Content.assemble(" " * 4, target), self.graph.target[edges[0]]))

    def accumulated(self, place: int) -> None:
        leaf = self.graph.leaves[place]
        if self.view.accumulates(leaf):
            self.ledger.line((f"{leaf.name}.grad = ", LEAF), (f"{leaf.name}.grad + grad", STRONG))
            self.ledger.line((f"  {leaf.name}.grad counts as 0 where it is None", MUTED))
        else:
            self.ledger.line((f"∂{leaf.name} = ", LEAF), ("grad", STRONG), ("   no .grad changes in this call", MUTED))
        self.formula.where.clear()

    def targets(self, edges: list[int]) -> Content:
        """`→ x [2,3]`"""
        parts = [self.target(edge) for edge in edges[:TARGETS_SHOWN]]
        if len(edges) > TARGETS_SHOWN:
            parts.append(Content.styled(f"… {len(edges) - TARGETS_SHOWN} more", MUTED))
        return Content("  ").join(parts)

    def target(self, edge: int) -> Content:
        node = self.graph.target[edge]
        name = target_name(self.graph, edge) or self.graph.short(node)
        shape = self.graph.shape(node) if self.graph.input_nr[edge] == 0 else None
        style = LEAF if self.graph.leaf_at(node) is not None else TEXT
        return Content.assemble(("→ ", MUTED), (name, style), (f" {numbers.shape(shape)}" if shape is not None else "", MUTED))

    def why_not(self) -> str:
        if self.view.formulas is None and self.formula.why_not == NOT_READ:
            return "torch's derivative table is being read: the first time, for each version of torch, takes some seconds"
        return f"no formula: {self.formula.why_not}"

    # ------------------------------------------------------------ the person's own backward

    def code(self) -> None:
        place = self.formula.code
        assert place is not None
        self.ledger.line((self.formula.source, MUTED))
        lines = self.view.sources.get(place.file)
        if not lines or place.line > len(lines):
            self.ledger.words(f"its source is not here: {place.file}:{place.line}", WARNING)
            return
        last = min(place.last or place.line, len(lines), place.line + CODE_SHOWN - 1)
        body = textwrap.dedent("\n".join(lines[place.line - 1 : last])).expandtabs(4).split("\n")
        digits = len(str(last))
        self.ledger.line()
        for number, line in enumerate(body, place.line):
            self.ledger.line((f"{number:>{digits}}  ", MUTED), (line, TEXT))
        if place.last > last:
            self.ledger.line((f"… {place.last - last} more lines", MUTED))

    # ------------------------------------------------------------ numbers

    def numbers(self) -> None:
        """What arrived, what was kept, what was sent: of the pass shown, once the node has run."""
        tape = self.view.tape
        rows = [] if tape is None else [*self.arrived(), *self.kept(), *self.sent()]
        if rows:
            self.ledger.line()
        for label, note, table, tensor, style in rows:
            self.number(label, note, table, tensor, style)
        if tape is not None and not self.has_run:
            self.ledger.line()
            step = tape.step_of(self.node)
            self.ledger.line((f"○ not run yet   step {step}" if step else "does not run in this pass", MUTED))

    @property
    def has_run(self) -> bool:
        tape = self.view.tape
        return tape is not None and 0 < tape.step_of(self.node) <= self.view.playhead

    def arrived(self) -> Iterator[tuple[str, str, TensorTable, int, str]]:
        tape = self.view.tape
        if tape is None or not self.has_run:
            return
        arrivals = tape.arrivals(self.node)
        several = len(arrivals) > 1 or any("grads[" in text for _, text in self.formula.outputs)
        for input_nr, tensor in arrivals[:SLOTS_SHOWN]:
            name = f"grads[{input_nr}]" if several else "grad"
            yield name, f"arrives {self.graph.gradient_name(self.node)}".rstrip(), tape.tensors, tensor, TEXT

    def kept(self) -> Iterator[tuple[str, str, TensorTable, int, str]]:
        inspected, saved = self.view.inspected.get(self.node), self.view.saved
        if inspected is None or saved is None:
            return
        names = [one.name for one in saved.of_node(self.node)]
        table = TensorTable(inspected.tensors)
        for row, place in enumerate(inspected.places):
            if place < len(names):
                yield names[place], "saved", table, row, TEXT

    def sent(self) -> Iterator[tuple[str, str, TensorTable, int, str]]:
        tape = self.view.tape
        if tape is None or not self.has_run:
            return
        argument_of = {
            edge: argument if len(edges) == 1 else f"{argument}[{place}]"
            for argument, edges in self.formula.edges.items()
            for place, edge in enumerate(edges)
        }
        for one in tape.sent_by(tape.step_of(self.node))[:SLOTS_SHOWN]:
            argument = argument_of.get(one.edge, "")
            name = target_name(self.graph, one.edge) or self.graph.short(self.graph.target[one.edge])
            yield f"∂{argument or name}", f"sent → {name}", tape.tensors, one.tensor, STRONG

    def number(self, label: str, note: str, table: TensorTable, tensor: int, style: str) -> None:
        """A tensor: its elements where they are few, else its norm and shape."""
        if tensor == NO_TENSOR:
            self.ledger.row(Content.styled(label, style), text="⟂ none", note=note)
            return
        shape, values = table.shape(tensor), table.values(tensor)
        if values and len(values) <= self.most:
            if shape != self._headed:
                self.ledger.heading(shape)
                self._headed = shape
            self.ledger.row(Content.styled(label, style), values, note, style=style)
            return
        summary = table.summary(tensor)
        text = f"‖·‖ {numbers.norm(summary.norm):<{numbers.NORM_WIDTH}} {numbers.shape(shape)}"
        self.ledger.line(Content.styled(label, style).pad_right(max(2, 12 - len(label))), text, (f"   {note}", MUTED))

    def wrapped(self, indent: str, text: str, style: str) -> None:
        for place, line in enumerate(textwrap.wrap(text, max(12, self.width - len(indent) - 2)) or [""]):
            self.ledger.line((indent + ("  " if place else "") + line, style))
