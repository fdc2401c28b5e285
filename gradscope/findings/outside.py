"""Exceptions that end the script: those of autograd are told in the person's own terms, all others are left to themselves."""

from __future__ import annotations

import re

from gradscope.findings import refused_calls, refused_steps, refused_tensors, refused_writes
from gradscope.findings.error_texts import Rule, called, found
from gradscope.findings.finding import Finding
from gradscope.model.facts import ErrorFacts

_BY_MESSAGE: tuple[tuple[str, Rule], ...] = (
    ("leaf Variable that requires grad is being used in an in-place", refused_writes.leaf),
    ("view was created in no_grad mode", refused_writes.view_from_no_grad),
    ("created inside a custom Function", refused_writes.view_of_function),
    ("function that returns multiple views", refused_writes.one_of_several_views),
    ("Inplace update to inference tensor", refused_writes.into_inference_tensor),
    ("with out=... arguments don't support automatic", refused_writes.into_out),
    ("Inference tensors cannot be saved for backward", refused_tensors.inference_saved),
    ("Setting requires_grad=True on inference tensor", refused_tensors.inference_asked),
    ("Can't call numpy() on Tensor that requires grad", refused_tensors.to_numpy),
    ("support the deepcopy protocol", refused_tensors.copied),
    ("Cowardly refusing to serialize non-leaf", refused_tensors.sent_away),
    ("dtype can require gradients", refused_tensors.no_dtype_for_gradients),
    ("only change requires_grad flags of leaf", refused_tensors.flag_of_non_leaf),
    ("cannot register a hook on a tensor that doesn't require", refused_tensors.hook_without_gradient),
    ("can't retain_grad on Tensor that has requires_grad=False", refused_tensors.hook_without_gradient),
    ("(torch.nn.Parameter or None expected)", refused_tensors.parameter_bound_anew),
    ("can't optimize a non-leaf Tensor", refused_steps.non_leaf),
    ("optimizer got an empty parameter list", refused_steps.no_parameters),
    ("attempting to assign a gradient", refused_steps.assigned),
    ("assigned grad has data of a different", refused_steps.assigned),
    ("Expected to have finished reduction", refused_steps.unfinished_reduction),
    ("Expected to mark a variable ready only once", refused_steps.ready_twice),
    ("No inf checks were recorded", refused_steps.scaler),
    ("unscale_() has already been called", refused_steps.scaler),
    ("Attempting to unscale FP16", refused_steps.scaler),
    ("_scale is None", refused_steps.scaler),
    ("for gradients from `parameters` is non-finite", refused_steps.not_finite),
    ("does not require grad and does not have a grad_fn", refused_calls.no_graph),
    ("One of the differentiated Tensors does not require grad", refused_calls.input_without_gradient),
    ("appears to not have been used in the graph", refused_calls.unused),
    ("grad can be implicitly created only for", refused_calls.nonscalar),
    ("Mismatch in shape: grad_output", refused_calls.seed),
    ("grad_output[", refused_calls.seed),
    (" tensors and ", refused_calls.number_of_seeds),
    ("backward through the graph a second time", refused_calls.freed),
    ("modified by an inplace operation", refused_calls.modified),
    ("Recomputed values for the following tensors", refused_calls.recomputed),
    ("different number of tensors was saved during", refused_calls.recomputed),
    ("an incorrect number of gradients", refused_calls.custom),
    ("returned an invalid gradient", refused_calls.custom),
    ("more than one element of the written-to tensor refers to a single memory", refused_writes.overlapping),
    ("missing 1 required positional argument: 'closure'", refused_steps.closure),
    ("derivative for ", refused_tensors.no_derivative),
)
"""What torch says, and who explains it; the first that fits."""

_ABOUT_GRADIENTS = re.compile(
    r"requires?[ _]grad|autograd|grad_fn|in-?place|\bleaf\b|backward|derivative|differentia", re.IGNORECASE
)


def outside(facts: ErrorFacts) -> list[Finding]:
    """The finding that explains an exception; empty for one that has nothing to do with autograd."""
    if facts.raised_there:
        return []
    rule = next((rule for words, rule in _BY_MESSAGE if words in facts.message), None)
    finding = rule(facts) if rule is not None else None
    finding = finding or refused_tensors.no_gradient_there(facts) or refused_steps.step(facts)
    if finding is None and facts.call:
        finding = refused_calls.any_call(facts)
    elif finding is None and _by_torch(facts) and _ABOUT_GRADIENTS.search(facts.message):
        finding = found(facts, f"{called(facts)} was refused: {facts.message}", "")
    return [] if finding is None else [finding]


def _by_torch(facts: ErrorFacts) -> bool:
    """Torch raised it, or a function of its that is not written in Python."""
    inner = facts.below[-1:]
    return facts.type == "RuntimeError" and all(one.startswith("torch/") for one in inner)
