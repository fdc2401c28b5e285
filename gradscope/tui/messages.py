"""What panes and dialogs tell the app. The app's handlers are the only ones that call the session."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message
from textual.message_pump import MessagePump

# ---------------------------------------------------------------- the tape and the graph


@dataclass
class RowSelected(Message):
    """The selection goes to a visible row."""

    row: int


@dataclass
class RowOpened(Message):
    """Enter or a double click on a row: a fold opens or closes, any other row takes the playhead."""

    row: int


@dataclass
class FoldToggled(Message):
    """A click on a fold's mark."""

    row: int


@dataclass
class NodeWanted(Message):
    """The selection goes to a node, opening the folds around it; `run` takes the playhead along."""

    node: int
    run: bool = False


@dataclass
class StepWanted(Message):
    """The playhead goes to a step."""

    step: int


@dataclass
class SearchTyped(Message):
    """The search line's text, at each key."""

    text: str


@dataclass
class SearchEnded(Message):
    """The search line closes; `kept` leaves the matches."""

    kept: bool


@dataclass
class FindingOpened(Message):
    """Enter on a finding."""

    index: int
    """in `View.findings`"""


@dataclass
class WatchToggled(Message):
    """Pin or unpin a node's gradient."""

    node: int


@dataclass
class Said(Message):
    """Why a key did nothing."""

    notice: str


# ---------------------------------------------------------------- seeds and passes


@dataclass
class SeedTyped(Message):
    """Explore with these seeds, one text a root; an empty text is the script's own seed."""

    seeds: list[str]


@dataclass
class JacobianWanted(Message):
    """The seed becomes the next (1) or previous (-1) row of the Jacobian."""

    direction: int


@dataclass
class RootPicked(Message):
    """At a stop without a call: this live tensor is the root."""

    tensor: int
    seed: str


# ---------------------------------------------------------------- values


@dataclass
class FetchWanted(Message):
    """Part of a tensor is wanted; the answer comes as `TensorFetched` to the sender's screen."""

    tensor: int
    index: tuple[tuple[int, int, int], ...]
    """(start, stop, step) for each dimension"""
    asker: MessagePump | None = None
    """who hears the answer; the screen on top where it is None"""


@dataclass
class TensorFetched(Message):
    """A slice that was asked for, dense and row-major; posted to the screen on top."""

    tensor: int
    index: tuple[tuple[int, int, int], ...]
    shape: tuple[int, ...]
    values: list[float | int | bool]
    error: str = ""
    """why there is none: it was not held and cannot be got back"""


# ---------------------------------------------------------------- what nodes keep; what-ifs


class SavedWanted(Message):
    """What the nodes of the graph keep is wanted; `View.saved` will have it."""


@dataclass
class InspectWanted(Message):
    """What one node keeps is to be looked into; `View.inspected` will have it."""

    node: int


@dataclass
class SavedSliceWanted(Message):
    """Part of a saved tensor is wanted; the answer comes as `SavedFetched` to the asker."""

    node: int
    place: int
    """among the node's saved tensors"""
    index: tuple[tuple[int, int, int], ...]
    dtype: str
    asker: MessagePump


@dataclass
class SavedFetched(Message):
    """A slice of a saved tensor that was asked for, dense and row-major."""

    node: int
    place: int
    index: tuple[tuple[int, int, int], ...]
    dtype: str
    shape: tuple[int, ...]
    values: list[float | int | bool]
    error: str = ""


@dataclass
class ChangeUndone(Message):
    """Take back one what-if of the pass shown, by its place; None for all."""

    place: int | None


# ---------------------------------------------------------------- the script


@dataclass
class InputTyped(Message):
    """Bytes for the script's terminal."""

    data: bytes


@dataclass
class BreakAdded(Message):
    condition: str


@dataclass
class BreakRemoved(Message):
    condition: str


@dataclass
class ExportWanted(Message):
    """Write the stop to this file; the ending says the format."""

    path: str


@dataclass
class ActionWanted(Message):
    """Run an action of the registry as if its key had been pressed (footer, palette, help)."""

    call: str
