"""The C++ expressions of torch's `derivatives.yaml` as Python expressions: the same calls, without namespaces and templates."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|/\*.*?\*/)
  | (?P<string>"[^"]*"|'[^']*')
  | (?P<number>\d+\.?\d*(?:e[-+]?\d+)?)
  | (?P<name>:{0,2}[A-Za-z_]\w*(?:::\w+)*)(?P<template><[\w:\s,<>*&]*>(?=\s*\())?
  | (?P<sign>->|&&|\|\||==|!=|<=|>=|[-+*/%<>=!?:.,&|()\[\]{}])
    """,
    re.VERBOSE,
)

_WORDS = {"true": "True", "false": "False", "nullopt": "None"}
_SIGNS = {"->": ".", "&&": " and ", "||": " or ", "!": " not "}
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def to_python(text: str) -> str:
    """`at::where(a ? b : c, x->sym_sizes(), {1, 2})` -> `where((b if a else c), x.sym_sizes(), [1, 2])`

    Raises:
        ValueError: it has something that an expression of that file does not have (a lambda).
    """
    tokens = list(_tokens(text))
    python, end = _until(tokens, 0, "")
    if end != len(tokens):
        raise ValueError(f"{tokens[end]!r} closes nothing in {text!r}")
    return python


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"cannot read {text[at:]!r}")
        at = found.end()
        if found["skip"]:
            continue
        if found["name"]:
            yield _name(found["name"].rpartition(":")[2])
        else:
            yield found.group()


def _name(name: str) -> str:
    name = _WORDS.get(name, name)
    return f"{name}_" if keyword.iskeyword(name) and name not in ("True", "False", "None") else name


def _until(tokens: list[str], at: int, closing: str) -> tuple[str, int]:
    """The expressions from `at` to the closing bracket, and its place."""
    parts: list[list[str]] = [[]]
    while at < len(tokens) and tokens[at] not in (")", "]", "}"):
        token = tokens[at]
        if token == ",":
            parts.append([])
        elif token in _PAIRS:
            inner, at = _until(tokens, at + 1, _PAIRS[token])
            parts[-1].append(f"[{inner}]" if token in "[{" else f"({inner})")
        else:
            parts[-1].append(token)
        at += 1
    if (tokens[at] if at < len(tokens) else "") != closing:
        raise ValueError(f"a bracket is not closed by {closing!r}")
    return ", ".join(map(_choice, parts)), at


def _choice(tokens: list[str]) -> str:
    """`a ? b : c` as Python writes it; all else as it is."""
    if "?" not in tokens:
        return "".join(_SIGNS.get(token, f" {token} " if token in ("==", "!=", "<=", ">=", "*") else token) for token in tokens)
    first = tokens.index("?")
    depth = 0
    for place in range(first + 1, len(tokens)):
        if tokens[place] == "?":
            depth += 1
        elif tokens[place] == ":":
            if not depth:
                test, yes, no = tokens[:first], tokens[first + 1 : place], tokens[place + 1 :]
                return f"({_choice(yes)} if {_choice(test)} else {_choice(no)})"
            depth -= 1
    raise ValueError("a choice without its second half")
