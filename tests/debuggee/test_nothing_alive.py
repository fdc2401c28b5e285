"""What a stop without a call says where there is nothing to pick."""

from __future__ import annotations

from gradscope.debuggee.bare_stops import nothing_alive


def test_where_nothing_is_alive_the_advice_is_not_what_the_person_just_did() -> None:
    assert nothing_alive("line") == "no tensor with a graph is alive at this line: r runs on; --stop-at can name a later line"
    assert nothing_alive("end") == "no tensor with a graph is alive here; --stop-at FILE:LINE stops at a line where one is"
