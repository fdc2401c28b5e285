"""The registry of actions: everything that mentions a key comes from it."""

from __future__ import annotations

from collections import Counter

import pytest
from textual.binding import Binding

from gradscope.session.session import Session
from gradscope.session.view import State
from gradscope.tui import actions
from gradscope.tui.app import GradscopeApp


def test_states_are_those_of_the_session() -> None:
    assert {state.value for state in State} == actions.ALWAYS
    assert all(action.states <= actions.ALWAYS for action in actions.ACTIONS)


def test_no_key_is_bound_twice() -> None:
    keys = Counter(key for action in actions.ACTIONS for key in (*action.keys, *action.hidden.split()))
    assert [key for key, times in keys.items() if times > 1] == []


def test_every_call_exists() -> None:
    for (name, arguments), _ in actions.living().items():
        if name == "drive":
            assert callable(getattr(Session, str(arguments[0]))), arguments
        else:
            assert callable(getattr(GradscopeApp, f"action_{name}")), name


def test_app_binds_exactly_the_registry() -> None:
    bound = {binding.key: binding.action for binding in GradscopeApp.BINDINGS if isinstance(binding, Binding)}
    expected = {
        "comma" if key == "," else key: action.call
        for action in actions.ACTIONS
        for key in (*action.keys, *action.hidden.split())
    }
    assert bound == expected


def test_pairs_share_a_row_with_an_action_of_their_group() -> None:
    for action in actions.ACTIONS:
        if action.pair:
            assert actions.BY_ID[action.pair].group == action.group, action.id
            assert not actions.BY_ID[action.pair].pair, action.id


def test_upper_case_is_the_same_backward() -> None:
    by_key = {key: action for action in actions.ACTIONS for key in action.keys}
    for key in "nfmca":
        assert by_key[key.upper()].call == by_key[key].call.replace("1)", "-1)")


def test_table_mentions_every_key_but_the_hidden_ones() -> None:
    table = actions.markdown_table()
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    mentioned = {key for row in rows for key in row.split("|")[1].replace("`", "").split()}
    assert mentioned == {actions.key_text(key) for action in actions.ACTIONS for key in action.keys}
    assert "| `n` `N` | next node (visible row) / previous |" in rows


def test_footer_of_a_stop_is_the_pictured_one() -> None:
    words = " ".join(f"{hint.shown} {hint.label}" for hint in actions.hints("stopped", {"vector"}))
    assert words == ("n step N back c to end a finding s seed / find t to row ( ) Jacobian row r resume E export ? keys q quit")


@pytest.mark.parametrize("state", sorted(actions.ALWAYS))
def test_help_and_quit_live_everywhere(state: str) -> None:
    assert [hint.label for hint in actions.hints(state)][-2:] == ["keys", "quit"]


def test_a_script_that_runs_can_be_stopped() -> None:
    assert [hint.label for hint in actions.hints("running", {"moving"})] == ["stop at the next call", "output", "keys", "quit"]
