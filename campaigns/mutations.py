"""The mutants of a module: each a small fault, written into its syntax tree one at a time.

Left out are docstrings, annotations, decorators, texts, what an error or a warning is made of, and `strict=` and
`copy=`, which state what is so, or save time.
"""

from __future__ import annotations

import ast
import types
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
PAIRS = (("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all"), ("zeros", "ones"))
PAIRS += (("zeros_like", "ones_like"), ("floor", "ceil"), ("lower", "upper"))
NAMES = dict(PAIRS) | {right: left for left, right in PAIRS}
# Calls of these give way to their first argument.
DROPPED = {"abs", "sqrt", "sort", "clip"}
# The order of these two arguments means nothing, or only the text of an error.
EITHER_ORDER = {"min", "max", "minimum", "maximum", "isinstance"}
# A mutant is named by what it changes, with what stands around that if it is shorter than the first of these numbers of
# characters, as long as it is no longer than the second.
NAMED, LONGEST = 24, 120


@dataclass(frozen=True)
class Mutant:
    """What was changed, and where.

    Attributes
    ----------
    key : str
        The function, what stood there and what stands there now: it outlives changes elsewhere in the file.
    function : str
        The qualified name of the outermost function whose body was changed; "" for what runs on import.
    lines : range
        Those of the statement, of which one must be run for the fault to show.
    """

    key: str
    function: str
    lines: range


@dataclass(frozen=True)
class _Place:
    """A node that may be replaced: the value of a field of its parent, or an item of a list there."""

    parents: tuple[ast.AST, ...]
    field: str
    index: int | None
    node: Any
    name: str
    function: str
    lines: range

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parents[-1], self.field, node)
        else:
            getattr(self.parents[-1], self.field)[self.index] = node


def mutants(text: str) -> Iterator[tuple[Mutant, ast.Module]]:
    """Give each mutant of a module's source, with the tree, which is changed until the next one is asked for."""
    tree = ast.parse(text)
    seen: Counter[str] = Counter()
    for place in list(_places(tree, (), "", "", range(0))):
        for new in _replacements(place):
            named = _named(place)
            before = _unparsed(named)
            place.put(ast.fix_missing_locations(ast.copy_location(new, place.node)))
            after = _unparsed(new if named is place.node else named)
            key = f"{place.name or 'module'} | {before} | {after}"
            seen[key] += 1
            key += f" | {seen[key]}" if seen[key] > 1 else ""
            yield Mutant(key, place.function, place.lines), tree
            place.put(place.node)


def _places(node: ast.AST, parents: tuple[ast.AST, ...], name: str, function: str, lines: range) -> Iterator[_Place]:
    for field, value in ast.iter_fields(node):
        inside = function
        if isinstance(node, ast.FunctionDef) and field == "body":
            inside = function or name
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _left_out(node, field, child):
                continue
            at, called = lines, name
            if isinstance(child, ast.stmt):
                at = _header(child)
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                called = f"{name}.<locals>.{child.name}" if inside else f"{name}.{child.name}".lstrip(".")
            yield _Place((*parents, node), field, index, child, called, inside, at)
            if isinstance(child, ast.Raise):
                continue
            yield from _places(child, (*parents, node), called, inside, at)


def _left_out(parent: ast.AST, field: str, child: ast.AST) -> bool:
    is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
    states = isinstance(parent, ast.keyword) and parent.arg in ("strict", "copy")
    warns = isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "warn"
    return (
        is_text
        or states
        or warns
        or field in ("annotation", "returns", "decorator_list", "ctx", "op", "ops")
        or isinstance(child, ast.JoinedStr | ast.Import | ast.ImportFrom)
    )


def _header(statement: ast.stmt) -> range:
    """Return the lines of a statement; of a compound one, those before its body."""
    body = getattr(statement, "body", None)
    end = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(end, statement.lineno) + 1)


def _named(place: _Place) -> Any:
    """Return the expression that names a place: the node, or what stands around it where that is short."""
    named = place.node
    for parent in reversed(place.parents):
        if isinstance(named, ast.stmt) or not isinstance(parent, ast.expr | ast.keyword | ast.Assign | ast.AnnAssign):
            break
        if len(ast.unparse(named)) >= NAMED or len(ast.unparse(parent)) > LONGEST:
            break
        named = parent
    return named


def _unparsed(node: ast.AST) -> str:
    first = ast.unparse(node).splitlines()[0]
    return first if len(first) <= LONGEST else first[: LONGEST - 3] + "..."


def _replacements(place: _Place) -> Iterator[ast.AST]:  # noqa: PLR0912 - a line for each kind
    node, parent = place.node, place.parents[-1]
    match node:
        case ast.Compare():
            for index, op in enumerate(node.ops):
                for other in COMPARISONS[type(op)]:
                    yield ast.Compare(node.left, [*node.ops[:index], other(), *node.ops[index + 1 :]], node.comparators)
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            yield node.operand
        case ast.Constant():
            yield from map(ast.Constant, _other_values(node.value))
        case ast.Name(id=word, ctx=ast.Load()) if word in NAMES and _is_called(place):
            yield ast.Name(NAMES[word], ast.Load())
        case ast.Attribute(attr=word, ctx=ast.Load()) if word in NAMES and _is_called(place):
            yield ast.Attribute(node.value, NAMES[word], ast.Load())
        case ast.Call(args=[first, *_], func=ast.Name(id=word) | ast.Attribute(attr=word)) if word in DROPPED:
            yield first
        case ast.Call(args=[first, second], func=ast.Name(id=word) | ast.Attribute(attr=word)) if (
            word not in EITHER_ORDER
        ):
            yield ast.Call(node.func, [second, first], node.keywords)
        case ast.Raise() | ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()
        case ast.AugAssign():
            yield ast.Pass()
            if type(node.op) in ARITHMETIC:
                yield ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
    if place.field == "test" and isinstance(parent, ast.If | ast.While | ast.IfExp) and not _is_simple(node):
        yield ast.UnaryOp(ast.Not(), deepcopy(node))


def _other_values(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1] if value == 0 or (isinstance(value, float) and value != 1) else [value + 1, value - 1]
    # A string with a blank is a text for people.
    return ["XX" + value] if isinstance(value, str) and " " not in value else []


def _is_simple(test: ast.expr) -> bool:
    """Return whether a condition is negated by another mutant of it."""
    return isinstance(test, ast.Constant | ast.UnaryOp) or (isinstance(test, ast.Compare) and len(test.ops) == 1)


def _is_called(place: _Place) -> bool:
    return place.field == "func"


def code_of(code: types.CodeType, name: str) -> types.CodeType:
    """Return the code of a module's function of this qualified name."""
    return next(each for each in all_code(code) if each.co_qualname == name)


def all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from all_code(each)
