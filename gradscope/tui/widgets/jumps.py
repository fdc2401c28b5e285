"""Lines of a page that lead somewhere: Enter or a click on one goes there."""

from __future__ import annotations

from textual.content import Content, Span
from textual.style import Style

Goal = int | str
"""a node, or what a page does itself: `frames`, `order`"""

_KEY = "leads"


def leads(line: Content, goal: Goal) -> Content:
    """The line, leading to a goal; it looks as before."""
    return line.stylize(Style.from_meta({_KEY: goal}))


def goal_of(line: Content) -> Goal | None:
    """Where a line leads; None for one that leads nowhere."""
    return next((goal for span in line.spans if (goal := _goal(span)) is not None), None)


def _goal(span: Span) -> Goal | None:
    goal = span.style.meta.get(_KEY) if isinstance(span.style, Style) else None
    return goal if isinstance(goal, int | str) else None
