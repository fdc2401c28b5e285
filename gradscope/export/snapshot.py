"""The `.gscope` snapshot: a zip that holds a whole report and gives it back.

    manifest.json         {"format": "gradscope snapshot", "version": 1, "byteorder": "little", "gradscope": "0.1.0"}
    report.msgpack        script, versions, findings outside any pass, sources
    stops/1.msgpack …     one stop each: call, columns of its graph and of its passes, findings, commit
    tensors.safetensors   the tensors that were fetched, named STOP.PASS.TENSOR

Nothing in it is code and nothing is unpacked to the disk: members are read by these names only.
"""

from __future__ import annotations

import os
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

import msgspec

from gradscope import __version__
from gradscope.errors import FileError
from gradscope.export import safetensors_form
from gradscope.export.checking import check_graph, check_looked, check_saved, check_tape
from gradscope.findings.finding import Finding
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import GraphColumns, TapeColumns
from gradscope.model.derivatives import Entry
from gradscope.model.report import CallInfo, Commit, Report, StopReport
from gradscope.model.saved import Looked, SavedColumns, SavedTable
from gradscope.model.tape import Tape

FORMAT, VERSION = "gradscope snapshot", 1

MANIFEST, REPORT, TENSORS = "manifest.json", "report.msgpack", "tensors.safetensors"

_FREE_SIZE, _EXPANSION = 256 << 20, 200
"""How large an archive may grow when it is read: this much, and this many times its own size beyond that."""

_DATE = (1980, 1, 1, 0, 0, 0)
"""The same report gives the same bytes."""


class _Manifest(msgspec.Struct):
    format: str
    version: int
    byteorder: str
    gradscope: str = ""


class _Run(msgspec.Struct):
    """A `Report` without its stops."""

    script: str
    arguments: tuple[str, ...]
    python: str
    torch: str
    findings: tuple[Finding, ...]
    stops: int
    sources: dict[str, str]
    formulas: dict[str, Entry] = {}


class _Stop(msgspec.Struct):
    """A `StopReport` as columns."""

    call: CallInfo
    graph: GraphColumns | None
    tapes: list[TapeColumns]
    findings: tuple[Finding, ...]
    committed: Commit | None
    sources: list[str]
    """the files; their text is in `_Run`"""
    saved: SavedColumns | None = None
    inspected: list[Looked] = []


# ---------------------------------------------------------------- write


class _Outlet:
    """Takes what zipfile writes, and hands it on piece by piece: an archive of gigabytes never lies in memory."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """zipfile calls it."""

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def chunks(report: Report[Finding]) -> Iterator[bytes]:
    """The archive in pieces."""
    outlet = _Outlet()
    with zipfile.ZipFile(cast(BinaryIO, outlet), "w") as archive:
        for name, pieces, compression in _members(report):
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type = compression
            with archive.open(info, "w", force_zip64=True) as member:
                for piece in pieces:
                    member.write(piece)
                    yield outlet.taken()
    yield outlet.taken()


def _members(report: Report[Finding]) -> Iterator[tuple[str, Iterable[bytes], int]]:
    """Name, content, and compression: gradients hardly shrink, columns do."""
    encode = msgspec.msgpack.encode
    stops = list(enumerate(report.stops, 1))
    sources = {file: text for stop in report.stops for file, text in stop.sources.items()}
    formulas = dict(report.formulas)
    run = _Run(report.script, report.arguments, report.python, report.torch, report.findings, len(stops), sources, formulas)
    yield MANIFEST, [msgspec.json.encode(_Manifest(FORMAT, VERSION, sys.byteorder, __version__))], zipfile.ZIP_STORED
    yield REPORT, [encode(run)], zipfile.ZIP_DEFLATED
    for place, stop in stops:
        yield _stop_name(place), [encode(_columns(stop))], zipfile.ZIP_DEFLATED
    tensors = {f"{place}.{tape}.{tensor}": data for place, stop in stops for (tape, tensor), data in stop.tensors.items()}
    yield TENSORS, safetensors_form.chunks(tensors, {}), zipfile.ZIP_STORED


def _columns(stop: StopReport[Finding]) -> _Stop:
    return _Stop(
        call=stop.call,
        graph=stop.graph.columns if stop.graph else None,
        tapes=[tape.columns for tape in stop.tapes],
        findings=stop.findings,
        committed=stop.committed,
        sources=list(stop.sources),
        saved=stop.saved.columns if stop.saved else None,
        inspected=list(stop.inspected.values()),
    )


def _stop_name(place: int) -> str:
    return f"stops/{place}.msgpack"


# ---------------------------------------------------------------- read


_FAULTS = (
    KeyError,  # a member is missing
    EOFError,
    IndexError,
    NotImplementedError,  # a compression that Python does not know
    RuntimeError,  # encrypted
    ValueError,
    zipfile.BadZipFile,  # also a wrong checksum
    zlib.error,
    msgspec.MsgspecError,
)
"""What a damaged archive raises."""


def read(path: str) -> Report[Finding]:
    """The report that a snapshot holds.

    Raises:
        FileError: the file cannot be read, is no snapshot, is damaged, or was written by a newer gradscope.
    """
    try:
        with open(path, "rb") as stream, _archive(path, stream) as archive:
            _check_manifest(path, archive)
            _check_size(path, archive, os.fstat(stream.fileno()).st_size)
            return _report(archive)
    except OSError as error:
        raise FileError(f"cannot read {path}", error.strerror or str(error)) from error
    except _FAULTS as error:
        raise FileError(f"{path} is damaged", str(error), "export it again") from error


def _archive(path: str, stream: BinaryIO) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(stream)
    except zipfile.BadZipFile as error:
        stream.seek(0)
        torn = stream.read(4) == b"PK\x03\x04"
        raise _foreign(path, "it is an archive without its end: a copy of it was cut off" if torn else "") from error


def _check_manifest(path: str, archive: zipfile.ZipFile) -> None:
    if MANIFEST not in archive.namelist():
        raise _foreign(path)
    try:
        manifest = msgspec.json.decode(_member(archive, MANIFEST, limit=1 << 16), type=_Manifest)
    except msgspec.MsgspecError as error:
        raise _foreign(path) from error
    if manifest.format != FORMAT:
        raise _foreign(path)
    if manifest.version > VERSION:
        raise FileError(
            f"{path} was written by a newer gradscope ({manifest.gradscope})",
            f"it has version {manifest.version} of the format, this gradscope {__version__} reads up to {VERSION}",
            "update gradscope",
        )
    if manifest.byteorder != sys.byteorder:
        raise FileError(f"cannot read {path}", f"it comes from a {manifest.byteorder}-endian machine", "open it on such a one")


def _foreign(path: str, why: str = "") -> FileError:
    return FileError(f"{path} is no gradscope snapshot", why, "gradscope --export run.gscope SCRIPT writes one")


def _check_size(path: str, archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive made to fill the memory of whoever opens it."""
    grown = sum(info.file_size for info in archive.infolist())
    if grown > _FREE_SIZE + _EXPANSION * size:
        raise FileError(f"{path} is damaged", f"its {size} bytes would grow to {grown}")


def _member(archive: zipfile.ZipFile, name: str, limit: int | None = None) -> bytes:
    declared = archive.getinfo(name).file_size
    if limit is not None and declared > limit:
        raise ValueError(f"{name} has {declared} bytes")
    return archive.read(name)


def _report(archive: zipfile.ZipFile) -> Report[Finding]:
    run = msgspec.msgpack.decode(_member(archive, REPORT), type=_Run)
    tensors = safetensors_form.read(_member(archive, TENSORS))
    stops = []
    for place in range(1, run.stops + 1):
        stop = msgspec.msgpack.decode(_member(archive, _stop_name(place)), type=_Stop)
        graph, tapes = _recorded(stop)
        of_stop = {_tensor_key(name): data for name, data in tensors.items() if name.startswith(f"{place}.")}
        for tape in tapes:
            tape.columns.tensors.held = bytes((tape.number, i) in of_stop for i in range(len(tape.tensors)))
        stops.append(
            StopReport(
                call=stop.call,
                graph=graph,
                tapes=tapes,
                findings=stop.findings,
                committed=stop.committed,
                sources={file: run.sources[file] for file in stop.sources},
                tensors=of_stop,
                saved=None if stop.saved is None else SavedTable(stop.saved),
                inspected={looked.node: looked for looked in stop.inspected},
            )
        )
    return Report(run.script, run.arguments, run.python, run.torch, tuple(stops), run.findings, run.formulas)


def _recorded(stop: _Stop) -> tuple[BackwardGraph | None, tuple[Tape, ...]]:
    if stop.graph is None:
        if stop.saved is not None or stop.inspected:
            raise ValueError("saved tensors of no graph")
        return None, ()
    check_graph(stop.graph)
    graph = BackwardGraph(stop.graph)
    if stop.saved is not None:
        check_saved(stop.saved, graph)
    for looked in stop.inspected:
        check_looked(looked, graph)
    for columns in stop.tapes:
        check_tape(columns, graph)
    return graph, tuple(Tape(columns, graph) for columns in stop.tapes)


def _tensor_key(name: str) -> tuple[int, int]:
    _, tape, tensor = name.split(".")
    return int(tape), int(tensor)
