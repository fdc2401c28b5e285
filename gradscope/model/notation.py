"""Turns a C++ expression of torch's derivative table into readable PyTorch notation: `grad @ mat2ᵀ`, `grad * cos(self)`.

The expression becomes a Python syntax tree (`cpp.to_python`); casts, sizes and flags that only the engine needs are dropped,
helper functions are replaced by what they compute (`formula_rules`), and the tree is written out again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache

from gradscope.model.cpp import to_python
from gradscope.model.elementwise import FUNCTIONS, is_elementwise
from gradscope.model.formula_nodes import WORDS
from gradscope.model.formula_rules import HELPERS, Rule
from gradscope.model.parameters import Replace, bind

_DROPPED = frozenset(("contiguous", "resolve_conj", "to", "toComplexDouble", "toDouble", "toFloat", "toInt", "toSymInt"))
"""methods that change the dtype or the layout, not the number"""

_SHAPES = {
    "sym_sizes": "shape",
    "sizes": "shape",
    "scalar_type": "dtype",
    "dtype": "dtype",
    "sym_strides": "stride",
    "layout": "layout",
}
_OPERATORS: dict[str, ast.operator] = {
    "mul": ast.Mult(),
    "div": ast.Div(),
    "add": ast.Add(),
    "sub": ast.Sub(),
    "logical_or": ast.BitOr(),
    "logical_and": ast.BitAnd(),
}
_CONSTANTS = {
    **{"M_PI": "pi", "M_PI_2": "pi / 2", "M_PI_4": "pi / 4", "M_LN2": "log(2)", "M_LN10": "log(10)"},
    **{"M_SQRT2": "sqrt(2)", "M_2_SQRTPI": "2 / sqrt(pi)"},
    "kJagged": "jagged",
}
"""of C++'s math.h, and of c10"""
_NUMBERS = {2.3025850929940456: "log(10)", 0.6931471805599453: "log(2)"}
_FLAGS = frozenset(("grad_input_mask", "retain_variables"))


@dataclass
class Written:
    """A formula in readable form."""

    text: str
    where: list[str] = field(default_factory=list)
    refused: str = ""
    """why torch has no derivative here"""
    elementwise: bool = False
    """it has the shape of what arrives, for an argument of another shape, too: the engine sums it"""


def write(cpp: str, result: int, of: int, *, is_complex: bool, known: Mapping[str, str] | None = None) -> Written:
    """The readable form of one entry.

    Args:
        cpp: as in derivatives.yaml.
        result: which of the results of the expression is wanted,
        of: of how many: an entry for several arguments gives a tuple.
        is_complex: conjugates matter.
        known: values of arguments that a person gave or left out: `alpha` -> `1`.
    """
    return _write(cpp, result, of, is_complex, tuple((known or {}).items()))


@lru_cache(4096)
def _write(cpp: str, result: int, of: int, is_complex: bool, known: tuple[tuple[str, str], ...]) -> Written:
    refused = re.match(r'not_implemented(?:_list)?\("([^"]*)', cpp)
    if refused:
        return Written("", refused=f"torch has no derivative here: it would raise ({refused[1]})")
    cleaner = _Cleaner(result, of, is_complex, dict(known))
    try:
        return _finish(cleaner, cleaner.visit(ast.parse(to_python(cpp), mode="eval").body))
    except (ValueError, SyntaxError, RecursionError, MemoryError, KeyError):  # a newer torch, or a file that somebody made
        return Written(cpp)  # better torch's own words than none


def rewritten(python: str, *, is_complex: bool = False, known: Mapping[str, str] | None = None) -> Written:
    """The same for a text that is Python already, as the rules are."""
    cleaner = _Cleaner(0, 1, is_complex, dict(known or {}))
    return _finish(cleaner, cleaner.visit(ast.parse(python, mode="eval").body))


def _finish(cleaner: _Cleaner, tree: ast.expr) -> Written:
    text = polished(ast.unparse(ast.fix_missing_locations(tree)))
    where = _needed(text, list(dict.fromkeys(cleaner.where)))
    everything = "\n".join([text, *where])
    used = set(re.findall(r"(?<![\w.])(\w+)(?=\()", everything)) | set(re.findall(r"/ (N)\b", text))
    words = [meaning for word, meaning in WORDS.items() if word in used]
    words += [f"{word}: a helper of torch's own, in C++" for word in sorted(used) if _is_helper(word)]
    return Written(text, where + words, elementwise=is_elementwise(tree))


def _needed(text: str, where: list[str]) -> list[str]:
    """The explanations that a text needs: a rule of several results explains them all."""
    kept: set[str] = set()
    while True:
        words = set(re.findall(r"[^\Wᵀᴴ]+", " ".join([text, *kept])))
        more = {line for line in where if not (names := _explained(line)) or names & words} - kept
        if not more:
            return [line for line in where if line in kept]
        kept |= more


def _explained(line: str) -> set[str]:
    """`mu, rs: …`, `avg(x): …`, `g = …`, `weight counts as …` -> the names; empty for a remark on the whole."""
    found = re.match(r"(\w+(?:(?:, | and )\w+)*)(?:\(\w+\))?(?: = |: | counts? as )", line)
    return set(re.findall(r"\w+", found[1])) - {"and"} if found else set()


def _is_helper(word: str) -> bool:
    return "_backward" in word and word not in WORDS


def polished(text: str) -> str:
    """`mat2.mT` -> `mat2ᵀ`, `x ** 2` -> `x²`, `sqrt(` -> `√(`, `pi` -> `π`."""
    text = re.sub(r"\bconj\(([\w.]+)\.mT\)", r"\1ᴴ", text)
    text = re.sub(r"\.mT\b", "ᵀ", text)
    text = re.sub(r" \*\* 2(?![\w.])", "²", text)
    text = re.sub(r" \*\* 3(?![\w.])", "³", text)
    text = re.sub(r"\bsqrt\(", "√(", text)
    return re.sub(r"\bpi\b", "π", text)


class _Cleaner(ast.NodeTransformer):
    """Rewrites a tree; collects what its names mean in `where`."""

    def __init__(self, result: int, of: int, is_complex: bool, known: dict[str, str]) -> None:
        self.result, self.of, self.is_complex, self.known = result, of, is_complex, known
        self.where: list[str] = []
        self._picked = False

    # ------------------------------------------------------------ leaves

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in _CONSTANTS:
            return _parsed(_CONSTANTS[node.id])
        return _parsed(self.known[node.id]) if node.id in self.known else node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, float):
            if node.value in _NUMBERS:
                return _parsed(_NUMBERS[node.value])
            if node.value.is_integer():
                return ast.Constant(int(node.value))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self.generic_visit(node)  # type: ignore[return-value]

    # ------------------------------------------------------------ choices

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """What the engine decides, and a person need not: undefined gradients, create_graph, real or complex."""
        test = ast.unparse(node.test)
        if "is_enabled" in test or "retain_variables" in test or "is_xpu" in test:
            return self.visit(node.orelse)  # type: ignore[no-any-return]
        if re.fullmatch(r"[\w\[\].()]+\.defined\(\)|\w+\.dim\(\) > 0", test):
            return self.visit(node.body)  # type: ignore[no-any-return]
        if re.fullmatch(r"\w+\.(is_complex|isComplex)\(\)", test):
            return self.visit(node.body if self.is_complex else node.orelse)  # type: ignore[no-any-return]
        picked = self._picked
        node.test, node.body = self.visit(node.test), self.visit(node.body)
        self._picked = picked  # each way gives all the results
        node.orelse = self.visit(node.orelse)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        match node.test:
            case ast.Compare(ast.Constant(None), [ast.Is()], [ast.Constant(None)]):
                return node.body
        if ast.unparse(node.body) == ast.unparse(node.orelse):
            return node.body
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`full_matrices and grad_U.defined()` -> `full_matrices`: what is undefined has no formula."""
        kept: list[ast.expr] = [self.visit(one) for one in node.values if not ast.unparse(one).endswith(".defined()")]
        return ast.BoolOp(node.op, kept) if len(kept) > 1 else kept[0]

    # ------------------------------------------------------------ calls

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node.func:
            case ast.Attribute(value=obj, attr=name):
                return self._method(obj, name.removesuffix("_symint"), node)
            case ast.Name(id=name):
                return self._function(name.removesuffix("_symint"), node)
        return self.generic_visit(node)  # type: ignore[return-value]

    def _function(self, name: str, node: ast.Call) -> ast.expr:
        rule = HELPERS.get(name)
        if rule is not None:
            return self._helper(rule, node)
        arguments = [self.visit(one) for one in node.args if not self._is_flag(one)]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        match name, arguments:
            case "conj", [x]:
                return x if not self.is_complex or _is_real(x) else ast.Call(ast.Name("conj"), [x], [])
            case "put_back", [x, *rest]:
                return self._put_back(x, rest)
            case "pow", [x, exponent]:
                return ast.BinOp(x, ast.Pow(), exponent)
            case "matmul", [x, other]:
                return ast.BinOp(x, ast.MatMult(), other)
            case "scalar_tensor", [ast.Constant(value), *_]:
                return ast.Constant(value)
            case "zeros", [ast.List(elts=[]) | ast.Constant(), *_]:
                return ast.Constant(0)
            case "zeros", [shape, _]:
                return ast.Call(ast.Name("zeros"), [shape], [])
            case "Tensor", []:
                return ast.Constant(None)
            case "TensorGeometry", [x]:
                return ast.Attribute(x, "shape", ast.Load())
            case (("optional" | "OptionalArrayRef" | "get_nested_tensor_impl"), [_]):
                return arguments[0]  # type: ignore[no-any-return]
            case "vector", [size, value]:
                return ast.BinOp(ast.List([value]), ast.Mult(), size)
        call = ast.Call(ast.Name(name), arguments, node.keywords)
        if self.of > 1 and not self._picked and name.endswith("backward"):
            self._picked = True
            return ast.Subscript(call, ast.Constant(self.result), ast.Load())
        return call

    def _method(self, obj: ast.expr, name: str, node: ast.Call) -> ast.expr:
        obj = self.visit(obj)
        arguments = [self.visit(one) for one in node.args if not self._is_flag(one)]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        name = name[:-1] if name.endswith("_") and not name.startswith("_") else name
        if name in _DROPPED and not (name == "to" and not _is_cast(arguments)):
            return obj
        if name in FUNCTIONS:
            return ast.Call(ast.Name(name), [obj, *arguments], [])
        if name in _SHAPES and not arguments:
            return ast.Attribute(obj, _SHAPES[name], ast.Load())
        return self._plain(obj, name, arguments, node.keywords)

    def _plain(self, obj: ast.expr, name: str, arguments: list[ast.expr], keywords: list[ast.keyword]) -> ast.expr:
        match name, arguments:
            case (("conj" | "conj_physical"), []):
                return obj if not self.is_complex or _is_real(obj) else ast.Call(ast.Name("conj"), [obj], [])
            case ("slice", _):
                return ast.Call(ast.Name("slice"), [obj, *arguments], [])
            case (("sym_size" | "size"), [dim]):
                return ast.Subscript(ast.Attribute(obj, "shape", ast.Load()), dim, ast.Load())
            case "sym_numel", []:
                return _call(obj, "numel")
            case (("t" | "mT"), []):
                return ast.Attribute(obj, "mT", ast.Load())
            case "transpose", [ast.Constant(1), ast.Constant(2)]:
                return ast.Attribute(obj, "mT", ast.Load())
            case "mH", []:
                turned = ast.Attribute(obj, "mT", ast.Load())
                return ast.Call(ast.Name("conj"), [turned], []) if self.is_complex else turned
            case (("mm" | "bmm" | "mv" | "matmul"), [other]):
                return ast.BinOp(obj, ast.MatMult(), other)
            case "ger", [other]:
                return ast.Call(ast.Name("outer"), [obj, other], [])
            case "neg", []:
                return ast.UnaryOp(ast.USub(), obj)
            case "pow", [exponent]:
                return ast.BinOp(obj, ast.Pow(), exponent)
            case "square", []:
                return ast.BinOp(obj, ast.Pow(), ast.Constant(2))
            case "rsqrt", []:
                return ast.BinOp(ast.Constant(1), ast.Div(), ast.Call(ast.Name("sqrt"), [obj], []))
            case "div", [other, ast.Constant("trunc" | "floor" as mode)]:
                return ast.Call(ast.Name(mode), [ast.BinOp(obj, ast.Div(), other)], [])
            case (("mul" | "div" | "add" | "sub" | "logical_or" | "logical_and"), [other]):
                return ast.BinOp(obj, _OPERATORS[name], other)
            case "logical_not", []:
                return ast.UnaryOp(ast.Invert(), obj)
            case "index", [indices]:
                return ast.Subscript(obj, indices, ast.Load())
            case "new_zeros", [shape, *_]:
                return ast.Call(ast.Name("zeros"), [shape], [])
            case "defined", []:
                return ast.Compare(obj, [ast.IsNot()], [ast.Constant(None)])
            case "back", []:
                return ast.Subscript(obj, ast.UnaryOp(ast.USub(), ast.Constant(1)), ast.Load())
            case "size", []:
                return ast.Call(ast.Name("len"), [obj], [])
            case (("get_nested_sizes" | "_nested_tensor_size"), []):
                return ast.Attribute(obj, "shape", ast.Load())
            case "mean", [ast.Constant(None)]:
                return _call(obj, "mean")
            case "sum", [dim, ast.Constant(True)]:
                return _call(obj, "sum", dim, keepdim=ast.Constant(True))
        return ast.Call(ast.Attribute(obj, name, ast.Load()), arguments, keywords)

    def _helper(self, rule: Rule, node: ast.Call) -> ast.expr:
        """What the helper computes, its parameters replaced by the arguments."""
        several = len(rule.texts) > 1
        place = self.result if several and not self._picked else 0
        self._picked = self._picked or several
        arguments = [self.visit(one) for one in node.args]
        bound = bind(rule.parameters, arguments)
        for line in rule.where:
            self.where.append(self._where(line, bound))
        text = rule.texts[min(place, len(rule.texts) - 1)]
        return self.visit(Replace(bound).visit(deepcopy(_parsed(text))))  # type: ignore[no-any-return]

    def _where(self, line: str, bound: Mapping[str, ast.expr]) -> str:
        name, equals, text = line.partition(" = ")
        if equals and re.fullmatch(r"\w+(, \w+)*", name):
            try:
                tree = _parsed(text)
            except SyntaxError:
                return line
            written = self.visit(Replace(bound).visit(deepcopy(tree)))
            return f"{name} = {polished(ast.unparse(ast.fix_missing_locations(written)))}"
        return re.sub(r"{(\w+)}", lambda found: polished(ast.unparse(bound[found[1]])), line)

    def _put_back(self, x: ast.expr, rest: Sequence[ast.expr]) -> ast.expr:
        """`put_back(g, dim)`; nothing where no dim was reduced away."""
        dim = rest[0] if rest else ast.Constant(None)
        keepdim = rest[1] if len(rest) > 1 else None
        if isinstance(dim, ast.Constant) and dim.value is None and (keepdim is None or isinstance(keepdim, ast.Constant)):
            return x
        if isinstance(keepdim, ast.Constant) and keepdim.value is True:
            return x
        return ast.Call(ast.Name("put_back"), [x, dim], [])

    def _is_flag(self, node: ast.expr) -> bool:
        base = node
        while isinstance(base, (ast.Subscript, ast.Attribute)):
            base = base.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "options":
            return True
        if isinstance(node, ast.List) and node.elts:
            return all(self._is_flag(one) for one in node.elts)
        return isinstance(base, ast.Name) and base.id in _FLAGS

    # ------------------------------------------------------------ arithmetic

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.UnaryOp) and isinstance(node.operand.op, ast.USub):
            return node.operand.operand
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Every number meets a bound that was not given."""
        self.generic_visit(node)
        match node:
            case ast.Compare(_, [ast.LtE() | ast.GtE()], [ast.Constant(None)]):
                return ast.Constant(True)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.BinOp(x, ast.Mult() | ast.Div() | ast.Pow(), ast.Constant(1)) | ast.BinOp(ast.Constant(1), ast.Mult(), x):
                return x
            case ast.BinOp(x, ast.Mult(), ast.UnaryOp(ast.USub(), y)):
                return ast.BinOp(ast.UnaryOp(ast.USub(), x), ast.Mult(), y)
            case ast.BinOp(x, ast.Mult(), ast.BinOp(ast.Constant(1), ast.Div(), y)):
                return ast.BinOp(x, ast.Div(), y)
            case ast.BinOp(ast.Constant(True), ast.BitAnd(), x) | ast.BinOp(x, ast.BitAnd(), ast.Constant(True)):
                return x
            case ast.BinOp(ast.Constant(int(x)), ast.Add() | ast.Sub() as op, ast.Constant(int(y))):
                return ast.Constant(x + y if isinstance(op, ast.Add) else x - y)
            case ast.BinOp(ast.Name(x), ast.Mult(), ast.Name(y)) if x == y:
                return ast.BinOp(ast.Name(x), ast.Pow(), ast.Constant(2))
        return node


def _is_cast(arguments: Sequence[ast.expr]) -> bool:
    """`to(other.dtype)`, as against `to(device)`."""
    match arguments:
        case [ast.Attribute(ast.Name(), "dtype")]:
            return True
    return False


def _is_real(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _call(obj: ast.expr, name: str, *arguments: ast.expr, **keywords: ast.expr) -> ast.Call:
    return ast.Call(
        ast.Attribute(obj, name, ast.Load()), list(arguments), [ast.keyword(key, value) for key, value in keywords.items()]
    )
