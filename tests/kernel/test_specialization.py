"""Which kernel and specialization a target, a sidecar and flags mean, and the errors when they do not say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twill.exc import (
    KernelFileMissing,
    MalformedFlag,
    MalformedSidecar,
    MissingArgument,
    NoKernel,
    SeveralKernels,
    TwillError,
    UnknownArgument,
    UnknownKernel,
    UnknownSpecialization,
)
from twill.kernel.argument_types import parse_type
from twill.kernel.specialization import list_specializations, problem_of, read_constant, resolve

SOURCE = """
@triton.jit
def copy(src_ptr, dst_ptr, N, stride, B: tl.constexpr, FLAG: tl.constexpr = False):
    offs = tl.arange(0, B) * stride
    tl.store(dst_ptr + offs, tl.load(src_ptr + offs, mask=offs < N), mask=offs < N)
"""
SIDECAR = """
kernel = "copy"

[[specialization]]
name = "small"
grid = ["cdiv(N, B)"]
signature = { src_ptr = "*fp16:16", dst_ptr = "*fp16", N = "i32:16" }
constexprs = { stride = 1, B = 64 }

[[specialization]]
name = "large"
default = true
[specialization.signature]
src_ptr = "*fp16"
dst_ptr = "*fp16"
N = "i32"
stride = "i32"
[specialization.constexprs]
B = 1024
FLAG = true
"""
FLAGS: dict[str, Any] = {"sig": ["src_ptr=*fp16", "dst_ptr=*fp16", "N=i32:16", "stride=i32"], "const": ["B=32"]}


def test_the_sidecars_default_is_meant_when_none_is_named(kernel_file: Callable[..., str]) -> None:
    spec = resolve(kernel_file(SOURCE, SIDECAR))
    assert (spec.kernel, spec.spec) == ("copy", "large")
    assert spec.signature == (("src_ptr", "*fp16"), ("dst_ptr", "*fp16"), ("N", "i32"), ("stride", "i32"))
    assert spec.constexprs == (("B", 1024), ("FLAG", True))
    assert spec.divisibility == ()


def test_a_named_specialization_with_divisibility_grid_and_default_of_python(kernel_file: Callable[..., str]) -> None:
    spec = resolve(kernel_file(SOURCE, SIDECAR) + "::copy", spec="small")
    assert spec.signature == (("src_ptr", "*fp16"), ("dst_ptr", "*fp16"), ("N", "i32"))
    assert spec.divisibility == (("src_ptr", 16), ("N", 16))
    assert spec.constexprs == (("stride", 1), ("B", 64), ("FLAG", False))
    assert spec.grid == ("cdiv(N, B)",)


def test_flags_alone_specialize(kernel_file: Callable[..., str]) -> None:
    spec = resolve(kernel_file(SOURCE), **FLAGS)
    assert spec.spec == "flags"
    assert dict(spec.signature)["N"] == "i32"
    assert spec.divisibility == (("N", 16),)
    assert dict(spec.constexprs)["B"] == 32


def test_flags_override_the_sidecar_and_turn_constants_into_arguments_and_back(kernel_file: Callable[..., str]) -> None:
    file = kernel_file(SOURCE, SIDECAR)
    spec = resolve(file, spec="small", sig=["stride=i64"], const=["B=128", "N=7"])
    assert dict(spec.signature) == {"src_ptr": "*fp16", "dst_ptr": "*fp16", "stride": "i64"}
    assert dict(spec.constexprs) == {"N": 7, "B": 128, "FLAG": False}


def test_a_table_without_a_kernel_is_for_the_one_that_is_named(kernel_file: Callable[..., str]) -> None:
    file = kernel_file(SOURCE, SIDECAR.replace('kernel = "copy"', ""))
    assert resolve(file, spec="small") == resolve(file + "::copy", spec="small")


TWO_TABLES = """
[[specialization]]
name = "a"
kernel = "copy"
default = true
signature = { src_ptr = "*fp16", dst_ptr = "*fp16", N = "i32", stride = "i32" }
constexprs = { B = 16 }
[[specialization]]
name = "a"
kernel = "move"
default = true
signature = { src_ptr = "*fp32", dst_ptr = "*fp16", N = "i32", stride = "i32" }
constexprs = { B = 16 }
"""


def test_tables_of_the_same_name_for_two_kernels(kernel_file: Callable[..., str]) -> None:
    file = kernel_file(SECOND, TWO_TABLES)
    assert dict(resolve(file + "::move").signature)["src_ptr"] == "*fp32"
    assert resolve(file + "::copy", spec="a").kernel == "copy"
    for spec in (None, "a"):
        with pytest.raises(SeveralKernels, match="several kernels: copy, move"):
            resolve(file, spec=spec)
    preferring = kernel_file(SECOND, 'kernel = "move"\n' + TWO_TABLES)
    assert resolve(preferring).kernel == "move"


def test_list_specializations_begins_with_the_default(kernel_file: Callable[..., str]) -> None:
    assert list_specializations(kernel_file(SOURCE, SIDECAR)) == ("large", "small")
    assert list_specializations(kernel_file(SOURCE, name="bare.py")) == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1", -1),
        ("0.5", 0.5),
        ("true", True),
        ("False", False),
        ("none", None),
        ("tl.int8", "tl.int8"),
        ('"none"', "none"),
        ("'3'", "3"),
    ],
)
def test_constants_of_flags(text: str, value: object) -> None:
    read = read_constant(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", ["ACTIVATION=", 'ACTIVATION=""'])
def test_nothing_behind_the_sign_is_an_empty_text(text: str, kernel_file: Callable[..., str]) -> None:
    source = """
@triton.jit
def activated(x, ACTIVATION: tl.constexpr):
    v = tl.load(x)
    if ACTIVATION == "relu":
        v = tl.maximum(v, 0)
    tl.store(x, v)
"""
    found = resolve(kernel_file(source), sig=["x=*fp32"], const=[text])
    assert dict(found.constexprs) == {"ACTIVATION": ""}


@pytest.mark.parametrize(
    "text", ["i32", "u8", "fp64", "*bf16", "*fp8e4nv", "tensordesc<bf16[128, 64]>", "tensordesc<fp8e5[1,2,64]>"]
)
def test_types_with_and_without_divisibility(text: str) -> None:
    assert parse_type("a", text) == (text, "")
    assert parse_type("a", text + ":16") == (text, "16")


def test_a_float_may_be_promised_to_be_positive(kernel_file: Callable[..., str]) -> None:
    assert parse_type("a", "fp32:positive") == ("fp32", "positive")
    with pytest.raises(MalformedFlag, match=r'"i32:positive" for argument a: i32 is no float'):
        parse_type("a", "i32:positive")


@pytest.mark.parametrize("text", ["float32", "*", "i32:8", "tensordesc<bf16>", "tensordesc<bf16[128]", "**fp16", ""])
def test_fail_types_that_triton_does_not_have(text: str) -> None:
    with pytest.raises(MalformedFlag, match="is no type for argument a"):
        parse_type("a", text)


SECOND = SOURCE + SOURCE.replace("def copy", "def move")


@pytest.mark.parametrize(
    ("source", "sidecar", "target", "options", "error", "words"),
    [
        ("x = 1\n", None, "", {}, NoKernel, ["defines no kernel", "@triton.jit"]),
        (SECOND, None, "", FLAGS, SeveralKernels, ["2 kernels: copy, move", "::copy"]),
        (SOURCE, None, "::cpy", FLAGS, UnknownKernel, ['no kernel "cpy"', "one of: copy"]),
        (SOURCE, SIDECAR.replace('"copy"', '"cpy"'), "", {}, UnknownKernel, ['no kernel "cpy"', "kernel.twill.toml"]),
        (SOURCE, SIDECAR, "", {"spec": "huge"}, UnknownSpecialization, ['"huge"', "one of: small, large"]),
        (SOURCE, SIDECAR.replace("default = true", ""), "", {}, UnknownSpecialization, ["--spec", "small, large"]),
        (SOURCE, None, "", {"spec": "small"}, UnknownSpecialization, ["which does not exist", "--sig"]),
        (SOURCE, SIDECAR, "", {"const": ["BLOCK=3"]}, UnknownArgument, ['no parameter "BLOCK"', "src_ptr, dst_ptr"]),
        (SOURCE, SIDECAR, "", {"sig": ["B=i32"]}, UnknownArgument, ["B is a constexpr", "--const B=VALUE"]),
        (SOURCE, SIDECAR, "", {"sig": ["N"]}, MalformedFlag, ["--sig N", "ARG=TYPE"]),
        (SOURCE, SIDECAR, "", {"const": ["=3"]}, MalformedFlag, ["--const =3", "NAME=VALUE"]),
        (SOURCE, SIDECAR, "", {"sig": ["N=int"]}, MalformedFlag, ['"int" is no type']),
        (SOURCE, SIDECAR, "", {"sig": ["N=i32"], "const": ["N=3"]}, MalformedFlag, ["both a type and a value"]),
    ],
)
def test_fail_with_one_clear_error(
    kernel_file: Callable[..., str],
    source: str,
    sidecar: str | None,
    target: str,
    options: dict[str, Any],
    error: type[TwillError],
    words: list[str],
) -> None:
    with pytest.raises(error) as raised:
        resolve(kernel_file(source, sidecar) + target, **options)
    assert raised.value.exit_code == 2
    for word in words:
        assert word in raised.value.describe()


def test_fail_missing_argument_prints_the_line_to_add_and_the_flag(kernel_file: Callable[..., str]) -> None:
    with pytest.raises(MissingArgument) as raised:
        resolve(kernel_file(SOURCE), sig=["src_ptr=*fp16", "stride=i32"])
    text = raised.value.describe()
    assert raised.value.line == 4
    assert "what dst_ptr, N, B (constexpr) are" in text
    assert '`dst_ptr = "*bf16:16"` under [specialization.signature] of' in text
    assert "--const B=128" in text


def test_the_lines_that_a_missing_argument_prints_are_accepted(kernel_file: Callable[..., str]) -> None:
    sidecar = '[[specialization]]\nname = "a"\n[specialization.signature]\nsrc_ptr = "*fp16"\nstride = "i32"\n'
    with pytest.raises(MissingArgument) as raised:
        resolve(kernel_file(SOURCE, sidecar))
    lines = raised.value.hint.split("`")[1::2]
    types = "".join(f"{line}\n" for line in lines if '"' in line)
    constants = "".join(f"{line}\n" for line in lines if '"' not in line)
    spec = resolve(kernel_file(SOURCE, sidecar + types + "[specialization.constexprs]\n" + constants))
    assert dict(spec.signature)["dst_ptr"] == "*bf16"


def test_fail_missing_file_comes_before_everything_else(tmp_path: Path) -> None:
    with pytest.raises(KernelFileMissing):
        resolve(str(tmp_path / "absent.py") + "::kernel", const=["nonsense"])


@pytest.mark.usefixtures("at_root")
def test_a_problem_has_the_constants_of_the_flags() -> None:
    spec = resolve("examples/gemm.py", const=["BLOCK_N=64"], sig=["b_desc=tensordesc<bf16[64, 64]>"])
    problem = problem_of(spec)
    assert problem is not None
    assert problem.case({"M": 128, "N": 128, "K": 64}).grid == (2,)


SPLIT = """
[[specialization]]
name = "a"
split = {}

[specialization.signature]
X = "*fp32:16"
"""


@pytest.mark.parametrize(("said", "parts"), [("4", 4), ("1", 1)])
def test_a_sidecar_says_into_how_many_parts_k_is_split(kernel_file: Callable[..., str], said: str, parts: int) -> None:
    file = kernel_file("@triton.jit\ndef k(X):\n    pass\n", SPLIT.format(said))
    assert resolve(file, spec="a").split == parts


def test_no_parts_are_refused_with_the_line(kernel_file: Callable[..., str]) -> None:
    with pytest.raises(MalformedSidecar, match="cannot be split into 0 parts") as caught:
        resolve(kernel_file("@triton.jit\ndef k(X):\n    pass\n", SPLIT.format("0")), spec="a")
    assert caught.value.line == 3
