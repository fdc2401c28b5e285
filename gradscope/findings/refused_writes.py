"""Writes in place that autograd refuses while the forward runs."""

from __future__ import annotations

from gradscope.findings.error_texts import at, called, found, line, name, pick, target
from gradscope.findings.finding import Finding, Related
from gradscope.model.facts import ErrorFacts, TensorThere


def overlapping(facts: ErrorFacts) -> Finding | None:
    """Several elements of the tensor are one number in memory."""
    tensor = target(facts) or pick(facts, lambda one: one.role == "inside" and one.requires_grad)
    if tensor is None:
        return None
    it = name(tensor, "the tensor")
    return found(
        facts,
        f"several elements of {it} lie on one number in memory, as expand() makes them, and {line(facts)} would write them one "
        "by one",
        f"copy the elements first ({it}.clone(), nn.Parameter(x.expand(...).clone())); to train one number for all of them keep "
        "that one as the leaf and expand it in the forward",
        tensor=tensor,
    )


def leaf(facts: ErrorFacts) -> Finding:
    """`w.add_(1)`, `w[0] = 1`, `w -= lr * w.grad` outside no_grad."""
    tensor = pick(facts, lambda one: one.leaf and one.requires_grad and one.role == "target", _is_leaf, _views_one)
    viewed = tensor.view_of if tensor is not None and tensor.view_of not in ("", "?") else ""
    what = f"{name(tensor)} is a leaf that requires a gradient"
    if tensor is not None and not tensor.leaf:
        what = f"{name(tensor)} is a view of {viewed or 'a leaf'}, which requires a gradient"
    whose = viewed or name(tensor, "the leaf")
    return found(
        facts,
        f"{what}, and {called(facts)} writes into it: the value that its gradient would be for is gone then, so torch refuses",
        f"an update or a new start value belongs under torch.no_grad(); in the forward make a new tensor instead, "
        f"or write into {whose}.clone()",
        tensor=tensor,
    )


def view_from_no_grad(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: bool(one.view_of) and one.role == "target", lambda one: bool(one.view_of))
    base = tensor.view_of if tensor is not None and tensor.view_of != "?" else "another tensor"
    return found(
        facts,
        f"{name(tensor)} is a view of {base} that was made under no_grad, and {called(facts)} writes into it with gradients on: "
        "whether that write should have a gradient cannot be told, so torch refuses",
        "make the view and write into it on the same side of the no_grad block: both inside, or both outside",
        tensor=tensor,
    )


def view_of_function(facts: ErrorFacts) -> Finding:
    """The output of a custom Function, or what a full backward hook puts round a module's."""
    if "BackwardHookFunction" in facts.message:
        return _behind_hook(facts)
    tensor = target(facts) or pick(facts, lambda one: not one.leaf)
    function = facts.message.partition(" of ")[2].partition(" is a view")[0]
    return found(
        facts,
        f"{name(tensor)} is what {function} returned of its own input (as it is, or as a view), and {called(facts)} writes into "
        f"it: the write would go past the backward of {function}, so torch refuses",
        f"write into a copy, {name(tensor, 'y')}.clone(); or let {function}.forward return a new tensor",
        tensor=tensor,
    )


def _behind_hook(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: one.op.startswith("BackwardHookFunction"))
    hooks = [f"{hook.function}{at(hook)}" for hook in facts.hooks]
    whose = facts.hooked or "a module"
    with_hooks = f"full backward hook{'s'[: len(hooks) - 1]} {', '.join(hooks)}" if hooks else "full backward hook"
    inplace = "inplace=False" if facts.site is not None and facts.site.module_type else "one that is not in place"
    return found(
        facts,
        f"{called(facts)} writes in place into the output of {whose}, which the {with_hooks} has wrapped in a view: the write "
        "would go past the hook, so torch refuses it, though without the hook it is fine",
        f"write nothing in place behind a module with a full backward hook ({inplace}), or hook the tensor instead: "
        "out.register_hook(…)",
        tensor=tensor,
        related=[Related(hook.file, hook.line, f"the hook {hook.function}") for hook in facts.hooks],
    )


def one_of_several_views(facts: ErrorFacts) -> Finding:
    function = facts.message.partition(" of ")[2].partition(" is a view")[0].lower()
    tensor = target(facts)
    return found(
        facts,
        f"{name(tensor)} is one of several views that {function}() made at once, and {called(facts)} writes into it: "
        "autograd cannot follow such a write",
        f"index instead, as one view at a time may be written into ({name(tensor, 'x')} = base[0]), or make a new tensor",
        tensor=tensor,
    )


def into_inference_tensor(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: one.inference)
    return found(
        facts,
        f"{name(tensor)} was made under torch.inference_mode(), and {called(facts)} writes into it outside: "
        "autograd keeps no count of writes for such tensors",
        f"write into {name(tensor, 'it')}.clone(), or use torch.no_grad() where it is made",
        tensor=tensor,
    )


def into_out(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: one.requires_grad)
    return found(
        facts,
        f"{line(facts)} writes its result into out=, and {name(tensor)} requires a gradient: "
        "functions with out= are not recorded by autograd",
        "leave out= away and use what the function returns, or compute under torch.no_grad()",
        tensor=tensor,
    )


def _is_leaf(tensor: TensorThere) -> bool:
    return tensor.leaf and tensor.requires_grad


def _views_one(tensor: TensorThere) -> bool:
    return bool(tensor.view_of)
