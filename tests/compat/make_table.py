"""Prints the README's table of kinds of autograd; from the root: `PYTHONPATH=. python tests/compat/make_table.py`."""

from __future__ import annotations

from harness import DOES, Row
from rows import MODULES, rows_of

START, END = "<!-- kinds -->", "<!-- end of kinds -->"
HEADINGS = {
    "rows_calls": "how backward is called",
    "rows_functions": "custom Functions",
    "rows_hooks": "hooks",
    "rows_views": "views and in-place",
    "rows_training": "training",
    "rows_modules": "modules and operations of torch",
    "rows_layouts": "dtypes, layouts, subclasses",
    "rows_modes": "modes, compilers, threads",
    "rows_workers": "worker processes",
    "rows_ranks": "several ranks",
}


def table() -> str:
    """Markdown: of each module the kinds that are simply exact in one line, and a line for each other treatment."""
    lines = ["| kind | what gradscope does |", "|---|---|"]
    for module in sorted(MODULES, key=_place):
        heading = HEADINGS.get(module, module.removeprefix("rows_"))
        lines.append(f"| **{heading}** | |")
        lines += [f"| {' · '.join(titles)} | {cell} |" for cell, titles in _by_cell(rows_of(module)).items()]
    return "\n".join(lines)


def _place(module: str) -> tuple[int, str]:
    known = list(HEADINGS)
    return known.index(module) if module in known else len(known), module


def _by_cell(rows: list[Row]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {DOES["explored"]: []}
    for row in rows:
        titles = found.setdefault(row.cell, [])
        if row.title not in titles:
            titles.append(row.title)
    return {cell: titles for cell, titles in found.items() if titles}


if __name__ == "__main__":
    print(table())
