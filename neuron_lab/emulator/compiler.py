"""StableHLO text to a callable, by XLA's CPU client as jaxlib ships it.

Three tiers.  The eager tier compiles fast: XLA's optimisation level 0, no expensive LLVM passes and no fusion
emitters cost a third of the default compile time for a single op.  The others keep XLA's defaults, for ops on many
elements and for graphs that `torch.compile` will run many times.

Only jaxlib is needed: jaxlib's jit fast path reads three settings which the package `jax` would register, so
they are registered here when `jax` is absent.  A program that imports `jax`, before or after, replaces them with
its own; the fast path then keys on `jax`'s values, so a launcher takes the slow road for one more call.
"""

from __future__ import annotations

import enum
import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from neuron_lab.emulator._library import Substituted, with_library_calls

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "FLAGS",
    "CompileError",
    "Cost",
    "Executable",
    "Tier",
    "client",
    "compile",
    "launcher",
    "load",
    "numpy_dtype",
]

# The algebraic simplifier turns x / 7 into x * (1 / 7): one unit in the last place off the CPU's result.
EXACT_FLAGS: dict[str, bool | int | str] = {"xla_disable_hlo_passes": "algsimp"}
FAST_FLAGS: dict[str, bool | int | str] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    **EXACT_FLAGS,
}
UNFUSED_FLAGS: dict[str, bool | int | str] = {"xla_cpu_experimental_ynn_fusion_type": ""}
FLAGS = f"eager={FAST_FLAGS} exact={EXACT_FLAGS} unfused={UNFUSED_FLAGS}"
"""All the compiler flags used here, as one text: part of every cache key."""
_SPREAD = re.compile(
    r"stablehlo\.broadcast_in_dim %[\w#]+, dims = \[([\d, ]+)\] : \(tensor<((?:\d+x)+)[^>]*>\) -> tensor<((?:\d+x)+)"
)

_ML_DTYPES = frozenset(
    {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"}
)
_NUMPY_DTYPES = frozenset(
    {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}
    | {"float16", "float32", "float64", "complex64", "complex128"}
)

# One entry per launcher; XLA's default of 4,096 is shared by the whole process and a large model has more ops.
_LAUNCHERS = 1 << 16

_lock = threading.Lock()


class Tier(enum.StrEnum):
    """How much an executable is optimised."""

    EAGER = "eager"
    """An op: compiled as fast as can be."""
    LARGE = "large"
    """An op on many elements: its loops are worth 20 to 40 ms more of compiling. As exact as EAGER."""
    GRAPH = "graph"
    """A whole graph."""


_TIER_FLAGS = {Tier.EAGER: FAST_FLAGS, Tier.LARGE: EXACT_FLAGS, Tier.GRAPH: {}}


class CompileError(RuntimeError):
    """XLA refused a module, or a serialised executable could not be loaded."""


@dataclass(frozen=True, slots=True)
class Cost:
    """XLA's own figures for one execution: floating-point operations, bytes read plus bytes written, bytes of temporary buffers."""

    flops: float
    bytes_accessed: float
    temporary_bytes: int


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy (or ml_dtypes) dtype for a torch dtype name such as "float32" or "bfloat16".

    Raises ValueError for torch dtypes that XLA buffers cannot hold (complex32, quantised and packed types).
    """
    import numpy as np

    if name in _NUMPY_DTYPES:
        return np.dtype(name)
    if name in _ML_DTYPES:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype
    msg = f"torch dtype {name!r} has no XLA buffer type on the emulator"
    raise ValueError(msg)


def client() -> Any:
    """The process's XLA CPU client, made at first use.

    It is synchronous: a launcher returns after the results have been computed, so their memory may be read at once.
    """
    return _runtime().client


class _Runtime(NamedTuple):
    client: Any
    device: Any
    devices: Any
    sharding: Any
    registry: Any
    launchers: Any
    settings: tuple[Any, ...]


def _runtime() -> _Runtime:
    # functools.cache alone lets two first callers make a client each.
    with _lock:
        return _start()


@functools.cache
def _start() -> _Runtime:
    # Without this XLA prints its CPU feature banner into the notebook.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    from jaxlib import _jax, xla_client

    from neuron_lab.emulator import shim

    for name, handler in shim().library().items():
        xla_client.register_custom_call_target(name, handler, platform="cpu", api_version=1)
    cpu = xla_client.make_cpu_client(asynchronous=False)
    device = cpu.local_devices()[0]
    return _Runtime(
        client=cpu,
        device=device,
        devices=_jax.DeviceList((device,)),
        sharding=_jax.SingleDeviceSharding(device),
        registry=_jax.pytree.default_registry(),
        launchers=_jax.PjitFunctionCache(_LAUNCHERS),
        settings=_register_settings(_jax),
    )


def _register_settings(_jax: Any) -> tuple[Any, ...]:
    if "jax._src.config" in sys.modules:
        return ()
    config = _jax.config.Config
    x64 = config("enable_x64", True, include_in_jit_key=True)
    disable_jit = config("disable_jit", False)
    post_hook = config("post_hook", None)
    _jax.jax_jit.set_enable_x64_state(x64)
    _jax.jax_jit.set_disable_jit_state(disable_jit)
    _jax.jax_jit.set_post_hook_state(post_hook)
    return x64, disable_jit, post_hook


@dataclass(frozen=True, slots=True, eq=False)
class Executable:
    """One compiled unit, loaded on the host and ready for `launcher`."""

    raw: Any
    tier: Tier

    def serialize(self) -> bytes:
        """Machine code and metadata for `load`; valid for the same jaxlib on a CPU with the same features."""
        return bytes(self.raw.serialize())


@dataclass(frozen=True, slots=True, eq=False)
class Compiled(Executable):
    """One that was made from its module, and not loaded."""

    cost: Cost


def compile(stablehlo: str, tier: Tier = Tier.EAGER) -> Compiled:
    """Compile a StableHLO module (text, entry `@main`) for the host.

    Raises CompileError with XLA's message when the module is refused.
    """
    runtime = _runtime()
    options = _options(tier, _unfused(stablehlo, tier))
    module = Substituted(stablehlo) if tier is Tier.EAGER else with_library_calls(stablehlo)
    try:
        raw = runtime.client.compile_and_load(module.text.encode(), runtime.devices, options)
    except RuntimeError as error:
        msg = f"XLA refused the StableHLO module: {error}"
        raise CompileError(msg) from error
    return Compiled(raw, tier, _cost(raw, module))


def _cost(raw: Any, module: Substituted) -> Cost:
    """XLA's cost analysis and buffer assignment, and what it does not see of library calls; zeros for a module without arithmetic."""
    figures, memory = raw.cost_analysis(), raw.get_compiled_memory_stats()
    # XLA counts -1 for a call that it does not know.
    flops = figures.get("flops", 0.0) + module.calls + module.flops
    accessed = figures.get("bytes accessed", 0.0) + module.calls + module.bytes_accessed
    return Cost(float(flops), float(accessed), int(memory.temp_size_in_bytes))


def load(blob: bytes, tier: Tier = Tier.EAGER) -> Executable:
    """Load what `Executable.serialize` gave, compiled with the same `tier`.

    The blob holds machine code: pass only bytes that this user's own emulator wrote.  Raises CompileError when
    it is damaged or of another jaxlib.
    """
    runtime = _runtime()
    options = _options(tier, unfused=False)
    try:
        raw = runtime.client.deserialize_executable(blob, runtime.devices, options)
    except RuntimeError as error:
        msg = f"serialised executable of {len(blob)} bytes cannot be loaded: {error}"
        raise CompileError(msg) from error
    return Executable(raw, tier)


# The barrier keeps XLA from computing it while it compiles.
_PRODUCT = """
func.func public @main() -> tensor<2x4xf32> {
  %0 = stablehlo.constant dense<1.0> : tensor<2x4xf32>
  %1 = stablehlo.constant dense<1.0> : tensor<4x4xf32>
  %2:2 = stablehlo.optimization_barrier %0, %1 : tensor<2x4xf32>, tensor<4x4xf32>
  %3 = stablehlo.dot_general %2#0, %2#1, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}
"""


def start_products() -> None:
    """Have XLA's library generate its kernels for products and convolutions.

    It does so at the first one of a process, in 50 to 120 ms, which a recording would show as that op's time on the device.
    """
    compile(_PRODUCT).raw.execute([])


def _unfused(stablehlo: str, tier: Tier) -> bool:
    """Whether XLA is to leave its library fusions alone in this module."""
    if tier is not Tier.GRAPH and "stablehlo.reduce" in stablehlo and _spreads_a_one(stablehlo):
        return True
    # XLA's own convolution beats them on these CPUs: ResNet-18 forward 215 ms with them, 130 ms without.
    return tier is not Tier.EAGER and "stablehlo.convolution" in stablehlo


def _spreads_a_one(stablehlo: str) -> bool:
    """Whether a dimension of one becomes larger that is not the last of several, as in the softmax along the first dimension.

    With the algebraic simplifier off, the library fusion of a large reduction and of that kills the process or gives wrong values:
    seen along the first of (128, 3, 128) and with vectors of 8192 elements, never along the last dimension of several.
    """
    for places, source, result in _SPREAD.findall(stablehlo):
        sizes, target = source.split("x")[:-1], result.split("x")
        spread = [n for n, place in enumerate(places.split(", ")) if sizes[n] == "1" != target[int(place)]]
        if spread and (len(sizes) == 1 or spread[0] < len(sizes) - 1):
            return True
    return False


@functools.cache
def _options(tier: Tier, unfused: bool) -> Any:
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    flags = {**_TIER_FLAGS[tier], **(UNFUSED_FLAGS if unfused else {})}
    options.env_option_overrides = list(flags.items())
    return options


class _Aval(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool = False


class _Fastpath(NamedTuple):
    """The record that jaxlib's fast path reads by these names after a miss."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: list[Any]
    out_shardings: list[Any]
    out_avals: list[_Aval]
    out_committed: list[bool]
    kept_var_bitvec: list[bool]
    in_device_local_layouts: list[None]
    const_args: list[Any]


def launcher(
    executable: Executable, input_count: int, outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
) -> Callable[..., tuple[Any, ...]]:
    """The fast callable of an executable: `input_count` XLA arrays in, a tuple of `len(outputs)` XLA arrays out.

    `outputs` gives shape and dtype of every result of `@main`, in order.  The callable takes positional arguments
    only, each a dense row-major array of the shape and dtype `@main` declares; XLA checks their sizes in bytes.
    It takes about 6 us for a small op.
    """
    from jaxlib import _jax

    runtime = _runtime()
    avals = [_Aval(tuple(shape), dtype) for shape, dtype in outputs]
    fastpath = _Fastpath(
        xla_executable=executable.raw,
        out_pytree_def=runtime.registry.flatten((0,) * len(avals))[1],
        in_shardings=[runtime.sharding] * input_count,
        out_shardings=[runtime.sharding] * len(avals),
        out_avals=avals,
        out_committed=[True] * len(avals),
        kept_var_bitvec=[True] * input_count,
        in_device_local_layouts=[None] * input_count,
        const_args=[],
    )

    def direct(*args: Any) -> tuple[Any, ...]:  # also what runs inside a user's `jax.disable_jit()`
        return tuple(executable.raw.execute(list(args)))

    def miss(*args: Any) -> tuple[tuple[Any, ...], _Fastpath, bool]:
        return direct(*args), fastpath, False

    fast: Callable[..., tuple[Any, ...]] = _jax.pjit(
        "neff", direct, miss, [], [], object(), runtime.registry, _refuse_argument, runtime.launchers
    )
    return fast


def _refuse_argument(*args: Any) -> Any:
    msg = f"a launcher takes XLA arrays on the host device, not {[type(arg).__name__ for arg in args]}"
    raise TypeError(msg)
