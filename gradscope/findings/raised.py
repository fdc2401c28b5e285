"""A backward of the person's own that raised."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gradscope.findings.custom import returned_wrong
from gradscope.findings.finding import Finding, Related
from gradscope.findings.freed import failed_by_freeing
from gradscope.findings.inplace import failed_by_write
from gradscope.findings.place import at_node
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape


def raised(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """The custom Function whose backward ended the pass; of torch's own nodes the exception itself says it best."""
    failure = tape.failure
    if failure is None or failure.node not in graph.columns.backward_code:
        return
    if failed_by_write(tape) or failed_by_freeing(tape) or returned_wrong(graph, tape):  # rules of their own say more
        return
    code = graph.columns.backward_code[failure.node]
    file, line = (failure.file, failure.line) if failure.file else (code.file, code.line)
    message = f"{graph.op(failure.node)} raised {failure.type}: {failure.message} ({os.path.basename(file)}:{line})"
    hint = "nothing goes on from there: what lies behind it gets no gradient in this call"
    where = Related(file, line, "raised here" if failure.file else "its backward")
    yield at_node(graph, failure.node, "custom-function", "error", message, hint, related=(where,))
