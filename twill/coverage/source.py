"""What the source of a Triton kernel and of what it calls says of the kernel's parameters, without running anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from triton.runtime.jit import JITFunction

from twill.kernel.importing import unwrap

DEEPEST = 12
WHOLE = ast.LShift | ast.RShift | ast.FloorDiv | ast.Mod | ast.BitAnd | ast.BitOr | ast.BitXor
"""Operators between whole numbers."""
LOADS = frozenset({"load", "make_block_ptr", "make_tensor_descriptor"})
STORES = frozenset({"store"})
SHAPES = frozenset({"arange", "zeros", "full", "make_block_ptr", "static_range", "reshape", "view", "broadcast_to"})
MOVES = frozenset(
    {"advance", "to", "cast", "multiple_of", "max_contiguous", "make_block_ptr", "make_tensor_descriptor"}
)


@dataclass
class Said:
    """addresses: parameters that loads and stores begin at. descriptors: parameters with `.load` or `.store`. tested:
    used as a truth value. block: used in the shape of a tile. unrolled: used in `tl.static_range`. strings, numbers:
    what a parameter is compared with. wide: strides in an address another of whose indices has none. integers:
    operands of `//`, `%` and what combines bits, bounds of `range`, and what is added to addresses. stores: whether
    anything is stored.

    Of addresses, those whose elements are: indices: used in other addresses, or say how many iterations a loop has.
    bits: shifted, divided as whole numbers, or combined bit by bit. bytes: multiplied into an accumulator of integers.
    quarters: seen as fp8. booleans: negated as truth values. places: addresses."""

    addresses: set[str] = field(default_factory=set)
    descriptors: set[str] = field(default_factory=set)
    tested: set[str] = field(default_factory=set)
    block: set[str] = field(default_factory=set)
    unrolled: set[str] = field(default_factory=set)
    strings: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    indices: set[str] = field(default_factory=set)
    bits: set[str] = field(default_factory=set)
    bytes: set[str] = field(default_factory=set)
    quarters: set[str] = field(default_factory=set)
    booleans: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)
    wide: set[str] = field(default_factory=set)
    integers: set[str] = field(default_factory=set)
    stores: bool = False


def said_of(function: JITFunction, known: dict[int, Said] | None = None) -> Said:
    """What its source says; functions that it calls are looked into. known: those that were."""
    known = {} if known is None else known
    if id(function) not in known:
        known[id(function)] = Said()
        known[id(function)] = _Reader(function, known).read()
    return known[id(function)]


class _Reader:
    """Reads one function."""

    def __init__(self, function: JITFunction, known: dict[int, Said]) -> None:
        self.function = function
        self.known = known
        self.parameters = set(function.arg_names)
        self.said = Said()
        self.tree: Any = ast.parse(function.src).body[0]
        self.assigned: dict[str, list[ast.expr]] = {}
        for name, value in _assignments(self.tree):
            self.assigned.setdefault(name, []).append(value)

    def read(self) -> Said:
        """The whole function."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                self.call(node)
            elif isinstance(node, ast.If | ast.IfExp | ast.While):
                self.said.tested |= self.truths(node.test)
                self.said.booleans |= self.negated(node.test)
            elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Name):
                self.compare(node.left.id, node)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, WHOLE):
                self.said.bits |= self.summed(node.left)
                self.said.integers |= self.named(node.left, node.right)
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, WHOLE):
                self.said.integers |= self.named(node.value)
        return self.said

    def named(self, *values: ast.expr) -> set[str]:
        """Parameters that are among these as they are."""
        return {one.id for one in values if isinstance(one, ast.Name)} & self.parameters

    def truths(self, test: ast.expr) -> set[str]:
        """Parameters whose truth decides."""
        if isinstance(test, ast.Name):
            return {test.id} & self.parameters
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.truths(test.operand)
        if isinstance(test, ast.BoolOp):
            return set().union(*map(self.truths, test.values))
        return set()

    def compare(self, name: str, node: ast.Compare) -> None:
        """`name == "text"`, `name in (1, 2)`."""
        for right in node.comparators:
            for one in right.elts if isinstance(right, ast.Tuple | ast.List) else (right,):
                if not isinstance(one, ast.Constant):
                    continue
                if isinstance(one.value, str):
                    self.said.strings.setdefault(name, one.value)
                elif type(one.value) is int and isinstance(node.ops[0], ast.Eq | ast.In):
                    self.said.numbers.setdefault(name, one.value)

    def call(self, node: ast.Call) -> None:
        """A call of Triton's language, of a method of a descriptor, or of another kernel function."""
        name, owner = _called(node)
        first = (
            node.args[0] if node.args else next((k.value for k in node.keywords if k.arg in ("pointer", "base")), None)
        )
        atomic = name.startswith("atomic_")
        if owner == "tl" and first is not None and (name in LOADS or name in STORES or atomic):
            roots = self.roots(first)
            self.said.addresses |= roots
            self.said.indices |= self.looked_up(first)
            self.said.integers |= self.added(first) - roots
            self.said.wide |= self.stepped_over(first)
        if owner == "tl" and name == "dot" and len(node.args) > 2 and self.counts(node.args[2]):
            self.said.bytes |= self.loaded(node.args[0]) | self.loaded(node.args[1])
        if name in ("to", "cast"):
            self.converted(node, node.func.value if name == "to" and isinstance(node.func, ast.Attribute) else first)
        if owner in self.parameters and name in ("load", "store", "gather", "scatter"):
            self.said.descriptors.add(owner)
        self.said.stores |= name in STORES or atomic
        if name in ("range", "cdiv"):
            self.said.integers |= self.named(*node.args)
            self.said.indices |= set().union(*map(self.summed, node.args))
        if name in SHAPES:
            names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} & self.parameters
            self.said.block |= names
            self.said.unrolled |= names if name == "static_range" else set()
        callee = self.callee(node.func)
        if callee is not None and callee is not self.function:
            self.passed(node, callee)

    def passed(self, node: ast.Call, callee: JITFunction) -> None:
        """What the called function says of its parameters is said of what is passed."""
        theirs = said_of(callee, self.known)
        self.said.stores |= theirs.stores
        pairs = [*zip(callee.arg_names, node.args, strict=False), *((k.arg, k.value) for k in node.keywords if k.arg)]
        for name, value in pairs:
            if name in theirs.addresses:
                self.said.addresses |= self.roots(value)
            for there, here in (
                (theirs.indices, self.said.indices), (theirs.bits, self.said.bits), (theirs.bytes, self.said.bytes),
                (theirs.places, self.said.places), (theirs.quarters, self.said.quarters),
                (theirs.booleans, self.said.booleans),
            ):  # fmt: skip
                here |= self.roots(value) if name in there else set()
            if name in theirs.integers - theirs.addresses:
                self.said.bits |= self.summed(value)
            if isinstance(value, ast.Name) and value.id in self.parameters:
                mine = value.id
                for there, here in (
                    (theirs.descriptors, self.said.descriptors), (theirs.tested, self.said.tested),
                    (theirs.block, self.said.block), (theirs.unrolled, self.said.unrolled),
                    (theirs.wide, self.said.wide), (theirs.integers, self.said.integers),
                ):  # fmt: skip
                    here |= {mine} if name in there else set()
                if name in theirs.strings:
                    self.said.strings.setdefault(mine, theirs.strings[name])

    def callee(self, function: ast.expr) -> JITFunction | None:
        """The kernel function that an expression calls."""
        names = self.function.__globals__
        if isinstance(function, ast.Name):
            return unwrap(names.get(function.id))
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            return unwrap(getattr(names.get(function.value.id), "__dict__", {}).get(function.attr))
        return None

    def roots(self, value: ast.expr, depth: int = 0) -> set[str]:
        """Parameters that an address may begin at: the leftmost of its sums, through assignments."""
        if depth > DEEPEST:
            return set()
        match value:
            case ast.Name(id=name) if name in self.parameters:
                return {name}
            case ast.Name(id=name):
                return set().union(*(self.roots(one, depth + 1) for one in self.assigned.get(name, ())))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub()):
                return self.roots(left, depth + 1)
            case ast.IfExp(body=body, orelse=other):
                return self.roots(body, depth + 1) | self.roots(other, depth + 1)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr=name), args=[first, *_]) if name in MOVES:
                return self.roots(first, depth + 1)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr="where"), args=[_, one, other]):
                return self.roots(one, depth + 1) | self.roots(other, depth + 1)
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in MOVES:
                return self.roots(inner, depth + 1)
        return set()

    def loaded(self, value: ast.expr, depth: int = 0) -> set[str]:
        """Parameters whose elements a value is, as they are."""
        if isinstance(value, ast.Name) and depth < DEEPEST:
            return set().union(*(self.loaded(one, depth + 1) for one in self.assigned.get(value.id, ())))
        if isinstance(value, ast.Call) and _called(value) == ("load", "tl") and value.args:
            return self.roots(value.args[0])
        return set()

    def summed(self, value: ast.expr, depth: int = 0) -> set[str]:
        """Parameters whose elements a value is, or is computed from by `+`, `-` and `*`."""
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub | ast.Mult) and depth < DEEPEST:
            return self.summed(value.left, depth + 1) | self.summed(value.right, depth + 1)
        if isinstance(value, ast.Name) and depth < DEEPEST:
            return set().union(*(self.summed(one, depth + 1) for one in self.assigned.get(value.id, ())))
        return self.loaded(value)

    def negated(self, test: ast.expr) -> set[str]:
        """Parameters whose elements decide by what is not true: `if not tl.load(p)`."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.loaded(test.operand)
        if isinstance(test, ast.BoolOp):
            return set().union(*map(self.negated, test.values))
        return set()

    def converted(self, node: ast.Call, value: ast.expr | None) -> None:
        """`x.to(tl.float8e4nv, bitcast=True)`, `tl.load(p).to(tl.pointer_type(tl.float32))`."""
        kinds = [ast.unparse(one) for one in node.args]
        elements = self.loaded(value) if value is not None else set[str]()
        bitcast = any(keyword.arg == "bitcast" for keyword in node.keywords)
        if any("pointer_type" in kind for kind in kinds):
            self.said.places |= elements
        elif bitcast and any("float8" in kind for kind in kinds):
            self.said.quarters |= elements

    def added(self, address: ast.expr) -> set[str]:
        """Parameters that a sum which is an address has as its terms, or as factors of them."""
        terms = [address]
        names: set[str] = set()
        while terms:
            match terms.pop():
                case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.Mult()):
                    terms += [left, right]
                case ast.Name(id=name):
                    names.add(name)
        return names & self.parameters

    def counts(self, value: ast.expr) -> bool:
        """Whether a value is made as a tile of integers."""
        made = self.assigned.get(value.id, ()) if isinstance(value, ast.Name) else (value,)
        return any(isinstance(one, ast.Call) and ast.unparse(one).endswith("tl.int32)") for one in made)

    def stepped_over(self, value: ast.expr) -> set[str]:
        """The strides of an address of which another index, a row or a column of a tile, is multiplied by none."""
        strides: set[str] = set()
        alone = False
        for term in self.terms(value):
            names = {one.id for one in ast.walk(term) if isinstance(one, ast.Name)}
            named = {name for name in names & self.parameters if "stride" in name.lower()}
            strides |= named
            alone = alone or not named and any(map(_spread, ast.walk(term)))
        return strides if alone else set()

    def terms(self, value: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """What an address is a sum of, through assignments of its first term."""
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            yield from self.terms(value.left, depth)
            yield from self.terms(value.right, DEEPEST)
        elif isinstance(value, ast.Name) and value.id in self.assigned and depth < DEEPEST:
            yield from self.terms(self.assigned[value.id][0], depth + 1)
        else:
            yield value

    def looked_up(self, value: ast.expr) -> set[str]:
        """Parameters whose elements an address is made of."""
        found: set[str] = set()
        seen: set[str] = set()
        todo: list[ast.AST] = [value]
        while todo:
            for node in ast.walk(todo.pop()):
                if isinstance(node, ast.Name) and node.id not in seen:
                    seen.add(node.id)
                    todo.extend(self.assigned.get(node.id, ()))
                elif isinstance(node, ast.Call) and _gives(node) and node.args:
                    found |= self.roots(node.args[0])
        return found


def _gives(node: ast.Call) -> bool:
    """Whether a call gives what is in memory, or was."""
    name, owner = _called(node)
    return owner == "tl" and (name == "load" or name.startswith("atomic_"))


def _spread(node: ast.AST) -> bool:
    """Whether a vector becomes a row or a column: `i[:, None]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return False
    return any(isinstance(one, ast.Constant) and one.value is None for one in node.slice.elts)


def _called(node: ast.Call) -> tuple[str, str]:
    """The name that is called, and of what: ("load", "tl")."""
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        return node.func.attr, "tl" if owner == "language" else owner
    return (node.func.id, "") if isinstance(node.func, ast.Name) else ("", "")


def _assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            continue  # the address before it is known already
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for one, value in zip(target.elts, node.value.elts, strict=False):
                    if isinstance(one, ast.Name):
                        yield one.id, value


def literals(source: str) -> Mapping[str, Mapping[str, Any]]:
    """By kernel: what launches (`kernel[grid](..., BLOCK=64)`) in a file give by keyword as literals, or as names that
    stand for one: a default of the function that launches, or the first that is assigned in it or at the file's top."""
    tree = ast.parse(source)
    top = _assigned(ast.Module([node for node in tree.body if isinstance(node, ast.Assign)], []))
    found: dict[str, dict[str, Any]] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        named = {**top, **_defaults(function), **_assigned(function)}
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
                continue
            base = node.func.value
            name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
            for keyword in node.keywords:
                known = named.get(getattr(keyword.value, "id", ""), _literal(keyword.value))
                if keyword.arg and known is not ...:
                    found.setdefault(name, {}).setdefault(keyword.arg, known)
    return found


def _assigned(tree: ast.AST) -> dict[str, Any]:
    """The first literal that is assigned to each name."""
    every = [(name, _literal(value)) for name, value in _assignments(tree)]
    return dict(reversed([(name, value) for name, value in every if value is not ...]))


def _literal(node: ast.expr) -> Any:
    """What an expression is: a literal, or the first one of `3 if causal else 1`; else ..., which is none."""
    if isinstance(node, ast.IfExp):
        return _literal(node.body)
    return node.value if isinstance(node, ast.Constant) else ...


def _defaults(function: ast.FunctionDef) -> dict[str, Any]:
    """The literals, but for None, that parameters are by default."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [*zip(reversed(positional), reversed(given.defaults), strict=False),
             *zip(given.kwonlyargs, given.kw_defaults, strict=True)]  # fmt: skip
    return {one.arg: value.value for one, value in pairs if isinstance(value, ast.Constant) and value.value is not None}
