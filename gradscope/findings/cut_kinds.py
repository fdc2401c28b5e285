"""What each kind of cut does to a graph, in words, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from gradscope.findings.finding import Related
from gradscope.model.facts import Cut
from gradscope.model.places import Origin

CASTS = ("item", "tolist", "numpy", "float", "int")
"""Cuts that make plain numbers: most of them are for printing only."""


@dataclass(frozen=True, slots=True)
class CutKind:
    """Words for a kind of cut."""

    does: str
    """after the place where it is: `line 17 (fake = G(z).detach()) cuts the graph with detach()`"""
    hint: str


_SAMPLE = CutKind(
    "draws with sample(), which runs without gradients",
    "rsample() draws the same numbers and lets gradients through to the distribution's parameters; where there is none, use "
    "log_prob",
)
_NUMBERS = CutKind(
    "makes plain Python numbers of a tensor, and these carry no graph",
    "compute on with the tensor itself (torch.stack and torch.cat join several); use numbers for printing only",
)
_COPY = CutKind(
    "copies with deepcopy, which makes leaves of their own",
    "let the optimizer hold what the loss uses: make it of the copy's parameters, after copying, or train the original",
)
HINT_FLAT = "use a smooth stand-in (softmax, sigmoid, gumbel_softmax), or a straight-through estimator"
_KINDS = {
    "detach": CutKind(
        "cuts the graph with detach()",
        "leave out the detach() where this loss is to train what lies behind it, and detach only what another loss uses",
    ),
    "data": CutKind(
        "cuts the graph with .data",
        "use the tensor itself instead of its .data, and detach() where a cut is meant",
    ),
    "no_grad": CutKind(
        "runs under no_grad, so what it makes has no graph",
        "run it outside no_grad; to keep a network fixed, requires_grad_(False) on its parameters lets gradients through; "
        "to update a leaf under no_grad, write into it (w -= ..., w.copy_()) instead of rebinding its name",
    ),
    "inference_mode": CutKind(
        "runs in inference mode, so what it makes has no graph",
        "run it outside inference_mode: what is made there can never be differentiated",
    ),
    "copy": CutKind(
        "makes a new tensor of the values alone",
        "torch.stack([...]) or torch.cat([...]) join tensors and keep their graph; x.clone() copies one",
    ),
    "parameter": CutKind(
        "wraps a tensor in Parameter again, which makes a new leaf of its values",
        "assign the very Parameter to share it, or keep the tensor a plain tensor where it is computed from others",
    ),
    "flat": CutKind(
        "has no derivative: it makes integers or truth values",
        HINT_FLAT,
    ),
    "no_create_graph": CutKind(
        "differentiates without create_graph=True, so the gradients that it gives are constants",
        "torch.autograd.grad(..., create_graph=True) where a loss is computed from these gradients",
    ),
    "checkpoint": CutKind(
        "runs a reentrant checkpoint none of whose inputs requires a gradient, so its output has no graph",
        "checkpoint(..., use_reentrant=False), or requires_grad_() on an input",
    ),
    "numpy": CutKind(
        "goes over to NumPy, whose arrays carry no graph",
        "do the same with torch's own functions, or write a torch.autograd.Function with a backward for it",
    ),
    "item": _NUMBERS,
    "tolist": _NUMBERS,
    "float": _NUMBERS,
    "int": _NUMBERS,
}
_OTHER = CutKind("cuts the graph", "compute it from tensors with a graph")


def kind_of(cut: Cut) -> CutKind:
    """The words for a cut."""
    if cut.kind in ("no_grad", "detach") and _samples(cut.origin):
        return _SAMPLE
    if cut.kind == "parameter" and "deepcopy" in (cut.origin.expression or cut.origin.code):
        return _COPY
    return _KINDS.get(cut.kind, _OTHER)


def _samples(origin: Origin) -> bool:
    """A distribution's own sample(); one of the person's may be anything."""
    library = any("distributions" in place.file and "sample" in place.function for place in origin.frames)
    return ".sample(" in origin.code and (library or origin.torch_function.startswith(_DRAWING))


_DRAWING = ("torch.normal", "torch.bernoulli", "torch.multinomial", "torch.poisson", "torch.distributions", "Distribution")


def related(cut: Cut) -> Related:
    """The place of a cut, with what is written there."""
    origin = cut.origin
    return Related(origin.file, origin.line, origin.expression or origin.code or cut.kind)
