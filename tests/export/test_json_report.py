"""The JSON report holds what was recorded and keeps to its schema."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from graphs import Drawing
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError
from reports import FINDING, empty_report, random_report, stop_of, two_outputs_report
from saved_rows import Row, saved_columns

from gradscope.export.json_report import chunks, schema
from gradscope.findings.finding import Finding
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Hook
from gradscope.model.places import CodePlace
from gradscope.model.report import Commit, Report
from gradscope.model.saved import RECOMPUTED, SavedTable

VALIDATOR = Draft202012Validator(schema())


def refuse(token: str) -> float:
    raise AssertionError(f"{token} is not strict JSON")


def written(report: Report[Finding]) -> dict[str, Any]:
    document = json.loads(b"".join(chunks(report)), parse_constant=refuse)
    VALIDATOR.validate(document)
    return document  # type: ignore[no-any-return]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())


def test_two_outputs() -> None:
    document = written(two_outputs_report())
    assert (document["format"], document["version"], document["script"]) == ("gradscope", 1, "two_outputs.py")
    assert document["exact"] is True
    (call,) = document["calls"]
    assert call["site"]["line"] == 14
    assert [node["op"] for node in call["nodes"]] == ["MulBackward0", "SinBackward0", "AddBackward0", "AccumulateGrad"]
    assert [node["leaf"] for node in call["nodes"]] == [None, None, None, "x"]
    assert [node["name"] for node in call["nodes"]] == ["a", "b", "J", "x"]
    assert call["nodes"][1]["origin"]["line"] == 11
    assert call["edges"][2] == {"source": 1, "slot": 0, "target": 3, "input_nr": 0, "role": "self"}
    assert [step["node"] for step in call["steps"]] == [2, 1, 0, 3]
    assert [[sent["edge"] for sent in step["contributions"]] for step in call["steps"]] == [[3, 4], [2], [0, 1], []]
    assert call["steps"][2]["contributions"][0]["values"] == [1.0, 20.0]
    (seed,) = call["seeds"]
    assert (seed["edge"], seed["root"], seed["values"]) == (None, 0, [1.0, 10.0])
    (leaf,) = call["leaves"]
    assert leaf["contribution"]["values"] == pytest.approx([2 + math.cos(1), 40 + 10 * math.cos(2)])
    assert leaf["before"] is None
    assert leaf["after"] == leaf["contribution"]


def test_what_nodes_keep_and_their_hooks() -> None:
    report = two_outputs_report()
    stop = report.stops[0]
    assert stop.graph is not None
    assert all((node["saved"], node["hooks"]) == (None, []) for node in written(report)["calls"][0]["nodes"])
    rows = [Row(0, "self", 0), Row(1, "self", -1, RECOMPUTED, versions=(-1, -1))]
    hooks = [Hook(1, 0, "tensor", "clip", CodePlace("/a.py", 3, "clip"))]
    graph = BackwardGraph(dataclasses.replace(stop.graph.columns, hooks=hooks))
    saved = dataclasses.replace(stop, graph=graph, saved=SavedTable(saved_columns(rows, [(16, "leaf x")])))
    product, sine, *_ = written(dataclasses.replace(report, stops=(saved,)))["calls"][0]["nodes"]
    assert product["saved"] == {
        "bytes": 16,
        "own": 0,
        "tensors": [{"name": "self", "shape": [2], "dtype": "float32", "bytes": 16, "state": "here", "owner": "leaf x"}],
        "untold": None,
    }
    [gone] = sine["saved"]["tensors"]
    assert (gone["state"], gone["shape"], gone["dtype"], gone["bytes"]) == ("recomputed", None, None, 0)
    assert sine["hooks"] == [{"kind": "tensor", "name": "clip", "input_nr": 0, "file": "/a.py", "line": 3}]


def test_findings() -> None:
    finding = written(two_outputs_report())["calls"][0]["findings"][0]
    assert finding["value"] == "-inf"
    assert finding["index"] == [0, 1]
    assert finding["related"] == [{"file": FINDING.file, "line": 9, "what": "x was made here"}]
    bare = dataclasses.replace(
        two_outputs_report(), stops=(), findings=(Finding("cut", "info", "m", call=2), Finding("cut", "info", "m"))
    )
    first, second = written(bare)["findings"]
    assert (first["call"], second["call"]) == (2, None)
    assert [first[name] for name in ("node", "op", "file", "line", "leaf", "index", "value")] == [None] * 7


def test_further_passes() -> None:
    call = written(two_outputs_report((1.0, 10.0), (math.nan, math.inf)))["calls"][0]
    (edited,) = call["passes"]
    assert (edited["number"], edited["edited"]) == (2, True)
    assert edited["seeds"][0]["values"] == ["nan", "inf"]
    assert edited["steps"][0]["arrived"]["norm"] == "nan"
    assert call["seeds"][0]["values"] == [1.0, 10.0]


def test_an_undefined_gradient_is_null() -> None:
    drawing = Drawing()
    node = drawing.node("MulBackward0")
    drawing.edge(node, drawing.leaf("w"), None)
    drawing.root(node)
    call = written(Report("s.py", stops=(stop_of(drawing, ((1.0,),)),)))["calls"][0]
    sent = call["steps"][0]["contributions"][0]
    assert sent.pop("edge") == 0
    assert set(sent.values()) == {None}
    assert call["steps"][1]["arrived"] is None
    assert call["leaves"][0]["contribution"] is None


def test_several_gradient_slots() -> None:
    drawing = Drawing()
    leaf, split = drawing.leaf("w"), drawing.node("SplitBackward0")
    drawing.edge(split, leaf)
    top = drawing.node("AddBackward0")
    drawing.edge(top, split, (2.0,), input_nr=1)
    drawing.root(top)
    steps = written(Report("s.py", stops=(stop_of(drawing, ((1.0,),)),)))["calls"][0]["steps"]
    assert "arrivals" not in steps[0]
    assert [(one["input_nr"], one["values"]) for one in steps[1]["arrivals"]] == [(1, [2.0])]
    assert steps[1]["arrived"]["values"] == [2.0]


def test_nothing_recorded() -> None:
    document = written(empty_report())
    assert (document["exact"], document["exact_reason"]) == ("unchecked", "call 1: element 0 of tensors does not …")
    assert document["calls"][0]["nodes"] == document["calls"][0]["steps"] == []
    assert written(Report("s.py"))["exact_reason"] == "no backward call was recorded"


@pytest.mark.parametrize(
    ("sums", "commit", "exact"),
    [
        ("true", None, True),
        ("true", "true", True),
        ("true", "unchecked", "unchecked"),
        ("true", "false", False),
        ("unchecked", "true", "unchecked"),
        ("unchecked", "false", False),
        ("false", "true", False),
    ],
)
def test_exact_is_the_worst_that_was_found(sums: str, commit: str | None, exact: bool | str) -> None:
    report = two_outputs_report()
    stop = dataclasses.replace(report.stops[0], committed=Commit(commit, "why") if commit else None)
    stop.tapes[0].columns.exact = sums
    document = written(dataclasses.replace(report, stops=(stop,)))
    assert document["exact"] is exact or document["exact"] == exact == "unchecked"


def test_the_schema_refuses_what_is_not_in_it() -> None:
    document = written(two_outputs_report())
    document["calls"][0]["steps"][0]["contributions"][0]["norm"] = "NaN"
    with pytest.raises(ValidationError):
        VALIDATOR.validate(document)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_random_graphs_keep_to_the_schema(seed: int) -> None:
    report = random_report(seed)
    document = written(report)
    for stop, call in zip(report.stops, document["calls"], strict=True):
        assert stop.graph is not None
        assert len(call["nodes"]) == len(stop.graph)
        assert len(call["edges"]) == stop.graph.edge_count
        delivered = len(call["seeds"]) + sum(len(step["contributions"]) for step in call["steps"])
        assert delivered == len(stop.tapes[0])
