"""Every key of a TOML text is found on its line, however it is spelled."""

from __future__ import annotations

import tomllib

from twill.toml.lines import key_lines, line_of

TEXT = '''# a comment with [brackets] and = signs
name = "a # not a comment"
point.x = 1
"quoted.key" = """
several [lines]
of text""" # done

[units]   # header comment
tensor = 'one'
[mma.rates]
f16 = { value = 1, source = "a = b, {c}" }

[[operations]]
names = [
  "add.f32",  # first
  "mul.f32",
]
rates = [
  { unit = "fma", value = 128 },
  { unit = "issue",
    value = 256 },
]
[[operations]]
names = ["exp2.f32"]
[operations.latency]
value = 3
'''


def test_every_kind_of_key_has_its_line() -> None:
    tomllib.loads(TEXT.replace('{ unit = "issue",\n    value', '{ unit = "issue", value'))
    lines = key_lines(TEXT)
    expected = {
        ("name",): 2,
        ("point",): 3,
        ("point", "x"): 3,
        ("quoted.key",): 4,
        ("units",): 8,
        ("units", "tensor"): 9,
        ("mma", "rates", "f16", "source"): 11,
        ("operations", 0): 13,
        ("operations", 0, "names", 1): 16,
        ("operations", 0, "rates", 1): 20,
        ("operations", 0, "rates", 1, "value"): 21,
        ("operations", 1, "names", 0): 24,
        ("operations", 1, "latency", "value"): 26,
    }
    assert {key: lines.get(key) for key in expected} == expected


def test_a_missing_key_is_on_the_line_of_its_table() -> None:
    lines = key_lines(TEXT)
    assert line_of(lines, ("mma", "rates", "bf16")) == 10
    assert line_of(lines, ("operations", 1, "rates")) == 23
    assert line_of(lines, ("memories",)) == 0
