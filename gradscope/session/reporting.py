"""Between a session's stops and the reports that exports write and snapshots hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gradscope.findings.diagnosis import worst_first
from gradscope.findings.finding import Finding
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import GraphColumns
from gradscope.model.report import CallInfo, Commit, Site, StopReport, TensorData
from gradscope.model.saved import Looked
from gradscope.protocol.messages import Call, Committed, Inspected, TensorBytes
from gradscope.session.inspected import Keeps
from gradscope.session.view import Stop

Tensors = Mapping[tuple[int, int], TensorData]
"""(number of the tape, number of the tensor in it) -> the tensor"""


def report_of(stop: Stop, tensors: Tensors, sources: Mapping[str, list[str]], keeps: Keeps) -> StopReport[Finding]:
    """A stop as exports want it, with the sources its graph speaks of."""
    call = stop.call
    wanted = files_of(stop.graph, call)
    return StopReport(
        call=CallInfo(
            number=call.number,
            kind=call.kind,
            site=Site(call.file, call.line, call.function, call.code),
            reason=stop.reason,
            detail=stop.detail,
            retain_graph=call.retain_graph,
            create_graph=call.create_graph,
            has_inputs=call.has_inputs,
            thread=call.thread,
        ),
        graph=stop.graph,
        tapes=tuple(stop.passes),
        findings=tuple(stop.findings),
        committed=_commit(stop.committed),
        sources={file: "\n".join(sources[file]) + "\n" for file in wanted if file in sources},
        tensors=dict(tensors),
        saved=keeps.saved,
        inspected={
            node: Looked(node, one.tensors, list(one.places), list(one.attributes), list(one.notes))
            for node, one in keeps.inspected.items()
        },
    )


def stop_of(report: StopReport[Finding]) -> Stop:
    """The stop that a snapshot holds."""
    call, done = report.call, report.committed
    return Stop(
        call=Call(
            call.number,
            call.kind,
            call.site.file,
            call.site.line,
            call.site.function,
            call.site.code,
            call.retain_graph,
            call.create_graph,
            call.has_inputs,
            call.thread,
        ),
        reason=call.reason,
        detail=call.detail,
        graph=report.graph,
        passes=list(report.tapes),
        findings=list(report.findings),
        committed=Committed(call.number, done.exact, done.reason, list(done.differing), done.error, done.edited)
        if done
        else None,
    )


def keeps_of(report: StopReport[Finding]) -> Keeps:
    """What a snapshot knows of what the nodes kept."""
    looked = {
        node: Inspected(0, node, one.tensors, one.places, one.attributes, one.notes) for node, one in report.inspected.items()
    }
    return Keeps(report.saved, looked)


def files_of(graph: BackwardGraph | None, call: Call) -> Iterable[str]:
    """The files that a stop speaks of, that of the call first."""
    columns = graph.columns if graph is not None else GraphColumns()
    backward = (place.file for place in columns.backward_code.values())
    return dict.fromkeys([call.file, *(origin.file for origin in columns.origins), *backward])


def news(findings: Iterable[Finding], known: Iterable[Finding]) -> list[Finding]:
    """Those that are told, but not the error that a line ended in where the same was told of that line before."""
    told = {(one.kind, one.file, one.line) for one in known}
    return [one for one in findings if one.severity != "error" or (one.kind, one.file, one.line) not in told]


def files_named(findings: Iterable[Finding]) -> Iterable[str]:
    """The files that findings speak of."""
    return dict.fromkeys(file for one in findings for file in (one.file, *(other.file for other in one.related)))


def merged(findings: Iterable[Finding], call: int | None = None) -> list[Finding]:
    """Worst first, without repeats, otherwise in the order found; those without a call get `call`."""
    if call is not None:
        findings = (finding if finding.call else replace(finding, call=call) for finding in findings)
    return worst_first(dict.fromkeys(findings))


def data_of(tensor: TensorBytes) -> TensorData:
    return TensorData(tensor.dtype, tuple(tensor.shape), tensor.data)


def _commit(committed: Committed | None) -> Commit | None:
    if committed is None:
        return None
    return Commit(committed.exact, committed.reason, tuple(committed.differing), committed.error, committed.edited)
