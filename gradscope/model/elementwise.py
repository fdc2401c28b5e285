"""Which expressions work element by element, so that their shape is what broadcasting makes of the shapes in them.

Torch's table leaves a broadcast operand's gradient in the shape of the result, and the engine sums it down to the operand's
(`validate_outputs` in torch/csrc/autograd/engine.cpp); it takes the real part, too, where complex numbers met a real operand.
"""

from __future__ import annotations

import ast

from gradscope.model.formula_nodes import WORDS

_FUNCTIONS = """abs acos asin atan ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor isfinite isnan lgamma log log10
log1p log2 logit polygamma reciprocal relu sgn sigmoid sign sin sinh softplus sqrt tan tanh"""
_OTHERS = """clamp conj cross imag linalg_lu_solve log_sigmoid logical_and masked_fill phi Phi real solve special_i1 special_i1e
special_xlog1py special_zeta trunc type_as where xlogy _standard_gamma_grad"""

FUNCTIONS = frozenset(_FUNCTIONS.split())
"""methods that read better as functions"""

_BROADCASTING = FUNCTIONS | frozenset(_OTHERS.split())
"""all that give the shape that broadcasting their arguments gives"""


def is_elementwise(tree: ast.expr) -> bool:
    """Whether a gradient's expression has the shape of the gradient that arrives, once that is the shape of the result."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return any(name == "grad" or name.startswith(("grads", "grad_")) for name in names) and _is(tree)


def _is(tree: ast.expr) -> bool:
    match tree:
        case ast.Name() | ast.Constant():
            return True
        case ast.Subscript(value, ast.Constant() | ast.Name("i")):
            return isinstance(value, ast.Name)
        case ast.BinOp(left, operator, right):
            return not isinstance(operator, ast.MatMult) and _is(left) and _is(right)
        case ast.UnaryOp(operand=one):
            return _is(one)
        case ast.Compare(left, _, others):
            return all(map(_is, (left, *others)))
        case ast.IfExp(_, yes, no):
            return _is(yes) and _is(no)
        case ast.Call(ast.Name(name), arguments):
            return name in _BROADCASTING and all(map(_is, arguments))
        case ast.Call(ast.Attribute(obj, name), arguments):
            return name in _BROADCASTING and _is(obj) and all(map(_is, arguments))
    return False


def delivered(
    text: str, argument: str, arrives: tuple[int, ...], sent: tuple[int, ...] | None, *, takes_real: bool, may_broadcast: bool
) -> tuple[str, str]:
    """What the engine hands on of an elementwise expression, and a remark on it.

    Args:
        text: the expression, of the shape `arrives`.
        argument: of the forward.
        arrives: shape of what arrives at the node.
        sent: shape of what is sent; None where it is not known.
        takes_real: the argument is real, and the expression complex.
        may_broadcast: the forward has other arguments to broadcast with.
    """
    remark, real = "", text.startswith(("real(", "imag("))
    if sent is None:
        if may_broadcast:
            remark = f"∂{argument} is summed to {argument}.shape where the forward expanded it"
    elif expands(sent, arrives):
        text, remark = f"sum_to({text}, {argument}.shape)", WORDS["sum_to"]
    return (f"real({text})" if takes_real and not real else text), remark


def expands(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether broadcasting makes the second shape of the first, and they differ."""
    if small == large or len(small) > len(large):
        return False
    return all(one in (1, other) for one, other in zip(reversed(small), reversed(large), strict=False))
