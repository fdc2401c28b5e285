"""Prints the README's table of kinds of autograd; from the root: `PYTHONPATH=. python tests/compat/make_table.py`."""

from __future__ import annotations

from rows import rows_of


def table() -> str:
    """Markdown; rows of one kind that are treated alike are one line."""
    lines = dict.fromkeys((row.title, row.cell) for row in rows_of())
    return "\n".join(["| kind | what gradscope does |", "|---|---|", *(f"| {title} | {cell} |" for title, cell in lines)])


if __name__ == "__main__":
    print(table())
