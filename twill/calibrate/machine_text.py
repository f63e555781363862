"""A machine as the text of its file, as what differs from the machine that it extends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from twill.document import Document
from twill.machine.description import OPTIONAL_SECTIONS, Context, Figure, Machine, MmaInstruction, OperationCost, Rate


def machine_text(machine: Machine, base: Machine, extends: str, sources: Mapping[str, str], comment: str = "") -> str:
    """TOML that `twill.machine.file` reads as `machine`, where `extends` is read as `base`.

    sources: the [sources] of the file, to which sources of figures may refer as "[key]". comment: lines at the top.
    Whatever `machine` lacks and `base` has (an operation, a transfer) stays: files can only add.
    """
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += ["", f"extends = {quoted(extends)}"] if lines else [f"extends = {quoted(extends)}"]
    lines += [*differing(machine, base, ("name", "title", "architecture", "sms", "clock_mhz", "l2"))]
    interleaved = [unit.name for unit in machine.units if unit.interleaved]
    if interleaved != [unit.name for unit in base.units if unit.interleaved]:
        lines.append(f"interleaved = {value(interleaved)}")
    lines += section("sources", [f"{key} = {quoted(text)}" for key, text in sources.items()])
    units = [f"{u.name} = {quoted(u.description)}" for u in machine.units if u not in base.units]
    lines += section("units", units)
    lines += operations(machine, base)
    lines += mmas(machine.mma, base.mma)
    for transfer in machine.transfers:
        known = next((t for t in base.transfers if t.name == transfer.name), None)
        lines += section(f"transfers.{transfer.name}", differing(transfer, known, skip=("name",)))
    memories = [f"{m.name} = {figure(m.bytes)}" for m in machine.memories if m not in base.memories]
    lines += section("memories", memories)
    for context in machine.contexts:
        known_context: Context | None = next((c for c in base.contexts if c.name == context.name), None)
        lines += section(f"contexts.{context.name}", differing(context, known_context, skip=("name",)))
    lines += section("register_file", differing(machine.register_file, base.register_file))
    lines += section("crossing", differing(machine.crossing, base.crossing))
    for name in OPTIONAL_SECTIONS:
        described: Document | None = getattr(machine, name)
        lines += section(name, differing(described, getattr(base, name)) if described else [])
    return "\n".join(lines) + "\n"


def section(name: str, lines: Sequence[str] | Iterator[str]) -> list[str]:
    """A table with its header, or nothing."""
    body = list(lines)
    return ["", f"[{name}]", *body] if body else []


def differing(
    one: Document, base: Document | None, names: Sequence[str] = (), skip: Sequence[str] = ()
) -> Iterator[str]:
    """`key = value` of every field (of `names`, if given) that `base` has otherwise."""
    for name in names or type(one).model_fields:
        found = getattr(one, name)
        if name in skip or (base is not None and found == getattr(base, name)):
            continue
        if found is not None:
            yield f"{name} = {value(found)}"


def operations(machine: Machine, base: Machine) -> Iterator[str]:
    """Operations that differ, those with equal figures together."""
    groups: list[tuple[OperationCost, list[str]]] = []
    for operation in machine.operations:
        if operation in base.operations:
            continue
        same = (operation.rates, operation.latency)
        found = next((names for one, names in groups if (one.rates, one.latency) == same), None)
        if found is None:
            groups.append((operation, [operation.name]))
        else:
            found.append(operation.name)
    for operation, names in groups:
        yield from ("", "[[operations]]", f"names = {value(names)}", "rates = [")
        yield from (f"  {value(rate)}," for rate in operation.rates)
        yield from ("]", f"latency = {value(operation.latency)}")


def mmas(mma: MmaInstruction | None, base: MmaInstruction | None) -> Iterator[str]:
    """[mma] and [mma.rates]."""
    if mma is None:
        return
    yield from section("mma", differing(mma, base, skip=("rates",)))
    known = base.rates if base else ()
    rates = [f"{rate.dtype} = {figure(rate.per_cycle)}" for rate in mma.rates if rate not in known]
    yield from section("mma.rates", rates)


def value(found: object) -> str:
    """A TOML value."""
    if isinstance(found, Figure):
        return figure(found)
    if isinstance(found, Rate):
        return f"{{ unit = {quoted(found.unit)}, {figure(found.per_cycle)[2:]}"
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, int | float):
        return number(found)
    if isinstance(found, str):
        return quoted(found)
    if isinstance(found, Sequence):
        return "[" + ", ".join(value(item) for item in found) + "]"
    raise TypeError(f"a machine file has no {type(found).__name__}")


def figure(found: Figure) -> str:
    """`{ value = 16, spread = [15.9, 16.1], source = "..." }`."""
    spread = f", spread = {value(found.spread)}" if found.spread else ""
    return f"{{ value = {number(found.value)}{spread}, source = {quoted(found.source)} }}"


def number(found: float) -> str:
    """Without a needless `.0`."""
    return str(int(found)) if found == int(found) else repr(found)


def quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = "".join(
        f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else f"\\{c}" if c in '"\\' else c for c in text
    )
    return f'"{escaped}"'
