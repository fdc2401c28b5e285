"""The main screen: its panes and layouts, what is shown when, and how the program begins and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.actions import ActionParseResult, parse
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.dom import DOMNode
from textual.filter import LineFilter, NoColor
from textual.widget import Widget
from textual.widgets import Input

from gradscope.errors import GradscopeError
from gradscope.tui import actions, closing
from gradscope.tui.driving import NOTHING
from gradscope.tui.edits import edits
from gradscope.tui.exploring import Exploring
from gradscope.tui.glyphs import AsciiFilter, wants_ascii
from gradscope.tui.pane import Pane
from gradscope.tui.widgets.footer import Footer
from gradscope.tui.widgets.header import Header

if TYPE_CHECKING:
    from gradscope.findings.finding import Finding
    from gradscope.model.report import Report
    from gradscope.session.session import Session
    from gradscope.session.view import Stop, View
    from gradscope.settings import Options
    from gradscope.tui.widgets.lower import LowerPane
    from gradscope.tui.widgets.seed import SeedPane
    from gradscope.tui.widgets.source import SourcePane
    from gradscope.tui.widgets.tape import TapePane

_LIVING = actions.living()

TABBED = (2, 3, 5)
"""panes that have tabs, or files, to turn to"""


class GradscopeApp(Exploring, inherit_bindings=False):
    """The terminal debugger. `run` and `open_snapshot` below start it."""

    CSS_PATH = "app.tcss"
    TITLE = "gradscope"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-medium"), (170, "-wide")]  # noqa: RUF012  # Textual declares an instance variable
    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings()]

    def __init__(self, options: Options | None = None, session: Session | None = None, ascii_only: bool = False) -> None:
        super().__init__(options, session)
        self._ascii = AsciiFilter(enabled=ascii_only or wants_ascii())
        self._panes: dict[int, Pane] = {}
        self._told: Stop | None = None
        self._crash_told = False
        self._below = 3
        """the pane that narrow screens show under the Tape"""
        self._lent: tuple[str, Widget | None, int] = ("leaves", None, 3)
        """tab, focus and lower pane from before pdb had the script's terminal"""
        self.animation_level = "none"

    def get_line_filters(self) -> Sequence[LineFilter]:
        """NO_COLOR leaves no colour at all, and `--ascii` no sign that is not ASCII."""
        colourless = [NoColor()] if self.no_color else []
        return [*super().get_line_filters(), *colourless, *([self._ascii] if self._ascii.enabled else [])]

    # ------------------------------------------------------------ what there is to see

    def compose(self) -> ComposeResult:
        yield Header(self.options.title if self.options else "", id="header")
        yield Container(*([] if self.options else self._columns()), id="body")
        yield Footer(id="footer")

    def on_mount(self) -> None:
        # Textual 8.2 leaves the screen blank when the shell brings the program back
        self.app_resume_signal.subscribe(self, lambda _: self.set_timer(0.05, self._repaint))
        if self.options is not None:
            self.call_after_refresh(self.start_script)
        else:
            self._settle()
            self.call_after_refresh(self.refresh_view)

    def _columns(self) -> list[Widget]:
        from gradscope.tui import body

        return body.columns()

    def _settle(self) -> None:
        """The panes are there."""
        self._panes = {pane.NUMBER: pane for pane in self.query(Pane)}
        self._put_below(3)
        self.tape.focus()
        if self.session is not None:
            self.session.on_error = self.complain

    def refresh_view(self) -> None:
        if self.session is not None and not self._reading:
            self.show(self.session.view())

    def show(self, view: View) -> None:
        """Draw this state on every pane, as one repaint."""
        self.view = view = self.with_check(view)
        with self.batch_update():
            self.query_one(Header).show(view)
            self.query_one(Footer).show(view)
            for pane in self._panes.values():
                pane.show(view)
            self.screen_stack[0].set_class(bool(edits(view)), "edited")
        self.keep_time(view)
        self.settle(view)
        self._tell(view)

    def _tell(self, view: View) -> None:
        """Open what a new state calls for: the roots to pick from, the traceback of a crash."""
        stop = view.stop
        if stop is not None and stop.reason == "error" and view.state.value == "stopped" and stop is not self._told:
            self._told, self._crash_told = stop, True
            self._tell_error(view, stop)
        if stop is not None and stop.live and stop.graph is None and view.state.value == "stopped" and stop is not self._told:
            self._told = stop
            self.action_roots()
        if view.state.value == "crashed" and not self._crash_told:
            self._crash_told = True
            from gradscope.tui.screens.error import ErrorScreen

            gone = view.exit
            what, traceback = (gone.message, gone.traceback) if gone else ("", "")
            hint = "what was recorded stays here to look at; R runs the script again"
            self.push_screen(ErrorScreen("The script crashed", what or "it died", "", hint, traceback))

    def _tell_error(self, view: View, stop: Stop) -> None:
        """What ended the script, and the finding that explains it."""
        from gradscope.tui.screens.error import ErrorScreen

        place = stop.call.file, stop.call.line
        found = next((one for one in view.findings if one.severity == "error" and (one.file, one.line) == place), None)
        ahead = "what is alive can be looked at here; r lets the script end"
        why, hint = (found.message, f"{found.hint}\n\n{ahead}" if found.hint else ahead) if found else ("", ahead)
        self.push_screen(ErrorScreen("The script failed", stop.detail, why, hint, stop.traceback, detailed=False))
        self._put_below(5)

    def complain(self, error: GradscopeError) -> None:
        """A seed that is refused is told at the seed's line, anything else in a corner."""
        seed = cast("SeedPane", self._panes.get(4))
        if seed is not None and seed.editing:
            seed.refuse(error.what, error.why, error.hint)
        else:
            super().complain(error)

    def seed_settled(self) -> None:
        cast("SeedPane", self._panes[4]).leave()

    # ------------------------------------------------------------ which keys live

    @property
    def state_name(self) -> str:
        return self.view.state.value if self.view is not None else "starting"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key does nothing in a state that its action does not live in, and little before the panes are there."""
        if not self._panes and action not in ("quit", "help", "suspend"):
            return False
        states = _LIVING.get((action, parameters))
        return states is None or self.state_name in states

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action; where it does not live now, say why."""
        parsed = parse(action) if isinstance(action, str) else action
        if default_namespace in (None, self) and not self.check_action(*parsed[1:]) and parsed[1:] in _LIVING:
            self.say(actions.why_not(self.state_name))
            return True
        return await super().run_action(action, default_namespace, namespaces)

    def say(self, notice: str) -> None:
        if self.session is not None:
            super().say(notice)
        else:
            self.query_one(Footer).say(notice)

    # ------------------------------------------------------------ panes

    @property
    def tape(self) -> TapePane:
        return cast("TapePane", self._panes[1])

    @property
    def lower(self) -> LowerPane:
        return cast("LowerPane", self._panes[5])

    @property
    def screen_rows(self) -> int:
        return self.tape.page if self._panes else 40

    def action_pane(self, number: int) -> None:
        """Focus a pane; below 100 columns it also takes the place under the Tape."""
        pane = self._panes[number]
        if pane.NUMBER != 1:
            self._put_below(number)
        if self.screen.has_class("-zoom"):
            self._zoom(pane)
        self.screen.set_focus(pane, scroll_visible=False)

    def action_tab(self, direction: int) -> None:
        pane = self._focused_pane()
        cast("LowerPane", pane if pane.NUMBER in TABBED else self._panes[3]).tab(direction)

    def action_finding(self, direction: int) -> None:
        """To the next finding, with what it says in sight; also where it has no node to go to."""
        self.drive(lambda session: session.finding(direction))
        if self.view is not None and self.view.findings:
            self.lower.open_finding(self.view.finding)
            self._put_below(5)

    def action_output(self) -> None:
        """Show what the script wrote; where it waits for an answer, keys go to it at once."""
        self.lower.open_tab("output")
        self.action_pane(5)
        if self.view is not None and self.view.waiting:
            self.call_after_refresh(self.lower.type_to_script)

    def lend_terminal(self) -> None:
        """pdb speaks through the script's terminal: show it, with keys going there."""
        self._lent = (self.lower.open_name, self.screen.focused, self._below)
        self.lower.open_tab("output")
        self.action_pane(5)
        self.call_after_refresh(lambda: self.lower.type_to_script() if self._debugging else None)  # it may be refused by then

    def take_terminal_back(self) -> None:
        tab, focused, below = self._lent
        self.lower.open_tab(tab)
        self._put_below(below)
        self.screen_stack[0].set_focus(focused if focused is not None and focused.is_attached else self.tape)

    def _place(self) -> tuple[str, int] | None:
        """What the editor opens: the line under the Source pane's cursor where that pane has the keys, else the selection's."""
        pane = self._focused_pane() if self._panes else None
        place = cast("SourcePane", pane).place if pane is not None and pane.NUMBER == 2 else None
        return place or super()._place()

    def action_edit_seed(self) -> None:
        if self.view is not None and self.view.has_run:
            self.say(self.view.tries_nothing)
            return
        cast("SeedPane", self._panes[4]).edit()

    def action_zoom(self) -> None:
        self._zoom(None if self.screen.has_class("-zoom") else self._focused_pane())

    def action_leave(self) -> None:
        """Esc: out of the zoom, else out of the search, else to the Tape; never out of the program."""
        if self.screen.has_class("-zoom"):
            self._zoom(None)
        elif self.view is not None and (self.view.search or self.view.notice):
            self.drive(lambda session: session.set_search(""))
        else:
            self.tape.focus()

    def _focused_pane(self) -> Pane:
        focused = self.screen.focused
        around = focused.ancestors_with_self if focused is not None else []
        return next((node for node in around if isinstance(node, Pane)), self.tape)

    def _put_below(self, number: int) -> None:
        """Choose the pane that narrow screens show under the Tape."""
        self._below = number
        for pane in self._panes.values():
            pane.set_class(number == pane.NUMBER, "-below")
        below = self._panes[number]
        for column in self.query(".-column"):
            column.set_class(column in below.ancestors, "-holds-below")

    def _zoom(self, pane: Pane | None) -> None:
        """Show one pane alone; None shows all again."""
        around: list[Widget] = [] if pane is None else [node for node in pane.ancestors_with_self if isinstance(node, Widget)]
        with self.batch_update():
            self.screen.set_class(pane is not None, "-zoom")
            for widget in (*self.query(".-column"), *self._panes.values()):
                widget.set_class(widget in around, "-zoomed")

    # ------------------------------------------------------------ the script's side

    def load(self) -> None:
        from gradscope.tui import body

        assert body

    def warm(self, session: Session) -> None:
        from gradscope.tui.widgets import source_marks

        tape = session.view().tape
        if tape is not None:
            session.warm()
            source_marks.warm(tape)

    async def started(self) -> None:
        if not self._panes:
            with self.batch_update():
                await self.query_one("#body").mount_all(self._columns())
                self._settle()
        self._told, self._crash_told = None, False
        if self.session is not None:
            self.session.on_error = self.complain
            self.session.screen_rows = self.screen_rows
        if self.terminal is not None:
            self.lower.attach(self.terminal)

    def output_came(self) -> None:
        self.lower.output_came()

    def on_resize(self, event: events.Resize) -> None:
        self.resize_script(event.size.height, event.size.width)

    # ------------------------------------------------------------ screens over this one

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _tell_footer(self) -> None:
        self.query_one(Footer).typing = isinstance(self.screen_stack[0].focused, Input)

    def action_copy(self) -> None:
        text = self.tape.selected_text()
        if not text:
            self.say(NOTHING)
        else:
            self.copy_to_clipboard(text)
        self.drive(lambda session: session.say(f"copied: {text}" if text else "no row to copy"))

    def action_help(self) -> None:
        from gradscope.tui.screens.help import HelpScreen

        self.push_screen(HelpScreen())

    def action_palette(self) -> None:
        from textual.command import CommandPalette

        from gradscope.tui.palette import ActionsProvider

        if not CommandPalette.is_open(cast("App[object]", self)):
            self.push_screen(CommandPalette(providers=[ActionsProvider], placeholder="what to do"))

    def action_suspend(self) -> None:
        self.action_suspend_process()

    def _repaint(self) -> None:
        self.refresh(repaint=True, layout=True)

    async def action_quit(self) -> None:
        """Ask what becomes of the script, if it lives."""
        from gradscope.tui.screens.quit import Quit, quit_screen

        if self.bridge is None or self.state_name not in actions.SCRIPT:
            self.exit(self.exit_code)
            return

        def answered(choice: int | None) -> None:
            if choice == Quit.STOP:
                self.end_script()
            elif choice == Quit.FINISH and self.session is not None:
                self.follow_script = True
                self.session.let_finish()
                self.exit(0)

        title = self.options.title if self.options else "the script"
        self.push_screen(quit_screen(title, stopped=self.state_name == "stopped"), answered)


def run(options: Options) -> int:
    """Run a script under the screen. Gives the exit code: the script's own."""
    with closing.terminal_of_our_own():
        app = GradscopeApp(options, ascii_only=options.ascii)
        code = app.run()
    return closing.finish(app, app.return_code or 0 if code is None else code)


def open_snapshot(report: Report[Finding], ascii: bool = False) -> int:
    """Look at what a snapshot holds."""
    from gradscope.session.session import Session

    with closing.terminal_of_our_own():
        app = GradscopeApp(session=Session.from_snapshot(report), ascii_only=ascii)
        app.run()
    return app.return_code or 0
