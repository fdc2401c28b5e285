"""Every sign has a one-cell ASCII stand-in."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gradscope.tui import glyphs


def test_signs_are_one_cell_and_so_are_their_stand_ins() -> None:
    for sign, stand_in in glyphs._PAIRS.items():
        assert cell_len(sign) == 1, sign
        assert len(stand_in) == 1, sign
        assert stand_in.isascii(), sign


def test_every_named_sign_has_one() -> None:
    named = [value for name, value in vars(glyphs).items() if name.isupper() and isinstance(value, str) and len(value) == 1]
    assert [sign for sign in named if sign not in glyphs._PAIRS] == []


def test_states_stay_apart_in_ascii() -> None:
    signs = (glyphs.PLAYHEAD, glyphs.CURSOR, glyphs.RUN, glyphs.PENDING, glyphs.LEAF, glyphs.SEED, glyphs.FOLDED, glyphs.UNFOLDED)
    assert len({glyphs.to_ascii(sign) for sign in signs}) == len(signs)


@pytest.mark.parametrize(
    ("text", "expected"), [("‖∂b‖ ×2", "|db| x2"), ("●─╮", "@-\\"), ("plain", "plain"), ("日本 ä", "???? ?")]
)
def test_text_keeps_its_cells(text: str, expected: str) -> None:
    assert glyphs.to_ascii(text) == expected
    assert len(expected) == cell_len(text)


@pytest.mark.parametrize(
    ("encoding", "wanted"), [("UTF-8", False), ("utf8", False), ("ANSI_X3.4-1968", True), ("ISO-8859-1", True)]
)
def test_locale_decides(encoding: str, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locale.nl_langinfo", lambda item: encoding)
    assert glyphs.wants_ascii() is wanted
