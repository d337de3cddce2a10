# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What happens when an op runs
#
# One op, `x + 1`, followed from the call to the result. Every artefact on the way is opened and read:
#
# **call → signature → FX graph → StableHLO → NEFF → cache → launch**
#
# You need the words *cold*, *warm*, *NEFF* and *fallback*; `00_quickstart` explains them. To have everything cold, this
# notebook works on a cache directory of its own. The variable is read when the device starts, so it is set first; to
# run the notebook again, restart the kernel.

# %%
import dataclasses
import os
import tempfile
from pathlib import Path

own_cache = tempfile.TemporaryDirectory(prefix="neffs-")
os.environ["TORCH_NEURONX_NEFF_CACHE_DIR"] = own_cache.name

import pandas as pd
import torch

import neuron_lab
from neuron_lab import neff

# %load_ext neuron_lab
pd.set_option("display.max_colwidth", None, "display.width", 120)
assert neuron_lab.status().device.cache.directory == own_cache.name, "the device is running already: restart the kernel"

started = torch.ones(1).to("neuron").neg()  # a process's first compile also loads the compiler: we get that over with

# %% [markdown]
# ## The call
#
# `x` is made on the host and copied: a copy needs no compiler.

# %%
x = torch.arange(6.0).reshape(2, 3).to("neuron")

# %%
# %%neuron profile -o p
y = x + 1

# %%
assert p.summary.neffs_compiled == 1
assert y.cpu().tolist() == [[1, 2, 3], [4, 5, 6]]

# %% [markdown]
# PyTorch found that `+` on a `neuron` tensor is the op `aten::add.Tensor`. The device saw it for the first time and
# compiled it. `.compiles` has one row for each such event:

# %%
p.compiles.T

# %% [markdown]
# `trace_s`, `lower_s` and `xla_s` are the three stages, `compile_s` their sum. We come to each of them.
#
# ## The signature
#
# The device must decide whether a NEFF that it has fits this call. It writes down everything the compiled code depends
# on, and nothing else:

# %%
(signature,) = p.compiles["signature"]
print(signature)

# %% [markdown]
# | part | meaning |
# |---|---|
# | `aten::add.Tensor` | the op with its overload |
# | `float32[2, 3]` | a tensor: dtype and shape. The values are not in it |
# | `int64~` | a Python `int`: its *type*. The value is handed over as an input, like a tensor |
# | `float64#` | a number where the op takes nothing else, as in `clamp`: handed over likewise |
# | `float32[3, 2]{1, 0}` | a tensor whose dimensions lie in this order in memory; `{}`: one element expanded to the shape |
# | `alpha=1` | an argument that keeps its default (`add` computes `self + alpha * other`) |
# | `default=float32` | `torch.get_default_dtype()`, which decides the dtype of some results |
#
# Other arguments, such as a `dim`, shape the compiled code itself: they stand in the signature with their value.
# So one can predict which calls share a NEFF. `new_neffs` counts the compiles that a call causes.


# %%
def new_neffs(call):
    with neuron_lab.profile() as profiled:
        call()
    return profiled.summary.neffs_compiled, list(profiled.compiles["signature"])


calls = {
    "x + 2": lambda: x + 2,
    "x + 3": lambda: x + 3,
    "x + 2.5": lambda: x + 2.5,
    "x[:1] + 1": lambda: x[:1] + 1,
    "x[1:] + 1": lambda: x[1:] + 1,
    "x.t() + 1": lambda: x.t() + 1,
    "x.softmax(0)": lambda: x.softmax(0),
    "x.softmax(1)": lambda: x.softmax(1),
    "x.t()": lambda: x.t(),
}
rows = [(call, *new_neffs(function)) for call, function in calls.items()]
counts = {call: count for call, count, _ in rows}
pd.DataFrame(
    [(call, count, "".join(signatures)) for call, count, signatures in rows],
    columns=["call", "new NEFFs", "its signature"],
)

# %% [markdown]
# - `x + 2` and `x + 3` have the signature of `x + 1`. A `float` is another type than an `int`: one new NEFF.
# - A new shape is a new NEFF. `x[1:]` has the shape of `x[:1]`, so it finds one.
# - `x.t()` is a view of the same memory in another order, `{1, 0}`. `+` reads that order directly; the compiled code
#   differs.
# - `dim` counts by value.
# - A view alone computes nothing: no NEFF.

# %%
assert counts["x + 2"] == counts["x + 3"] == counts["x[1:] + 1"] == counts["x.t()"] == 0
assert counts["x + 2.5"] == counts["x[:1] + 1"] == counts["x.t() + 1"] == 1
assert counts["x.softmax(0)"] == counts["x.softmax(1)"] == 1

# %% [markdown]
# ## The NEFF file
#
# The compiled op is a file. Its name is a *key* of 32 hex digits: a hash of the signature and of everything else that
# went into the compile, such as the compiler's version.

# %%
(key,) = p.compiles["neff"]
cache = Path(neuron_lab.status().device.cache.directory)
path = neff.path_of(cache, key)
print(path.relative_to(cache), "·", path.stat().st_size, "bytes")

# %% [markdown]
# `neff.read` opens any NEFF, also one from a Trainium machine, and unpacks nothing to disk. First come 1,024 bytes of
# header:

# %%
opened = neff.read(path)
header = opened.header
parts = dataclasses.asdict(header)
del parts["tpb_per_node"]  # 64 bytes
parts = {name: part.hex() if isinstance(part, bytes) else part for name, part in parts.items()}
pd.Series(parts, name="header").to_frame()

# %% [markdown]
# `build_version` says that the emulator made it, `num_tpb` is the number of cores. `pkg_version` 1 means that a plain tar
# archive follows; its SHA-256 is in `hash` and was checked while reading. These are its members:

# %%
assert header.build_version.startswith("neuron_lab-emulator")
assert opened.verified
assert path.stat().st_size == neff.HEADER_SIZE + header.data_size
pd.DataFrame([(member.name, member.size) for member in opened.members], columns=["member", "bytes"])

# %% [markdown]
# `neff.json` describes it; `info.json` lists what goes in and what comes out. The `1` of `x + 1` is an input: a 0-d
# int64 tensor.

# %%
print(opened.text("neff.json"))
info = opened.json("info.json")
assert opened.json("neff.json")["emulated"] is True
assert opened.json("neff.json")["signature"] == signature
assert info["inputs"][1] == {"dtype": "int64", "shape": [], "bytes": 8}
pd.DataFrame(info["inputs"] + info["outputs"], index=["input"] * len(info["inputs"]) + ["output"])

# %% [markdown]
# The other members are what the three stages made.
#
# **trace**: the op is run once on tensors without data and recorded as an FX graph. Type promotion becomes visible: the
# number is converted to float32.

# %%
print(opened.text("emulator/graph.fx.txt"))

# %% [markdown]
# **lower**: torch-mlir translates the graph to StableHLO, the form the compiler takes. Shapes and dtypes are part of
# every line; this is why a NEFF fits one shape only.

# %%
stablehlo = opened.text("emulator/module.stablehlo.mlir")
print(stablehlo)
assert "stablehlo.add" in stablehlo and "tensor<2x3xf32>" in stablehlo

# %% [markdown]
# **compile**: XLA turns StableHLO into machine code, `emulator/executable.bin`. `emulator/plan.json` tells which
# argument of the op becomes which input, and which dtype, shape and strides the results have.

# %%
print(len(opened.data("emulator/executable.bin")), "bytes of executable")
print(opened.text("emulator/plan.json"))

# %% [markdown]
# What did the other signatures leave?

# %%
kept = [(file.path.relative_to(cache), file.header().name, file.size) for file in neff.scan(cache)]
pd.DataFrame(sorted(kept, key=lambda row: row[1]), columns=["file", "op", "bytes"])

# %% [markdown]
# ## Two caches
#
# The device keeps NEFFs in two places: loaded in memory, for this process, and as files, for every process of this user.
# `torch_neuronx._C` has the counts. A cold op misses in both.

# %%
import torch_neuronx

COUNTS = ["total_entries", "in_memory_hits", "in_memory_misses", "persistent_hits", "persistent_misses"]


def stats():
    found = torch_neuronx._C._get_compilation_cache_stats()
    return pd.Series({name: found[name] for name in COUNTS})


before = stats()
x + 4
warm = stats()
x * 4
cold = stats()
assert (warm - before)["in_memory_hits"] == 1 and (warm - before)["in_memory_misses"] == 0
assert (cold - warm)["in_memory_misses"] == (cold - warm)["persistent_misses"] == 1
pd.DataFrame({"before": before, "x + 4 (warm)": warm - before, "x * 4 (cold)": cold - warm})

# %% [markdown]
# A new process has nothing in memory. The same state without a restart:

# %%
torch_neuronx._C._clear_compilation_memory_cache()
assert stats()["total_entries"] == 0

# %%
# %%neuron profile -o reloaded
y = x + 1

# %% [markdown]
# *Loaded from disk*: the first call waits for a file to be read, not for the compiler.

# %%
assert reloaded.summary.neffs_compiled == 0 and reloaded.summary.neffs_loaded == 1
(loaded,) = reloaded.compiles.itertuples()
assert loaded.neff == key and loaded.source == "disk"
print(f"compiled in {p.summary.compile_s * 1e3:.1f} ms, loaded in {loaded.load_s * 1e3:.1f} ms")

# %% [markdown]
# ## The launch
#
# A warm call looks its signature up in memory and runs the executable. There is no Python in that path but your own line.

# %%
# %%neuron profile -o launches
for _ in range(1000):
    y = x + 1

# %%
assert launches.summary.warm_calls == 1000 and launches.summary.cold_calls == 0
print(f"{launches.summary.wall_s * 1e3:.1f} µs a call, {launches.summary.device_s * 1e3:.1f} µs of them executing")

# %% [markdown]
# For six numbers, nearly all of this is the cost of a launch. It pays to give the device more at a time:

# %%
many = torch.ones(1000, 2, 3).to("neuron")
y = many + 1  # cold

# %%
# %%neuron profile -o together
y = many + 1

# %%
assert together.summary.op_calls == 1
print(f"1,000 launches: {launches.summary.wall_s * 1e3:.1f} ms; one launch: {together.summary.wall_s * 1e3:.2f} ms")

# %% [markdown]
# ## The other road: a fallback
#
# A NEFF's outputs have fixed shapes. How many values `unique` returns depends on the data, so it cannot be compiled
# and runs on the CPU.

# %%
# %%neuron profile -o fallen
values = torch.tensor([3, 1, 3]).to("neuron").unique()

# %%
assert values.cpu().tolist() == [1, 3]
assert fallen.summary.fallback_calls == 1 and fallen.summary.neffs == 0
fallen.fallbacks

# %% [markdown]
# TorchNeuron falls back silently too. Its own list has names only, for the whole process:

# %%
torch_neuronx.get_fallback_ops()

# %% [markdown]
# ## What is real here, and what is emulated
#
# | station | here | on Trainium |
# |---|---|---|
# | device `neuron` | a PyTorch backend in C++, tensors in host memory | the TorchNeuron backend, tensors in HBM |
# | signature | one per op, shapes, dtypes, static arguments | the same idea, another text |
# | FX, StableHLO | real, by the same tools: `make_fx` and torch-mlir | FX and StableHLO |
# | compiler | XLA for this CPU: milliseconds an op | `neuronx-cc`: far slower |
# | NEFF | real container; inside is CPU code. Marked `"emulated": true`; Trainium cannot run it | code for the engines of a core |
# | cache | same directory layout, real files | the same |
# | launch | runs on this CPU, waits for the result | handed to the core, may run on while Python continues |
# | values | computed for real; the last digits may differ from Trainium's | |
# | times | real times of this machine. **Not a prediction for Trainium** | |
#
# What carries over is the structure: which ops run, how many NEFFs they need, what makes new ones, what falls back.

# %% [markdown]
# ## Exercises
#
# Try each before you read the solution below it.
#
# **1.** How many NEFFs does `exercise()` compile? Predict, then count.

# %%
a = torch.ones(4, 4).to("neuron")


def exercise():
    return a - 1, a - 2, a - a, a[:2] - 1, a.T - 1, a.half() - 1


# %% [markdown]
# *Solution.* Six: `a - 1` (and `a - 2` with it), `a - a` with a tensor instead of a number, the new shape, the other
# memory order, the conversion to half, and `-` on float16.

# %%
count, signatures = new_neffs(exercise)
print(*signatures, sep="\n")
assert count == 6
assert new_neffs(exercise)[0] == 0

# %% [markdown]
# **2.** A sequence grows by one in each step, and every step compiles. Change `mean_so_far` so that all steps share
# their NEFFs.

# %%
history = torch.arange(8.0).to("neuron")


def mean_so_far(length):
    return history[:length].mean()


print([new_neffs(lambda length=length: mean_so_far(length))[0] for length in range(1, 9)])

# %% [markdown]
# *Solution.* Keep the full length and mask. `length` becomes a number that the NEFF takes as input.

# %%
positions = torch.arange(8).to("neuron")


def mean_of_fixed_shape(length):
    return ((positions < length) * history).sum() / length


growth = [new_neffs(lambda length=length: mean_of_fixed_shape(length))[0] for length in range(1, 9)]
print(growth)
assert growth[0] > 0 and growth[1:] == [0] * 7
assert all(mean_of_fixed_shape(n).item() == (n - 1) / 2 for n in range(1, 9))

# %% [markdown]
# **3.** Somebody damages a file in the cache. What does the next process get: an error, a wrong result, or neither?

# %%
data = bytearray(path.read_bytes())
data[-2000] ^= 0xFF
path.write_bytes(data)
torch_neuronx._C._clear_compilation_memory_cache()

# %% [markdown]
# *Solution.* Neither. The hash does not fit any more; the file is removed, and the op is compiled again.

# %%
try:
    neff.read(path)
except neff.NeffFormatError as problem:
    print(problem)

with neuron_lab.profile() as healed:
    y = x + 1
assert y.cpu().tolist() == [[1, 2, 3], [4, 5, 6]]
assert list(healed.compiles["source"]) == ["compiled"]
assert neff.read(path).verified

# %% [markdown]
# **4.** Which signature took the compiler longest? The cache was cleared from memory twice, so ask the files.
#
# *Solution.* `neff.json` keeps the seconds of each stage; `compile_s` is the compiler's. `%neuron neff --sort compile` lists their sums.

# %%
spent = [neff.read(file.path).json("neff.json") for file in neff.scan(cache)]
slowest = max(spent, key=lambda entry: entry["compile_s"])
print(f"{slowest['compile_s'] * 1e3:.1f} ms: {slowest['signature']}")
assert all(entry["emulated"] for entry in spent)
