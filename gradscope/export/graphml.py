"""The `.graphml` export, for Gephi, yEd and `networkx.read_graphml`."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from gradscope.export.plain_graph import build
from gradscope.findings.finding import Finding
from gradscope.model.report import Report

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no form for."""


def chunks(report: Report[Finding]) -> Iterator[bytes]:
    """The file in pieces."""
    import networkx as nx

    graph = build(report)
    texts = [graph.graph, *(data for _, data in graph.nodes(data=True)), *(data for _, _, data in graph.edges(data=True))]
    for attributes in texts:
        for name, value in attributes.items():
            if isinstance(value, str):
                attributes[name] = _NOT_XML.sub("\ufffd", value)
    buffer = io.BytesIO()
    nx.write_graphml_xml(graph, buffer, encoding="utf-8")
    yield buffer.getvalue()
