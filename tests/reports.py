"""Reports made by hand, for exports to write."""

from __future__ import annotations

import math

from graphs import FILE, Drawing, random_drawing, two_outputs_drawing

from gradscope.findings.finding import Finding, Related
from gradscope.model.report import CallInfo, Commit, Report, Site, StopReport, TensorData

AT = Site(FILE, 14, "<module>", "J.backward(gradient=v)")

FINDING = Finding(
    kind="nonfinite-origin",
    severity="error",
    message="log(0) makes the gradient of x infinite",
    hint="clamp x before the log",
    node=1,
    op="SinBackward0",
    file=FILE,
    line=11,
    related=(Related(FILE, 9, "x was made here"),),
    leaf="x",
    index=(0, 1),
    value=-math.inf,
    call=1,
)


def stop_of(
    drawing: Drawing, *seeds: tuple[tuple[float, ...] | None, ...], number: int = 1, **more: object
) -> StopReport[Finding]:
    """A stop with one pass for each tuple of seeds (one a root)."""
    graph = drawing.graph()
    tapes = tuple(drawing.tape(graph, seed, number=place) for place, seed in enumerate(seeds, 1))
    return StopReport(CallInfo(number, "backward", AT), graph, tapes, **more)  # type: ignore[arg-type]


def two_outputs_report(*seeds: tuple[float, ...]) -> Report[Finding]:
    """The pictured example with its seed [1, 10], or with these seeds, one a pass."""
    stop = stop_of(
        two_outputs_drawing(),
        *((seed,) for seed in seeds or ((1.0, 10.0),)),
        findings=(FINDING,),
        committed=Commit("true"),
        sources={FILE: "import torch\n"},
        tensors={(1, 0): TensorData("F32", (2,), bytes(range(8)))},
    )
    return Report("two_outputs.py", ("--quick", "ä"), "3.11.7", "2.13.0", (stop,))


def random_report(seed: int) -> Report[Finding]:
    """Two calls with random graphs: several roots, undefined gradients, nodes with two gradient slots."""
    stops = (
        stop_of(random_drawing(seed), ((1.0,), (2.0,)), ((1.0,), (math.nan,))),
        stop_of(random_drawing(seed + 1), ((0.0,), (-1.0,)), number=2),
    )
    return Report("random_dag.py", stops=stops, findings=(FINDING,))


def empty_report() -> Report[Finding]:
    """A script that failed before any backward call, and one call that nothing was recorded of."""
    return Report(
        "broken.py",
        stops=(StopReport(CallInfo(1, "backward", AT, "no-graph", "element 0 of tensors does not …")),),
        findings=(FINDING,),
    )
