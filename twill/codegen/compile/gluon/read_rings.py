"""Slots and parities of barriers, read from the expressions of a module.

They are computed in registers, so that the PTX does not show them. A module calls the methods of a ring with a counter
of the slots that it has passed (`k_ring.wait(k_count)`); what a method makes of the counter stands in the file that
modules share, or in the module if somebody has brought the class there. Both are evaluated for the first values of the
counter; how many slots a ring has, and what partitions call it, stands in the kernel.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twill.codegen.print.gluon import blackwell
from twill.codegen.print.gluon.facts import COUNTS, ModuleFact, barrier_use
from twill.codegen.print.gluon.shared import MAKERS, RING

_USES = ("wait", "arrive", "expect")


@dataclass(frozen=True)
class _Method:
    """What a method of a ring does with one barrier. use: "wait", "arrive", "expect"; "" if it returns the barrier.
    kind: "full" or "empty". slot, parity: expressions of `count` and `self.slots`."""

    use: str
    kind: str
    count: str
    slot: ast.expr
    parity: ast.expr | None


def ring_facts(tree: ast.Module, shared: ast.Module) -> Iterator[ModuleFact]:
    """Which slots, at which parity, barriers are waited for, arrived at and told of bytes. tree: of the module. shared:
    of the file beside it."""
    methods = _methods(tree) or _methods(shared)
    slots, constants = _slots(tree), _constants(tree)
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and (said := _said(node, methods, slots.get(function.name, {}), constants)):
                yield ModuleFact(node.lineno, said)


def _said(
    call: ast.Call, methods: Mapping[str, _Method], slots: Mapping[str, int | None], constants: Mapping[str, int]
) -> str:
    """What a call does with a barrier, or nothing."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="mbarrier"), attr=use), args=[_, *_]) if use in _USES:
            return _bare(use, call, constants)
        case ast.Call(func=ast.Name(id=blackwell.COMMIT), args=[ast.Call() as barrier, *_]):
            return _of_ring("commit", barrier, methods, slots, constants) or _bare("commit", call, constants)
        case ast.Call(func=ast.Attribute(attr=name)) if name in methods and methods[name].use:
            return _of_ring(methods[name].use, call, methods, slots, constants)
    return ""


def _of_ring(
    use: str,
    call: ast.Call,
    methods: Mapping[str, _Method],
    slots: Mapping[str, int | None],
    constants: Mapping[str, int],
) -> str:
    """What a call of a method of a ring does; nothing if it is none."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=ring), attr=name), args=[counter, *_]) if name in methods:
            method, depth, counts = methods[name], slots.get(ring), _values(counter, constants)
            if depth is None or counts is None:
                return f"mbarrier.{use}: a slot or parity that can't be read"
            given = [{method.count: count, "self.slots": depth} for count in counts]
            try:
                places = [_value(method.slot, names) for names in given]
                parities = [_value(method.parity, names) for names in given] if method.parity is not None else []
            except (KeyError, ZeroDivisionError):
                return f"mbarrier.{use}: a slot or parity that can't be read"
            return barrier_use(use, f"{ring}.{method.kind}", places, parities)
    return ""


def _bare(use: str, call: ast.Call, constants: Mapping[str, int]) -> str:
    """What a call does with a barrier that is named with its slot."""
    barrier = call.args[0]
    if not (isinstance(barrier, ast.Call) and isinstance(barrier.func, ast.Attribute) and barrier.func.attr == "index"):
        return f"mbarrier.{use}: a barrier that can't be read"
    slots = _values(barrier.args[0], constants)
    parity = _values(call.args[1], constants) if use == "wait" and len(call.args) > 1 else None
    if slots is None or (use == "wait" and parity is None):
        return f"mbarrier.{use}: a slot or parity that can't be read"
    return barrier_use(use, ast.unparse(barrier.func.value), slots, parity or ())


# ---------------------------------------------------------------- the class
def _methods(tree: ast.Module) -> dict[str, _Method]:
    """The methods of the class of rings that have to do with a barrier; none without the class."""
    made: dict[str, _Method] = {}
    rings = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == RING)
    for function in (node for ring in rings for node in ring.body if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if (method := _method(node, function)) is not None:
                made[function.name] = method
    return made


def _method(node: ast.AST, function: ast.FunctionDef) -> _Method | None:
    names = [argument.arg for argument in function.args.args]
    count = names[1] if len(names) > 1 else ""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="mbarrier"), attr=use), args=[barrier, *more]) if (
            use in _USES
        ):
            parity = more[0] if use == "wait" and more else None
        case ast.Return(value=ast.Call() as barrier):
            use, parity = "", None
        case _:
            return None
    match barrier:
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=kind), attr="index"), args=[slot]
        ) if kind in ("full", "empty"):
            return _Method(use, kind, count, slot, parity)
    return None


# ---------------------------------------------------------------- rings and partitions
def _slots(tree: ast.Module) -> dict[str, dict[str, int | None]]:
    """How many slots the rings of each function have; None where partitions of one function differ."""
    made: dict[str, dict[str, int | None]] = {}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for function in functions.values():
        rings = dict(_made(function))
        made.setdefault(function.name, {}).update(rings)
        for role, given in _partitions(function):
            parameters = [argument.arg for argument in functions[role].args.args] if role in functions else []
            of_role = made.setdefault(role, {})
            for parameter, argument in zip(parameters, given, strict=False):
                if isinstance(argument, ast.Name) and argument.id in rings:
                    own = rings[argument.id]
                    of_role[parameter] = own if of_role.get(parameter, own) == own else None
    return made


def _made(function: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    """The rings that a function makes, in order, and their slots."""
    known: dict[str, int] = {}
    for node in function.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=maker)) as call) if (
                maker in MAKERS and (slots := _number_of_slots(call, known)) is not None
            ):
                known[name] = slots
                yield name, slots


def _number_of_slots(call: ast.Call, known: Mapping[str, int]) -> int | None:
    """The first size of the shape that is given, by the tiles to a slot; of another ring's tiles, that ring's."""
    each = next((one.value for one in call.keywords if one.arg == "each"), ast.Constant(1))
    shape = next((node for node in ast.walk(call) if isinstance(node, ast.List) and node.elts), None)
    match shape.elts[0] if shape is not None else None, each:
        case ast.Constant(value=int() as tiles), ast.Constant(value=int() as to_a_slot):
            return tiles // to_a_slot
        case None, _:
            return next((known[n.id] for n in ast.walk(call) if isinstance(n, ast.Name) and n.id in known), None)
    return None


def _partitions(function: ast.FunctionDef) -> Iterator[tuple[str, list[ast.expr]]]:
    """The functions that a kernel starts, each with what it is given."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr="warp_specialize"), args=[ast.List(elts=partitions), *_]):
                for partition in partitions:
                    match partition:
                        case ast.Tuple(elts=[ast.Name(id=role), ast.Tuple(elts=given)]):
                            yield role, given


# ---------------------------------------------------------------- expressions
def _constants(tree: ast.Module) -> dict[str, int]:
    """Numbers that the module gives names to."""
    made: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            given = node.value.args
            if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, int):
                made[node.targets[0].id] = given[0].value
    return made


def _values(node: ast.expr, constants: Mapping[str, int]) -> tuple[int, ...] | None:
    """An expression of one counter, for its first values; None for any other."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - constants.keys()
    if len(names) > 1:
        return None
    try:
        return tuple(_value(node, {**constants, **dict.fromkeys(names, count)}) for count in range(COUNTS))
    except (KeyError, ZeroDivisionError):
        return None


_OPERATORS = {
    ast.Add: int.__add__, ast.Sub: int.__sub__, ast.Mult: int.__mul__, ast.Mod: int.__mod__,
    ast.FloorDiv: int.__floordiv__, ast.BitAnd: int.__and__, ast.BitXor: int.__xor__, ast.BitOr: int.__or__,
}  # fmt: skip


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    """Raises KeyError for what is no arithmetic of integers."""
    match node:
        case ast.Constant(value=int() as value):
            return int(value)
        case ast.Name() | ast.Attribute():
            return names[ast.unparse(node)]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
    raise KeyError(ast.unparse(node))
