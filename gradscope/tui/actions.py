"""Every action with its keys: the one place that bindings, footer, palette, help screen and the README's table come from."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from textual.actions import parse
from textual.binding import Binding

States = frozenset[str]
"""values of `gradscope.session.view.State`"""

ALWAYS: States = frozenset({"starting", "running", "stopped", "ended", "crashed", "snapshot"})
RECORDED: States = frozenset({"stopped", "ended", "crashed", "snapshot"})
"""where a tape can be on the screen"""
STOPPED: States = frozenset({"stopped"})
SCRIPT: States = frozenset({"starting", "running", "stopped"})
"""where the script lives"""
LAUNCHED: States = ALWAYS - {"snapshot"}

WALK, SELECT, LOOK = "Walk the pass", "Select", "Look closer"
SEED, CALLS, SCREEN = "Seed and what-ifs", "Script and calls", "Screen"
GROUPS = (WALK, SELECT, LOOK, SEED, CALLS, SCREEN)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do."""

    id: str
    bound: str
    """Its keys, as Textual names them except that a character stands for itself; the first is the one to mention."""
    call: str
    """The app's action; `drive('step', 1)` calls that method of the session."""
    title: str
    """In the palette."""
    text: str
    """In the help and the README; where actions share a row, the texts follow each other."""
    group: str
    states: States = RECORDED
    pair: str = ""
    """The action whose row it shares."""
    hidden: str = ""
    """Further keys that nothing mentions."""
    priority: bool = False
    """Also works while text is being typed."""

    @property
    def keys(self) -> list[str]:
        return self.bound.split()


ACTIONS: tuple[Action, ...] = (
    Action("step", "n", "drive('step', 1)", "Step to the next node", "next node (visible row)", WALK, hidden="f10"),
    Action("step-back", "N", "drive('step', -1)", "Step back one node", "previous", WALK, pair="step"),
    Action("line", "f", "drive('line', 1)", "Run to the next source line", "next source line", WALK),
    Action("line-back", "F", "drive('line', -1)", "Back to the previous source line", "previous", WALK, pair="line"),
    Action("module", "m", "drive('module', 1)", "Run to the end of this module", "to the end of this module", WALK),
    Action("module-back", "M", "drive('module', -1)", "Back to the start of this module", "to its start", WALK, pair="module"),
    Action("run", "c", "drive('run_to_break_or_end', 1)", "Run to a breakpoint", "to the next breakpoint or the end", WALK),
    Action("run-back", "C", "drive('run_to_break_or_end', -1)", "Back to a breakpoint", "back to one", WALK, pair="run"),
    Action("finding", "a", "finding(1)", "Run to the next finding", "next finding", WALK),
    Action("finding-back", "A", "finding(-1)", "Back to the previous finding", "previous", WALK, pair="finding"),
    Action("to-row", "t", "drive('to_row')", "Playhead to the selected row", "playhead to the selected row", WALK),
    Action("go-to-step", "#", "go_to_step", "Go to a step by number", "go to a step by number", WALK),
    Action("play", "space", "drive('play')", "Play or pause the tape", "play / pause the tape", WALK),
    # ------------------------------------------------------------ select
    Action("down", "j down", "drive('move', 1)", "Select the next row", "select the next row", SELECT),
    Action("up", "k up", "drive('move', -1)", "Select the previous row", "the previous", SELECT, pair="down"),
    Action("page-down", "pagedown", "page(1)", "Select a page further down", "a page down", SELECT),
    Action("page-up", "pageup", "page(-1)", "Select a page further up", "up", SELECT, pair="page-down"),
    Action("top", "g home", "edge(-1)", "Select the first row", "the first row", SELECT),
    Action("bottom", "G end", "edge(1)", "Select the last row", "the last", SELECT, pair="top"),
    Action("select-playhead", "H", "drive('select_playhead')", "Select the playhead's row", "select the playhead's row", SELECT),
    Action("fold", "h left", "drive('fold')", "Fold the selected row", "fold the selected row", SELECT),
    Action("unfold", "l right", "drive('unfold')", "Unfold the selected row", "unfold it", SELECT, pair="fold"),
    Action("fold-all", "-", "drive('fold_depth', -1)", "Fold everything one level", "fold everything one level", SELECT),
    Action("unfold-all", "+", "drive('fold_depth', 1)", "Unfold everything one level", "unfold it", SELECT,
           pair="fold-all", hidden="="),
    Action("plumbing", "P", "drive('toggle_plumbing')", "Hide or show view-like nodes", "hide or show view-like nodes", SELECT),
    Action("open", "enter", "open", "Open the selected row, or jump there", "open a fold; else the playhead jumps there", SELECT),
    Action("toward-loss", "u", "follow(True)", "Follow an edge toward the loss", "follow an edge toward the loss", SELECT),
    Action("toward-leaves", "d", "follow(False)", "Follow an edge toward the leaves", "the leaves", SELECT, pair="toward-loss"),
    Action("search", "/", "search", "Search the tape", "search: text, or /regex/", SELECT),
    Action("next-match", ".", "drive('match', 1)", "Next match", "next match", SELECT),
    Action("previous-match", ",", "drive('match', -1)", "Previous match", "previous", SELECT, pair="next-match"),
    # ------------------------------------------------------------ look closer
    Action("values", "v", "values", "Show all values of a gradient", "values full screen", LOOK),
    Action("factors", "p", "factors", "Factors along the path from the root", "factors along the path from the root", LOOK),
    Action("watch", "w", "drive('toggle_watch')", "Watch the selected gradient", "watch the selected gradient", LOOK),
    Action("check", "K", "check", "Check the node's backward", "check the node's backward against its forward", LOOK, STOPPED),
    Action("debug", "i", "debug", "Run a custom backward under pdb", "pdb inside a custom Function's backward", LOOK, STOPPED),
    Action("copy", "y", "copy", "Copy the selected row", "copy the selected row", LOOK),
    Action("edit-source", "e", "edit_source", "Open the source line in $EDITOR", "the source line in $EDITOR", LOOK, ALWAYS),
    Action("next-tab", "]", "tab(1)", "Next tab", "next tab", LOOK, ALWAYS),
    Action("previous-tab", "[", "tab(-1)", "Previous tab", "previous", LOOK, ALWAYS, pair="next-tab"),
    # ------------------------------------------------------------ seed
    Action("seed", "s", "edit_seed", "Edit the seed", "the seed: 1,10 · ones · onehot(3) · *2 · an expression", SEED, STOPPED),
    Action("seed-selected", "S", "drive('seed_selected')", "Seed the selected row", "seed the selected row", SEED, STOPPED),
    Action("jacobian-back", "(", "drive('jacobian_row', -1)", "Previous Jacobian row", "previous Jacobian row", SEED, STOPPED),
    Action("jacobian", ")", "drive('jacobian_row', 1)", "Next Jacobian row", "next", SEED, STOPPED, pair="jacobian-back"),
    Action("what-if", "x", "what_if", "What if this gradient were another",
           "what if the gradient here were another: *0.5 · zeros · clip(1) · an expression", SEED, STOPPED),
    Action("what-ifs", "X", "what_ifs", "List the what-ifs", "list them, take them back", SEED, pair="what-if"),
    Action("pass-back", "{", "drive('show_pass', -1)", "Show the previous pass", "previous pass", SEED),
    Action("pass", "}", "drive('show_pass', 1)", "Show the next pass", "next", SEED, pair="pass-back"),
    # ------------------------------------------------------------ script and calls
    Action("resume", "r", "resume", "Resume the script", "run on to the next stop or the end", CALLS, STOPPED, hidden="f5"),
    Action("next-call", ">", "next_call", "On to the next backward call", "on to the next backward call", CALLS),
    Action("earlier-call", "<", "drive('earlier_call')", "Back to an earlier call", "earlier ones", CALLS, pair="next-call"),
    Action("rerun", "R", "rerun", "Run the script again", "run the script again (asks)", CALLS, LAUNCHED),
    Action("break", "b", "drive('toggle_break')", "Breakpoint at the selected row", "breakpoint here", CALLS, hidden="f9"),
    Action("breaks", "B", "breaks", "List breakpoints", "list them, with conditions", CALLS, ALWAYS, pair="break"),
    Action("export", "E", "export", "Export what was recorded", "export", CALLS),
    Action("interrupt", "ctrl+c", "drive('interrupt')", "Stop the script at its next backward call",
           "stop the script at its next backward call; again: interrupt it; again: kill it", CALLS, SCRIPT, priority=True),
    # ------------------------------------------------------------ screen
    Action("pane-1", "1", "pane(1)", "Go to the Tape", "Tape", SCREEN, ALWAYS),
    Action("pane-2", "2", "pane(2)", "Go to the Source", "Source", SCREEN, ALWAYS, pair="pane-1"),
    Action("pane-3", "3", "pane(3)", "Go to the Node", "Node", SCREEN, ALWAYS, pair="pane-1"),
    Action("pane-4", "4", "pane(4)", "Go to the Seed", "Seed", SCREEN, ALWAYS, pair="pane-1"),
    Action("pane-5", "5", "pane(5)", "Go to Leaves, Findings, Output, Watch", "the tabs below", SCREEN, ALWAYS, pair="pane-1"),
    Action("next-pane", "tab", "focus_next", "Next pane", "next pane", SCREEN, ALWAYS),
    Action("previous-pane", "shift+tab", "focus_previous", "Previous pane", "previous", SCREEN, ALWAYS, pair="next-pane"),
    Action("zoom", "z", "zoom", "Zoom the pane", "zoom the pane", SCREEN, ALWAYS),
    Action("back", "escape", "leave", "Leave zoom and search", "leave zoom or search", SCREEN, ALWAYS, pair="zoom"),
    Action("output", "o", "output", "Show the script's output",
           "the script's output; there Enter: type to your script, Esc: back", SCREEN, ALWAYS),
    Action("help", "?", "help", "All keys", "all keys", SCREEN, ALWAYS, hidden="f1"),
    Action("palette", ": ctrl+p", "palette", "Command palette", "command palette", SCREEN, ALWAYS),
    Action("suspend", "ctrl+z", "suspend", "Suspend to the shell", "suspend to the shell", SCREEN, ALWAYS),
    Action("quit", "q", "quit", "Quit", "quit (asks while the script lives)", SCREEN, ALWAYS, hidden="ctrl+q"),
)  # fmt: skip

BY_ID = {action.id: action for action in ACTIONS}


@dataclass(frozen=True, slots=True)
class Hint:
    """An action in the footer."""

    id: str
    shown: str
    """the keys as written there"""
    label: str
    rank: int
    """the footer drops the highest first, 0 never"""
    when: str = ""
    """a fact that must hold besides the action's states: see `FACTS`"""

    @property
    def cells(self) -> int:
        return len(self.shown) + len(self.label) + 2

    @property
    def call(self) -> str:
        return BY_ID[self.id].call


TYPING: tuple[Hint, ...] = (
    Hint("open", "Enter", "run it", 0),
    Hint("back", "Esc", "leave the line", 0),
)
"""The footer while a line is being typed on the main screen."""

FACTS = {
    "matches": "a search shows matches",
    "vector": "the seed has several cells",
    "changed": "the pass has what-ifs",
    "moving": "the script runs",
    "typing": "keys go into a line",
    "has run": "the call has run already: no other pass can be tried",
}

FOOTER: tuple[Hint, ...] = (
    Hint("interrupt", "^c", "stop at the next call", 1, "moving"),
    Hint("output", "o", "output", 2, "moving"),
    Hint("next-match", ". ,", "next, previous match", 1, "matches"),
    Hint("step", "n", "step", 1),
    Hint("step-back", "N", "back", 2),
    Hint("run", "c", "to end", 2),
    Hint("finding", "a", "finding", 3),
    Hint("seed", "s", "seed", 3),
    Hint("what-ifs", "X", "what-ifs", 3, "changed"),
    Hint("search", "/", "find", 6),
    Hint("to-row", "t", "to row", 7),
    Hint("jacobian", "( )", "Jacobian row", 8, "vector"),
    Hint("resume", "r", "resume", 3),
    Hint("export", "E", "export", 4),
    Hint("help", "?", "keys", 0),
    Hint("quit", "q", "quit", 0),
)


def hints(state: str, facts: Set[str] = frozenset()) -> list[Hint]:
    """What the footer would say, were there room."""
    if "typing" in facts:
        return list(TYPING)
    without = ("seed", "jacobian") if "has run" in facts else ()
    return [
        hint
        for hint in FOOTER
        if lives(BY_ID[hint.id], state) and (not hint.when or hint.when in facts) and hint.id not in without
    ]


def lives(action: Action, state: str) -> bool:
    """Whether the action does anything in this state."""
    return state in action.states


def why_not(state: str) -> str:
    """Why an action that does not live in this state does nothing there."""
    return {
        "snapshot": "a snapshot: the script is not here",
        "starting": "the script has not stopped yet",
        "running": "the script runs: it has not stopped again yet",
        "ended": "the script is over: R runs it again",
        "crashed": "the script is over: R runs it again",
        "stopped": "the script stands still: r resumes it",
    }[state]


_NAMES = {
    **{"pagedown": "PgDn", "pageup": "PgUp", "escape": "Esc", "home": "Home", "end": "End"},
    **{"down": "↓", "up": "↑", "left": "←", "right": "→"},
}


def living() -> dict[tuple[str, tuple[object, ...]], States]:
    """The states of each action, by what Textual makes of its call."""
    return {parse(action.call)[1:]: action.states for action in ACTIONS}


def key_text(key: str) -> str:
    """A key as it is written for people."""
    return _NAMES.get(key, key)


def bindings() -> list[Binding]:
    """Every key of every action, as the app binds them."""
    return [
        Binding("comma" if key == "," else key, action.call, action.title, show=False, priority=action.priority)
        for action in ACTIONS
        for key in (*action.keys, *action.hidden.split())
    ]


def rows(group: str) -> Iterator[tuple[list[str], str]]:
    """The group's rows as help and README show them: keys and text."""
    for action in ACTIONS:
        if action.group == group and not action.pair:
            sharing = [action, *(other for other in ACTIONS if other.pair == action.id)]
            yield [key_text(key) for one in sharing for key in one.keys], " / ".join(one.text for one in sharing)


def markdown_table() -> str:
    """The README's table of keys."""
    lines = ["| keys | what |", "|---|---|"]
    for group in GROUPS:
        lines.append(f"| **{group}** | |")
        lines += [f"| {' '.join(f'`{key}`' for key in keys)} | {text} |" for keys, text in rows(group)]
    return "\n".join(lines) + "\n"
