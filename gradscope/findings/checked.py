"""A custom backward that a check has found wrong: not linear in what arrives, or not the derivative of its forward."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import at_node, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.checks import WRONG, CheckResult

_LINEAR = "linear"


def checked(graph: BackwardGraph, result: CheckResult) -> Iterator[Finding]:
    """One finding for each property that does not hold. Of torch's own nodes a difference says more of the check than of them."""
    code = graph.columns.backward_code.get(result.node)
    if code is None:
        return
    for row in result.rows:
        if row.verdict != WRONG:
            continue
        where = f" ({row.why})" if row.why else ""
        if row.what.startswith(_LINEAR):
            what = f"is not linear in the gradient that arrives{where}: it is right for no seed but perhaps this one"
            hint = (
                "a backward multiplies what arrives by the derivative: it neither leaves it out nor takes its sign, size or norm"
            )
        else:
            what = f"is not the derivative of its forward{where}: {row.what} differs"
            hint = "hold the formula of the backward against the forward, input by input, and what is saved for it"
        related = (Related(code.file, code.line, "its backward"),)
        message = f"the backward of {name(graph, result.node)} {what}"
        yield at_node(graph, result.node, "custom-function", "error", message, hint, related=related)
