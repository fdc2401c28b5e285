"""Pane 4: the seed, the gradient that the pass starts from, and the line that edits it."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Root
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import Value
from gradscope.session import passes, seeding
from gradscope.session.view import RefusedSeed, State, Stop, View
from gradscope.tui import numbers
from gradscope.tui.colours import ACCENT, ERROR, MUTED, SEED, TEXT, WARNING
from gradscope.tui.edits import edits
from gradscope.tui.messages import FetchWanted, SeedTyped, TensorFetched
from gradscope.tui.pane import Pane
from gradscope.tui.what_if_targets import spoken
from gradscope.tui.widgets import slice_grid
from gradscope.tui.widgets.seed_cells import SeedCells, Sheet, add_matrix, add_vector
from gradscope.tui.widgets.seed_line import SeedLine
from gradscope.tui.widgets.slice_grid import Slice
from gradscope.tui.widgets.tabs import TabBar

WORDS = ("ones", "onehot( )", "randn", "*2", "*-1", "mean", "sum")

WHAT_IFS_SHOWN = 3

HAS_RUN = "its call has run: nothing can be tried here"
HAS_RUN_AT_BREAK = "its call has run: R with --stop-at {number} to try seeds"

GRID_LINES = 4
"""lines of a seed that is too big for cells"""


class SeedPane(Pane):
    """Shows the seed of each root; `edit` opens one line where digits and words both go."""

    NUMBER = 4
    TITLE = "Seed"

    DEFAULT_CSS = """
    SeedPane .seed-line { height: 1; display: none; }
    SeedPane .seed-line Static { width: auto; }
    SeedPane TabBar { display: none; }
    SeedPane .seed-error { height: auto; display: none; }
    SeedPane.-editing .seed-line, SeedPane.-editing TabBar { display: block; }
    SeedPane.-editing .seed-line { layout: horizontal; }
    SeedPane.-refused .seed-error { display: block; }
    SeedPane.-refused TabBar { display: none; }
    """

    def __init__(self, id: str | None = "seed", classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._view: View | None = None
        self._drawn: tuple[object, ...] = ()
        self._root = 0
        self._cell = 0
        self._slices: dict[tuple[Tape, int], Slice] = {}
        self._asked: dict[int, Tape] = {}
        self._before: Widget | None = None
        """what had the focus when the line was opened"""
        self._submitted = False
        """what stands in the line is under way"""
        self._opened_for: Stop | None = None
        self._cells = SeedCells()
        self._prompt = Static()
        self._line = SeedLine()
        self._words = TabBar([(word, word) for word in WORDS], active="-")
        self._error = Static(classes="seed-error")

    def compose(self) -> ComposeResult:
        yield self._cells
        yield self._words
        with Horizontal(classes="seed-line"):
            yield self._prompt
            yield self._line
        yield self._error

    # ------------------------------------------------------------ what the app calls

    def show(self, view: View) -> None:
        stop = view.stop
        self._view = view
        state = (view.tape, stop, view.state, view.edited, stop and len(stop.passes), self._graph, stop and stop.refused_seed)
        if state == self._drawn:
            return
        accepted = self._submitted and view.tape is not None and view.tape is not self._drawn[0]
        if self._drawn and view.stop is not self._drawn[1]:
            self._slices.clear()
        self._drawn = state
        if self.editing and (accepted or view.state is not State.STOPPED):
            self.leave()
        self._root = min(self._root, max(0, len(self._roots) - 1))
        self._draw()
        self._open_unasked(view)

    def _open_unasked(self, view: View) -> None:
        """Once a stop, as soon as its roots are known: where there is no seed to go on with, or `--gradient` was none."""
        stop = view.stop
        if stop is None or stop is self._opened_for or not self._roots or view.state is not State.STOPPED:
            return
        if stop.refused_seed is not None:
            self._opened_for = stop
            self.call_after_refresh(self._refuse_typed, stop.refused_seed)
        elif stop.reason == "seed" and view.tape is None:
            self._opened_for = stop
            self.call_after_refresh(self.edit)

    def _refuse_typed(self, refused: RefusedSeed) -> None:
        self._line.value = refused.text
        self.refuse(refused.error.what, refused.error.why, refused.error.hint)

    @property
    def editing(self) -> bool:
        return self.has_class("-editing")

    def edit(self) -> None:
        """Open the line."""
        if self._view is None or self._view.state is not State.STOPPED or not self._roots:
            return
        if not self._line.has_focus:
            self._before = self.screen.focused
        self.add_class("-editing")
        self._draw()
        self._line.focus()

    def leave(self) -> None:
        """Close the line; what was applied stays."""
        self.remove_class("-editing", "-refused")
        self._submitted = False
        self._line.value = ""
        self._give_back()
        self._draw()

    def _give_back(self) -> None:
        """The focus goes to what had it before the line."""
        if self._line.has_focus and self._before is not None and self._before.is_attached:
            self._before.focus()
        elif self._line.has_focus:
            self.focus()

    def refuse(self, what: str, why: str = "", hint: str = "") -> None:
        """Say under the line why a seed was not taken, root and seed side by side; what was typed can be mended."""
        self._submitted = False
        self.edit()
        lines = [Content.styled(f"✗ {what}", f"bold {ERROR}")]
        if why:
            lines.append(Content.styled(why, TEXT))
        if self._roots:
            root = self._roots[self._root]
            lines.append(
                Content.assemble(
                    ("root ", MUTED),
                    f"{root.name} {numbers.shape(root.shape)} {root.dtype} {root.device}",
                    ("   seed ", MUTED),
                    self._line.value,
                )
            )
        if hint:
            lines.append(Content.styled(hint, MUTED))
        self._error.update(Content("\n").join(lines))
        self.add_class("-refused")

    # ------------------------------------------------------------ events

    @on(Input.Submitted)
    def _apply(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        if not text:
            self.leave()
            return
        self.remove_class("-refused")
        self._submitted = True
        self._give_back()
        self.post_message(SeedTyped(self._texts(text)))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()

    @on(SeedLine.Left)
    def _leave(self, event: SeedLine.Left) -> None:
        event.stop()
        self.leave()

    @on(SeedLine.Moved)
    def _move(self, event: SeedLine.Moved) -> None:
        event.stop()
        self._step(event.cells, event.rows, event.roots)

    @on(SeedCells.Picked)
    def _pick(self, event: SeedCells.Picked) -> None:
        event.stop()
        self._root, self._cell = event.root, event.cell
        self.edit()

    @on(TabBar.Chosen)
    def _insert(self, event: TabBar.Chosen) -> None:
        event.stop()
        self._line.insert_word(event.tab)

    @on(TensorFetched)
    def _take(self, event: TensorFetched) -> None:
        event.stop()
        tape = self._asked.pop(event.tensor, None)
        if tape is not None and not event.error:
            dtype = tape.tensors.dtype(event.tensor)
            self._slices = {(tape, event.tensor): Slice.of_cells(event.index, event.shape, event.values, dtype)}
            self._draw()

    def on_resize(self) -> None:
        self._draw()

    # ------------------------------------------------------------ editing

    def _texts(self, text: str) -> list[str]:
        """One text a root: this root's is new; a lone number sets the picked cell, everything else the whole seed."""
        tape = self._tape
        texts = [""] * len(self._roots)
        if tape is not None and tape.edited:
            texts = [seed.expression for seed in tape.seeds]
        values = self._values(self._root)
        if values is not None and len(values) > 1 and is_number(text):
            text = seeding.with_cell(values, self._cell, text)
        texts[self._root] = text
        return texts

    def _step(self, cells: int, rows: int, roots: int) -> None:
        """Pick another cell: along the last dimension, by rows, or of another root."""
        count = len(self._roots)
        if roots and count:
            self._root, self._cell = (self._root + roots) % count, 0
        shape = self._roots[self._root].shape if self._roots else ()
        size = len(self._values(self._root) or ())
        columns = shape[-1] if len(shape) > 1 else 1
        target = self._cell + cells + rows * (columns if len(shape) > 1 else 1)
        if 0 <= target < size:
            self._cell = target
        elif rows and count > 1:
            self._root, self._cell = (self._root + rows) % count, 0
        self._draw()

    # ------------------------------------------------------------ what there is

    @property
    def _tape(self) -> Tape | None:
        return self._view.tape if self._view is not None else None

    @property
    def _graph(self) -> BackwardGraph | None:
        view = self._view
        if view is None:
            return None
        return view.graph or (view.stop.graph if view.stop is not None else None)

    @property
    def _roots(self) -> list[Root]:
        """What is seeded: the roots of the call, or (with S) one node's tensor."""
        graph, tape = self._graph, self._tape
        if graph is None:
            return []
        if tape is None or tape.columns.root == UNKNOWN:
            return graph.roots
        node = tape.columns.root
        summary = tape.summary(tape.seeds[0].tensor)
        name = graph.gradient_name(node).removeprefix("∂") or graph.short(node)
        return [Root(node, tape.columns.root_input_nr, name, summary.shape, summary.dtype, summary.device)]

    def _values(self, root: int) -> tuple[Value, ...] | None:
        tape = self._tape
        return passes.cells(tape, root) if tape is not None and root < len(tape.seeds) else None

    # ------------------------------------------------------------ drawing

    def _draw(self) -> None:
        view = self._view
        width = self._cells.size.width or self.size.width
        if view is None or width == 0:
            return
        roots = self._roots
        names = ", ".join(dict.fromkeys(root.name for root in roots))
        loud = edits(view)
        edited = f"   {loud}, pass {view.tape.number}" if loud and view.tape is not None else ""
        self.set_title((f"Seed gradient of {names}" if names else "Seed") + edited)
        sheet = Sheet()
        for place, root in enumerate(roots):
            self._root_lines(sheet, place, root, width)
        if not roots:
            sheet.lines.append(Content.styled("no root yet", MUTED))
        self._what_if_lines(sheet, width)
        self._cells.write(sheet)
        self._prompt.update(Content.styled(self._prompt_text(), f"bold {SEED}"))
        self._line.placeholder = self._placeholder()

    def _root_lines(self, sheet: Sheet, place: int, root: Root, width: int) -> None:
        values = self._values(place)
        picked = self._cell if self.editing and place == self._root else None
        name = root.name if len(self._roots) > 1 else ""
        if values is None:
            self._big(sheet, place, root, width)
        elif not root.shape:
            text = numbers.short(values[0]) if values else ""
            tail = Content() if place or self.editing else self._scalar_hint()
            sheet.lines.append(Content.assemble((f"{root.name} [] ", MUTED), (text, SEED), tail))
        elif len(root.shape) == 1:
            add_vector(sheet, place, name, values, picked, width, self._hint(place))
        else:
            add_matrix(sheet, place, root.name, values, root.shape, picked, self._hint(place))

    def _what_if_lines(self, sheet: Sheet, width: int) -> None:
        """What else than the seed is not the script's own in this pass."""
        tape, graph = self._tape, self._graph
        changes = tape.columns.changes if tape is not None else []
        if tape is None or graph is None or not changes:
            return
        for change in changes[:WHAT_IFS_SHOWN]:
            line = Content.assemble(("what if  ", MUTED), (spoken(graph, tape, change), TEXT), (f"  {change.text}", WARNING))
            sheet.lines.append(line.truncate(width, ellipsis=True))
        more = f"{len(changes) - WHAT_IFS_SHOWN} more; " if len(changes) > WHAT_IFS_SHOWN else ""
        undo = "takes them back" if self._view is not None and self._view.state is State.STOPPED else "lists them"
        sheet.lines.append(Content.assemble((more, MUTED), ("X", ACCENT), (f" {undo}", MUTED)))

    def _big(self, sheet: Sheet, place: int, root: Root, width: int) -> None:
        """A seed without cells: what it is, and its corner; or that there is none yet."""
        tape, view = self._tape, self._view
        head = Content.styled(f"{root.name} {numbers.shape(root.shape)} {root.dtype}   ", MUTED)
        if tape is None or place >= len(tape.seeds):
            stop = view.stop if view is not None else None
            sheet.lines.append(Content.assemble(head, ("no seed", WARNING)))
            if stop is not None and stop.detail and place == 0:
                sheet.lines.append(Content.styled(stop.detail, WARNING))
            return
        seed = tape.seeds[place]
        norm = f"‖·‖ {numbers.norm(tape.summary(seed.tensor).norm)}"
        line = Content.assemble(head, (seed.expression or "given by the script", SEED), f"   {norm}   ")
        hint = self._hint(place)
        fits = line.cell_length + hint.cell_length <= width
        sheet.lines.append(line + hint if fits else line)
        if view is not None and view.has_run and not fits:
            sheet.lines.append(hint)
        part = self._slices.get((tape, seed.tensor))
        if part is not None:
            sheet.lines += slice_grid.write(part, width, GRID_LINES)
        elif seed.tensor not in self._asked and self._view is not None:
            self._asked[seed.tensor] = tape
            self.app.post_message(FetchWanted(seed.tensor, slice_grid.corner(tape.tensors.shape(seed.tensor)), self))

    def _hint(self, place: int) -> Content:
        """`s edit   ( ) row of the Jacobian`, or `row [1] of the Jacobian` where it is one."""
        view = self._view
        if place or self.editing or view is None or view.state is not State.STOPPED or view.tape is None:
            return Content()
        if view.has_run:
            return Content.styled(_has_run(view), WARNING)
        row = seeding.row_shown(view.tape, place)
        name = "row" if row is None else seeding.row_name(self._roots[place].shape, row)
        return Content.assemble(("s", ACCENT), (" edit   ", MUTED), ("( )", ACCENT), (f" {name} of the Jacobian", MUTED))

    def _scalar_hint(self) -> Content:
        if self._view is None or self._view.state is not State.STOPPED:
            return Content()
        if self._view.has_run:
            return Content.styled(f"   {_has_run(self._view)}", WARNING)
        return Content.assemble(("   scalar;  ", MUTED), ("S", ACCENT), (" seeds the selected row instead", MUTED))

    def _prompt_text(self) -> str:
        if not self._roots:
            return ""
        return f"{self._roots[self._root].name} = "

    def _placeholder(self) -> str:
        if not self._roots:
            return ""
        root, values = self._roots[self._root], self._values(self._root)
        cell = f"number for [{self._cell}] · " if values is not None and len(values) > 1 else ""
        return f"{cell}{'1,10 · ' if root.shape else '2.5 · '}word · expression   Esc leaves"


def is_number(text: str) -> bool:
    """Whether a person typed one number."""
    try:
        complex(text)
    except ValueError:
        return False
    return True


def _has_run(view: View) -> str:
    at_break = view.stop is not None and view.stop.reason == "breakpoint"
    return HAS_RUN_AT_BREAK.format(number=view.stop.call.number) if at_break and view.stop else HAS_RUN
