"""Steps of an optimizer that find nothing to step with, and parameters that it steps in vain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import listed, written
from gradscope.model.facts import EarlierCall, StepFacts, SteppedParameter

WITHOUT = "step-without-gradient"
ORPHAN = "orphan-parameter"


def step_without_gradient(step: StepFacts) -> Iterator[Finding]:
    """A step that finds no gradient at any parameter, or zeros alone that a zero_grad left."""
    parameters = step.parameters
    if not parameters or any(one.gradient == "some" for one in parameters):
        return
    none = all(one.gradient == "none" for one in parameters)
    cleared = step.zeroed is not None
    if not none and not cleared:
        return
    found = "finds no gradient" if none else "finds only zeros"
    at = written(step.origin) if step.origin else f"a step of {step.optimizer}"
    others_turn = not cleared and any(one.ever for one in parameters)  # it had gradients before, and may again
    message = f"{at} {found} at {_all(parameters)}, so {step.optimizer} {'changes nothing' if none else 'steps without any'}"
    why, hint, related = _why(step)
    yield Finding(
        WITHOUT,
        "warning" if cleared or (step.calls and not others_turn) else "info",
        message + why,
        hint,
        file=step.origin.file if step.origin else "",
        line=step.origin.line if step.origin else 0,
        related=related,
        leaf=", ".join(one.name for one in parameters),
        call=step.calls_before,
    )


def _all(parameters: Sequence[SteppedParameter]) -> str:
    names = listed([one.name for one in parameters])
    return names if len(parameters) == 1 else f"all {len(parameters)} of its parameters ({names})"


def _why(step: StepFacts) -> tuple[str, str, tuple[Related, ...]]:
    """The end of the message, the hint and the other place."""
    here = step.origin.file if step.origin else ""
    if step.zeroed is not None:
        where = Related(step.zeroed.file, step.zeroed.line, "zero_grad() after the backward call")
        why = f": {written(step.zeroed, here)} cleared the gradients after backward() and before step()"
        return why, "zero_grad() belongs before backward(), or after step()", (where,)
    if not step.calls:
        return ": no backward call came before it", "call backward() on the loss before step()", ()
    last = step.calls[-1]
    if all(call.kind == "grad" for call in step.calls):
        why = f": {_call(last, here)} calls autograd.grad, which returns gradients and leaves .grad as it is"
        hint = "loss.backward() fills .grad; or put what grad() returned there: p.grad = g"
        return why, hint, (Related(last.file, last.line, "autograd.grad returns its gradients"),)
    why = f": {_call(last, here)} does not lead to {'it' if len(step.parameters) == 1 else 'any of them'}"
    hint = "look at that call for what cuts the graph, or at the optimizer: it may hold parameters of a network that is not used"
    return why, hint, (Related(last.file, last.line, "the backward call before it"),)


def _call(call: EarlierCall, here: str) -> str:
    place = f"line {call.line}" if call.file == here or not here else f"{call.file.rpartition('/')[2]}:{call.line}"
    return f"{place} ({call.code})" if call.code else place


def orphans(step: StepFacts) -> Iterator[Finding]:
    """Parameters that only the optimizer holds any more: the network has got new ones since."""
    lost = [one.name for one in step.parameters if not one.held and not one.ever and one.gradient == "none"]
    if not lost or not step.calls_before:
        return
    where = written(step.origin) if step.origin else f"a step of {step.optimizer}"
    one = len(lost) == 1
    message = (
        f"{where} steps {listed(lost)}, which no module and no variable holds any more and which {'gets' if one else 'get'} "
        f"no gradient: {'it was' if one else 'they were'} replaced after {step.optimizer} was made"
    )
    hint = "make the optimizer after the layers are replaced or moved, or add_param_group() the new ones"
    file, line = (step.origin.file, step.origin.line) if step.origin else ("", 0)
    yield Finding(ORPHAN, "warning", message, hint, file=file, line=line, leaf=", ".join(lost), call=step.calls_before)
