"""What optimizers, gradient scalers and DistributedDataParallel refuse, and gradients that do not fit their tensor."""

from __future__ import annotations

import re

from gradscope.findings.error_texts import at, found, line, name, pick, target
from gradscope.findings.finding import Finding
from gradscope.findings.place import listed
from gradscope.model.facts import ErrorFacts, TensorThere


def non_leaf(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: not one.leaf)
    optimizer = facts.optimizer or "the optimizer"
    made = f", computed{at(tensor.origin)}" if tensor is not None and tensor.origin is not None else ", computed from others"
    return found(
        facts,
        f"{name(tensor)} is no leaf{made}, and {line(facts)} gives it to {optimizer}: a step on it would change a result, "
        "which the next forward computes anew",
        "give the optimizer the leaf that it is computed from; a move or a cast makes a new tensor too, so do it before "
        "requires_grad: torch.randn(3, device=…, requires_grad=True), nn.Parameter(x)",
        tensor=tensor,
    )


def no_parameters(facts: ErrorFacts) -> Finding:
    return found(
        facts,
        f"{line(facts)} gives {facts.optimizer or 'the optimizer'} no parameter at all",
        "modules in a plain list or dict are not registered (nn.ModuleList, nn.ModuleDict are), nor are tensors that are no "
        "nn.Parameter; a generator of parameters can be used once only",
    )


def step(facts: ErrorFacts) -> Finding | None:
    """Something raised inside `optimizer.step()`, and the parameters of it that do not fit are known."""
    if not facts.optimizer or not any(re.search(r"\bstep$|_step\b|_single_tensor|_multi_tensor", one) for one in facts.below):
        return None
    if not facts.stepped:
        return None
    bad = facts.stepped[0]
    others = f" (and {len(facts.stepped) - 1} more)" if len(facts.stepped) > 1 else ""
    what = f"{name(bad, 'a parameter')} is {_spoken(bad)}"
    if not bad.leaf:
        message = f"{name(bad)} is no leaf any more, and {line(facts)} cannot step it{others}"
        return found(facts, message, "keep the parameter a leaf: change it in place under torch.no_grad()", tensor=bad)
    if "sparse" in bad.gradient:
        return found(
            facts,
            f"{line(facts)} cannot take the gradient of {name(bad)}, which is sparse{others}: {facts.message}",
            "use an optimizer for sparse gradients (SparseAdam, plain SGD, Adagrad), or make the embedding with sparse=False",
            kind="sparse-gradient",
            tensor=bad,
        )
    same = bad.gradient in ("", "none", _spoken(bad))
    kept, made = (f"what {facts.optimizer} keeps of it", "that") if same else ("its gradient", "the gradient")
    unlike = "was made for another shape or dtype" if same else f"is {bad.gradient}"
    return found(
        facts,
        f"{what}, but {kept} {unlike}{others}: the parameter was changed after {made} was made, so {line(facts)} fails",
        "move, cast or resize the model before the optimizer is made and before the forward; after loading weights of another "
        "shape make the optimizer anew",
        tensor=bad,
    )


def assigned(facts: ErrorFacts) -> Finding:
    """`p.grad = g` with another shape, dtype or device."""
    tensor = target(facts)
    given = pick(facts, lambda one: one is not tensor and one.role == "argument")
    it = name(tensor, "the tensor")
    its = f" is {_spoken(tensor)}" if tensor is not None else ""
    other = f"{name(given, 'what is assigned')} {_spoken(given)}" if given is not None else "what is assigned is not alike"
    return found(
        facts,
        f"{it}{its}, and {line(facts)} gives it a gradient that does not fit: {other}",
        "a gradient has the shape, the dtype and the device of its tensor: reshape it (sum over what was broadcast), "
        f"cast it with .to({it}.dtype)",
        tensor=tensor,
    )


def unfinished_reduction(facts: ErrorFacts) -> Finding:
    """DistributedDataParallel waits for every parameter; the message has their places."""
    places = re.search(r"did not receive grad for rank \d+: ([\d, ]+)", facts.message)
    numbers = [int(number) for number in re.findall(r"\d+", places[1])] if places else []
    names = [facts.parameters[number] for number in numbers if number < len(facts.parameters)]
    which = listed(names) if names else "some parameters (set TORCH_DISTRIBUTED_DEBUG=DETAIL to be told which)"
    got = "gets" if len(names) == 1 else "get"
    found_it = found(
        facts,
        f"{which} {got} no gradient in the backward pass before {line(facts)}, and DistributedDataParallel waits for each "
        "parameter: the forward did not use them, or the loss does not depend on them",
        "use every parameter in the loss, freeze those that are not trained (requires_grad_(False)) before the model is wrapped, "
        "or pass find_unused_parameters=True, which looks for them in each step",
        kind="missing-gradient",
    )
    return found_it if len(names) != 1 else _of_leaf(found_it, names[0])


def ready_twice(facts: ErrorFacts) -> Finding:
    index = re.search(r"[Pp]arameter (?:at )?index (\d+)", facts.message)
    number = int(index[1]) if index else -1
    which = facts.parameters[number] if 0 <= number < len(facts.parameters) else "a parameter"
    return found(
        facts,
        f"{which} is reached twice in one backward pass at {line(facts)}, and DistributedDataParallel takes each parameter once",
        "a reentrant checkpoint that runs twice over shared parameters does that (use_reentrant=False), and so do two forwards "
        "before one backward",
    )


def scaler(facts: ErrorFacts) -> Finding | None:
    """Calls of a GradScaler in a wrong order."""
    message = facts.message
    if "No inf checks were recorded" in message:
        return found(
            facts,
            f"no parameter of the optimizer has a gradient at {line(facts)}: the scaler found nothing to unscale",
            "call scaler.scale(loss).backward() before, on a loss that the optimizer's parameters go into, and zero_grad() "
            "only after the step",
            kind="step-without-gradient",
        )
    if "already been called on this optimizer" in message:
        return found(
            facts,
            f"{line(facts)} would divide the gradients by the scale a second time in one step",
            "call scaler.unscale_(optimizer) once for each step, and scaler.update() after it",
        )
    if "unscale FP16 gradients" in message:
        return found(
            facts,
            f"the parameters are half precision themselves, so their gradients are too, and {line(facts)} refuses them: what "
            "underflowed in them is lost already",
            "keep the parameters in float32 (no model.half()) and let torch.autocast cast in the forward",
        )
    if "scaler.scale(loss" in message:
        return found(
            facts,
            f"the scaler has scaled no loss before {line(facts)}",
            "call scaler.scale(loss).backward() instead of loss.backward()",
        )
    return None


def closure(facts: ErrorFacts) -> Finding | None:
    """`step()` of an optimizer that computes the loss itself, several times a step."""
    if not facts.optimizer:
        return None
    return found(
        facts,
        f"{line(facts)} gives no closure, and {facts.optimizer} needs one: it computes the loss and its gradients itself, "
        "several times a step",
        "optimizer.step(closure), where closure() clears the gradients, computes the loss, calls backward() and returns the loss",
    )


def not_finite(facts: ErrorFacts) -> Finding:
    return found(
        facts,
        f"a gradient is NaN or infinite at {line(facts)}: the norm of all gradients together is not finite",
        "gradscope --break nan --break inf stops at the backward pass that first has one, and says where it came from",
    )


def _of_leaf(finding: Finding, leaf: str) -> Finding:
    from dataclasses import replace

    return replace(finding, leaf=leaf)


def _spoken(tensor: TensorThere) -> str:
    """`float32 [3] on cpu`."""
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"
