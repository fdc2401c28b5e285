"""A snapshot gives back what it was given, and anything else is refused in words."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import zipfile
from pathlib import Path

import pytest
from facts_of_all_kinds import call_facts, pass_facts
from graphs import chain
from hypothesis import given, settings
from hypothesis import strategies as st
from reports import AT, empty_report, random_report, two_outputs_report
from saved_rows import Row, saved_columns

import gradscope
from gradscope.errors import FileError
from gradscope.export.formats import export
from gradscope.export.snapshot import MANIFEST, chunks, read
from gradscope.findings.finding import Finding
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Change, Hook, HookEffect
from gradscope.model.places import CodePlace
from gradscope.model.report import CallInfo, Report, StopReport
from gradscope.model.saved import FREED, Looked, SavedTable
from gradscope.model.tape import Tape


def saved(report: Report[Finding], path: Path) -> Path:
    export(report, str(path))
    return path


def comparable(report: Report[Finding]) -> str:
    """All that a report holds, as text: there NaN equals itself."""
    stops = [dataclasses.replace(stop, graph=None, tapes=(), saved=None) for stop in report.stops]
    columns = [(stop.graph and stop.graph.columns, [tape.columns for tape in stop.tapes]) for stop in report.stops]
    return repr((dataclasses.replace(report, stops=tuple(stops)), columns))


def assert_same(report: Report[Finding], again: Report[Finding]) -> None:
    for stop in report.stops:  # a snapshot says which tensors it holds, not which the script held
        for tape in stop.tapes:
            held = ((tape.number, tensor) in stop.tensors for tensor in range(len(tape.tensors)))
            tape.columns.tensors.held = bytes(held)
    assert comparable(again) == comparable(report)


def test_round_trip(tmp_path: Path) -> None:
    report = two_outputs_report((1.0, 10.0), (math.nan, -0.0))
    assert_same(report, read(str(saved(report, tmp_path / "a.gscope"))))


def test_facts_are_kept(tmp_path: Path) -> None:
    report = two_outputs_report()
    (stop,) = report.stops
    assert stop.graph is not None
    stop.graph.columns.facts, stop.tapes[0].columns.facts = call_facts(), pass_facts()
    (again,) = read(str(saved(report, tmp_path / "a.gscope"))).stops
    assert again.graph is not None
    assert again.graph.columns.facts == call_facts()
    assert again.tapes[0].columns.facts == pass_facts()
    for facts in (call_facts(), pass_facts()):
        assert all(getattr(facts, field.name) for field in dataclasses.fields(facts))


def test_nothing_recorded(tmp_path: Path) -> None:
    assert_same(empty_report(), gradscope.load(str(saved(empty_report(), tmp_path / "a.gscope"))))


def test_what_is_read_is_what_the_model_reads(tmp_path: Path) -> None:
    stop = read(str(saved(two_outputs_report(), tmp_path / "a.gscope"))).stops[0]
    (tape,) = stop.tapes
    assert stop.graph is not None
    assert stop.graph.networkx.number_of_edges() == 5
    assert tape.graph is stop.graph
    assert tape.summary(tape.leaf_total(0)).values == pytest.approx((2 + math.cos(1), 40 + 10 * math.cos(2)))
    assert stop.tensors[1, 0].data == bytes(range(8))


def test_the_same_report_gives_the_same_bytes() -> None:
    assert b"".join(chunks(two_outputs_report())) == b"".join(chunks(two_outputs_report()))


def test_a_source_is_kept_once(tmp_path: Path) -> None:
    text = "import torch\n" * 100_000
    stops = tuple(StopReport[Finding](CallInfo(n, "backward", AT), sources={"a.py": text}) for n in range(20))
    path = saved(Report("a.py", stops=stops), tmp_path / "a.gscope")
    assert path.stat().st_size < 100_000
    assert all(stop.sources == {"a.py": text} for stop in read(str(path)).stops)


def test_a_long_chain(tmp_path: Path) -> None:
    graph, tape = chain(100_000)
    report = Report[Finding]("chain.py", stops=(StopReport(CallInfo(1, "backward", AT), graph, (tape,)),))
    again = read(str(saved(report, tmp_path / "a.gscope")))
    assert again.stops[0].tapes[0].steps == 100_001


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_random_graphs(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    report = random_report(seed)
    assert_same(report, read(str(saved(report, tmp_path_factory.mktemp("random") / "a.gscope"))))


# ---------------------------------------------------------------- what is no snapshot


def refused(path: Path, data: bytes | None = None) -> FileError:
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(FileError) as caught:
        read(str(path))
    return caught.value


@pytest.mark.parametrize("data", [b"", b"\0" * 50, b'{"format": "gradscope"}', b"PK\x05\x06" + b"\0" * 18])
def test_foreign_files(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.gscope"
    assert refused(path, data).what == f"{path} is no gradscope snapshot"


def test_a_foreign_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.gscope"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MANIFEST, json.dumps({"format": "other", "version": 1, "byteorder": "little"}))
    assert refused(path).what == f"{path} is no gradscope snapshot"


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.gscope").why == "No such file or directory"
    assert refused(tmp_path).why == "Is a directory"


def rewritten(path: Path, member: str, data: bytes | None) -> Path:
    """The snapshot with one member changed, or without it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    del members[member]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if data is not None:
            archive.writestr(member, data)
    return path


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return saved(two_outputs_report(), tmp_path / "a.gscope")


def test_a_newer_version(snapshot: Path) -> None:
    newer = {"format": "gradscope snapshot", "version": 9, "byteorder": "little", "gradscope": "9.1"}
    error = refused(rewritten(snapshot, MANIFEST, json.dumps(newer).encode()))
    assert error.what == f"{snapshot} was written by a newer gradscope (9.1)"
    assert error.hint == "update gradscope"


def test_a_machine_of_the_other_byte_order(snapshot: Path) -> None:
    other = {"format": "gradscope snapshot", "version": 1, "byteorder": "middle"}
    assert "middle-endian" in refused(rewritten(snapshot, MANIFEST, json.dumps(other).encode())).why


@pytest.mark.parametrize("member", ["report.msgpack", "stops/1.msgpack", "tensors.safetensors"])
@pytest.mark.parametrize("data", [None, b"", b"\x93\x01", b"\xff" * 1000])
def test_a_damaged_member(snapshot: Path, member: str, data: bytes | None) -> None:
    assert refused(rewritten(snapshot, member, data)).what == f"{snapshot} is damaged"


def test_every_cut_is_noticed(snapshot: Path) -> None:
    whole = snapshot.read_bytes()
    for size in range(0, len(whole), 97):
        assert refused(snapshot, whole[:size]).what == f"{snapshot} is no gradscope snapshot"


def test_no_wrong_bit_changes_what_is_read(snapshot: Path) -> None:
    """Some bits mean nothing: those that fill up the last byte, and the dates."""
    whole, report = snapshot.read_bytes(), read(str(snapshot))
    for place in range(0, len(whole), 17):
        snapshot.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with contextlib.suppress(FileError):
            assert comparable(read(str(snapshot))) == comparable(report)


def kept_report() -> Report[Finding]:
    """The pictured example with what its nodes keep, one of them looked into, and a hook."""
    report = two_outputs_report()
    (stop,) = report.stops
    assert stop.graph is not None
    columns, tape = stop.graph.columns, stop.tapes[0].columns
    columns = dataclasses.replace(columns, hooks=[Hook(1, 0, "tensor", "clip")], backward_code={1: CodePlace("/a.py", 3, "f")})
    tape = dataclasses.replace(tape, hook_effects=[HookEffect(0, 2, 0, 1)], changes=[Change(1, 0, text="*2", before=0)])
    graph = BackwardGraph(columns)
    table = SavedTable(saved_columns([Row(0, "self", 0), Row(1, "self", -1, FREED)], [(16, "leaf x")]))
    looked = Looked(0, tape.tensors, list(range(len(tape.tensors.shape) // 4)), [("dim", "1")], ["a note"])
    kept = dataclasses.replace(stop, graph=graph, tapes=(Tape(tape, graph),), saved=table, inspected={0: looked})
    return dataclasses.replace(report, stops=(kept,))


def test_what_nodes_keep_comes_back(tmp_path: Path) -> None:
    before, (stop,) = kept_report().stops[0], read(str(saved(kept_report(), tmp_path / "a.gscope"))).stops
    assert before.saved is not None
    assert stop.saved is not None
    assert stop.graph is not None
    assert stop.saved.columns == before.saved.columns
    assert (stop.inspected[0].places, stop.inspected[0].attributes) == (before.inspected[0].places, [("dim", "1")])
    assert [hook.name for _, hook in stop.graph.hooks_of(1)] == ["clip"]
    assert stop.tapes[0].effect(0) == HookEffect(0, 2, 0, 1)


def test_keeps_that_point_nowhere(tmp_path: Path) -> None:
    for spoil in (
        lambda stop: setattr(stop.saved.columns, "node", b"\x7f\0\0\0" * 2),
        lambda stop: setattr(stop.saved.columns, "name", b"\x7f\0\0\0" * 2),
        lambda stop: setattr(stop.saved.columns, "storage", b"\x01\0\0\0" * 2),
        lambda stop: setattr(stop.saved.columns, "state", b"\x09\x09"),
        lambda stop: setattr(stop.saved.columns, "version_now", b""),
        lambda stop: setattr(stop.saved.columns, "storage_owner", []),
        lambda stop: stop.inspected[0].places.append(0),
        lambda stop: stop.graph.columns.hooks.append(Hook(99, 0, "tensor", "clip")),
        lambda stop: stop.tapes[0].columns.hook_effects.append(HookEffect(9, 1, 0, 0)),
        lambda stop: stop.tapes[0].columns.hook_effects.append(HookEffect(0, 1, 0, 999)),
        lambda stop: stop.tapes[0].columns.changes.append(Change(99, 0)),
    ):
        report = kept_report()
        spoil(report.stops[0])
        path = tmp_path / "a.gscope"
        path.write_bytes(b"".join(chunks(report)))
        assert refused(path).what == f"{path} is damaged"


def test_columns_that_point_nowhere(tmp_path: Path) -> None:
    for spoil in (
        lambda stop: setattr(stop.graph.columns, "edge_target", b"\xff\0\0\0" * 5),
        lambda stop: setattr(stop.graph.columns, "op", stop.graph.columns.op[:-1]),
        lambda stop: setattr(stop.tapes[0].columns, "arrival_tensor", b"\x7f\0\0\0" * 4),
        lambda stop: setattr(stop.tapes[0].columns, "step_node", b"\x04\0\0\0" * 4),
        lambda stop: setattr(stop.tapes[0].columns.tensors, "value_start", b"\xff" * 7 + b"\x7f"),
        lambda stop: setattr(stop.tapes[0].columns.tensors, "norm", b""),
    ):
        report = two_outputs_report()
        spoil(report.stops[0])
        path = tmp_path / "a.gscope"
        path.write_bytes(b"".join(chunks(report)))
        assert refused(path).what == f"{path} is damaged"


def test_an_archive_that_would_fill_the_memory(snapshot: Path) -> None:
    with zipfile.ZipFile(snapshot, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("stops/2.msgpack", "w") as member:
        for _ in range(320):
            member.write(bytes(1 << 20))
    error = refused(snapshot)
    assert error.what == f"{snapshot} is damaged"
    assert "would grow to" in error.why


def test_names_that_lead_elsewhere_are_never_touched(snapshot: Path) -> None:
    with zipfile.ZipFile(snapshot, "a") as archive:
        archive.writestr("../../evil.py", "boom")
    assert read(str(snapshot)).script == "two_outputs.py"
    assert not (snapshot.parent.parent.parent / "evil.py").exists()
