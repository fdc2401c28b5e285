"""A session without a process: reports are made by hand, requests are kept in a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphs import FILE, Drawing, Vector, two_outputs_drawing

from gradscope.findings.finding import Finding
from gradscope.model.columns import TapeColumns
from gradscope.model.tape import Tape
from gradscope.protocol import messages as m
from gradscope.session.session import Session


class Play:
    """Plays the debuggee to a session."""

    def __init__(self, configure: m.Configure | None = None, drawing: Drawing | None = None) -> None:
        self.session = Session("two_outputs.py", (), configure)
        self.sent: list[m.Request] = []
        self.files: list[str] = []
        """sources that were asked for"""
        self.early: list[m.ReadSaved] = []
        """what was asked for before anybody looked"""
        self.session.send = self._send
        self.drawing = drawing or two_outputs_drawing()
        self.graph = self.drawing.graph()
        self.tell(m.Hello(m.VERSION, 1, "3.12.0"), m.TorchImported("2.13.0"))
        self.sent.clear()

    def _send(self, request: m.Request) -> None:
        if isinstance(request, m.ReadSource):
            self.files.append(request.file)
        elif isinstance(request, m.ReadSaved) and request.request < 0:
            self.early.append(request)
        else:
            self.sent.append(request)

    def tell(self, *reports: m.Report) -> None:
        for report in reports:
            self.session.handle(report)

    def take(self) -> list[m.Request]:
        """What was sent since the last time."""
        sent, self.sent[:] = list(self.sent), []
        return sent

    def stop(self, number: int = 1, reason: str = "call", findings: Sequence[Finding] = (), seed: Vector = (1.0, 10.0)) -> None:
        """The script stops at a backward call, which is captured and recorded."""
        self.tell(
            m.Stopped(call(number), reason, findings=list(findings)),
            m.Captured(self.graph.columns),
            m.Recorded(self.tape([seed])),
        )

    def tape(self, seeds: Sequence[Vector], number: int = 1, texts: Sequence[str] = (), root: int = -1) -> TapeColumns:
        """The record of a pass; with `texts` the seeds are those a person typed."""
        columns = self.drawing.tape(self.graph, seeds, number=number).columns
        columns.root = root
        if texts:
            columns.seeds = [replace(seed, expression=text) for seed, text in zip(columns.seeds, texts, strict=True)]
        return columns

    def answer(self, seeds: Sequence[Vector], number: int) -> None:
        """Record the pass that the last request asks for."""
        asked = next(request for request in reversed(self.sent) if isinstance(request, m.Explore))
        texts = [seed.text for seed in asked.seeds]
        self.tell(m.Recorded(self.tape(seeds, number, texts, asked.root), [], asked.request))

    @property
    def shown(self) -> Tape:
        tape = self.session.view().tape
        assert tape is not None
        return tape


def call(number: int = 1) -> m.Call:
    return m.Call(number, "backward", FILE, 14, "<module>", "J.backward(gradient=v)")
