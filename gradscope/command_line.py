"""From words typed in a shell to a checked command. Nothing heavy is imported: the first paint waits for this."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from gradscope import option_values as values
from gradscope.errors import UsageError
from gradscope.settings import STDOUT, Options

HELP = """\
gradscope: a terminal debugger for PyTorch backward passes

  gradscope [OPTIONS] SCRIPT [ARGS]…       run a script; stop at its first backward call
  gradscope [OPTIONS] -m MODULE [ARGS]…    the same for a module
  gradscope open FILE.gscope               look at a snapshot again (also: gradscope FILE.gscope)
  gradscope diff A.gscope B.gscope         what differs between two snapshots

What comes after SCRIPT or MODULE belongs to the script. Options:

  --stop-at WHEN     first (default), never, the number of a backward call, or FILE:LINE for any line
  --break CONDITION  stop at backward calls that meet it; repeatable. nan, inf, zero, undefined,
                     op:NAME, leaf:NAME, module:PATH, FILE:LINE, step:N, 'norm>1e3', 'gain<1e-3',
                     shape:[2,3], finding:KIND. For nan, inf, zero and findings each call is recorded as it
                     runs, and the stop comes after it: to edit its seed use --stop-at N
  --gradient EXPR    seed gradient for the first stop: 1,10  ones  onehot(3)  'torch.linspace(0,1,8)'  @FILE
  --headless         no screen: record the script's own backward calls, print a summary on stderr
  --calls N          how many calls headless records, or all (default 1)
  --export FILE      write what was recorded; repeatable. By ending: .gscope .json .graphml .dot .safetensors
                     .txt .csv; - is JSON on stdout
  --fail-on KINDS    headless: exit with 3 when there is a finding of these kinds (comma-separated; any, error)
  --once             record the script's own call instead of exploring first: no foreign code runs twice
  --budget SIZE      how much memory gradients may hold per device: 500MB, 2GiB (default: a quarter of what is free)
  --no-origins       do not look up which line made which node: the forward runs at full speed
  --ascii            draw with ASCII only
  --python EXE       the interpreter that runs the script
  --version          print the version
  --help             print this

Examples:

  gradscope examples/two_outputs.py
  gradscope --break nan train.py --epochs 3
  gradscope --headless --export run.gscope --export run.json train.py
  gradscope --headless --fail-on error -m project.train

Inside, ? shows all keys.
"""

USAGE = "gradscope [OPTIONS] SCRIPT [ARGS]…   (gradscope --help says more)"

RUN_ONLY = "gradscope open takes --export and --ascii only"


@dataclass(frozen=True, slots=True)
class Run:
    """Run a script."""

    options: Options


@dataclass(frozen=True, slots=True)
class Open:
    """Look at a snapshot, or write it in other forms."""

    file: str
    exports: tuple[str, ...] = ()
    ascii: bool = False


@dataclass(frozen=True, slots=True)
class Diff:
    """Compare two snapshots."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Say:
    """Print a text and be done."""

    text: str


Command = Run | Open | Diff | Say


def parse(words: Sequence[str]) -> Command:
    """The command that the words ask for.

    Raises:
        UsageError: they ask for nothing that can be done.
        FileError: an export could not be written.
    """
    parser = _Parser()
    given, rest = parser.read(words)
    if given.help:
        return Say(HELP)
    if given.version:
        return Say(_version())
    if not rest:
        raise UsageError("which script?", USAGE)
    if rest[0] == "diff":
        return _diff(rest[1:])
    if rest[0] == "open" or rest[0].endswith(".gscope"):
        return _open(parser, given, rest[1:] if rest[0] == "open" else rest)
    if rest[0].startswith("-m"):
        return Run(_module(given, rest))
    values.check_script(rest[0])
    return Run(_options(given, rest[0], rest[1:]))


class _Parser(argparse.ArgumentParser):
    """Our own options. The script and what follows it never reach argparse, which would look for options there too."""

    def __init__(self) -> None:
        super().__init__(prog="gradscope", add_help=False, allow_abbrev=False)
        add = self.add_argument
        add("--help", "-h", action="store_true")
        add("--version", action="store_true")
        self.running = [
            add("--stop-at", type=values.stop_at, default="first"),
            add("--break", type=values.condition, action="append", default=[], dest="breaks"),
            add("--gradient", type=values.gradient),
            add("--headless", action="store_true"),
            add("--calls", type=values.calls, default=1),
            add("--fail-on", type=values.kinds, action="extend", default=[]),
            add("--once", action="store_true"),
            add("--budget", type=values.size, default=0),
            add("--no-origins", action="store_false", dest="origins"),
            add("--python", type=values.interpreter, default=values.own_interpreter()),
        ]
        """Those that only a run of a script can use."""
        self.showing = [
            add("--export", type=values.target, action="append", default=[], dest="exports"),
            add("--ascii", action="store_true"),
        ]

    def read(self, words: Sequence[str], given: argparse.Namespace | None = None) -> tuple[argparse.Namespace, list[str]]:
        """Our options, and the words from the first on that is none."""
        ours, rest = self._split(words)
        return self.parse_args(ours, given), rest

    def _split(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        valued = {name for action in (*self.running, *self.showing) if action.nargs != 0 for name in action.option_strings}
        known = valued.union(*(action.option_strings for action in self._actions))
        ours: list[str] = []
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] != "-" and not _is_module(rest[0]):
            word = rest.pop(0)
            if word == "--":
                break
            if word.partition("=")[0] not in known:
                raise values.unknown_option(word.partition("=")[0], known)
            if word in valued:
                if not rest:
                    raise UsageError(f"{word} needs a value", USAGE)
                word = f"{word}={rest.pop(0)}"  # argparse would take a value that begins with a dash for an option
            ours.append(word)
        return ours, rest

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, USAGE)


def _is_module(word: str) -> bool:
    """`-m`, or `-mpackage.module` as python takes it."""
    return word.startswith("-m")


# ---------------------------------------------------------------- commands


def _module(given: argparse.Namespace, words: Sequence[str]) -> Options:
    """`-m package.module ARGS`, or `-mpackage.module ARGS`."""
    name, arguments = (words[0][2:], words[1:]) if len(words[0]) > 2 else ("".join(words[1:2]), words[2:])
    if not name:
        raise UsageError("-m needs the name of a module", USAGE)
    return _options(given, name, arguments, module=True)


def _options(given: argparse.Namespace, script: str, arguments: Sequence[str], module: bool = False) -> Options:
    if given.once and given.gradient:
        raise UsageError("--once and --gradient exclude each other", "--once records the script's own call, with its own seed")
    if given.exports.count(STDOUT) > 1:
        raise UsageError("--export - is given twice", "stdout takes one document")
    return Options(
        script=script,
        module=module,
        arguments=tuple(arguments),
        stop_at=given.stop_at,
        breaks=tuple(given.breaks),
        gradient=given.gradient or "",
        headless=given.headless,
        calls=given.calls,
        exports=tuple(given.exports),
        fail_on=tuple(given.fail_on),
        once=given.once,
        budget=given.budget,
        origins=given.origins,
        ascii=given.ascii,
        python=given.python,
    )


def _open(parser: _Parser, given: argparse.Namespace, words: Sequence[str]) -> Open:
    """Options may stand before and after the file."""
    given, rest = parser.read(words, given)
    if not rest:
        raise UsageError("which snapshot?", "gradscope open FILE.gscope")
    file = rest[0]
    given, rest = parser.read(rest[1:], given)
    if rest:
        raise UsageError(f"one snapshot at a time: {rest[0]} is too much", "gradscope diff A.gscope B.gscope compares two")
    for action in parser.running:
        if getattr(given, action.dest) != action.default and action.dest != "headless":
            raise UsageError(f"{action.option_strings[0]} is for running a script", RUN_ONLY)
    return Open(file, tuple(given.exports), given.ascii)


def _diff(words: Sequence[str]) -> Diff:
    if len(words) != 2 or any(word.startswith("-") for word in words):
        raise UsageError("which two snapshots?", "gradscope diff A.gscope B.gscope")
    return Diff(words[0], words[1])


def _version() -> str:
    from gradscope import __version__

    return f"gradscope {__version__}\n"
