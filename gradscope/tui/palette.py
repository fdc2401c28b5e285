"""The command palette: every action that lives in the present state, by name."""

from __future__ import annotations

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from gradscope.tui import actions
from gradscope.tui.actions import Action


class ActionsProvider(Provider):
    """Finds actions of the registry."""

    async def discover(self) -> Hits:
        for action in self._living():
            yield DiscoveryHit(_named(action), partial(self._run, action), help=action.group)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in self._living():
            name = _named(action)
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), partial(self._run, action), help=action.group)

    def _living(self) -> list[Action]:
        state = getattr(self.app, "state_name", "starting")
        return [action for action in actions.ACTIONS if actions.lives(action, state)]

    async def _run(self, action: Action) -> None:
        await self.app.run_action(action.call)


def _named(action: Action) -> str:
    return f"{action.title}  ({' '.join(map(actions.key_text, action.keys))})"
