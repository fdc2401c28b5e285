"""What keeps my memory: the nodes of a group, or its modules, by the bytes that they keep for backward."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from textual.content import Content

from gradscope.model.places import UNKNOWN
from gradscope.model.saved import SavedTable
from gradscope.tui import numbers
from gradscope.tui.colours import MUTED, TEXT
from gradscope.tui.widgets.jumps import leads
from gradscope.tui.widgets.selected import Selected

BYTES, STEP, MODULE = ORDERS = ("bytes", "step", "module")

ORDER = "order"
"""the goal of the line that says the order"""

SHOWN = 200

STRONG = f"bold {TEXT}"


@dataclass(slots=True)
class Sums:
    """What one group keeps."""

    every: int
    own: int
    tensors: int
    ranked: list[int]
    """the nodes that keep something, largest first"""
    own_bytes: dict[int, int]
    bytes: dict[int, int]
    """by node"""


_known: WeakKeyDictionary[SavedTable, dict[tuple[int, int], Sums]] = WeakKeyDictionary()


def write(row: Selected, table: SavedTable, width: int, order: str) -> list[Content]:
    """Totals, then one line a node or module; each leads there."""
    sums = _sums(row, table)
    tensors = "1 tensor" if sums.tensors == 1 else f"{sums.tensors:,} tensors"
    lines = [Content.assemble(("held for backward", STRONG), f"  {numbers.size(sums.every)}", (f" in {tensors}", MUTED))]
    if sums.own != sums.every:
        lines.append(Content.styled(f"  freed with the graph: {numbers.size(sums.own)}", MUTED))
        lines.append(Content.styled("  the rest stays: parameters, inputs, variables", MUTED))
    if row.whole and len(table.by_device) > 1:
        devices = (f"{numbers.size(size)} on {device}" for device, size in table.by_device.items())
        lines.append(Content.styled(f"  {'   '.join(devices)}", MUTED))
    if not sums.ranked:
        return lines
    following = ORDERS[(ORDERS.index(order) + 1) % len(ORDERS)]
    head = Content.assemble(("what keeps my memory", STRONG), (f"   by {order}   Enter: by {following}", MUTED))
    lines += [Content(), leads(head, ORDER)]
    listed = _modules(row, table, sums) if order == MODULE else _nodes(row, sums, order)
    lines += [line.truncate(width, ellipsis=True) for line in listed]
    return lines


def _sums(row: Selected, table: SavedTable) -> Sums:
    """Added up once for each group."""
    known = _known.setdefault(table, {})
    place = (row.first, row.last)
    if place not in known:
        known[place] = _added(row, table)
    return known[place]


def _added(row: Selected, table: SavedTable) -> Sums:
    """One look at each row of the table: there may be a hundred thousand."""
    sizes, owners = table.columns.storage_bytes, table.columns.storage_owner
    every: dict[int, int] = {}
    own: dict[int, int] = {}
    storages: set[int] = set()
    tensors = 0
    for node in row.nodes:
        rows = table.rows_of(node)
        if rows:
            held = set(table.storage[rows.start : rows.stop])
            held.discard(UNKNOWN)
            every[node] = sum(sizes[storage] for storage in held)
            own[node] = sum(sizes[storage] for storage in held if not owners[storage])
            storages |= held
            tensors += len(rows)
    return Sums(
        every=sum(sizes[storage] for storage in storages),
        own=sum(sizes[storage] for storage in storages if not owners[storage]),
        tensors=tensors,
        ranked=sorted(every, key=lambda node: (-own[node], -every[node], node)),
        own_bytes=own,
        bytes=every,
    )


def _nodes(row: Selected, sums: Sums, order: str) -> list[Content]:
    """`  4.0 MiB  Softmax  h.5.attn  :41`."""
    nodes = sums.ranked
    if order == STEP:
        nodes = sorted(nodes, key=lambda node: (row.tape.step_of(node) or row.tape.steps + 1, node))
    lines = []
    for node in nodes[:SHOWN]:
        origin, step = row.graph.origin(node), row.tape.step_of(node)
        where = "" if origin is None else f"  {origin.module}" if origin.module else f"  :{origin.line}"
        lent = sums.bytes[node] - sums.own_bytes[node]
        aside = f"  +{numbers.size(lent)} not freed" if lent else ""
        text = Content.assemble(
            (f"{numbers.size(sums.own_bytes[node]):>10}  ", TEXT),
            (f"{row.graph.short(node):<14}", TEXT),
            (f" {f'step {step}' if step else 'does not run'}{where}{aside}", MUTED),
        )
        lines.append(leads(text, node))
    if len(nodes) > SHOWN:
        lines.append(Content.styled(f"… {len(nodes) - SHOWN:,} more", MUTED))
    return lines


def _modules(row: Selected, table: SavedTable, sums: Sums) -> list[Content]:
    """Each module with what the modules in it keep; leads to its node that keeps most."""
    heaviest: dict[str, int] = {}
    inside: dict[str, list[int]] = {}
    for node in sums.ranked:
        origin = row.graph.origin(node)
        parts = origin.module.split(".") if origin is not None and origin.module else []
        for length in range(len(parts) + 1):
            module = ".".join(parts[:length])
            heaviest.setdefault(module, node)
            inside.setdefault(module, []).append(node)
    own = {module: table.bytes_of_nodes(nodes, own=True) for module, nodes in inside.items()}
    ranked = sorted(inside, key=lambda module: (-own[module], module))
    lines = []
    for module in ranked[:SHOWN]:
        size = f"{numbers.size(own[module]):>10}  "
        text = Content.assemble((size, TEXT), (module or "all", TEXT), (_kept(inside[module]), MUTED))
        lines.append(leads(text, heaviest[module]))
    return lines


def _kept(nodes: list[int]) -> str:
    return f"   {len(nodes)} node{'' if len(nodes) == 1 else 's'}"
