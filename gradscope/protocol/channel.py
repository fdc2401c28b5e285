"""One end of the socket between the two processes."""

from __future__ import annotations

import select
import socket
from collections import deque
from typing import Generic, TypeVar

import msgspec

from gradscope.protocol.framing import Unframer, frame
from gradscope.protocol.messages import Report, Request

Incoming = TypeVar("Incoming")
Outgoing = TypeVar("Outgoing")

_CHUNK = 1 << 18


class Closed(Exception):
    """The other side is gone."""


class Channel(Generic[Incoming, Outgoing]):
    """Sends and receives messages over a connected stream socket. Not thread-safe for two receivers or two senders."""

    def __init__(self, connection: socket.socket, incoming: type[Incoming]) -> None:
        self._socket = connection
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(incoming)
        self._unframer = Unframer()
        self._ready: deque[Incoming] = deque()

    def send(self, message: Outgoing) -> None:
        """Send one message, blocking until the kernel has taken it.

        Raises:
            Closed: the other side is gone.
        """
        try:
            self._socket.sendall(frame(self._encoder.encode(message)))
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> Incoming:
        """Wait for the next message.

        Raises:
            Closed: the other side is gone.
            msgspec.DecodeError: what came is no message of this protocol.
        """
        while not self._ready:
            self._read()
        return self._ready.popleft()

    def poll(self, seconds: float = 0.0) -> Incoming | None:
        """The next message if one is here within `seconds`, else None.

        Raises:
            Closed: as `receive`.
        """
        while not self._ready:
            readable, _, _ = select.select([self._socket], [], [], seconds)
            if not readable:
                return None
            self._read()
        return self._ready.popleft()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except OSError as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("the other side closed the connection")
        self._ready.extend(self._decoder.decode(payload) for payload in self._unframer.feed(data))

    def fileno(self) -> int:
        return self._socket.fileno()

    def shutdown(self) -> None:
        """Wake a receiver that blocks in another thread; it gets `Closed`."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other side was faster

    def close(self) -> None:
        self._socket.close()


def session_end(connection: socket.socket) -> Channel[Report, Request]:
    """The session's end: reports come in, requests go out."""
    return Channel(connection, Report)  # type: ignore[arg-type]  # a union is no `type`, msgspec takes it all the same


def debuggee_end(connection: socket.socket) -> Channel[Request, Report]:
    """The debuggee's end: requests come in, reports go out."""
    return Channel(connection, Request)  # type: ignore[arg-type]
