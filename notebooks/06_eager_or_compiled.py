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
# # Eager or compiled?
#
# `torch.compile(model, backend="neuron")` turns a whole graph into one NEFF. That costs compile time once and saves launches
# with every call. `%neuron compare` runs a program both ways and tells from which call on compiling has paid. About two
# minutes, no network, no accelerator.
#
# The numbers are measured on the emulator, on this machine. They show how to read the comparison; how many milliseconds a call
# takes on Trainium is another matter.

# %%
# %load_ext neuron_lab

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10)).to("neuron")
x = torch.randn(32, 64, device="neuron")
y = torch.randint(0, 10, (32,), device="neuron")

# %% [markdown]
# ## One expression

# %%
# %neuron compare -o forward net(x)

# %% [markdown]
# The first row is cold: Dynamo, lowering and compiling into an empty NEFF cache, the compilers being started. The next first call
# finds its NEFFs on disk, as in a second process. First calls are repeated for some 40 s, and the median is told. Warm calls are
# made in turns, one eager and one compiled, between the first calls. What other work on the machine adds is taken out: fixed pieces
# of work are timed beside all calls, and the last line tells how much longer than at the machine's best calls took. *Break-even* is what
# the first compiled call cost, divided by what a warm call saves; its interval comes from the spread of the savings.
#
# Everything is also a DataFrame.

# %%
forward.sides

# %%
assert forward.trial.graphs == 1 and not forward.trial.breaks
assert forward.outputs.max_abs.max() < 1e-5
forward.break_even

# %% [markdown]
# A profile of the compiled model shows what a warm call does: one graph, one NEFF.

# %%
compiled = torch.compile(net, backend="neuron")
_ = compiled(x)

# %%
# %%neuron profile -o warm --fail-over neffs=0
_ = compiled(x)

# %% [markdown]
# ## Graph breaks
#
# Dynamo leaves the graph where it must know a value. Each break is named with its line.


# %%
def gated(x):
    h = net(x)
    if h.mean() > 0:
        h = h * 2
    return h.softmax(-1)


# %%
# %neuron compare -o broken gated(x)

# %%
assert len(broken.trial.breaks) == 1 and broken.trial.graphs == 2
broken.breaks

# %% [markdown]
# `torch.where` decides on the device, and the program is one graph again.


# %%
def whole(x):
    h = net(x)
    return torch.where(h.mean() > 0, h * 2, h).softmax(-1)


# %%
# %neuron compare -o mended whole(x)

# %%
assert not mended.trial.breaks and mended.trial.compiled.neffs < broken.trial.compiled.neffs

# %% [markdown]
# ## A training step
#
# `--train` differentiates the value of the cell and compares the gradients too. Nothing is changed: parameters, their `.grad`,
# optimizer state and random numbers are as before.

# %%
# %%neuron compare --train -o training
F.cross_entropy(net(x), y)

# %%
assert all(p.grad is None for p in net.parameters())
assert "0.weight.grad" in set(training.outputs.name)
training.outputs

# %% [markdown]
# ## What does not compare
#
# Two eager calls that start alike must give the same. A program that keeps state elsewhere does not, and is refused.

# %%
import neuron_lab

calls = []


def counting():
    calls.append(1)
    return x * len(calls)


try:
    neuron_lab.compare(counting)
except neuron_lab.UsageProblem as problem:
    print(problem)

# %% [markdown]
# ## Traced again
#
# Dynamo guards on what it saw: sizes, dtypes, Python numbers, attributes, globals. When a guard fails, the function is traced and
# compiled again. `%neuron recompiles` names the guard, the line that called, and the fix. Dynamo stops at the first guard that fails
# of each earlier compile, so the last call below is told against both.


# %%
@torch.compile(backend="neuron")
def scaled(x, power):
    return (x**2).sum(-1) * power


# %%
# %%neuron profile -o traced
for size in (32, 32, 7):
    scaled(x[:size], 2)
scaled(x, 3)
# %%
# %neuron recompiles

# %%
assert list(traced.graphs.changed)[:2] == ["", "dim 0 of x: 32 → 7"]
assert "power == 2 no longer holds" in traced.graphs.changed[2]
traced.graphs[["function", "where", "changed", "cost_s"]]

# %% [markdown]
# ## The NEFFs themselves
#
# `%neuron neff` lists what is in the cache directory and in this process's memory; with the beginning of a key, or the path of a
# file, it opens one: cost by XLA's own analysis, static memory, tensors, members, StableHLO.

# %%
# %neuron neff --sort compile --top 8

# %%
dearest = neuron_lab.cache(sort="compile").entries[0]
opened = neuron_lab.open_neff(dearest.key)
assert opened.account.memory.inputs == sum(opened.tensors.bytes[opened.tensors.direction == "in"])
opened

# %% [markdown]
# `%neuron cache prune --older-than 7d --keep 2GB` and `%neuron cache clear` make room; `--dry-run` only tells what would go.

# %%
# %neuron cache prune --older-than 30d --keep 1GB --dry-run

# %% [markdown]
# ## What to remember
#
# - Compiling pays for programs that run often with the same shapes; the break-even says how often.
# - A graph break costs a launch and the fusion across it: read the lines and move the decision to the device.
# - A compiled function that is traced again has a guard that failed: `%neuron recompiles` says which, and which line called.
# - `neuron_lab.compare(fn, *args)` is the same from Python, and `.break_even` a number to assert on.
