"""The script's output in a pane that is narrower than the script's terminal: every character is somewhere."""

from __future__ import annotations

import string

import pytest
from views import waiting_view

from gradscope.session import terminal as terminals
from gradscope.session.terminal import Terminal
from gradscope.session.view import State
from gradscope.tui.app import GradscopeApp
from gradscope.tui.widgets.wrapping import Wrapping


def rows(terminal: Terminal, wrapping: Wrapping) -> list[str]:
    return ["".join(text for text, _ in wrapping.row(row, terminal)) for row in range(len(wrapping))]


def fed(text: str, columns: int = 40, lines: int = 3) -> Terminal:
    terminal = Terminal(lines, columns)
    terminal.feed(text.replace("\n", "\r\n").encode())
    while terminal.catch_up(1.0):
        pass
    return terminal


def test_long_lines_go_on_in_the_next_row() -> None:
    terminal, wrapping = fed("abcdefghij\n\nxyz", lines=10), Wrapping()
    wrapping.update(terminal, 4)
    assert rows(terminal, wrapping) == ["abcd", "efgh", "ij", "", "xyz"]
    assert wrapping.cursor(terminal) == (4, 3)
    wrapping.update(terminal, 10)
    assert rows(terminal, wrapping) == ["abcdefghij", "", "xyz"]


def test_wide_characters_are_not_lost() -> None:
    terminal, wrapping = fed("日本語", lines=10), Wrapping()
    wrapping.update(terminal, 4)
    assert rows(terminal, wrapping) == ["日本", "語"]


def test_colours_stay_with_their_letters() -> None:
    terminal, wrapping = fed("ab\x1b[31mcdef\x1b[0mgh", lines=10), Wrapping()
    wrapping.update(terminal, 4)
    assert [[(text, style.fg) for text, style in wrapping.row(row, terminal)] for row in range(2)] == [
        [("ab", "default"), ("cd", "red")],
        [("ef", "red"), ("gh", "default")],
    ]


def test_what_comes_later_and_what_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminals, "SCROLLBACK", 5)
    terminal, wrapping = Terminal(3, 40), Wrapping()
    terminal._history = type(terminal._history)(maxlen=5)
    for number in range(40):
        terminal.feed(f"line {number:02} of it\r\n".encode())
        terminal.catch_up(1.0)
        wrapping.update(terminal, 8)
        expected = [terminal.line(line) for line in range(len(terminal))]
        whole = ["".join(text for text, _ in line) for line in expected]
        assert rows(terminal, wrapping) == [line[start : start + 8] for line in whole for start in range(0, max(1, len(line)), 8)]
    assert terminal.dropped > 30


@pytest.mark.parametrize("keys", [["o"], ["o", "z"]])
@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_no_letter_of_a_full_line_is_lost(shown, sight, size, keys) -> None:
    line = (string.ascii_letters + string.digits) * 4
    async with shown(waiting_view(State.RUNNING), size) as pilot:
        assert isinstance(pilot.app, GradscopeApp)
        pilot.app.lower.attach(fed(line[: size[0]] + "\nnext\n", columns=size[0], lines=size[1]))
        await pilot.press(*keys)
        await pilot.pause()
        lower = sight(pilot).pane("lower")
    assert line[: size[0]] in "".join(part.strip(" ▔▁│") for part in lower[2:])
    assert lower[0].startswith("━5 Enter: type to your script · Esc: back")


@pytest.mark.parametrize("lines", [1, 30])
async def test_no_letter_is_lost_beside_the_scroll_bar(shown, sight, lines) -> None:
    line = (string.ascii_letters + string.digits) * 32
    async with shown(waiting_view(State.RUNNING)) as pilot:
        pilot.app.lower.attach(fed("short\n" * lines + line, columns=len(line), lines=36))
        await pilot.press("o")
        await pilot.pause()
        rows = [row.strip(" ▔▁▂▃▄▅▆▇█│") for row in sight(pilot).pane("lower")[2:]]
        written = "".join(row for row in rows if row != "short")
    assert len(written) > 300
    assert written in line


async def test_a_script_that_waits_is_typed_to_at_once(shown, sight) -> None:
    async with shown(waiting_view(State.RUNNING, waiting=True)) as pilot:
        assert isinstance(pilot.app, GradscopeApp)
        pilot.app.lower.attach(fed("name? ", columns=120, lines=36))
        await pilot.press("o")
        await pilot.pause()
        assert sight(pilot).pane("lower")[0].startswith("━5 keys go to your script · Esc: back")
        typed: list[bytes] = []
        pilot.app.type_to_script = typed.append  # type: ignore[method-assign]
        await pilot.press("z", "e", "d", "enter")
        await pilot.pause()
        assert b"".join(typed) == b"zed\r"
