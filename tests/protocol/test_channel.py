import math
import socket
import threading
from collections.abc import Iterator

import msgspec
import pytest
from facts_of_all_kinds import call_facts

from gradscope.findings.finding import Finding, Related
from gradscope.model.columns import GraphColumns, Leaf, LocalDerivative, Root, TapeColumns
from gradscope.model.places import Origin
from gradscope.protocol.channel import Channel, Closed, debuggee_end, session_end
from gradscope.protocol.messages import (
    Captured,
    Configure,
    Explore,
    Hello,
    Recorded,
    Report,
    Request,
    Resume,
    SeedText,
    TensorSlice,
)

Ends = tuple[Channel[Report, Request], Channel[Request, Report]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    here, there = socket.socketpair()
    session, debuggee = session_end(here), debuggee_end(there)
    yield session, debuggee
    session.close()
    debuggee.close()


def test_reports_and_requests_cross(ends: Ends) -> None:
    session, debuggee = ends
    debuggee.send(Hello(version=1, pid=7, python="3.11.7"))
    session.send(Configure(stop_at="2", breaks=["nan"]))
    session.send(Explore(request=3, seeds=[SeedText("1,10")]))
    assert session.receive() == Hello(version=1, pid=7, python="3.11.7")
    assert debuggee.receive() == Configure(stop_at="2", breaks=["nan"])
    assert debuggee.receive() == Explore(request=3, seeds=[SeedText("1,10")])


def test_a_graph_crosses_whole(ends: Ends) -> None:
    session, debuggee = ends
    graph = GraphColumns(
        ops=["SinBackward0"],
        op=b"\0\0\0\0",
        shapes=[(2,)],
        origins=[Origin(file="a.py", line=3, function="f", code="b = x.sin()", target="b")],
        roots=[Root(node=0, input_nr=0, name="J", shape=(2,), dtype="float32", device="cpu")],
        leaves=[Leaf(1, 0, "x", (), (2,), "float32", "cpu", "tensor")],
        foreign={0: "hook"},
        local={4: LocalDerivative((0.5, -1.0), "cos(x)")},
        facts=call_facts(),
    )
    debuggee.send(Captured(graph))
    received = session.receive()
    assert isinstance(received, Captured)
    assert received.graph == graph


def test_not_a_number_and_infinity_survive(ends: Ends) -> None:
    session, debuggee = ends
    debuggee.send(TensorSlice(request=1, shape=(3,), values=[math.nan, math.inf, -math.inf]))
    received = session.receive()
    assert isinstance(received, TensorSlice)
    assert math.isnan(received.values[0])
    assert received.values[1:] == [math.inf, -math.inf]


def test_findings_cross_with_their_places(ends: Ends) -> None:
    session, debuggee = ends
    finding = Finding("cut", "warning", "the graph ends here", related=(Related("a.py", 4, "detach()"),), index=(0, 1))
    debuggee.send(Recorded(TapeColumns(number=2), [finding], request=9))
    received = session.receive()
    assert isinstance(received, Recorded)
    assert (received.tape.number, received.findings, received.request) == (2, [finding], 9)


def test_poll_does_not_wait_for_what_is_not_there(ends: Ends) -> None:
    session, debuggee = ends
    assert debuggee.poll() is None
    session.send(Resume())
    assert debuggee.poll(1.0) == Resume()
    assert debuggee.poll() is None


def test_the_other_side_closing_is_told_apart_from_silence(ends: Ends) -> None:
    session, debuggee = ends
    debuggee.send(Hello(1, 7, "3.11"))
    debuggee.close()
    assert session.receive() == Hello(1, 7, "3.11")
    with pytest.raises(Closed):
        session.receive()
    with pytest.raises(Closed):
        session.poll()


def test_shutdown_wakes_a_receiver_in_another_thread(ends: Ends) -> None:
    session, _ = ends
    outcome: list[type[Exception]] = []

    def receive() -> None:
        try:
            session.receive()
        except Closed as error:
            outcome.append(type(error))

    thread = threading.Thread(target=receive)
    thread.start()
    session.shutdown()
    thread.join(timeout=10)
    assert outcome == [Closed]


def test_a_message_of_another_protocol_is_refused(ends: Ends) -> None:
    session, debuggee = ends
    session.send(Resume())
    with pytest.raises(msgspec.ValidationError):
        session_end(debuggee._socket).receive()


def test_older_and_newer_sides_understand_each_other() -> None:
    """Missing fields take their defaults, fields unknown at the end are passed over."""
    decode = msgspec.msgpack.Decoder(Report).decode
    encode = msgspec.msgpack.encode
    assert decode(encode(["Hello", 1, 7, "3.11", "a field of the future"])) == Hello(1, 7, "3.11")
    requests = msgspec.msgpack.Decoder(Request)
    assert requests.decode(encode(["Configure"])) == Configure()
