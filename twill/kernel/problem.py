"""What sizes a kernel is run at: the table `[specialization.problem]` of a sidecar, and what it means.

::

    [specialization.problem]
    units = { M = 16, N = "BLOCK_N", K = 16 }       # every size, and what its values are multiples of
    tensors = { a_desc = ["M", "K"], LSE = ["M"] }  # shapes of tensor arguments, row-major
    scalars = { scale = "HEAD_DIM ** -0.5" }        # scalar arguments that are not sizes
    tables = { sizes = ["M", "N - row"] }           # numbers in a tensor of integers, row after row; optional
    run = [{ M = 256, N = 384, K = 80 }]            # sizes to compare results at
    bench = [{ M = 8192, N = 8192, K = 8192 }]      # sizes to measure at

Expressions are arithmetic (+ - * / // % **, cdiv, min, max, sqrt, log2) over sizes, constexprs and scalars that stand
before. A scalar argument that `scalars` does not name is the size of the same name. The grid of the specialization is
evaluated over the same names.

A tensor that numbers are looked up in is one of `tables` where not any numbers will do: addresses, sizes, strides. Its
elements are the expressions one after the other, and again, with `row` for how often they came before. An address is
counted in bytes from the begin of what the tensor `ptrs` points to, which is the tensor `"ptrs.pointee"`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from twill.exc import MalformedSidecar, TomlWrongType
from twill.toml.table import Table, describe

Number = int | float


@dataclass(frozen=True)
class Case:
    """One way to launch a kernel. shapes: of tensor arguments. scalars: scalar arguments by name. tables: the numbers
    in tensors of integers, those that are not left to chance; each is among the scalars, too (`sizes[3]`)."""

    sizes: Mapping[str, int]
    grid: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, Number]
    tables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ProblemTable:
    """The table as written; see the top of this file. file, line: where it stands."""

    units: Mapping[str, str]
    tensors: Mapping[str, tuple[str, ...]]
    scalars: Mapping[str, str]
    run: tuple[Mapping[str, int], ...]
    bench: tuple[Mapping[str, int], ...]
    grid: tuple[str, ...]
    constants: Mapping[str, Number]
    file: str = ""
    line: int = 0
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def unit(self, size: str) -> int:
        """What every value of a size is a multiple of."""
        try:
            return int(evaluate(self.units[size], self.constants))
        except (ValueError, ArithmeticError) as error:
            known = ", ".join(self.constants) or "none here"
            hint = f"units are known before any size is: a number, or arithmetic over numeric constexprs ({known})"
            raise self._wrong(f'the unit of {size}, "{self.units[size]}": {error}', hint) from error

    def case(self, sizes: Mapping[str, int]) -> Case:
        """The launch at these sizes, one for each of `units`. Raises MalformedSidecar with file and line."""
        for name in self.units:
            if name not in sizes:
                raise self._wrong(f"no value for the size {name}", f"{name} = {self.unit(name)}")
        for name, value in sizes.items():
            if name not in self.units:
                raise self._wrong(f"{name} is no size", f"one of {', '.join(self.units)}")
            if self.unit(name) < 1:
                raise self._wrong(f"the unit of {name} is {self.unit(name)}", f"{name} = 1, or more")
            if value % self.unit(name):
                raise self._wrong(f"{name} = {value}", f"a multiple of {self.unit(name)}")
        names: dict[str, Number] = {**self.constants, **sizes}
        for name, text in self.scalars.items():
            names[name] = self._evaluate(text, names)
        shapes = {
            name: tuple(int(self._evaluate(text, names)) for text in shape) for name, shape in self.tensors.items()
        }
        scalars = {name: names[name] for name in (*sizes, *self.scalars)}
        grid = tuple(int(self._evaluate(text, names)) for text in self.grid)
        tables = {name: self._table(name, shapes, names) for name in self.tables}
        scalars |= {f"{name}[{place}]": number for name, of in tables.items() for place, number in enumerate(of)}
        return Case(dict(sizes), grid, shapes, scalars, tables)

    def check(self, signature: Mapping[str, str]) -> None:
        """Raises MalformedSidecar if a runtime argument has no value here, or a tensor no shape. signature: their types
        by name."""
        for name, text in signature.items():
            tensor = text.startswith(("*", "tensordesc"))
            if tensor and name not in self.tensors:
                raise self._wrong(f"the tensor {name} has no shape", f'{name} = ["..."] among `tensors`')
            if not tensor and name not in self.units and name not in self.scalars:
                raise self._wrong(
                    f"the argument {name} has no value",
                    f"scalars = {{ {name} = 0.5 }}" if text.startswith(("fp", "bf")) else f"units = {{ {name} = 1 }}",
                )

    def _table(self, name: str, shapes: Mapping[str, tuple[int, ...]], names: Mapping[str, Number]) -> tuple[int, ...]:
        """The numbers in a tensor of integers."""
        if name not in shapes:
            raise self._wrong(f"{name} has numbers and no shape", f'{name} = ["..."] among `tensors`')
        texts, size = self.tables[name], math.prod(shapes[name])
        return tuple(int(self._evaluate(texts[i % len(texts)], {**names, "row": i // len(texts)})) for i in range(size))

    def with_constants(self, given: Mapping[str, object]) -> ProblemTable:
        """The same with other values of constexprs: other tiles have other grids and units."""
        numbers = {name: value for name, value in given.items() if isinstance(value, int | float)}
        return replace(self, constants={**self.constants, **numbers})

    def _evaluate(self, text: str, names: Mapping[str, Number]) -> Number:
        try:
            return evaluate(text, names)
        except (ValueError, ArithmeticError) as error:
            raise self._wrong(f'"{text}": {error}', f"arithmetic over {', '.join(names) or 'numbers'}") from error

    def _wrong(self, message: str, hint: str) -> MalformedSidecar:
        return MalformedSidecar(f"problem: {message}", file=self.file, line=self.line, hint=hint)


def read_problem(table: Table, grid: tuple[str, ...], constants: Mapping[str, object]) -> ProblemTable:
    """A problem table. grid, constants: of its specialization. Raises MalformedSidecar and TOML errors."""
    problem = ProblemTable(
        units=_texts(table.table("units", "units = { M = 16 }")),
        tensors=_shapes(table.table("tensors", 'tensors = { a = ["M", "K"] }')),
        scalars=_texts(table.table("scalars", "scalars = { scale = 0.5 }")) if table.has("scalars") else {},
        run=_sizes(table, "run"),
        bench=_sizes(table, "bench"),
        grid=grid,
        constants={name: value for name, value in constants.items() if isinstance(value, int | float)},
        file=table.text.file,
        line=table.line(),
        tables=_shapes(table.table("tables", 'tables = { sizes = ["M"] }')) if table.has("tables") else {},
    )
    table.finish()
    for sizes in (*problem.run, *problem.bench):
        problem.case(sizes)
    return problem


def _texts(table: Table) -> dict[str, str]:
    """Expressions: texts, or numbers as they are."""
    texts: dict[str, str] = {}
    for name in table.names():
        value = table.data[name]
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise TomlWrongType(
                table.title(name), describe(value), f'{name} = 16 or "BLOCK_M"', file=table.text.file,
                line=table.line(name),
            )  # fmt: skip
        texts[name] = str(value)
    return texts


def _shapes(table: Table) -> dict[str, tuple[str, ...]]:
    return {name: table.expressions(name, f'{name} = ["M", "K"]') for name in table.names()}


def _sizes(table: Table, key: str) -> tuple[dict[str, int], ...]:
    if not table.has(key):
        return ()
    rows = table.tables(key, f"{key} = [{{ M = 256 }}]")
    return tuple({name: row.whole(name, f"{name} = 256") for name in row.names()} for row in rows)


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_CALLS: dict[str, Callable[..., Number]] = {
    "cdiv": lambda number, divisor: -(-number // divisor), "min": min, "max": max, "sqrt": math.sqrt, "log2": math.log2,
}  # fmt: skip


def evaluate(text: str, names: Mapping[str, Number]) -> Number:
    """The number that an expression means. Raises ValueError or ArithmeticError with what is wrong."""
    try:
        tree = _parsed(text.strip())
    except SyntaxError as error:
        raise ValueError("not an expression") from error
    return _number(tree.body, names)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.Expression:
    """The tree of an expression: sizes are tried by the thousand."""
    return ast.parse(text, mode="eval")


def _number(node: ast.expr, names: Mapping[str, Number]) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            raise ValueError(f"nothing is called {name}")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, names)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _BINARY[type(sign)](_number(left, names), _number(right, names))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _CALLS:
            try:
                return _CALLS[name](*(_number(argument, names) for argument in arguments))
            except TypeError as error:
                raise ValueError(f"{name}: {error}") from error
    raise ValueError(f"`{ast.unparse(node)}` is not arithmetic")
