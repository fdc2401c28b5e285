"""How a node is found again in the graph of another call."""

from __future__ import annotations

from dataclasses import dataclass

from gradscope.model.backward_graph import BackwardGraph


@dataclass(frozen=True, slots=True)
class Landmark:
    """What makes a node the same node in the graph of another call."""

    node: int
    """its number: calls that build the same graph number it alike"""
    label: str
    file: str
    line: int
    nth: int
    """which of the nodes of this label that the line made, from 0, in forward order"""

    @classmethod
    def of(cls, graph: BackwardGraph, node: int) -> Landmark:
        origin = graph.origin(node)
        file, line = (origin.file, origin.line) if origin else ("", 0)
        return cls(node, graph.label(node), file, line, graph.alike(node).index(node))

    def find(self, graph: BackwardGraph) -> int | None:
        """The node that is this one in `graph`; where its line made fewer, the first of them."""
        if self.node < len(graph) and Landmark.of(graph, self.node) == self:
            return self.node
        for leaf in graph.reached:
            if graph.label(leaf.node) == self.label:
                return leaf.node
        origins = {i for i, o in enumerate(graph.columns.origins) if (o.file, o.line) == (self.file, self.line)}
        for node in range(len(graph)) if origins else ():
            if graph.origin_index(node) in origins and graph.label(node) == self.label:
                alike = graph.alike(node)
                return alike[self.nth] if self.nth < len(alike) else alike[0]
        return None
