"""Large products of a compiled module go to the host's library; nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from neuron_lab.emulator._library import with_library_calls

_MATRICES = "(tensor<256x512xf32>, tensor<512x256xf32>) -> tensor<256x256xf32>"


def _dot(operands: str, numbers: str, types: str) -> str:
    return f"    %1 = stablehlo.dot_general {operands}, {numbers} : {types}\n"


def test_a_large_product_becomes_a_call() -> None:
    found = with_library_calls(_dot("%a, %b", "contracting_dims = [1] x [0]", _MATRICES))
    assert "dot_general" not in found.text
    assert "@neuron_dot(%a, %b)" in found.text
    assert "transpose_left = false, transpose_right = false" in found.text
    assert f": {_MATRICES}" in found.text
    assert found.flops == 2 * 256 * 512 * 256


def test_a_transpose_before_it_is_read_through() -> None:
    text = "    %0 = stablehlo.transpose %w, dims = [1, 0] : (tensor<256x512xf32>) -> tensor<512x256xf32>\n"
    found = with_library_calls(text + _dot("%a, %0", "contracting_dims = [1] x [0]", _MATRICES))
    assert "@neuron_dot(%a, %w)" in found.text
    assert "transpose_left = false, transpose_right = true" in found.text
    assert "(tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<256x256xf32>" in found.text
    assert found.flops == 2 * 256 * 512 * 256


def test_a_name_of_another_function_is_another_value() -> None:
    transpose = "    %0 = stablehlo.transpose %w, dims = [1, 0] : (tensor<512x256xf32>) -> tensor<256x512xf32>\n"
    add = "    %0 = stablehlo.add %a, %a : tensor<256x512xf32>\n"
    product = _dot("%0, %b", "contracting_dims = [1] x [0]", _MATRICES)
    head = "  func.func private @part(%a: tensor<256x512xf32>) {\n"
    for text in (
        transpose + head + add + product,
        head + add + product + "}\n" + head + transpose,
        transpose + add + product,
    ):
        assert "@neuron_dot(%0, %b)" in with_library_calls(text).text


def test_products_around_what_is_lowered_apart_equal_the_cpus() -> None:
    a, b = torch.randn(2, 512, 512) / 20
    lower = torch.randn(512, 512).tril() / 100 + torch.eye(512)

    def transposed_before(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        solved = torch.linalg.solve_triangular(lower.to(a.device), a @ b.T, upper=False)
        return (solved + solved) @ a

    def transposed_after(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve_triangular(lower.to(a.device), (a + b) @ a, upper=False).T @ b

    for function in (transposed_before, transposed_after):
        compiled = torch.compile(function, backend="neuron", fullgraph=True)
        torch.testing.assert_close(compiled(a.to("neuron"), b.to("neuron")).cpu(), function(a, b))


@pytest.mark.parametrize(
    "line",
    [
        _dot("%a, %b", "contracting_dims = [1] x [0]", "(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>"),
        _dot("%a, %b", "contracting_dims = [1] x [0]", _MATRICES.replace("f32", "bf16")),
        _dot("%a, %b", "contracting_dims = [1] x [0]", _MATRICES.replace("-> tensor<256x256xf32>", "-> tensor<256x256xf64>")),
        _dot(
            "%a, %b",
            "batching_dims = [1] x [0], contracting_dims = [2] x [1]",
            "(tensor<256x64x256xf32>, tensor<64x256x256xf32>) -> tensor<64x256x256xf32>",
        ),
        _dot(
            "%a, %b", "contracting_dims = [2] x [0]", "(tensor<64x64x256xf32>, tensor<256x256xf32>) -> tensor<64x64x256xf32>"
        ),
    ],
    ids=["small", "bfloat16", "mixed", "stacked otherwise", "unequal ranks"],
)  # fmt: skip
def test_other_products_stay(line: str) -> None:
    found = with_library_calls(line)
    assert found.text == line
    assert found.flops == 0


_PROGRAMS = {
    "plain": lambda a, b: a @ b,
    "right transposed": lambda a, b: a @ b.T.contiguous().T,
    "left transposed": lambda a, b: (a.T.contiguous().T) @ b,
    "both transposed": lambda a, b: (b.T @ a.T).T,
    "batched": lambda a, b: torch.bmm(a.view(2, 128, 512), b.view(2, 256, 256).transpose(1, 2).repeat(1, 2, 1)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_compiled_products_equal_the_cpus(name: str, dtype: torch.dtype) -> None:
    a, b = torch.randn(256, 512, dtype=dtype), torch.randn(512, 256, dtype=dtype)
    compiled = torch.compile(_PROGRAMS[name], backend="neuron", fullgraph=True)
    torch.testing.assert_close(compiled(a.to("neuron"), b.to("neuron")).cpu(), _PROGRAMS[name](a, b))


class _Refusing(TorchDispatchMode):
    """Fails when a product on the host reaches Python."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(isinstance(item, torch.Tensor) and item.device.type == "cpu" for item in args) and "mm" in str(func):
            raise AssertionError(f"{func} went through the caller's dispatch mode")
        return func(*args, **(kwargs or {}))


def test_the_callers_modes_do_not_reach_a_library_call() -> None:
    a, b = torch.randn(256, 512), torch.randn(512, 256)
    compiled = torch.compile(torch.mm, backend="neuron")
    on_device = a.to("neuron"), b.to("neuron")
    expected = compiled(*on_device).cpu()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(compiled(*on_device).cpu(), expected)
    with torch.profiler.profile() as profile:
        assert torch.equal(compiled(*on_device).cpu(), expected)
    assert not [event for event in profile.events() if event.name == "aten::mm"]
    large = torch.randn(512, 512, device="neuron")  # an op on so many elements calls the library too
    plain = large @ large
    with _Refusing():
        assert torch.equal(large @ large, plain)


def test_flops_of_library_calls_are_counted() -> None:
    from neuron_lab.emulator import compiler

    text = (
        "module {\n  func.func @main(%a: tensor<256x512xf32>, %b: tensor<512x256xf32>) -> tensor<256x256xf32> {\n"
        + _dot("%a, %b", "contracting_dims = [1] x [0]", _MATRICES)
        + "    return %1 : tensor<256x256xf32>\n  }\n}\n"
    )
    by_library, by_xla = (compiler.compile(text, tier).cost for tier in (compiler.Tier.GRAPH, compiler.Tier.EAGER))
    assert by_library == by_xla
    assert by_library.flops == 2 * 256 * 512 * 256
    assert by_library.bytes_accessed == 4 * (256 * 512 + 512 * 256 + 256 * 256)


def test_subnormal_numbers_are_alike_in_every_row() -> None:
    tiny = torch.full((600, 600), 1e-20)
    compiled = torch.compile(torch.mm, backend="neuron")
    assert torch.equal(compiled(tiny.to("neuron"), tiny.to("neuron")).cpu() > 0, torch.ones(600, 600, dtype=torch.bool))
