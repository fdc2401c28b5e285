"""What keys ask of a node beyond looking: what-ifs, checks, pdb, and what it keeps for backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on

from gradscope.errors import GradscopeError
from gradscope.tui import messages as m
from gradscope.tui.driving import NOTHING, Driving
from gradscope.tui.hosting import FRAME

if TYPE_CHECKING:
    from gradscope.session.session import Session
    from gradscope.session.view import View
    from gradscope.tui.screens.what_if import WhatIf

NO_NODE = "select a node's row first: l opens a fold, s edits the seed"
NOT_PYTHON = "{}'s backward is not Python of yours: pdb can go into a custom Function's"
NOT_IN_THE_CALL = "the what-ifs are no part of it: your script's own call runs without them"


class Exploring(Driving):
    """Each asks the session; the answers come with a later view."""

    _debugging = False
    """pdb has the script's terminal"""
    _tried: WhatIf | None = None
    """the what-if that was typed last"""
    _refused: WhatIf | None = None
    """it, where it could not be tried: `x` offers it again"""

    # ------------------------------------------------------------ what-ifs

    def action_what_if(self) -> None:
        """One line for the gradient at the selected row."""
        from gradscope.tui.screens.what_if import WhatIfPrompt
        from gradscope.tui.what_if_targets import targets

        if self.view is not None and self.view.has_run:
            self.say(self.view.tries_nothing)
            return
        found = targets(self.view) if self.view is not None else []
        if not found:
            self.say(NO_NODE if self.view is not None and self.view.tape is not None else NOTHING)
            return

        def change(typed: WhatIf | None) -> None:
            if typed is not None:
                at, self._tried = typed.target, typed
                self.drive(lambda session: session.change(typed.text, at.node, at.input_nr, at.edge))

        self.push_screen(WhatIfPrompt(found, self._refused), change)
        self._refused = None

    def complain(self, error: GradscopeError) -> None:
        """What was asked for has not come to be: a notice that it would is not true any more."""
        self._refused, self._tried = self._tried, None
        if self.session is not None:
            self.session.notice = ""
        super().complain(error)

    def action_what_ifs(self) -> None:
        from gradscope.tui.screens.what_ifs import WhatIfsScreen

        if self.view is not None and self.view.tape is not None:
            self.push_screen(WhatIfsScreen(self.view, self.view.state.value == "stopped"))
        else:
            self.say(NOTHING)

    @on(m.ChangeUndone)
    def _change_undone(self, event: m.ChangeUndone) -> None:
        self.drive(lambda session: session.undo_change(event.place))

    def _go_on(self, act: Callable[[Session, bool], object]) -> None:
        """Resume; the pass shown may have what-ifs, the script's own call never has."""
        tape = self.view.tape if self.view is not None else None

        def go(session: Session, edited: bool) -> None:
            act(session, edited)
            if tape is not None and tape.columns.changes and not session.live:
                self.notify(NOT_IN_THE_CALL, title="Resumed", markup=False)

        super()._go_on(go)

    # ------------------------------------------------------------ check, pdb

    def action_check(self) -> None:
        self._with_node(lambda session, node: session.check(node))

    def with_check(self, view: View) -> View:
        """A check that has come since the last view says in one line what it found, whatever tab is open."""
        if self.session is None or self.view is None or self.view.stop is not view.stop or self.view.checks is view.checks:
            return view
        new = [result for node, result in view.checks.items() if self.view.checks.get(node) is not result]
        if not new:
            return view
        from gradscope.tui.widgets.check_block import said

        self.session.notice = said(new[-1])
        return replace(view, notice=self.session.notice)

    def action_debug(self) -> None:
        """Run a custom Function's backward under pdb, in the script's terminal."""
        self._with_node(self._debug)
        if self.view is not None and self.view.busy is not None and self.view.busy.typing:
            self._debugging = True
            self.lend_terminal()

    def _debug(self, session: Session, node: int) -> None:
        graph = self.view.graph if self.view is not None else None
        if graph is not None and node not in graph.columns.backward_code:
            session.say(NOT_PYTHON.format(graph.short(node)))
        else:
            session.debug(node)

    def settle(self, view: View) -> None:
        """What was asked for is here; once they have left pdb, the person is back where they were."""
        if view.busy is None:
            self._tried = None
        if self._debugging and (view.busy is None or not view.busy.typing):
            self._debugging = False
            self.take_terminal_back()

    def lend_terminal(self) -> None:
        """Keys go to the script."""

    def take_terminal_back(self) -> None:
        """Keys are gradscope's again."""

    def _with_node(self, act: Callable[[Session, int], object]) -> None:
        from gradscope.tui.widgets.selected import selected

        row = selected(self.view) if self.view is not None else None
        node = None if row is None else row.node
        if row is None:
            self.say(NOTHING)
        elif node is None:
            self.say(NO_NODE)
        else:
            self.drive(lambda session: act(session, node))

    # ------------------------------------------------------------ what nodes keep

    @on(m.SavedWanted)
    def _saved_wanted(self) -> None:
        self._quietly(lambda session: session.read_saved())

    @on(m.InspectWanted)
    def _inspect_wanted(self, event: m.InspectWanted) -> None:
        self._quietly(lambda session: session.inspect(event.node))

    @on(m.SavedSliceWanted)
    def _saved_slice_wanted(self, event: m.SavedSliceWanted) -> None:
        def answer(fetched: object) -> None:
            part = (event.node, event.place, event.index, event.dtype)
            if isinstance(fetched, GradscopeError):
                event.asker.post_message(m.SavedFetched(*part, (), [], str(fetched)))
            else:
                shape, values = tuple(getattr(fetched, "shape", ())), list(getattr(fetched, "values", ()))
                event.asker.post_message(m.SavedFetched(*part, shape, values))

        self._quietly(lambda session: session.fetch_saved(event.node, event.place, list(event.index), answer))

    def _quietly(self, act: Callable[[Session], object]) -> None:
        """Ask for what a page lacks; later, if a thread has the session."""
        if self._reading:
            self.set_timer(FRAME, lambda: self._quietly(act))
        else:
            self.drive(act)
