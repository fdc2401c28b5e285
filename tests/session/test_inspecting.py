"""What nodes keep, asked of a debuggee that a test plays, and of a real one."""

from __future__ import annotations

import textwrap
from pathlib import Path

from graphs import Drawing
from living import living
from playing import Play
from saved_rows import Row, saved_columns

from gradscope.errors import GradscopeError
from gradscope.export import snapshot
from gradscope.model.saved import HERE
from gradscope.model.tensors import TensorTable
from gradscope.protocol import messages as m
from gradscope.session.session import Session

COLUMNS = saved_columns([Row(0, "self", 0), Row(1, "result", 1)], [(8, "leaf x"), (8, "")])


def looked(play: Play, node: int, request: int) -> m.Inspected:
    """Answers with the seed of the pass as the one tensor that is kept."""
    return m.Inspected(request, node, play.shown.tensors.columns, list(range(len(play.shown.tensors))), [("dim", "1")], [])


def test_small_graphs_are_read_before_anybody_asks(play: Play) -> None:
    (early,) = play.early
    play.session.read_saved()
    assert play.sent == []  # it is on its way
    play.tell(m.SavedRead(early.request, COLUMNS))
    saved = play.session.view().saved
    assert saved is not None
    assert saved.total == 16
    play.session.read_saved()
    assert play.sent == []


def test_what_was_read_stays_with_its_stop(play: Play) -> None:
    play.tell(m.SavedRead(play.early[0].request, COLUMNS), m.Resumed())
    play.stop(2)
    assert play.session.view().saved is None
    play.session.earlier_call()
    assert play.session.view().saved is not None
    play.session.inspect(0)
    assert play.sent == []
    assert "was not looked into while the script stood still" in play.session.notice


def test_what_is_refused_early_can_be_asked_for_again(play: Play) -> None:
    play.tell(m.Refused(play.early[0].request, "no", "why"))
    assert play.session.notice == ""
    play.session.read_saved()
    (request,) = play.take()
    assert isinstance(request, m.ReadSaved)
    play.tell(m.Refused(request.request, "no", "why"))
    assert play.session.notice == "no: why"


def test_a_node_is_looked_into_once(play: Play) -> None:
    play.session.inspect(1)
    play.session.inspect(1)
    (request,) = play.take()
    assert request == m.Inspect(1, 1)
    play.tell(looked(play, 1, 1))
    assert dict(play.session.view().inspected[1].attributes) == {"dim": "1"}
    play.session.inspect(1)
    assert play.take() == []


def test_slices_of_saved_tensors(play: Play) -> None:
    got: list[m.TensorSlice | GradscopeError] = []
    play.session.fetch_saved(1, 0, [(0, 2, 1)], got.append)
    (request,) = play.take()
    assert request == m.FetchSaved(1, 1, 0, [(0, 2, 1)])
    play.tell(m.TensorSlice(1, (2,), [5.0, 6.0]))
    play.tell(looked(play, 1, 0))
    seed = play.shown.seeds[0].tensor
    play.session.fetch_saved(1, seed, [(1, 2, 1)], got.append)
    play.session.resume()
    play.session.fetch_saved(0, 0, [(0, 2, 1)], got.append)
    first, second, third = got
    assert isinstance(first, m.TensorSlice)
    assert isinstance(second, m.TensorSlice)
    assert isinstance(third, GradscopeError)
    assert (first.values, second.values, third.why) == ([5.0, 6.0], [10.0], "the script has run on since")


def test_a_snapshot_keeps_what_was_read(play: Play, tmp_path: Path) -> None:
    play.tell(m.SavedRead(play.early[0].request, COLUMNS), looked(play, 1, 0))
    path = tmp_path / "a.gscope"
    path.write_bytes(b"".join(snapshot.chunks(play.session.report())))
    session = Session.from_snapshot(snapshot.read(str(path)))
    view = session.view()
    assert view.saved is not None
    assert [(one.name, one.bytes, one.owner) for one in view.saved.of_node(0)] == [("self", 8, "leaf x")]
    assert view.inspected[1].attributes == [("dim", "1")]
    session.inspect(0)
    assert session.notice == "what this node keeps was not looked into before the snapshot was saved"


def test_nothing_is_asked_where_nothing_is_recorded() -> None:
    play = Play(drawing=Drawing())
    play.session.read_saved()
    play.session.inspect(0)
    assert play.sent == []
    assert play.session.notice == "nothing is recorded yet"


SCRIPT = """
import torch

net = torch.nn.Linear(2, 2)
x = torch.tensor([[1.0, 2.0]])

def double(gradient):
    return gradient * 2

h = net(x).exp()
h.register_hook(double)
h.sin().sum().backward()
"""


def test_a_real_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    with living(script) as live:
        view = live.until(lambda view: view.saved is not None)
        graph, saved, tape = view.graph, view.saved, view.tape
        assert graph is not None
        assert saved is not None
        assert tape is not None
        at = {graph.op(node): node for node in range(len(graph))}
        owners = {one.name: one.owner for one in saved.of_node(at["AddmmBackward0"])}
        assert owners == {"mat1": "variable x"}
        [result] = saved.of_node(at["ExpBackward0"])
        assert (result.owner, result.bytes, result.state, result.shared) == ("variable h", 8, HERE, [at["SinBackward0"]])
        live.session.inspect(at["SinBackward0"])
        view = live.until(lambda view: at["SinBackward0"] in view.inspected)
        values = TensorTable(view.inspected[at["SinBackward0"]].tensors).values(0)
        [(place, hook)] = graph.hooks_of(at["ExpBackward0"])
        assert (hook.kind, hook.name, hook.place and (hook.place.file, hook.place.line)) == ("tensor", "double", (str(script), 7))
        effect = tape.effect(place)
        assert effect is not None
        before, after = (tape.tensors.values(number) for number in (effect.before, effect.after))
        assert before is not None
        assert after == tuple(2 * value for value in before)
        assert values is not None
        live.session.resume()
        view = live.ended()
        assert view.saved is not None
