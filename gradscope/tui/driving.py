"""What keys and panes ask of the session: every action that looks at or changes what was recorded."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import on, work
from textual.message import Message
from textual.message_pump import MessagePump
from textual.timer import Timer

from gradscope.errors import GradscopeError
from gradscope.tui import messages as m
from gradscope.tui.hosting import FRAME, Failed, Hosting

if TYPE_CHECKING:
    from gradscope.model.tape import Tape
    from gradscope.session.session import Session
    from gradscope.session.view import View

BEAT = 0.25
"""seconds a step while the tape plays"""

SEARCHED_AT_ONCE = 100_000
"""steps; a longer tape is searched when the line is entered, not at each key"""

WITH_TENSORS = (".gscope", ".safetensors")


NOTHING = "nothing is recorded here"


class Exported(Message):
    def __init__(self, path: str, problem: str = "") -> None:
        super().__init__()
        self.path, self.problem = path, problem


class Driving(Hosting):
    """Each action calls the session, then everything is shown anew."""

    view: View | None = None
    _playing: Timer | None = None

    def drive(self, act: Callable[[Session], object]) -> None:
        """Let the session act, and show what came of it. Nothing happens while a thread has the session."""
        if self.session is not None and not self._reading:
            try:
                act(self.session)
            except GradscopeError as error:
                self.complain(error)
            self.refresh_view()

    def action_drive(self, method: str, *arguments: int) -> None:
        """What most keys do: one method of the session."""
        self.drive(lambda session: getattr(session, method)(*arguments))

    def complain(self, error: GradscopeError) -> None:
        """A fault that leaves everything as it was."""
        text = "\n".join(part for part in (error.why, error.hint) if part)
        self.notify(text or error.what, title=error.what if text else "", severity="error", timeout=10, markup=False)

    def say(self, notice: str) -> None:
        """One line about what a key did not do."""
        if self.session is not None and not self._reading:
            self.session.notice = notice
            self.refresh_view()

    def keep_time(self, view: View) -> None:
        """Tick while the tape plays."""
        if view.playing and self._playing is None:
            self._playing = self.set_interval(BEAT, lambda: self.drive(lambda session: session.tick()))
        elif not view.playing and self._playing is not None:
            self._playing.stop()
            self._playing = None

    # ------------------------------------------------------------ select

    def action_page(self, pages: int) -> None:
        self.drive(lambda session: session.move(pages * self.screen_rows))

    def action_edge(self, direction: int) -> None:
        rows = self.view.rows if self.view else None
        if rows is not None:
            self.drive(lambda session: session.select(0 if direction < 0 else len(rows) - 1))
        else:
            self.say(NOTHING)

    def action_open(self) -> None:
        if self.view is not None and self.view.rows is None and self.view.stop is not None and self.view.stop.live:
            self.action_roots()
        elif self.view is not None:
            self.open_row(self.view.selection)

    def open_row(self, row: int) -> None:
        """A fold opens or closes; to any other row the playhead goes."""
        rows = self.view.rows if self.view else None
        if rows is not None:
            self.drive(lambda session: session.toggle(row) if rows.folded(row) is not None else session.to_row(row))
        else:
            self.say(NOTHING)

    def action_follow(self, toward_loss: bool) -> None:
        from gradscope.tui.edge_choices import edge_choices
        from gradscope.tui.screens.choices import ChoicesScreen

        if self.session is None or self._reading:
            return
        choices = self.session.follow(toward_loss)
        self.refresh_view()
        if choices and self.view is not None and self.view.tape is not None:
            lines = edge_choices(self.view.tape, choices)
            heading = "Toward the loss" if toward_loss else "Toward the leaves"

            def go(place: int | None) -> None:
                if place is not None:
                    self.drive(lambda session: session.go_to_node(choices[place].node))

            self.push_screen(ChoicesScreen(heading, lines), go)

    def action_go_to_step(self) -> None:
        from gradscope.tui.screens.prompt import Prompt

        if self.view is None or self.view.tape is None:
            self.say(NOTHING)
            return

        def go(typed: str | None) -> None:
            if typed:
                self.drive(lambda session: session.to_step(int(typed)))

        self.push_screen(Prompt("go to step", placeholder=f"0 … {self.view.tape.steps}", integer=True), go)

    def action_search(self) -> None:
        from gradscope.tui.screens.prompt import SearchPrompt

        if self.view is None or self.view.rows is None:
            self.say(NOTHING)
            return

        def end(typed: str | None) -> None:
            self.drive(lambda session: session.set_search(typed or ""))

        self.push_screen(SearchPrompt("/", self.view.search, "text, or /regex/"), end)

    @on(m.SearchTyped)
    def _search_typed(self, event: m.SearchTyped) -> None:
        if self.view is not None and self.view.tape is not None and self.view.tape.steps <= SEARCHED_AT_ONCE:
            self.drive(lambda session: session.set_search(event.text, typing=True))

    # ------------------------------------------------------------ look closer

    def action_values(self) -> None:
        from gradscope.tui.screens.values import ValuesScreen

        if self.view is not None and self.view.tape is not None:
            self.push_screen(ValuesScreen(self.view))
        else:
            self.say(NOTHING)

    def action_factors(self) -> None:
        from gradscope.tui.screens.factors import FactorsScreen

        if self.session is None or self._reading:
            return
        factors = self.session.factors()
        self.refresh_view()
        if factors:
            self.push_screen(FactorsScreen(factors))

    def action_edit_source(self) -> None:
        """Open the editor at the selected row's line, else at the call's."""
        place = self._place()
        if place is None:
            return
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        file, line = place
        with self.suspend():
            problem = _run([*editor, f"+{line}", file])
        self.refresh(repaint=True, layout=True)
        if problem is not None:
            self.complain(problem)

    def _place(self) -> tuple[str, int] | None:
        view = self.view
        if view is None:
            return None
        if view.rows is not None and view.graph is not None and (node := view.rows.node(view.selection)) >= 0:
            origin = view.graph.origin(node)
            if origin is not None:
                return origin.file, origin.line
        if view.stop is not None:
            return view.stop.call.file, view.stop.call.line
        return view.script, 1

    @on(m.FetchWanted)
    def _fetch(self, event: m.FetchWanted) -> None:
        session, view = self.session, self.view
        if session is not None and view is not None and view.tape is not None:
            self._ask(session, view.tape, event, event.asker or self.screen)

    def _ask(self, session: Session, tape: Tape, event: m.FetchWanted, asker: MessagePump) -> None:
        """Ask for part of a tensor, later if a thread has the session."""
        if self._reading:
            self.set_timer(FRAME, lambda: self._ask(session, tape, event, asker))
            return

        def answer(fetched: object) -> None:
            if isinstance(fetched, GradscopeError):
                asker.post_message(m.TensorFetched(event.tensor, event.index, (), [], str(fetched)))
            else:
                shape, values = tuple(getattr(fetched, "shape", ())), list(getattr(fetched, "values", ()))
                asker.post_message(m.TensorFetched(event.tensor, event.index, shape, values))

        session.fetch(tape, event.tensor, list(event.index), answer)

    # ------------------------------------------------------------ what panes say

    @on(m.RowSelected)
    def _row_selected(self, event: m.RowSelected) -> None:
        self.drive(lambda session: session.select(event.row))

    @on(m.RowOpened)
    def _row_opened(self, event: m.RowOpened) -> None:
        self.open_row(event.row)

    @on(m.FoldToggled)
    def _fold_toggled(self, event: m.FoldToggled) -> None:
        self.drive(lambda session: session.toggle(event.row))

    @on(m.NodeWanted)
    def _node_wanted(self, event: m.NodeWanted) -> None:
        self.drive(lambda session: (session.to_node if event.run else session.go_to_node)(event.node))

    @on(m.Said)
    def _said(self, event: m.Said) -> None:
        self.say(event.notice)

    @on(m.StepWanted)
    def _step_wanted(self, event: m.StepWanted) -> None:
        self.drive(lambda session: session.to_step(event.step))

    @on(m.FindingOpened)
    def _finding_opened(self, event: m.FindingOpened) -> None:
        self.drive(lambda session: session.to_finding(event.index))

    @on(m.WatchToggled)
    def _watch_toggled(self, event: m.WatchToggled) -> None:
        self.drive(lambda session: session.toggle_watch(event.node))

    @on(m.SeedTyped)
    def _seed_typed(self, event: m.SeedTyped) -> None:
        self.drive(lambda session: session.explore(event.seeds))
        if self.view is not None and self.view.busy is None:
            self.seed_settled()

    def seed_settled(self) -> None:
        """What was typed as a seed needs no pass to be recorded."""

    @on(m.JacobianWanted)
    def _jacobian_wanted(self, event: m.JacobianWanted) -> None:
        self.drive(lambda session: session.jacobian_row(event.direction))

    @on(m.RootPicked)
    def _root_picked(self, event: m.RootPicked) -> None:
        self.drive(lambda session: session.pick_root(event.tensor, event.seed))

    @on(m.BreakAdded)
    def _break_added(self, event: m.BreakAdded) -> None:
        self.drive(lambda session: session.add_break(event.condition))

    @on(m.BreakRemoved)
    def _break_removed(self, event: m.BreakRemoved) -> None:
        self.drive(lambda session: session.remove_break(event.condition))

    @on(m.InputTyped)
    def _input_typed(self, event: m.InputTyped) -> None:
        self.type_to_script(event.data)

    @on(m.ActionWanted)
    async def _action_wanted(self, event: m.ActionWanted) -> None:
        await self.run_action(event.call)

    # ------------------------------------------------------------ the script goes on

    def action_resume(self) -> None:
        self._go_on(lambda session, edited: session.resume(edited))

    def action_next_call(self) -> None:
        if self.session is not None and self.session.live:
            self._go_on(lambda session, edited: session.on_next_call(edited))
        else:
            self.drive(lambda session: session.on_next_call())

    def _go_on(self, act: Callable[[Session, bool], object]) -> None:
        """Resume; after a seed edit ask which seed the script's own call gets."""
        from gradscope.tui.screens.resume import ResumeScreen

        def answered(edited: bool | None) -> None:
            if edited is not None:
                self.drive(lambda session: act(session, edited))

        if self.session is not None and self.session.can_resume_edited:
            self.push_screen(ResumeScreen(*self.session.seeds_to_choose), answered)
        else:
            answered(False)

    def action_rerun(self) -> None:
        from gradscope.tui.screens.quit import rerun_screen

        if self.options is not None:
            self.push_screen(rerun_screen(self.options.title), lambda place: self.run_again() if place == 0 else None)

    def action_breaks(self) -> None:
        from gradscope.tui.screens.breakpoints import BreaksScreen

        if self.view is not None:
            self.push_screen(BreaksScreen(self.view))

    def action_roots(self) -> None:
        from gradscope.tui.screens.roots import RootsScreen

        if self.view is not None:
            self.push_screen(RootsScreen(self.view))

    # ------------------------------------------------------------ export

    def action_export(self, path: str = "", problem: str = "") -> None:
        from gradscope.tui.screens.export import ExportScreen

        self.push_screen(ExportScreen(path, problem))

    @on(m.ExportWanted)
    def _export_wanted(self, event: m.ExportWanted) -> None:
        def write(missing: int) -> None:
            if self.session is not None:
                self._write(event.path, self.session.report(), missing)

        if event.path.endswith(WITH_TENSORS):
            self.drive(lambda session: session.collect(write))
        else:
            write(0)

    @work(thread=True, exclusive=True, exit_on_error=False, group="export")
    def _write(self, path: str, report: object, missing: int) -> None:
        from gradscope.export.formats import export

        try:
            export(report, path)  # type: ignore[arg-type]
        except GradscopeError as error:
            self.post_message(Exported(path, str(error)))
        else:
            self.post_message(Exported(path, ""))

    @on(Exported)
    def _exported(self, event: Exported) -> None:
        if event.problem:
            self.action_export(event.path, event.problem)
        else:
            self.notify(event.path, title="Written", markup=False)
        self.refresh_view()

    @on(Failed)
    async def _failed(self, event: Failed) -> None:
        from gradscope.tui.screens.error import ErrorScreen

        await self.started()
        self.push_screen(ErrorScreen(event.heading, event.error.what, event.error.why, event.error.hint))


def _run(editor: list[str]) -> GradscopeError | None:
    """Run the editor; why it could not be, if so."""
    try:
        subprocess.run(editor, check=False)
    except OSError as error:
        return GradscopeError(f"{editor[0]} could not be started", str(error), "set EDITOR to your editor")
    return None
