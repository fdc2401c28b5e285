"""What a run without a screen says, and when it fails."""

from __future__ import annotations

import pytest
from graphs import FILE
from playing import Play

from gradscope.findings.finding import Finding, Related
from gradscope.protocol import messages as m
from gradscope.session.headless import meets, summary
from gradscope.session.view import Exit


def recorded(*findings: Finding) -> Play:
    play = Play(m.Configure(record=1))
    play.session.browsed = False
    play.stop(1, "recorded", findings)
    play.tell(m.Committed(1, "true", ""))
    return play


def test_one_block_a_call():
    other = Related(FILE, 9, "x was made here")
    play = recorded(
        Finding("vanishing", "warning", "‖grad‖ falls to 1e-9", "use a norm layer", file=FILE, line=11, related=(other,))
    )
    assert list(summary(play.session.report(), Exit(0))) == [
        "gradscope: two_outputs.py · 1 backward call recorded · torch 2.13.0",
        f"  backward 1 · J.backward(gradient=v) · {FILE}:14",
        "    4 nodes · 4 steps · 1 leaf · exact: true",
        f"    warning vanishing · at {FILE}:11",
        "      ‖grad‖ falls to 1e-9",
        f"      {FILE}:9: x was made here",
        "      → use a norm layer",
    ]


def test_alike_findings_share_a_hint():
    play = recorded(
        *(Finding("missing-gradient", "warning", f"w{place} gets no gradient", "it was not used") for place in range(8))
    )
    lines = list(summary(play.session.report(), Exit(0)))
    assert lines[3:] == [
        "    warning missing-gradient",
        *(f"      w{place} gets no gradient" for place in range(5)),
        "      … and 3 more like these; --export has them all",
        "      → it was not used",
    ]


def test_calls_of_which_none_was_asked_for():
    play = Play(m.Configure(record=1))
    assert list(summary(play.session.report(), Exit(0), calls=3))[1:] == [
        "  of 3 backward calls none was one that --stop-at or --break asks for"
    ]


def test_a_script_without_a_call_that_dies():
    play = Play(m.Configure(record=1))
    assert list(summary(play.session.report(), Exit(139, 11, "killed by signal 11 (SIGSEGV)")))[1:] == [
        "  the script made no backward call that could be recorded",
        "  the script ended: killed by signal 11 (SIGSEGV)",
    ]


def test_a_script_without_a_call_that_ends_well():
    play = Play(m.Configure(record=1))
    assert list(summary(play.session.report(), Exit(0)))[1:] == [
        "  the script made no backward call that could be recorded",
        "  gradscope two_outputs.py without --headless lists the tensors that could be differentiated",
    ]


@pytest.mark.parametrize(
    ("kinds", "met"),
    [
        ((), False),
        (("any",), True),
        (("error",), False),
        (("vanishing", "cut"), True),
        (("cut",), False),
        (("orphan-parameter",), True),
    ],
)
def test_fail_on(kinds: tuple[str, ...], met: bool):
    play = recorded(Finding("vanishing", "warning", ""))
    play.tell(m.Diagnosed([Finding("orphan-parameter", "info", "")]))
    assert meets(play.session.report(), kinds) is met
