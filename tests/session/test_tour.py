"""`a` and `A` lead round all findings."""

from __future__ import annotations

import pytest
from graphs import two_outputs

from gradscope.findings.finding import Finding
from gradscope.session.stepping import Walk
from gradscope.session.tour import Tour


@pytest.fixture
def walk() -> Walk:
    """Steps: 1 Add, 2 Sin, 3 Mul, 4 x."""
    return Walk(*two_outputs())


def at(walk: Walk, step: int, message: str = "") -> Finding:
    return Finding("zero-gradient", "warning", message, node=walk.tape.node_at(step))


NOWHERE = Finding("cut", "error", "the graph was cut")


def test_round_the_findings_that_have_a_step(walk: Walk):
    tour, findings = Tour(), [at(walk, 3), at(walk, 1)]
    assert [(tour.go(walk, findings, 1), walk.playhead) for _ in range(3)] == [
        ("finding 1 of 2", 1),
        ("finding 2 of 2", 3),
        ("the last finding: back at the first", 1),
    ]
    assert [(tour.go(walk, findings, -1), walk.playhead) for _ in range(2)] == [
        ("the first finding: back at the last", 3),
        ("finding 1 of 2", 1),
    ]


def test_beyond_the_last_it_begins_again(walk: Walk):
    tour, findings = Tour(), [at(walk, 2)]
    walk.to_step(4)
    assert (tour.go(walk, findings, 1), walk.playhead) == ("the only finding", 2)
    assert (tour.go(walk, findings, 1), walk.playhead) == ("the only finding", 2)
    walk.to_step(4)
    assert (tour.go(walk, findings, -1), walk.playhead) == ("", 2)


def test_two_findings_of_one_step_are_met_one_by_one(walk: Walk):
    tour, findings = Tour(), [at(walk, 2, "one"), at(walk, 2, "two"), at(walk, 3, "three")]
    met = []
    for _ in range(3):
        tour.go(walk, findings, 1)
        met.append(tour.at and tour.at.message)
    assert met == ["one", "two", "three"]


def test_findings_without_a_step_come_last(walk: Walk):
    tour, findings = Tour(), [NOWHERE, at(walk, 2)]
    assert (tour.go(walk, findings, 1), walk.playhead, tour.at) == ("finding 1 of 2", 2, findings[1])
    assert (tour.go(walk, findings, 1), walk.playhead, tour.at) == ("this finding has no node in the graph", 2, NOWHERE)
    assert (tour.go(walk, findings, 1), tour.at) == ("the last finding: back at the first", findings[1])
    walk.to_step(4)
    assert (tour.go(walk, findings, 1), walk.playhead, tour.at) == ("this finding has no node in the graph", 4, NOWHERE)


def test_only_findings_without_a_step_and_none_at_all(walk: Walk):
    tour = Tour()
    walk.to_step(4)
    for where in (walk, None):
        assert (tour.go(where, [NOWHERE], 1), tour.at) == ("this finding has no node in the graph", NOWHERE)
    assert (tour.go(walk, (), 1), walk.playhead) == ("no findings", 4)
