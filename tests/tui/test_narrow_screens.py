"""Every screen over the main one at 80x24: nothing that it says is cut, and no key of it reaches the screen below."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from reports import two_outputs_report
from test_dialogs import LIVE, stop_at_end
from textual.screen import Screen
from textual.widgets import OptionList, Static
from views import two_outputs_view

from gradscope.protocol.messages import LiveTensor
from gradscope.session.edges import Factor
from gradscope.session.session import Session
from gradscope.tui.screens.breakpoints import BreaksScreen
from gradscope.tui.screens.choices import Choice, ChoicesScreen
from gradscope.tui.screens.error import ErrorScreen
from gradscope.tui.screens.export import ExportScreen
from gradscope.tui.screens.factors import FactorsScreen
from gradscope.tui.screens.help import HelpScreen
from gradscope.tui.screens.quit import quit_screen, rerun_screen
from gradscope.tui.screens.resume import ResumeScreen
from gradscope.tui.screens.roots import RootsScreen
from gradscope.tui.screens.values import ValuesScreen

LONG = "experiments/vision/train_with_a_long_name.py --epochs 100 --learning-rate 0.0003 --seed 17"
WHAT = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
FAR = LiveTensor(
    "total_loss_of_all_heads", "Trainer.training_step_of_phase_two() in train.py:1234", (), "float32", "AddBackward0"
)
FACTORS = [Factor(2, "AddBackward0", 10.05, 1.0, 1.0), Factor(1, "SinBackward0", 10.05, 0.0042, 0.0042)]

SCREENS: dict[str, tuple[Callable[[], Screen], str]] = {
    "quit": (lambda: quit_screen(LONG, stopped=True), "s f c"),
    "rerun": (lambda: rerun_screen(LONG), "r c"),
    "choices": (lambda: ChoicesScreen("Toward the leaves", [Choice("h.11.attn.c_proj.weight  (leaf)" * 3, "‖·‖ 1.2e-03")]), ""),
    "error": (lambda: ErrorScreen("The script crashed", WHAT, WHAT, "what was recorded stays here to look at", WHAT * 2), "d"),
    "resume": (lambda: ResumeScreen("torch.ones_like(J) * 0.5 + torch.randn_like(J)", "onehot(3) " * 9), "r e"),
    "roots": (lambda: RootsScreen(stop_at_end([FAR, *LIVE])), ""),
    "no roots": (lambda: RootsScreen(stop_at_end([])), ""),
    "breaks": (lambda: BreaksScreen(two_outputs_view(breaks=("nan", "norm>1e3"))), ""),
    "export": (lambda: ExportScreen("run.json", WHAT), ""),
    "factors": (lambda: FactorsScreen(FACTORS), ""),
    "help": (HelpScreen, "q"),
    "values": (lambda: ValuesScreen(two_outputs_view()), "q v m f"),
}


def texts(screen: Screen) -> list[str]:
    """What the screen's widgets have to say."""
    said = [str(static.render()) for static in screen.query(Static) if static.display and static.id != "help-left"]
    return said + [str(option.prompt) for options in screen.query(OptionList) for option in options.options]


def squeezed(text: str) -> str:
    return re.sub(r"[\s│┃▁▔▕]+", "", text)


@pytest.mark.parametrize("name", SCREENS)
async def test_nothing_is_cut(shown, sight, name: str) -> None:
    async with shown(two_outputs_view(), (80, 24)) as pilot:
        screen = SCREENS[name][0]()
        pilot.app.push_screen(screen)
        await pilot.pause()
        await pilot.pause()
        if name == "help":
            assert not [line for line in sight(pilot).lines if len(line) > 80]
            pilot.app.screen.query_one("#help").scroll_end(animate=False)
            await pilot.pause()
            assert "could not be compared" in sight(pilot).text
            return
        seen = squeezed(sight(pilot).text)
        for text in texts(screen):
            for word in text.split():
                assert squeezed(word) in seen, f"{word!r} of {text!r} in\n{sight(pilot).text}"
        dialog = screen.query("#dialog")
        for box in dialog:
            assert box.region.bottom <= 24
            assert box.max_scroll_y == 0


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, (_, keys) in SCREENS.items() for key in ["escape", *keys.split()]]
)
async def test_no_key_reaches_the_screen_below(walked, name: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session.from_snapshot(two_outputs_report((1.0, 10.0), (1.0, 1.0)))
    async with walked(session) as pilot:
        await pilot.press("n")
        before = session.view()
        pilot.app.push_screen(SCREENS[name][0]())
        await pilot.pause()
        ran: list[str] = []
        monkeypatch.setattr(pilot.app, "drive", lambda act: ran.append("drive"))
        monkeypatch.setattr(pilot.app, "say", ran.append)
        await pilot.press(key)
        await pilot.pause()
        assert ran == []
        assert pilot.app.return_code is None
        assert (session.view().playhead, session.view().notice) == (before.playhead, before.notice)
