"""Every action with its keys: the one place that bindings, footer, palette, help screen and the README's table come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from textual.binding import Binding

States = frozenset[str]
"""values of `gradscope.session.view.State`"""

ALWAYS: States = frozenset({"starting", "running", "stopped", "ended", "crashed", "snapshot"})
RECORDED: States = frozenset({"stopped", "ended", "crashed", "snapshot"})
"""where a tape can be on the screen"""
STOPPED: States = frozenset({"stopped"})
SCRIPT: States = frozenset({"starting", "running", "stopped"})
"""where the script lives"""
MOVING: States = frozenset({"starting", "running"})
WITH_SCRIPT: States = ALWAYS - {"snapshot"}

WALK, SELECT, LOOK, SEEDS, CALLS, SCREEN = "Walk the pass", "Select", "Look closer", "Seed", "Script and calls", "Screen"
GROUPS = (WALK, SELECT, LOOK, SEEDS, CALLS, SCREEN)

NEVER_CUT = 0
"""rank of what the footer always shows"""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do."""

    id: str
    keys: tuple[str, ...]
    """As Textual names them, except that a character stands for itself; the first is the one that is shown."""
    call: str
    """The app's action: `step(1)`."""
    title: str
    """In the palette: `Step to the next node`."""
    text: str
    """In the help and the README; where two keys share a row, the second's text continues the first's."""
    group: str
    states: States = RECORDED
    label: str = ""
    """In the footer; empty for none."""
    rank: int = 9
    """The footer drops the highest first."""
    pair: str = ""
    """The action whose row it shares."""
    hidden: tuple[str, ...] = ()
    """Further keys that nothing mentions."""
    priority: bool = False
    """Also works while text is being typed."""


ACTIONS: tuple[Action, ...] = (
    # ------------------------------------------------------------ walk
    Action(
        "step", ("n",), "step(1)", "Step to the next node", "next node (visible row)", WALK, label="step", rank=1, hidden=("f10",)
    ),
    Action("step-back", ("N",), "step(-1)", "Step back one node", "previous", WALK, label="back", rank=2, pair="step"),
    Action("line", ("f",), "line(1)", "Run to the next source line", "next source line", WALK),
    Action("line-back", ("F",), "line(-1)", "Back to the previous source line", "previous", WALK, pair="line"),
    Action("module", ("m",), "module(1)", "Run to the end of this module", "to the end of this module", WALK),
    Action("module-back", ("M",), "module(-1)", "Back to the start of this module", "its start", WALK, pair="module"),
    Action(
        "run",
        ("c",),
        "run(1)",
        "Run to the next breakpoint, or the end",
        "to the next breakpoint, or the end",
        WALK,
        label="to end",
        rank=2,
    ),
    Action(
        "run-back", ("C",), "run(-1)", "Back to the previous breakpoint, or the start", "previous, or the start", WALK, pair="run"
    ),
    Action("finding", ("a",), "finding(1)", "Run to the next finding", "next finding", WALK, label="finding", rank=3),
    Action("finding-back", ("A",), "finding(-1)", "Back to the previous finding", "previous", WALK, pair="finding"),
    Action(
        "to-row", ("t",), "to_row", "Playhead to the selected row", "playhead to the selected row", WALK, label="to row", rank=7
    ),
    Action("go-to-step", ("#",), "go_to_step", "Go to a step by number", "go to a step by number", WALK),
    Action("play", ("space",), "play", "Play or pause the tape", "play / pause the tape", WALK),
    # ------------------------------------------------------------ select
    Action("down", ("j", "down"), "move(1)", "Select the next row", "select the next row", SELECT),
    Action("up", ("k", "up"), "move(-1)", "Select the previous row", "the previous", SELECT, pair="down"),
    Action("page-down", ("pagedown",), "page(1)", "Select a page further down", "a page down", SELECT),
    Action("page-up", ("pageup",), "page(-1)", "Select a page further up", "up", SELECT, pair="page-down"),
    Action("top", ("g", "home"), "edge(-1)", "Select the first row", "the first row", SELECT),
    Action("bottom", ("G", "end"), "edge(1)", "Select the last row", "the last", SELECT, pair="top"),
    Action("select-playhead", ("H",), "select_playhead", "Select the playhead's row", "select the playhead's row", SELECT),
    Action("fold", ("h", "left"), "fold", "Fold the selected row", "fold the selected row", SELECT),
    Action("unfold", ("l", "right"), "unfold", "Unfold the selected row", "unfold it", SELECT, pair="fold"),
    Action(
        "open", ("enter",), "open", "Open the selected row, or jump there", "open a fold, or the playhead jumps there", SELECT
    ),
    Action("toward-loss", ("u",), "follow(True)", "Follow an edge toward the loss", "follow an edge toward the loss", SELECT),
    Action(
        "toward-leaves",
        ("d",),
        "follow(False)",
        "Follow an edge toward the leaves",
        "toward the leaves",
        SELECT,
        pair="toward-loss",
    ),
    Action("search", ("/",), "search", "Search the tape", "search (/regex/, or text)", SELECT, label="find", rank=6),
    Action("next-match", (".",), "match(1)", "Next match", "next match", SELECT),
    Action("previous-match", (",",), "match(-1)", "Previous match", "previous", SELECT, pair="next-match"),
    # ------------------------------------------------------------ look closer
    Action("values", ("v",), "values", "Show all values of a gradient", "values full screen", LOOK),
    Action("factors", ("p",), "factors", "Factors along the path from the root", "factors along the path from the root", LOOK),
    Action("watch", ("w",), "watch", "Watch the selected gradient", "watch the selected gradient", LOOK),
    Action("copy", ("y",), "copy", "Copy what is selected", "copy what is selected", LOOK),
    Action(
        "edit-source", ("e",), "edit_source", "Open the source line in $EDITOR", "the source line in $EDITOR", LOOK, states=ALWAYS
    ),
    Action("next-tab", ("]",), "tab(1)", "Next tab", "next tab", LOOK, states=ALWAYS),
    Action("previous-tab", ("[",), "tab(-1)", "Previous tab", "previous", LOOK, states=ALWAYS, pair="next-tab"),
    # ------------------------------------------------------------ seed
    Action("seed", ("s",), "edit_seed", "Edit the seed", "edit the seed", SEEDS, states=STOPPED, label="seed", rank=4),
    Action(
        "seed-selected",
        ("S",),
        "seed_selected",
        "Seed the selected row's tensor",
        "seed the selected row's tensor",
        SEEDS,
        states=STOPPED,
    ),
    Action(
        "jacobian-back",
        ("(",),
        "jacobian(-1)",
        "Previous row of the Jacobian",
        "previous row of the Jacobian",
        SEEDS,
        states=STOPPED,
    ),
    Action("jacobian", (")",), "jacobian(1)", "Next row of the Jacobian", "next", SEEDS, states=STOPPED, pair="jacobian-back"),
    Action("pass-back", ("{",), "other_pass(-1)", "Show the previous pass", "previous pass", SEEDS),
    Action("pass", ("}",), "other_pass(1)", "Show the next pass", "next", SEEDS, pair="pass-back"),
    # ------------------------------------------------------------ script and calls
    Action(
        "resume",
        ("r",),
        "resume",
        "Resume the script",
        "resume the script",
        CALLS,
        states=STOPPED,
        label="resume",
        rank=3,
        hidden=("f5",),
    ),
    Action("next-call", (">",), "next_call", "On to the next backward call", "on to the next backward call", CALLS),
    Action(
        "earlier-call",
        ("<",),
        "earlier_call",
        "Back to an earlier backward call",
        "back to earlier calls",
        CALLS,
        pair="next-call",
    ),
    Action("rerun", ("R",), "rerun", "Run the script again", "run the script again (asks)", CALLS, states=WITH_SCRIPT),
    Action("break", ("b",), "toggle_break", "Breakpoint at the selected row", "breakpoint here", CALLS, hidden=("f9",)),
    Action("breaks", ("B",), "breaks", "List breakpoints", "list, with conditions", CALLS, states=ALWAYS, pair="break"),
    Action("export", ("E",), "export", "Export what was recorded", "export", CALLS, label="export", rank=4),
    Action(
        "interrupt",
        ("ctrl+c",),
        "interrupt",
        "Stop the script soon",
        "stop at the next backward call; again: interrupt; again: kill",
        CALLS,
        states=SCRIPT,
        priority=True,
    ),
    # ------------------------------------------------------------ screen
    Action("pane-1", ("1",), "pane(1)", "Go to the Tape", "the Tape", SCREEN, states=ALWAYS),
    Action("pane-2", ("2",), "pane(2)", "Go to the Source", "the Source", SCREEN, states=ALWAYS, pair="pane-1"),
    Action("pane-3", ("3",), "pane(3)", "Go to the Node", "the Node", SCREEN, states=ALWAYS, pair="pane-1"),
    Action("pane-4", ("4",), "pane(4)", "Go to the Seed", "the Seed", SCREEN, states=ALWAYS, pair="pane-1"),
    Action(
        "pane-5",
        ("5",),
        "pane(5)",
        "Go to Leaves, Findings, Output, Watch",
        "the tabs below",
        SCREEN,
        states=ALWAYS,
        pair="pane-1",
    ),
    Action("next-pane", ("tab",), "next_pane(1)", "Next pane", "next pane", SCREEN, states=ALWAYS),
    Action(
        "previous-pane", ("shift+tab",), "next_pane(-1)", "Previous pane", "previous", SCREEN, states=ALWAYS, pair="next-pane"
    ),
    Action("zoom", ("z",), "zoom", "Zoom the pane", "zoom the pane", SCREEN, states=ALWAYS),
    Action("back", ("escape",), "back", "Leave zoom and search", "leave it (and the search)", SCREEN, states=ALWAYS, pair="zoom"),
    Action("output", ("o",), "output", "Show the script's output", "the script's output", SCREEN, states=ALWAYS),
    Action("help", ("?",), "help", "All keys", "all keys", SCREEN, states=ALWAYS, label="keys", rank=NEVER_CUT, hidden=("f1",)),
    Action("palette", (":", "ctrl+p"), "palette", "Command palette", "command palette", SCREEN, states=ALWAYS),
    Action("suspend", ("ctrl+z",), "suspend", "Suspend to the shell", "suspend to the shell", SCREEN, states=ALWAYS),
    Action(
        "quit", ("q",), "quit", "Quit", "quit; asks while the script lives", SCREEN, states=ALWAYS, label="quit", rank=NEVER_CUT
    ),
)

BY_ID = {action.id: action for action in ACTIONS}

_NAMES = {
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "escape": "Esc",
    "down": "↓",
    "up": "↑",
    "left": "←",
    "right": "→",
    "home": "Home",
    "end": "End",
}
_TEXTUAL = {",": "comma"}  # a comma separates keys in Textual's bindings


def key_text(key: str) -> str:
    """A key as it is written for people: `ctrl+c` is `^c`."""
    return "^" + key[5:] if key.startswith("ctrl+") else _NAMES.get(key, key)


def lives(action: Action, state: str) -> bool:
    return state in action.states


def bindings() -> list[Binding]:
    """Every key of every action, as the app binds them."""
    return [
        Binding(_TEXTUAL.get(key, key), action.call, action.title, show=False, priority=action.priority)
        for action in ACTIONS
        for key in (*action.keys, *action.hidden)
    ]


def of_call(call: str) -> Action | None:
    """The action that a binding's call belongs to; the first where several share the method."""
    return next((action for action in ACTIONS if action.call == call), None)


def rows(group: str) -> Iterator[tuple[list[Action], str]]:
    """The group's rows as the help shows them: the actions that share a row, and its text."""
    for action in ACTIONS:
        if action.group == group and not action.pair:
            sharing = [action, *(other for other in ACTIONS if other.pair == action.id)]
            yield sharing, " / ".join(one.text for one in sharing)


def markdown_table() -> str:
    """The README's table of keys."""
    lines = ["| keys | what |", "|---|---|"]
    for group in GROUPS:
        lines.append(f"| **{group}** | |")
        for sharing, text in rows(group):
            keys = " ".join(f"`{key_text(key)}`" for action in sharing for key in action.keys)
            lines.append(f"| {keys} | {text} |")
    return "\n".join(lines) + "\n"
