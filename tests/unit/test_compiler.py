from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch

from neuron_lab.emulator import compiler

MLIR_TYPES = {
    "bool": "i1",
    "uint8": "ui8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint16": "ui16",
    "uint32": "ui32",
    "uint64": "ui64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
}


def binary(op: str, shape: str, mlir_type: str) -> str:
    tensor = f"tensor<{shape}{mlir_type}>"
    return (
        f"module @m {{ func.func public @main(%a: {tensor}, %b: {tensor}) -> {tensor} "
        f"{{ %0 = stablehlo.{op} %a, %b : {tensor} return %0 : {tensor} }} }}"
    )


def to_device(tensor: torch.Tensor) -> Any:
    from jaxlib import _jax

    device = compiler.client().local_devices()[0]
    return _jax.dlpack_managed_tensor_to_buffer(torch._C._to_dlpack(tensor), device, None)


def to_torch(array: Any, like: torch.Tensor) -> torch.Tensor:
    raw = (ctypes.c_char * (like.numel() * like.element_size())).from_address(array.unsafe_buffer_pointer())
    return torch.frombuffer(bytearray(raw), dtype=like.dtype).reshape(like.shape)


def run(executable: compiler.Executable, *inputs: torch.Tensor) -> list[torch.Tensor]:
    like = inputs[0]
    spec = (tuple(like.shape), compiler.numpy_dtype(str(like.dtype).removeprefix("torch.")))
    call = compiler.launcher(executable, len(inputs), [spec])
    arrays = [to_device(tensor) for tensor in inputs]
    return [to_torch(call(*arrays)[0], like) for _ in range(3)]  # the first call is the slow road, the others the fast


@pytest.mark.parametrize("tier", compiler.Tier)
def test_compiled_add_equals_torch(tier: compiler.Tier) -> None:
    a, b = torch.randn(8, 5), torch.randn(8, 5)
    executable = compiler.compile(binary("add", "8x5x", "f32"), tier)
    assert executable.tier is tier
    for result in run(executable, a, b):
        assert torch.equal(result, a + b)


@pytest.mark.parametrize("name", MLIR_TYPES)
def test_every_dtype_round_trips_with_its_bits(name: str) -> None:
    dtype = getattr(torch, name)
    # powers of two, which every float8 type holds
    a = torch.tensor([[1, 1, 2], [1, 4, 1]], dtype=torch.float32).to(dtype)
    # maximum(a, a) is a in every ordered type; complex numbers have no order
    op = "and" if name == "bool" else "multiply" if name.startswith("complex") else "maximum"
    b = torch.ones_like(a) if op == "multiply" else a
    for result in run(compiler.compile(binary(op, "2x3x", MLIR_TYPES[name])), a, b):
        assert torch.equal(result.view(torch.uint8), a.view(torch.uint8))


def test_dtype_without_xla_buffer_is_named() -> None:
    with pytest.raises(ValueError, match="complex32"):
        compiler.numpy_dtype("complex32")


def test_serialised_executable_computes_the_same() -> None:
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    executable = compiler.compile(binary("multiply", "4x4x", "f32"))
    loaded = compiler.load(executable.serialize())
    assert torch.equal(run(loaded, a, b)[-1], a * b)


def test_cost_of_a_matrix_product_is_exact() -> None:
    module = (
        "module @m { func.func public @main(%a: tensor<16x32xf32>, %b: tensor<32x8xf32>) -> tensor<16x8xf32> { "
        "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
        "(tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32> return %0 : tensor<16x8xf32> } }"
    )
    cost = compiler.compile(module).cost
    assert cost.flops == 2 * 16 * 32 * 8
    assert cost.bytes_accessed == 4 * (16 * 32 + 32 * 8 + 16 * 8)


def test_module_without_inputs_and_with_two_results() -> None:
    module = (
        "module @m { func.func public @main() -> (tensor<2xf32>, tensor<i64>) { "
        "%0 = stablehlo.constant dense<1.5> : tensor<2xf32> %1 = stablehlo.constant dense<3> : tensor<i64> "
        "return %0, %1 : tensor<2xf32>, tensor<i64> } }"
    )
    specs = [((2,), compiler.numpy_dtype("float32")), ((), compiler.numpy_dtype("int64"))]
    call = compiler.launcher(compiler.compile(module), 0, specs)
    for _ in range(2):
        first, second = call()
        assert torch.equal(to_torch(first, torch.empty(2)), torch.full((2,), 1.5))
        assert to_torch(second, torch.empty((), dtype=torch.int64)).item() == 3


def test_refused_module_raises_with_the_compiler_message() -> None:
    with pytest.raises(compiler.CompileError, match="nonsense"):
        compiler.compile("module @m { nonsense }")


@pytest.mark.parametrize("damage", [b"", b"junk" * 20])
def test_damaged_executable_raises(damage: bytes) -> None:
    with pytest.raises(compiler.CompileError, match=f"{len(damage)} bytes"):
        compiler.load(damage)


def test_truncated_executable_raises() -> None:
    blob = compiler.compile(binary("add", "2x", "f32")).serialize()
    with pytest.raises(compiler.CompileError):
        compiler.load(blob[: len(blob) // 2])


def test_launcher_serves_other_threads_and_outlives_its_executable() -> None:
    a = torch.ones(3)
    call = compiler.launcher(compiler.compile(binary("add", "3x", "f32")), 2, [((3,), compiler.numpy_dtype("float32"))])
    gc.collect()
    results: list[torch.Tensor] = []
    array = to_device(a)
    threads = [threading.Thread(target=lambda: results.append(to_torch(call(array, array)[0], a))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(torch.equal(result, a + a) for result in results)


def test_first_use_from_many_threads_makes_one_client() -> None:
    program = (
        "import threading\n"
        "from neuron_lab.emulator import compiler\n"
        "seen = []\n"
        "threads = [threading.Thread(target=lambda: seen.append(id(compiler.client()))) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "assert len(seen) == 8 and len(set(seen)) == 1, seen\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ, timeout=120)


def test_module_import_loads_no_compiler() -> None:
    program = "import sys; import neuron_lab.emulator.compiler; assert 'jaxlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ, timeout=120)
