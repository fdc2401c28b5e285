"""What the README says is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradscope.command_line import HELP
from gradscope.export.formats import FORMATS
from gradscope.findings.kinds import KINDS
from gradscope.tui.actions import markdown_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def between(start: str, end: str) -> str:
    return README.partition(start)[2].partition(end)[0].strip()


def test_the_table_of_keys_is_that_of_the_actions() -> None:
    """When it fails: put what `gradscope.tui.actions.markdown_table()` gives between the two comments."""
    assert between("<!-- keys -->", "<!-- end of keys -->") == markdown_table().strip()


def test_every_example_has_a_line() -> None:
    named = re.findall(r"\| \[(\w+\.py)\]\(examples/(\w+\.py)\) \|", between("<!-- examples -->", "\n\n"))
    assert [name for name, link in named] == [link for name, link in named]
    assert sorted(name for name, _ in named) == sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def test_every_ending_has_a_line() -> None:
    assert re.findall(r"^\| `(\.\w+)` \|", README, re.MULTILINE) == list(FORMATS)


def test_options_that_are_named_exist() -> None:
    ours = set(re.findall(r"--[a-z][a-z-]+", HELP))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README)) <= {*ours, "--epochs", "--index-url"}


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_the_picture_is_there() -> None:
    assert (ROOT / "tests/pictures/screen.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "tests/pictures/screen.svg" in README


def test_every_kind_of_finding_has_a_line() -> None:
    named = re.findall(r"^\| (`.+?`) \|", between("<!-- findings -->", "<!-- end of findings -->"), re.MULTILINE)
    assert sorted(kind for line in named for kind in re.findall(r"`([a-z-]+)`", line)) == sorted(KINDS)
