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
# # Fallbacks, dtypes and narrowing
#
# Three things make a program slower, or its numbers other than you think, and none of them raises an error: an op that runs on
# the CPU, a value that the host has to wait for, and a dtype that the device does not compute in. This notebook finds each one
# and mends it. About five minutes, no network, no accelerator.

# %%
# %load_ext neuron_lab

# %%
import torch
from torch import nn

torch.manual_seed(0)
matrices = [torch.randn(16, 16).to("neuron") for _ in range(6)]
values = torch.randn(64).to("neuron")

# %% [markdown]
# ## A fallback
#
# An op without a kernel for the device runs on the CPU: its inputs go there, PyTorch's own kernel computes, the result comes
# back. The program is right and nothing is printed, which is why people look for it so long.

# %%
# %%neuron profile -o fallen
norms = [torch.linalg.svdvals(matrix).max() for matrix in matrices]

# %% [markdown]
# The row and the line say *CPU*, and the finding says that it happens in a loop. `.fallbacks` has every op with its reason.

# %%
assert [finding.code for finding in fallen.findings] == ["NRN033"]
fallen.fallbacks

# %% [markdown]
# The reasons are few:
#
# | reason | so |
# |---|---|
# | no lowering | use an op that has one, or compute on the CPU for good |
# | its result's size depends on the data | keep the size fixed, see below |
# | random numbers are drawn on the host | mostly harmless: a few bytes go up, once |
#
# Which ops fall back is the emulator's answer here; TorchNeuron's list is another one. NRN032 names ops that run compiled here
# and have no kernel in its list of April 2026, `argmax` for one. What a fallback costs in a loop is the same: a wait each time.
# The mend is the same too: other ops, or once instead of often. The largest singular value also comes out of a few products
# (power iteration), and all six matrices can go at once.


# %%
def largest_singular_value(batch, steps=60):
    vector = batch.sum(-1, keepdim=True)
    for _ in range(steps):
        vector = batch.mT @ (batch @ vector)
        vector = vector / vector.norm(dim=1, keepdim=True)
    return (batch @ vector).norm(dim=1).flatten()


batch = torch.stack(matrices)
estimates = largest_singular_value(batch)  # once, cold

# %%
# %%neuron profile -o iterated --fail-over neffs=0,fallbacks=0
estimates = largest_singular_value(batch)

# %%
assert torch.allclose(estimates.cpu(), torch.stack(norms).cpu(), rtol=0.02)

# %% [markdown]
# ## Help of the host
#
# Some ops are no fallback, and yet the host takes part: the size of their result is in the data. Indexing with a mask is one.
# The values stay on the device, but the program has to *wait* and learn how many there are before it can go on, and
# each new number makes the ops that follow compile again.

# %%
# %%neuron profile -o masked
for threshold in (0.0, 0.3, 0.6, 0.9):
    kept = values[values > threshold]
    total = (kept * kept).sum()

# %%
assert "NRN031" in [finding.code for finding in masked.findings]
assert masked.summary.fallback_calls == 0
masked.ops[["op", "calls", "neffs", "host_calls"]]

# %% [markdown]
# Keep the shape, and let a mask take out what does not count.


# %%
def sum_of_squares_above(threshold):
    kept = torch.where(values > threshold, values, 0)
    return (kept * kept).sum()


sum_of_squares_above(0.0)  # once, cold

# %%
# %%neuron profile -o fixed --fail-over neffs=0
for threshold in (0.0, 0.3, 0.6, 0.9):
    total_where = sum_of_squares_above(threshold)

# %%
assert torch.allclose(total_where.cpu(), total.cpu())
assert not fixed.findings

# %% [markdown]
# ## 64 bits that become 32
#
# TorchNeuron's snapshot of April 2026 has no 64-bit arithmetic: int64 is computed as int32 and float64 as float32, while the
# tensor still says 64. The emulator computes all 64 bits, and tells you where the difference would show.
#
# Token ids are int64, and small. The table marks such calls in the column *64→32*; that is all, for nothing is wrong.

# %%
embedding = nn.Embedding(100, 16).to("neuron")
tokens = torch.randint(100, (4, 8)).to("neuron")

# %%
# %%neuron profile -o ids
embedded = embedding(tokens + 1 - 1)

# %%
assert ids.ops.wide_calls.sum() > 0
assert ids.ops.beyond_calls.sum() == 0
assert not ids.findings

# %% [markdown]
# A hash is int64 too, and it needs its bits. Now the mark has a `!`, and there is a finding.

# %%
# %%neuron profile -o hashed
buckets = (tokens * 2654435761) % 1000

# %%
assert [finding.code for finding in hashed.findings] == ["NRN021"]
print(hashed.findings[0].message)

# %% [markdown]
# What 32 bits would have made of it, computed on the CPU:

# %%
wrapped = (tokens.cpu() * 2654435761).to(torch.int32).to(torch.int64) % 1000
print(f"{(wrapped != buckets.cpu()).sum()} of {wrapped.numel()} buckets differ")
assert (wrapped != buckets.cpu()).any()

# %% [markdown]
# Two mends: a hash whose values stay below 2^31, or the hash on the CPU, before the tokens go over.

# %%
# %%neuron profile -o small
buckets = (tokens * 7919) % 1000

# %%
assert not small.findings

# %% [markdown]
# float64 is a finding whatever its values, because its digits are lost. It comes from NumPy more often than anybody asks for it.

# %%
import numpy

steps = torch.from_numpy(numpy.linspace(0, 1, 5)).to("neuron")

# %%
# %%neuron profile -o double
curve = steps * 0.1

# %%
assert [finding.code for finding in double.findings] == ["NRN021"]
difference = (steps.cpu().float() * 0.1).double() - curve.cpu()
print(f"float32 is off by up to {difference.abs().max():.1g}")

# %% [markdown]
# `steps.float()` mends it; on TorchNeuron a cast from 64 bits goes through the CPU, so cast there, where the array comes from.

# %%
steps = torch.from_numpy(numpy.linspace(0, 1, 5)).float().to("neuron")

# %%
# %%neuron profile -o clean
curve = steps * 0.1

# %%
assert not clean.findings

# %% [markdown]
# ## bfloat16 and float16
#
# Both take half of the HBM. bfloat16 has float32's range and about three digits; float16 has four digits and ends at 65,504.

# %%
large = torch.tensor([300.0]).to("neuron")
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    print(f"{dtype}: 300² = {(large.to(dtype) ** 2).item():,.0f}")
assert torch.isinf(large.half() ** 2).item()

# %% [markdown]
# `torch.autocast` picks the dtype op by op and leaves the weights float32. It casts the weights, too, so that a model which only
# infers is better moved once, with `.to(torch.bfloat16)`. Both compute the same.

# %%
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("neuron")
half = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("neuron")
half.load_state_dict(net.state_dict())
half = half.to(torch.bfloat16)
x = torch.randn(8, 16).to("neuron")
x_half = x.to(torch.bfloat16)


def cast_each_time():
    with torch.autocast("neuron", dtype=torch.bfloat16), torch.no_grad():
        return net(x)


def cast_once():
    with torch.no_grad():
        return half(x_half)


for run in (cast_each_time, cast_once):
    run()  # once, cold

# %%
# %%neuron profile -o automatic
scores = cast_each_time()

# %%
# %%neuron profile -o moved
scores_half = cast_once()

# %%
casts = [int(p.ops[p.ops.op == "aten::_to_copy"].calls.sum()) for p in (automatic, moved)]
print(f"casts: {casts[0]} with autocast, {casts[1]} with a bfloat16 model")
assert casts[0] > casts[1] == 0
assert torch.equal(scores.cpu(), scores_half.cpu())

# %% [markdown]
# ## Exercises
#
# 1. `torch.bincount(tokens.flatten())` falls back. Count the tokens without a fallback, and prove it with `--fail-over`.
# 2. Is `tokens * tokens` safe in 32 bits? And `(tokens * 65536) * 65536`? Ask the profile.

# %% tags=["solution"]
classes = torch.arange(100).to("neuron")
counts = (tokens.flatten()[:, None] == classes).sum(0)  # once, cold

# %% tags=["solution"]
# %%neuron profile -o counted --fail-over neffs=0,fallbacks=0
counts = (tokens.flatten()[:, None] == classes).sum(0)

# %% tags=["solution"]
assert counts.cpu().tolist() == torch.bincount(tokens.flatten().cpu(), minlength=100).tolist()

# %% tags=["solution"]
# %%neuron profile -o products
safe = tokens * tokens
unsafe = (tokens * 65536) * 65536

# %% tags=["solution"]
assert [finding.code for finding in products.findings] == ["NRN021"]
assert products.findings[0].where.endswith("line 3")

# %% [markdown]
# ## What to remember
#
# - A fallback is silent. `.fallbacks` names it and says why; `--fail-over fallbacks=0` keeps it out.
# - A result whose size depends on the data makes the program wait, fallback or not.
# - 64→32 is a mark, `!` and NRN021 are a warning: small ids are fine, a hash and float64 are not.
# - Cast once, early, on the side where the data is.
#
# Next: `05_memory_by_name_peaks_leaks_oom`.
