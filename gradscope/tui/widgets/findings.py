"""The tab of findings: worst first, the picked one in full below."""

from __future__ import annotations

from pathlib import PurePath

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Static

from gradscope.findings.finding import Finding
from gradscope.session.view import View
from gradscope.tui import colours
from gradscope.tui.colours import ACCENT, ERROR, MUTED, TEXT, WARNING
from gradscope.tui.messages import FindingOpened
from gradscope.tui.widgets.line import Line
from gradscope.tui.widgets.pick_list import PickList

LETTERS = {
    "error": ("E", colours.error, ERROR),
    "warning": ("W", colours.warning, WARNING),
    "info": ("i", colours.accent, ACCENT),
}


class FindingList(PickList):
    """One line a finding."""

    def __init__(self) -> None:
        super().__init__()
        self.findings: tuple[Finding, ...] = ()

    def draw(self, row: int, width: int) -> Strip:
        finding = self.findings[row]
        letter, style, _ = LETTERS[finding.severity]
        line = Line().left(letter, 2, style)
        place = where(finding.file, finding.line)
        line.left(finding.message, max(8, width - line.width - len(place) - (2 if place else 0)))
        return line.add("  " + place if place else "", colours.muted).strip(width, self.background(row))

    def opened(self) -> Message | None:
        return FindingOpened(self.cursor) if self.findings else None

    def picked(self) -> None:
        if isinstance(self.parent, Findings):
            self.parent.describe()


class Findings(Vertical):
    """The list, and what there is to say of the picked one."""

    DEFAULT_CSS = """
    Findings VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }
    Findings Static { height: auto; width: 1fr; }
    """

    def __init__(self, id: str | None = "findings") -> None:
        super().__init__(id=id)
        self.list = FindingList()
        self._details = Static()

    def compose(self) -> ComposeResult:
        yield self.list
        with VerticalScroll(can_focus=False):
            yield self._details

    def show(self, view: View) -> None:
        """Draw this state."""
        if view.findings is not self.list.findings:
            self.list.findings = view.findings
            self.list.set_count(len(view.findings))
            self.list.cursor = min(self.list.cursor, max(0, len(view.findings) - 1))
            self.list.redraw()
            self._share()
            self.describe()

    def on_resize(self) -> None:
        self._share()

    def describe(self) -> None:
        """Write the picked finding in full."""
        findings = self.list.findings
        self._details.update(details(findings[self.list.cursor]) if findings else Content.styled("no findings", MUTED))

    def _share(self) -> None:
        """The list gets the lines it needs, at most half."""
        count = len(self.list.findings)
        self.list.styles.height = min(count, max(1, self.size.height // 2)) if self.size.height else count


def details(finding: Finding) -> Content:
    """Message, place, what to try, other places."""
    _, _, colour = LETTERS[finding.severity]
    place = where(finding.file, finding.line)
    at = " ".join(part for part in (finding.op, f"at {place}" if place else "") if part)
    lines = [
        Content.assemble((finding.kind, f"bold {colour}"), (f"  {finding.severity}", MUTED), (f"   {at}" if at else "", TEXT)),
        Content.styled(finding.message, TEXT),
    ]
    if finding.hint:
        lines.append(Content.assemble(("try: ", f"bold {TEXT}"), (finding.hint, TEXT)))
    lines += [Content.assemble((where(other.file, other.line), ACCENT), (f"  {other.what}", MUTED)) for other in finding.related]
    return Content("\n").join(lines)


def where(file: str, line: int) -> str:
    """`model.py:41`, `:41` is never shown alone; empty where unknown."""
    if not file:
        return ""
    return f"{PurePath(file).name}:{line}" if line else PurePath(file).name
