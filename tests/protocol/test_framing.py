import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscope.protocol import framing
from gradscope.protocol.framing import Unframer, frame


def test_a_frame_is_its_length_and_its_bytes() -> None:
    assert frame(b"abc") == b"\x00\x00\x00\x03abc"
    assert frame(b"") == b"\x00\x00\x00\x00"


@given(payloads=st.lists(st.binary(max_size=40), max_size=12), cut=st.integers(1, 9))
def test_any_cutting_of_the_stream_gives_the_payloads_back(payloads: list[bytes], cut: int) -> None:
    stream = b"".join(frame(payload) for payload in payloads)
    unframer = Unframer()
    received: list[bytes] = []
    for start in range(0, len(stream), cut):
        received.extend(unframer.feed(stream[start : start + cut]))
    assert received == payloads


def test_half_a_frame_yields_nothing_yet() -> None:
    unframer = Unframer()
    assert list(unframer.feed(b"\x00\x00\x00\x02a")) == []
    assert list(unframer.feed(b"b\x00")) == [b"ab"]


def test_a_payload_too_long_for_four_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAXIMUM", 3)
    with pytest.raises(ValueError, match="4 bytes is too long: the limit is 3"):
        frame(b"abcd")
