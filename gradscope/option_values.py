"""Reads and checks the value of one option each. What is wrong with it is said in words, before anything runs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Sequence

from gradscope.errors import UsageError
from gradscope.settings import ALL_CALLS

_PLACE = re.compile(r".+:[1-9]\d*")
_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([kmgt]?)(i?)b?", re.IGNORECASE)

ANY, ERROR = "any", "error"
"""Words that `--fail-on` takes beside the kinds of findings."""


def stop_at(text: str) -> str:
    """`first`, `never`, a number from 1, FILE:LINE."""
    if text in ("first", "never") or _PLACE.fullmatch(text) or _is_count(text):
        return text
    raise UsageError(
        f"--stop-at {text}: no such place" + _meant(text, ("first", "never")),
        "it takes first, never, the number of a backward call (from 1), or FILE:LINE",
    )


def condition(text: str) -> str:
    """A condition of a breakpoint."""
    from gradscope.findings.kinds import KINDS
    from gradscope.model.conditions import parse

    try:
        parse(text, KINDS)
    except ValueError as error:
        what, _, why = str(error).partition("\n")
        raise UsageError(f"--break: {what}", why) from error
    return text


def gradient(text: str) -> str:
    """An expression; a file is looked for now, since the script may change its folder."""
    if not text.strip():
        raise UsageError("--gradient needs an expression", "like 1,10 or ones or onehot(3)")
    if not text.startswith("@"):
        return text
    path = os.path.abspath(text[1:])
    if not os.path.isfile(path):
        raise UsageError(f"--gradient {text}: there is no file {path}")
    return f"@{path}"


def calls(text: str) -> int:
    """How many calls to record."""
    if text == "all":
        return ALL_CALLS
    if _is_count(text):
        return int(text)
    raise UsageError(f"--calls {text}: it takes a number from 1, or all")


def kinds(text: str) -> list[str]:
    """Kinds of findings, separated by commas."""
    from gradscope.findings.kinds import KINDS

    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in (ANY, ERROR, *KINDS):
            known = f"it takes {ANY}, {ERROR}, or kinds of findings: {' '.join(KINDS)}"
            raise UsageError(f"--fail-on {word}: no such kind{_meant(word, (ANY, ERROR, *KINDS))}", known)
    return words


def size(text: str) -> int:
    """Bytes: `500MB`, `2GiB`, `1.5G` (the same as GiB), a plain number."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--budget {text}: no such size", "like 500MB, 2GiB, or a number of bytes")
    amount, unit, binary = found[1], found[2].lower(), found[3] or not text.lower().endswith("b")
    power = "kmgt".index(unit) + 1 if unit else 0
    count = int(float(amount) * (1024 if binary else 1000) ** power)
    if not count:
        raise UsageError(f"--budget {text}: no gradient fits in nothing")
    return count


def interpreter(text: str) -> str:
    """A python: a path, or a name on PATH."""
    from shutil import which

    found = which(os.path.expanduser(text))
    if found is None:
        raise UsageError(
            f"--python {text}: there is no such program", "name the interpreter that runs your script: .venv/bin/python"
        )
    return found


def own_interpreter() -> str:
    """The python that runs us, by the name a person would start it with.

    An installed `gradscope` begins with a line that may name `…/bin/python3.11`, where `python script.py` is `…/bin/python`. With
    `python -m gradscope` it is what was typed.
    """
    usual = os.path.join(os.path.dirname(sys.executable), "python")
    as_module = getattr(sys.modules["__main__"], "__spec__", None) is not None
    if as_module or not os.path.exists(usual) or not os.path.samefile(usual, sys.executable):
        return sys.executable
    return usual


def target(path: str) -> str:
    """A file to export to."""
    from gradscope.export.formats import check

    check(path)
    return path


def _is_count(text: str) -> bool:
    return text.isdecimal() and int(text) > 0


def check_script(path: str) -> None:
    """Is there a script that python could run?

    Raises:
        UsageError: there is none.
    """
    if path.endswith(".ipynb"):
        raise UsageError(f"{path} is a notebook", "gradscope runs scripts", f"make it one: jupyter nbconvert --to script {path}")
    if os.path.isdir(path):
        if not os.path.isfile(os.path.join(path, "__main__.py")):
            raise UsageError(f"{path} is a folder without a __main__.py", "python could not run it", "name a script in it")
    elif not os.path.exists(path):
        error = f"can't open file '{os.path.abspath(path)}': [Errno 2] No such file or directory"
        raise UsageError(error, hint=_near_file(path))


def unknown_option(word: str, known: Collection[str]) -> UsageError:
    """For an option that gradscope does not have."""
    if word in ("--seed", "--rng-seed", "--manual-seed"):
        return UsageError(
            f"gradscope has no {word}",
            f"a seed for random numbers is the script's: gradscope SCRIPT {word} 3",
            "the seed gradient of the backward pass is --gradient EXPR",
        )
    script = f"options of the script stand behind it: gradscope SCRIPT {word}"
    return UsageError(f"no such option: {word}{_meant(word, known)}", script, "gradscope --help lists ours")


def _near_file(path: str) -> str:
    """A file of that folder with almost that name."""
    folder, name = os.path.split(path)
    try:
        names = [entry for entry in os.listdir(folder or ".") if entry.endswith(".py")]
    except OSError:
        return f"there is no folder {folder}"
    return _meant(name, names, folder).lstrip(", ")


def _meant(word: str, known: Collection[str] | Sequence[str], folder: str = "") -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, sorted(known), 1, 0.6)
    return f", did you mean {os.path.join(folder, near[0])}?" if near else ""
