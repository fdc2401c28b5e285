"""Findings for calls that torch refuses before anything runs."""

from __future__ import annotations

from gradscope.findings.finding import Finding
from gradscope.protocol.messages import Call

_HINTS = {
    "no-graph": "compute the root from tensors with requires_grad=True, outside no_grad and without detach() or item()",
    "nonscalar-root": "reduce it (mean, sum), or give a seed: backward(gradient=…) of the root's shape",
    "seed-mismatch": "a seed has the shape, the dtype and the device of its root",
}


def findings_of(call: Call, reason: str, detail: str) -> list[Finding]:
    """What is wrong with a call that is stopped at for this reason; nothing where torch takes it."""
    if reason not in ("seed", "no-graph"):
        return []
    kind = reason
    if reason == "seed":
        kind = "nonscalar-root" if "implicitly created only for" in detail else "seed-mismatch"
    return [Finding(kind, "error", detail, _HINTS[kind], file=call.file, line=call.line, call=call.number)]
