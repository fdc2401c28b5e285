"""One key after the other: what is typed or pasted fast goes where the keys before it have led.

Textual hands a key to the widget that has the focus when it is read. Keys that come in one burst would all go to the Tape,
although the first of them opens a line for the rest to go into. So each key waits until the one before has come to its end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from textual import events
from textual.app import App
from textual.message_pump import MessagePump

PATIENCE = 0.5
"""seconds for a widget to answer: one that is being removed never does"""


class KeysInOrder(App[int]):
    """Takes each key, and each paste, once everything that the one before it did is done."""

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[events.Key | events.Paste] = deque()
        self._taking: asyncio.Task[None] | None = None

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            self._typed.append(event)
            if self._taking is None or self._taking.done():
                self._taking = asyncio.create_task(self._take())
        else:
            await super().on_event(event)

    async def _take(self) -> None:
        while self._typed and self.screen_stack:
            event, widget = self._typed.popleft(), self.focused or self.screen
            try:
                await super().on_event(event)
            except Exception as fault:
                self._handle_exception(fault)  # as if it had happened in the app's own task
                return
            await self._through(*widget.ancestors_with_self)  # it bubbles up to the app, whose bindings act
            await self._through(self.screen, self)  # the screen that it may have opened, the focus that it may have moved

    async def _through(self, *nodes: MessagePump) -> None:
        """Until each of these, one after the other, has done what it had to do when asked."""
        for node in nodes:
            done = asyncio.Event()
            if node.call_later(done.set):
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(done.wait(), None if node is self else PATIENCE)
