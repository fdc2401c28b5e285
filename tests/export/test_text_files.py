"""The tape as text, the leaves as a table, the differences in words."""

from __future__ import annotations

import csv
import dataclasses
import io
import math

import pytest
from graphs import Drawing, chain, two_outputs_drawing
from reports import AT, FINDING, empty_report, stop_of, two_outputs_report

from gradscope.errors import UsageError
from gradscope.export import leaves_csv, text
from gradscope.export.differences import lines
from gradscope.export.formats import FORMATS, check, export
from gradscope.findings.finding import Finding
from gradscope.model.report import CallInfo, Report, StopReport


def as_text(report: Report[Finding]) -> str:
    return b"".join(text.chunks(report)).decode()


def table(report: Report[Finding]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(leaves_csv.chunks(report)).decode())))


def test_the_tape() -> None:
    assert as_text(two_outputs_report()) == (
        "gradscope two_outputs.py --quick ä\n"
        "\n"
        "backward 1  J.backward(gradient=v)  two_outputs.py:14\n"
        "  4 steps · sums ✓\n"
        "  step  graph  node          makes        line  shape  ‖grad‖\n"
        "        ▽      seed of J                        [2]     10.05\n"
        "     1  ●─╮    AddBackward0  J = a + b     :12  [2]     10.05\n"
        "     2  │ ●    SinBackward0  b = x.sin()   :11  [2]     10.05\n"
        "     3  ● │    MulBackward0  a = x * x     :10  [2]     10.05\n"
        "     4  ◇─╯    x  (leaf)     sum of 3       :9  [2]     35.93\n"
        "  error: nonfinite-origin (two_outputs.py:11): log(0) makes the gradient of x infinite\n"
        "    two_outputs.py:9 x was made here\n"
        "    clamp x before the log\n"
    )


def test_passes_and_flags() -> None:
    lines_of = as_text(two_outputs_report((1.0, 10.0), (0.0, math.nan))).splitlines()
    assert "  pass 2 (seed edited) · 4 steps · sums ✓" in lines_of
    assert lines_of[-4].endswith("nan  N")


def test_a_long_tape_is_written_to_its_end() -> None:
    graph, tape = chain(5000)
    report = Report[Finding]("chain.py", stops=(StopReport(CallInfo(1, "backward", AT), graph, (tape,)),))
    assert as_text(report).splitlines()[-1].split() == ["5001", "◇", "x", "(leaf)", "[]", "1"]


def test_text_without_a_tape() -> None:
    assert as_text(empty_report()).splitlines()[-1] == "backward 1  J.backward(gradient=v)  two_outputs.py:14"


def test_the_table_of_leaves() -> None:
    first, second = table(two_outputs_report((1.0, 10.0), (1.0, math.nan)))
    assert (first["call"], first["pass"], first["leaf"], first["shape"], first["reached"]) == ("1", "1", "x", "2", "true")
    assert [float(value) for value in first["values"].split()] == pytest.approx([2 + math.cos(1), 40 + 10 * math.cos(2)])
    assert first["norm"] == first["after_norm"]
    assert first["before_norm"] == ""
    assert (second["pass"], second["nan"], second["norm"]) == ("2", "1", "nan")


def test_a_leaf_that_is_not_reached() -> None:
    drawing = two_outputs_drawing()
    drawing.leaf('odd, "name"', (3,), reached=False)
    row = table(Report("s.py", stops=(stop_of(drawing, ((1.0, 1.0),)),)))[1]
    assert (row["leaf"], row["reached"], row["norm"]) == ('odd, "name"', "false", "")


# ---------------------------------------------------------------- differences


def test_no_difference() -> None:
    nan = two_outputs_report((1.0, math.nan))
    assert list(lines(nan, two_outputs_report((1.0, math.nan)))) == ["no difference"]


def test_another_seed() -> None:
    found = list(lines(two_outputs_report(), two_outputs_report((1.0, 1.0))))
    assert found[0] == f"backward 1  J.backward(gradient=v)  {AT.file}:14"
    assert found[1] == f"  first step that differs: 1 AddBackward0 ({AT.file}:12)  ‖grad‖ 10.0499 → 1.41421"
    assert found[2].startswith("  leaf x  ‖contribution‖ 35.9284 → ")


def test_the_same_norm_with_other_elements() -> None:
    found = list(lines(two_outputs_report(), two_outputs_report((10.0, 1.0))))
    assert found[1].endswith("‖grad‖ 10.0499, other elements")


def test_other_graphs_calls_and_findings() -> None:
    drawing = Drawing()
    node = drawing.node("ExpBackward0", (2,))
    drawing.edge(node, drawing.leaf("w", (2,)))
    drawing.root(node)
    other = Report("s.py", stops=(stop_of(drawing, ((1.0, 1.0),)), StopReport(CallInfo(2, "grad", AT))))
    found = list(lines(two_outputs_report(), dataclasses.replace(other, findings=(FINDING,))))
    assert "  graph: - 1 SinBackward0" in found
    assert "  graph: + 1 ExpBackward0" in found
    assert "  step 1: AddBackward0 → ExpBackward0" in found
    assert "  leaf x  only in the first" in found
    assert "  only in the second" in found
    assert any(line.startswith("  - error: nonfinite-origin") for line in found)
    assert any(line.startswith("+ error: nonfinite-origin") for line in found)


# ---------------------------------------------------------------- endings


def test_an_unknown_ending_names_those_there_are() -> None:
    for path in ("a.png", "a", "a.jsonx"):
        with pytest.raises(UsageError, match="cannot write") as caught:
            export(two_outputs_report(), path)
        assert all(ending in caught.value.why for ending in FORMATS)


def test_html_is_for_later() -> None:
    with pytest.raises(UsageError, match="not there yet"):
        check("a.html")


def test_an_ending_in_capitals(tmp_path: object) -> None:
    export(two_outputs_report(), f"{tmp_path}/A.JSON")
    check(f"{tmp_path}/A.CSV")
