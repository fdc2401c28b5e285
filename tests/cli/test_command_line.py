"""Words of the command line become a checked command."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import pytest

from gradscope import command_line
from gradscope.command_line import HELP, Diff, Open, Run, Say, parse
from gradscope.errors import GradscopeError, UsageError
from gradscope.settings import ALL_CALLS, Options


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()


def options(*words: str) -> Options:
    command = parse(words)
    assert isinstance(command, Run)
    return command.options


def refused(*words: str) -> GradscopeError:
    with pytest.raises(GradscopeError) as caught:
        parse(words)
    assert caught.value.exit_code == 2
    return caught.value


def test_what_is_not_asked_for() -> None:
    assert options("train.py") == Options("train.py")


def test_every_option(tmp_path: Path) -> None:
    (tmp_path / "seed.txt").touch()
    words = "--stop-at 3 --break nan --break norm>1e3 --headless --calls all --export a.json --export=- --fail-on error,cut"
    more = "--fail-on any --budget 1.5GiB --no-origins --ascii --gradient @seed.txt"
    assert options(*words.split(), *more.split(), "--python", sys.executable, "train.py") == Options(
        script="train.py",
        stop_at="3",
        breaks=("nan", "norm>1e3"),
        gradient=f"@{tmp_path / 'seed.txt'}",
        headless=True,
        calls=ALL_CALLS,
        exports=("a.json", "-"),
        fail_on=("error", "cut", "any"),
        budget=3 << 29,
        origins=False,
        ascii=True,
        python=sys.executable,
    )
    assert options("--once", "train.py").once


def test_what_follows_the_script_is_the_scripts() -> None:
    words = ("--headless", "-m", "--", "--help", "--export", "x")
    assert options("train.py", *words) == Options("train.py", arguments=words)
    assert options("--", "train.py", "-x") == Options("train.py", arguments=("-x",))


def test_a_module() -> None:
    assert options("--ascii", "-m", "pkg.train", "--lr", "3") == Options(
        "pkg.train", module=True, arguments=("--lr", "3"), ascii=True
    )
    assert options("-mpkg.train") == Options("pkg.train", module=True)
    assert options("-m", "pkg").title == "-m pkg"
    assert refused("-m").what == "-m needs the name of a module"


def test_a_value_may_begin_with_a_dash() -> None:
    assert options("--gradient", "-1,10", "train.py").gradient == "-1,10"
    assert options("--gradient=-1", "train.py").gradient == "-1"


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", 1), ("500MB", 500_000_000), ("2GiB", 2 << 30), ("2g", 2 << 30), ("1.5 kB", 1500), ("3T", 3 << 40), ("64b", 64)],
)
def test_sizes(text: str, count: int) -> None:
    assert options("--budget", text, "train.py").budget == count


@pytest.mark.parametrize("place", ["first", "never", "1", "12", "train.py:3", "a/b c.py:10"])
def test_places_to_stop(place: str) -> None:
    assert options("--stop-at", place, "train.py").stop_at == place


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("", "which script?"),
        ("--stop-at frist train.py", "--stop-at frist: no such place, did you mean first?"),
        ("--stop-at 0 train.py", "--stop-at 0: no such place"),
        ("--stop-at train.py:0 train.py", "--stop-at train.py:0: no such place"),
        ("--calls 0 train.py", "--calls 0: it takes a number from 1, or all"),
        ("--calls -1 train.py", "--calls -1: it takes a number from 1, or all"),
        ("--budget lots train.py", "--budget lots: no such size"),
        ("--budget 0 train.py", "--budget 0: no gradient fits in nothing"),
        ("--fail-on missing-gradiet train.py", "--fail-on missing-gradiet: no such kind, did you mean missing-gradient?"),
        ("--python /no/python train.py", "--python /no/python: there is no such program"),
        ("--gradient @no.txt train.py", "--gradient @no.txt: there is no file {folder}/no.txt"),
        ("--gradient= train.py", "--gradient needs an expression"),
        ("--export a.png train.py", "cannot write a.png: unknown ending .png"),
        ("--export no/a.json train.py", "cannot write no/a.json"),
        ("--export a.html train.py", "cannot write a.html: .html is not there yet"),
        ("--hedless train.py", "no such option: --hedless, did you mean --headless?"),
        ("--head train.py", "no such option: --head, did you mean --headless?"),
        ("-x train.py", "no such option: -x"),
        ("--headless=yes train.py", "argument --headless: ignored explicit argument 'yes'"),
        ("--export", "--export needs a value"),
        ("--once --gradient 1 train.py", "--once and --gradient exclude each other"),
        ("open", "which snapshot?"),
        ("open a.gscope b.gscope", "one snapshot at a time: b.gscope is too much"),
        ("open a.gscope --once", "--once is for running a script"),
        ("--calls all a.gscope", "--calls is for running a script"),
        ("diff a.gscope", "which two snapshots?"),
        ("notebook.ipynb", "notebook.ipynb is a notebook"),
    ],
)
def test_what_is_refused(words: str, what: str, tmp_path: Path) -> None:
    assert refused(*words.split()).what == what.format(folder=tmp_path)


def test_a_broken_condition() -> None:
    error = refused("--break", "finding:bogus", "train.py")
    assert error.what == "--break: cannot read the condition 'finding:bogus': no finding is called so"
    assert "missing-gradient" in error.why
    error = refused("--break", "norm>big", "train.py")
    assert error.what.startswith("--break: cannot read the condition 'norm>big'")
    assert "op:NAME" in error.why


def test_an_rng_seed_belongs_to_the_script() -> None:
    for words in (("--seed", "3", "train.py"), ("--seed=3", "train.py")):
        error = refused(*words)
        assert error.what == "gradscope has no --seed"
        assert error.why == "a seed for random numbers is the script's: gradscope SCRIPT --seed 3"
        assert "--gradient EXPR" in error.hint


def test_a_missing_script_is_said_as_python_says_it(tmp_path: Path) -> None:
    error = refused("trian.py")
    assert error.what == f"can't open file '{tmp_path / 'trian.py'}': [Errno 2] No such file or directory"
    assert error.hint == "did you mean train.py?"
    assert refused("no/train.py").hint == "there is no folder no"


def test_a_folder_runs_as_with_python(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    assert refused("app").what == "app is a folder without a __main__.py"
    (tmp_path / "app" / "__main__.py").touch()
    assert options("app") == Options("app")


def test_snapshots() -> None:
    assert parse(["open", "a.gscope"]) == parse(["a.gscope"]) == Open("a.gscope")
    assert parse(["--ascii", "open", "a.gscope", "--export", "b.json"]) == Open("a.gscope", ("b.json",), ascii=True)
    assert parse(["a.gscope", "--export", "b.json", "--export", "-"]) == Open("a.gscope", ("b.json", "-"))
    assert parse(["diff", "a.gscope", "b.gscope"]) == Diff("a.gscope", "b.gscope")


def test_help_goes_before_all_else() -> None:
    assert parse(["--help"]) == parse(["-h", "no.py"]) == Say(HELP)
    assert parse(["--version"]) == Say("gradscope 0.1.0\n")


def test_help_speaks_of_every_option_and_of_no_other() -> None:
    parser = command_line._Parser()
    known = {name for action in parser._actions for name in action.option_strings if name.startswith("--")}
    assert set(re.findall(r"^  (--[a-z-]+)", HELP, re.MULTILINE)) == known
    assert max(map(len, HELP.splitlines())) <= 120


def test_no_field_of_the_options_is_out_of_reach() -> None:
    given = {action.dest for action in (*command_line._Parser().running, *command_line._Parser().showing)}
    assert {field.name for field in dataclasses.fields(Options)} - given == {"script", "module", "arguments", "script_stdin"}


def test_the_version_is_that_of_the_project() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{parse(["--version"]).text.split()[1]}"' in project  # type: ignore[union-attr]
    with pytest.raises(UsageError):
        parse(["--versio"])


@pytest.mark.parametrize(("as_module", "shown"), [(False, "python"), (True, "python3.99")])
def test_the_interpreter_is_called_what_python_would_call_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_module: bool, shown: str
) -> None:
    """The first line of an installed `gradscope` names `python3.99`; `python script.py` shows `python`."""
    (tmp_path / "python3.99").symlink_to(sys.executable)
    (tmp_path / "python").symlink_to("python3.99")
    (tmp_path / "python4").symlink_to("/bin/sh")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3.99"))
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", object() if as_module else None)
    assert options("train.py").python == str(tmp_path / shown)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python4"))
    assert options("train.py").python == str(tmp_path / "python4")
