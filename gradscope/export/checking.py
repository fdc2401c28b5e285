"""Are columns read from a file sound? Every index is looked at, so that a damaged snapshot fails when opened, not when drawn."""

from __future__ import annotations

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import GraphColumns, TapeColumns
from gradscope.model.places import UNKNOWN
from gradscope.model.saved import STATES, Looked, SavedColumns
from gradscope.model.tensors import NO_TENSOR, TensorColumns


def check_graph(columns: GraphColumns) -> None:
    """
    Raises:
        ValueError: a column has the wrong length, or an index points at nothing.
    """
    nodes = _length("op", columns.op)
    edges = _length("edge_source", columns.edge_source)
    for name in ("shape", "dtype", "origin", "occurrence"):
        _same_length(name, getattr(columns, name), nodes, optional=True)
    _same_length("sequence_nr", columns.sequence_nr, nodes, width=8, optional=True)
    for name in ("edge_slot", "edge_target", "edge_input_nr"):
        _same_length(name, getattr(columns, name), edges)
    _indices("op", columns.op, 0, len(columns.ops))
    _indices("shape", columns.shape, UNKNOWN, len(columns.shapes))
    _indices("dtype", columns.dtype, UNKNOWN, len(columns.dtypes))
    _indices("origin", columns.origin, UNKNOWN, len(columns.origins))
    _indices("edge_source", columns.edge_source, 0, nodes)
    _indices("edge_target", columns.edge_target, 0, nodes)
    for root in columns.roots:
        _one("root", root.node, UNKNOWN, nodes)
    for leaf in columns.leaves:
        _one("leaf", leaf.node, UNKNOWN, nodes)
        _one("leaf", leaf.origin, UNKNOWN, len(columns.origins))
    for node in (*(hook.node for hook in columns.hooks), *columns.backward_code):
        _one("hook", node, 0, nodes)


def check_tape(columns: TapeColumns, graph: BackwardGraph) -> None:
    """
    Raises:
        ValueError: a column has the wrong length, or an index points at nothing.
    """
    tensors = check_tensors(columns.tensors)
    steps = _length("step_node", columns.step_node)
    sent = _length("contribution_step", columns.contribution_step)
    for name in ("contribution_edge", "contribution_tensor", "contribution_so_far"):
        _same_length(name, getattr(columns, name), sent)
    arrivals = _length("arrival_step", columns.arrival_step)
    for name in ("arrival_input_nr", "arrival_tensor"):
        _same_length(name, getattr(columns, name), arrivals)
    _indices("step_node", columns.step_node, 0, len(graph))
    _indices("contribution_step", columns.contribution_step, 0, steps + 1)
    _indices("contribution_edge", columns.contribution_edge, -len(graph.roots), graph.edge_count)
    _indices("arrival_step", columns.arrival_step, 1, steps + 1)
    for name in ("contribution_tensor", "contribution_so_far", "arrival_tensor", "leaf_before", "leaf_after"):
        _indices(name, getattr(columns, name), NO_TENSOR, tensors)
    for seed in columns.seeds:
        _one("seed", seed.tensor, NO_TENSOR, tensors)
        _one("seed", seed.root, 0, max(1, len(graph.roots)))
    _one("root", columns.root, UNKNOWN, len(graph))
    if columns.failure is not None:
        _one("failure", columns.failure.node, UNKNOWN, len(graph))
    for effect in columns.hook_effects:
        _one("hook", effect.hook, 0, len(graph.columns.hooks))
        _one("hook step", effect.step, 1, steps + 1)
        _one("hook tensor", effect.before, NO_TENSOR, tensors)
        _one("hook tensor", effect.after, NO_TENSOR, tensors)
    for change in columns.changes:
        _one("what-if", change.node, 0, len(graph))
        _one("what-if", change.edge, UNKNOWN, graph.edge_count)
        _one("what-if", change.before, NO_TENSOR, tensors)


def check_saved(columns: SavedColumns, graph: BackwardGraph) -> None:
    """
    Raises:
        ValueError: a column has the wrong length, or an index points at nothing.
    """
    rows = _length("saved node", columns.node)
    for name in ("name", "shape", "dtype", "storage"):
        _same_length(f"saved {name}", getattr(columns, name), rows)
    _same_length("saved state", columns.state, rows, width=1)
    for name in ("version_saved", "version_now"):
        _same_length(f"saved {name}", getattr(columns, name), rows, width=8)
    storages = len(columns.storage_bytes)
    if not len(columns.storage_owner) == len(columns.storage_device) == storages:
        raise ValueError(f"saved storages: {storages} with {len(columns.storage_owner)} owners")
    _indices("saved node", columns.node, 0, len(graph))
    _indices("saved name", columns.name, 0, len(columns.names))
    _indices("saved shape", columns.shape, UNKNOWN, len(columns.shapes))
    _indices("saved dtype", columns.dtype, UNKNOWN, len(columns.dtypes))
    _indices("saved storage", columns.storage, UNKNOWN, storages)
    for state in columns.state:
        _one("saved state", state, 0, len(STATES))
    for node in columns.untold:
        _one("saved node", node, 0, len(graph))


def check_looked(looked: Looked, graph: BackwardGraph) -> None:
    """
    Raises:
        ValueError: a column has the wrong length, or an index points at nothing.
    """
    _one("inspected node", looked.node, 0, len(graph))
    rows = check_tensors(looked.tensors)
    if len(looked.places) != rows or any(place < 0 for place in looked.places):
        raise ValueError(f"inspected: {len(looked.places)} places for {rows} tensors")


def check_tensors(columns: TensorColumns) -> int:
    """How many tensors there are.

    Raises:
        ValueError: a column has the wrong length, or an index points at nothing.
    """
    count = _length("shape", columns.shape)
    for name in ("dtype", "device"):
        _same_length(name, getattr(columns, name), count)
    for name in ("norm", "min", "max", "mean", "nan", "inf", "zero", "value_start"):
        _same_length(name, getattr(columns, name), count, width=8)
    for name in ("known", "held"):
        _same_length(name, getattr(columns, name), count, width=1)
    _indices("shape", columns.shape, 0, len(columns.shapes))
    _indices("dtype", columns.dtype, 0, len(columns.dtypes))
    _indices("device", columns.device, 0, len(columns.devices))
    _check_values(columns)
    return count


def _check_values(columns: TensorColumns) -> None:
    """Each tensor's values lie inside the cells."""
    cells = _length("values", columns.values, width=8)
    shapes, dtypes = memoryview(columns.shape).cast("i"), memoryview(columns.dtype).cast("i")
    needed: dict[tuple[int, int], int] = {}
    for start, shape, dtype in zip(memoryview(columns.value_start).cast("q"), shapes, dtypes, strict=True):
        if start < 0:
            continue
        if (shape, dtype) not in needed:
            needed[shape, dtype] = _cells(columns.shapes[shape], columns.dtypes[dtype])
        if start + needed[shape, dtype] > cells:
            raise ValueError(f"values: cells from {start} of {cells}")


def _cells(shape: tuple[int, ...], dtype: str) -> int:
    count = 2 if dtype.startswith("complex") else 1
    for extent in shape:
        count *= extent
    return count


def _length(name: str, column: bytes, width: int = 4) -> int:
    if len(column) % width:
        raise ValueError(f"{name}: {len(column)} bytes in cells of {width}")
    return len(column) // width


def _same_length(name: str, column: bytes, count: int, width: int = 4, optional: bool = False) -> None:
    if len(column) != count * width and not (optional and not column):
        raise ValueError(f"{name}: {len(column)} bytes for {count} cells of {width}")


def _indices(name: str, column: bytes, low: int, end: int) -> None:
    if len(column) % 4:
        raise ValueError(f"{name}: {len(column)} bytes in cells of 4")
    cells = memoryview(column).cast("i")
    if len(cells):
        _one(name, min(cells), low, end)
        _one(name, max(cells), low, end)


def _one(name: str, value: int, low: int, end: int) -> None:
    if not low <= value < end:
        raise ValueError(f"{name}: {value} is not from {low} to {end - 1}")
