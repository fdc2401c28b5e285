"""The outline of a pass: which steps belong to which module, which of them are one call of the forward, which blocks repeat.

Steps stay in engine order, so a group is always a stretch of neighbouring steps; a module that runs in two stretches has two
groups. The outline is worked out level by level, when a level is first looked at.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import UNKNOWN
from gradscope.model.repeats import Repeat, find_repeats
from gradscope.model.tape import Tape

MODULE, CALL, REPEATED, ROUND = "module", "call", "repeated", "round"


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring steps that belong to no group of this level."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A stretch of steps that can be one row."""

    kind: str
    """MODULE; CALL (what one call of the forward made); REPEATED (a series of alike members); ROUND (one of its members)"""
    key: str
    """the same for the same group in the next call's graph"""
    name: str
    """`mlp`, relative to the group around it; for calls the function; for rounds what is in it"""
    type: str
    """class of the module: `MLP`"""
    first: int
    last: int
    path: str = ""
    """of the module"""
    level: int = 0
    """how many levels of modules lie around what is inside"""
    parts: tuple[int | Group, ...] = field(default=(), repr=False)
    """of a series or a round: heads (places in the outline's `heads`) and groups"""
    period: int = 1
    """of a series: how many parts a member has"""
    stretch: str = ""
    """`2 of 3` where the module runs in several stretches of steps around here, this being one of them"""

    @property
    def label(self) -> str:
        return " ".join(filter(None, (self.name, self.type, self.stretch and f"({self.stretch})")))

    @property
    def rounds(self) -> int:
        """Members of a series."""
        return len(self.parts) // self.period


Item = Span | Group


def _holding(items: Sequence[Item], step: int) -> Item | None:
    """The item that begins last before a step."""
    place = bisect_right(items, step, key=lambda item: item.first)
    return items[place - 1] if place else None


class Outline:
    """Groups over the steps of a tape. A leaf belongs to the step before it, which was the last to contribute to it."""

    def __init__(self, graph: BackwardGraph, tape: Tape) -> None:
        self._graph = graph
        self._nodes = tape.step_node
        self.heads = array(
            "i", (step for step, node in enumerate(tape.step_node, 1) if step == 1 or not graph.is_accumulate(node))
        )
        """the steps that are no leaves (step 1 always is one)"""
        self.steps = tape.steps
        paths = Paths.of(graph)
        self._levels = paths.levels
        self._types = paths.types
        self._module = paths.by_origin(self._origins(), graph)
        """by head: number of a path"""
        self._inside: dict[str, list[Item]] = {}

    @classmethod
    def of(cls, graph: BackwardGraph, tape: Tape) -> Outline:
        """The outline of a tape, worked out once."""
        if "outline" not in tape.derived:
            tape.derived["outline"] = cls(graph, tape)
        outline: Outline = tape.derived["outline"]
        return outline

    def count_heads(self, span: Span) -> int:
        """Steps of a span that are no leaves."""
        return bisect_right(self.heads, span.last) - bisect_left(self.heads, span.first)

    # ------------------------------------------------------------ levels

    @property
    def top(self) -> list[Item]:
        if "" not in self._inside:
            self._inside[""] = self._modules_inside("", 0, len(self.heads), 0)
        return self._inside[""]

    def inside(self, group: Group) -> list[Item]:
        """What a group is made of; for a series its members."""
        if group.key not in self._inside:
            self._inside[group.key] = self._make_inside(group)
        return self._inside[group.key]

    def member(self, series: Group, number: int) -> Item:
        """One member of a series, without making the others."""
        part = series.parts[number * series.period]
        if series.period > 1:
            parts = series.parts[number * series.period : (number + 1) * series.period]
            bounds = self._bounds(part)[0], self._bounds(parts[-1])[1]
            return Group(ROUND, f"{series.key}/{number + 1}", series.name, "", *bounds, parts=parts)
        return part if isinstance(part, Group) else Span(*self._bounds(part))

    def opened_members(self, series: Group, closed: Callable[[str], bool], changed: frozenset[str]) -> list[int]:
        """Members that are open although the series is not; `changed` are the keys among which an open round can be."""
        if series.period == 1:
            return [place for place, part in enumerate(series.parts) if isinstance(part, Group) and not closed(part.key)]
        begin = len(series.key) + 1
        numbers = (key[begin:] for key in changed if key.startswith(f"{series.key}/"))
        return sorted(int(number) - 1 for number in numbers if number.isdigit() and int(number) <= series.rounds)

    def around(self, step: int) -> Iterator[Group]:
        """The groups that hold a step, outermost first."""
        item = _holding(self.top, step)
        while isinstance(item, Group) and item.last >= step:
            yield item
            item = self._member_at(item, step) if item.kind == REPEATED else _holding(self.inside(item), step)

    def _member_at(self, series: Group, step: int) -> Item | None:
        """The member that begins last before a step; the others are not made."""
        number = bisect_right(
            range(series.rounds), step, key=lambda number: self._bounds(series.parts[number * series.period])[0]
        )
        return self.member(series, number - 1) if number else None

    def module_run(self, step: int) -> tuple[str, int, int]:
        """Path of the module that a step belongs to, and the first and last step of its stretch, submodules included.

        Outside modules the stretch is that of steps outside modules.
        """
        starts, modules = self._runs
        run = bisect_right(starts, max(0, bisect_right(self.heads, step) - 1)) - 1
        levels = self._levels[modules[run]]
        low = high = run
        while low > 0 and self._holds(levels, modules[low - 1]):
            low -= 1
        while high + 1 < len(starts) and self._holds(levels, modules[high + 1]):
            high += 1
        end = starts[high + 1] if high + 1 < len(starts) else len(self.heads)
        return levels[-1] if levels else "", self.heads[starts[low]], self._end(end - 1)

    def _holds(self, levels: tuple[str, ...], module: int) -> bool:
        """Whether a module is the one of these levels, or within it."""
        other = self._levels[module]
        return other[: len(levels)] == levels if levels else not other

    @cached_property
    def _runs(self) -> tuple[array[int], array[int]]:
        """Neighbouring heads of one module: the first of each run, and its module."""
        starts, modules, place = array("i"), array("i"), 0
        for module, run in groupby(self._module):
            starts.append(place)
            modules.append(module)
            place += sum(1 for _ in run)
        return starts, modules

    def _end(self, place: int) -> int:
        """Last step of a head with its leaves."""
        return self.heads[place + 1] - 1 if place + 1 < len(self.heads) else self.steps

    def _origins(self) -> list[int]:
        return [self._graph.origin_index(self._nodes[step - 1]) for step in self.heads]

    # ------------------------------------------------------------ how a level is made

    def _make_inside(self, group: Group) -> list[Item]:
        if group.kind == MODULE:
            low, high = bisect_left(self.heads, group.first), bisect_right(self.heads, group.last)
            return self._modules_inside(group.key, low, high, group.level, group.path)
        if group.kind == CALL:
            return [Span(group.first, group.last)]
        if group.kind == ROUND:
            return self._finish(group.key, group.parts)
        if group.period == 1 and isinstance(group.parts[0], int):
            return [Span(group.first, group.last)]
        return [self.member(group, number) for number in range(group.rounds)]

    def _modules_inside(self, key: str, low: int, high: int, level: int, path: str = "") -> list[Item]:
        """Submodules and own steps between two heads, series of alike ones put together."""
        modules = self._module[low:high]
        inner = {module: levels[level] if len(levels := self._levels[module]) > level else "" for module in set(modules)}
        parts: list[int | Group] = []
        counts: dict[str, int] = {}
        place = low
        for name, run in groupby(map(inner.__getitem__, modules)):
            end = place + sum(1 for _ in run)
            if name:
                counts[name] = count = counts.get(name, 0) + 1
                relative = name[len(path) + 1 :] if path else name
                unique = name if count == 1 else f"{name}#{count}"
                own = f"{key}>{unique}" if key else unique
                bounds = self.heads[place], self._end(end - 1)
                parts.append(
                    Group(MODULE, own, relative, self._types.get(name, ""), *bounds, name, level + 1, stretch=str(count))
                )
            else:
                parts.extend(range(place, end))
            place = end
        return self._finish(key, self._series(key, [_counted(part, counts) for part in parts]))

    def _series(self, key: str, parts: Sequence[int | Group]) -> list[int | Group]:
        result: list[int | Group] = []
        done = 0
        for number, found in enumerate(find_repeats(self._signatures(parts)), 1):
            members = tuple(parts[found.start : found.start + found.period * found.rounds])
            if self._worthwhile(members, found):
                first, last = self._bounds(members[0])[0], self._bounds(members[-1])[1]
                result.extend(parts[done : found.start])
                name = self._names(members[: found.period])
                result.append(Group(REPEATED, f"{key}×{number}", name, "", first, last, parts=members, period=found.period))
                done = found.start + len(members)
        result.extend(parts[done:])
        return result

    def _worthwhile(self, members: Sequence[int | Group], found: Repeat) -> bool:
        """Two alike modules are a series; of single steps it takes more."""
        if found.period == 1 and isinstance(members[0], Group):
            return True
        return found.rounds >= 3 and len(members) >= 6

    def _signatures(self, parts: Sequence[int | Group]) -> list[int]:
        """Equal for parts that look alike: steps of the same op and line, modules of the same class."""
        numbers: dict[tuple[str, str], int] = {}
        graph, width = self._graph, len(self._graph.columns.ops)
        nodes, heads = self._nodes, self.heads
        result = []
        for part in parts:
            if isinstance(part, Group):
                name = "" if part.type or part.name.rpartition(".")[2].isdigit() else part.name
                result.append(-1 - numbers.setdefault((part.type, name), len(numbers)))
            else:
                node = nodes[heads[part] - 1]
                result.append((graph.origin_index(node) + 1) * width + graph.op_index(node))
        return result

    def _finish(self, key: str, parts: Sequence[int | Group]) -> list[Item]:
        """Steps in a row become spans, what one call made becomes a group."""
        items: list[Item] = []
        for is_group, run in groupby(parts, key=lambda part: isinstance(part, Group)):
            if is_group:
                items.extend(part for part in run if isinstance(part, Group))
            else:
                heads = [part for part in run if isinstance(part, int)]
                items.extend(self._calls(key, heads, alone=len(heads) == len(parts)))
        return items

    def _calls(self, key: str, heads: list[int], alone: bool) -> list[Item]:
        graph, nodes = self._graph, self._nodes
        items: list[Item] = []
        loose: list[int] = []
        for origin, run in groupby(heads, key=lambda head: graph.origin_index(nodes[self.heads[head] - 1])):
            made = list(run)
            if origin == UNKNOWN or len(made) < 2 or (alone and len(made) == len(heads)):
                loose.extend(made)
                continue
            if loose:
                items.append(Span(self.heads[loose[0]], self._end(loose[-1])))
                loose = []
            first, last = self.heads[made[0]], self._end(made[-1])
            items.append(
                Group(
                    CALL,
                    f"{key}:{graph.columns.origins[origin].line}+{made[0] - heads[0]}",
                    self._call_name(origin, made),
                    "",
                    first,
                    last,
                )
            )
        if loose:
            items.append(Span(self.heads[loose[0]], self._end(loose[-1])))
        return items

    # ------------------------------------------------------------ names

    def _call_name(self, origin: int, heads: list[int]) -> str:
        made = self._graph.columns.origins[origin]
        return made.torch_function.rpartition(".")[2] or self._names(heads)

    def _names(self, parts: Sequence[int | Group]) -> str:
        """`Tanh Add Mm`; at most three."""
        names = [
            part.type or part.name if isinstance(part, Group) else self._graph.short(self._nodes[self.heads[part] - 1])
            for part in parts[:4]
        ]
        return " ".join(names[:3]) + ("…" if len(names) > 3 else "")

    def _bounds(self, part: int | Group) -> tuple[int, int]:
        return (part.first, part.last) if isinstance(part, Group) else (self.heads[part], self._end(part))

    def series_label(self, series: Group, start: int, end: int) -> str:
        """Of some neighbouring members: `h.4…h.0 Block ×5`, `wte wpe Embedding ×2`, `Tanh Add Mm ×2000`."""
        first, last = self.member(series, start), self.member(series, end - 1)
        if not (isinstance(first, Group) and isinstance(last, Group) and first.kind == MODULE):
            return f"{series.name} ×{end - start}"
        if first.name == last.name:
            return f"{first.name} {first.type}".rstrip() + f" ×{end - start}"
        between = " " if end - start == 2 and not last.name.rpartition(".")[2].isdigit() else "…"
        return f"{first.name}{between}{last.name} {first.type}".rstrip() + f" ×{end - start}"


def _counted(part: int | Group, counts: dict[str, int]) -> int | Group:
    """A module's stretch of steps, with how many it has; one that has a single one says nothing of it."""
    if isinstance(part, int):
        return part
    count = counts[part.path]
    return replace(part, stretch=f"{part.stretch} of {count}" if count > 1 else "")


@dataclass(frozen=True, slots=True)
class Paths:
    """Module paths by number, each with the levels that it goes through."""

    names: list[str]
    levels: list[tuple[str, ...]]
    types: dict[str, str]

    @classmethod
    def of(cls, graph: BackwardGraph) -> Paths:
        types = {origin.module: origin.module_type for origin in graph.columns.origins if origin.module}
        return cls([""], [()], types)

    def by_origin(self, origins: list[int], graph: BackwardGraph) -> array[int]:
        """The path's number for each head, from its origin's; where that is unknown, what its neighbours have in common."""
        number_of = {"": 0}
        kept = _levels(self.types)

        def number(path: str) -> int:
            if path not in number_of:
                number_of[path] = len(self.names)
                self.names.append(path)
                self.levels.append(tuple(prefix for prefix in _prefixes(path) if prefix in kept))
            return number_of[path]

        of_origin = [number(origin.module) for origin in graph.columns.origins]
        if not kept:
            return array("i", bytes(4 * len(origins)))
        known = [UNKNOWN if origin == UNKNOWN else of_origin[origin] for origin in origins]
        place = 0
        for value, run in groupby(list(known)):
            end = place + sum(1 for _ in run)
            if value == UNKNOWN:
                before = self.names[known[place - 1]] if place else ""
                after = self.names[known[end]] if end < len(known) else ""
                known[place:end] = [number(_common(before, after))] * (end - place)
            place = end
        return array("i", known)


def _prefixes(path: str) -> Iterator[str]:
    """`h`, `h.5`, `h.5.attn`."""
    end = path.find(".")
    while end >= 0:
        yield path[:end]
        end = path.find(".", end + 1)
    if path:
        yield path


def _levels(modules: dict[str, str]) -> set[str]:
    """The paths that deserve a level: modules that made nodes, and those around them which are no mere lists of numbered ones."""
    kept = set(modules)
    for path in modules:
        prefixes = list(_prefixes(path))
        kept.update(outer for outer, inner in pairwise(prefixes) if not inner.rpartition(".")[2].isdigit())
    return kept


def _common(one: str, other: str) -> str:
    shared = []
    for left, right in zip(one.split("."), other.split("."), strict=False):
        if left != right:
            break
        shared.append(left)
    return ".".join(shared)
