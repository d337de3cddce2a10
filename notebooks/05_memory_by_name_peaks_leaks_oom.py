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
# # Memory: by name, peaks, leaks, and what does not fit
#
# A core of Trainium2 has 24 GiB of HBM, and a program that needs a little more does not run at all. This notebook finds out who
# holds it, when it was highest and because of which line, what grows from step to step, and what to do when something does not
# fit. About five minutes, no network, no accelerator.
#
# The emulator counts the bytes that tensors hold and refuses what exceeds the limit. What Trainium's compiler needs besides, for
# instructions and intermediate results inside of a NEFF, is not counted.

# %%
# %load_ext neuron_lab

# %%
import torch
import torch.nn.functional as F
from torch import nn

from neuron_lab import emulator

MIB = 1 << 20
emulator.set_hbm_limit(32 * MIB)  # a small chip, so that a laptop can fill it

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 10)).to("neuron")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=False)
x = torch.randn(512, 128).to("neuron")
y = torch.randint(10, (512,)).to("neuron")


def step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


loss = step(x, y)  # once, cold

# %% [markdown]
# ## By name
#
# `%neuron memory` lists what is held now, by the name that leads to it: a variable, a parameter of a module, an optimizer's
# state, an output of the notebook.

# %%
# %neuron memory

# %% [markdown]
# AdamW keeps two tensors of state for each parameter, and each has a gradient: four times the weights.

# %%
import neuron_lab

held = neuron_lab.memory().frame.groupby("kind").bytes.sum()
print((held / MIB).round(1).to_string())
assert held["optimizer state"] >= 2 * held["parameters"]
assert held["gradients"] == held["parameters"]

# %% [markdown]
# ## The peak, and what it was made of
#
# The report draws HBM over the time of the cell. Below the curve stands what the highest use was made of: lines of yours that
# took it and still held it, and what was there *from before*. Each line has its own peak, too.

# %%
# %%neuron profile -o training
loss = step(x, y)

# %% [markdown]
# The same steps without `backward` hold no activations, when PyTorch is told that there will be none.

# %%
# %%neuron profile -o inference
with torch.no_grad():
    scores = net(x)

# %%
# `.memory` has every change, with the line that took it.
before = [p.memory.used.iloc[0] - p.memory.change.iloc[0] for p in (training, inference)]
rise = [p.memory.used.max() - start for p, start in zip((training, inference), before, strict=True)]
print(f"above what was there: training {rise[0] / MIB:.1f} MiB, inference {rise[1] / MIB:.1f} MiB")
assert rise[1] < rise[0]

# %% [markdown]
# ## A leak
#
# The usual one: losses in a list. A loss is four bytes, and it holds everything that its backward needs. Do a few steps that
# only evaluate and look at the curve: it climbs.

# %%
losses = []


def evaluate(keep):
    for _ in range(4):
        loss = F.cross_entropy(net(x), y)
        losses.append(keep(loss))


# %%
# %%neuron profile -o leaking
evaluate(keep=lambda loss: loss)

# %%
climbed = leaking.memory.used.iloc[-1] - leaking.memory.used.iloc[0]
print(f"{climbed / MIB:.1f} MiB more than at the start")
assert climbed > 2 * MIB

# %% [markdown]
# `%neuron memory` says why: no variable holds these activations, only the graph of a loss in the list.

# %%
# %neuron memory

# %%
names = neuron_lab.memory().frame.name
assert names.str.startswith("graph of losses[").sum() == 4

# %%
# %%neuron profile -o mended
losses.clear()
evaluate(keep=torch.Tensor.detach)

# %%
assert mended.memory.used.iloc[-1] < leaking.memory.used.iloc[-1] - 2 * MIB

# %% [markdown]
# ## What the notebook itself keeps
#
# The value of a cell's last expression stays in `Out`, and under `_` and two more names, together with what its backward would
# need. No variable of yours leads to it, so that deleting your variables does not help, and each run of the cell adds another.

# %%
# %%neuron profile -o displayed
net(x)

# %%
assert [finding.code for finding in displayed.findings] == ["NRN053"]

# %% [markdown]
# A name of yours is better: it can be deleted, and the next value takes its place. So is a `;` at the end of the line, which
# displays nothing and keeps nothing.

# %%
# %%neuron profile -o quiet
scores = net(x)

# %%
assert not quiet.findings

# %% [markdown]
# What is in `Out` already goes with `--free`, which touches no variable of yours.

# %%
# %neuron memory --free

# %% [markdown]
# ## What does not fit
#
# Sixteen times the batch is too much for 32 MiB. The finding says what was asked, by which line, how much was in use, and what
# that was made of. (Here the error is caught, so that the notebook goes on. When it stops a cell, the report of what ran until
# then is shown all the same, and the finding also counts what the last traceback keeps.)

# %%
large_x, large_y = x.repeat(16, 1), y.repeat(16)

# %%
# %%neuron profile -o failed
try:
    loss = step(large_x, large_y)
except torch.OutOfMemoryError as error:
    print(str(error).split(":")[0])

# %%
(finding,) = failed.findings
assert finding.code == "NRN052"
print(finding.message)

# %%
# %neuron explain NRN052

# %% [markdown]
# Gradients add up, so that a large batch can go in pieces: the same step with the memory of a small one.


# %%
def accumulated_step(x, y, pieces):
    optimizer.zero_grad()
    for some_x, some_y in zip(x.chunk(pieces), y.chunk(pieces), strict=True):
        loss = F.cross_entropy(net(some_x), some_y) / pieces
        loss.backward()
    optimizer.step()


# %%
# %%neuron profile -o fits
accumulated_step(large_x, large_y, 16)

# %%
assert not [finding for finding in fits.findings if finding.code.startswith("NRN05")]

# %% [markdown]
# ## Exercises
#
# 1. Which line of `step` has the highest peak? Ask `training.lines`.
# 2. How much would bfloat16 weights save? Make `net` and its optimizer again with `.to(torch.bfloat16)` and compare.

# %% tags=["solution"]
print(training.lines.sort_values("peak_bytes").iloc[-1].source.strip())

# %% tags=["solution"]
held_before = neuron_lab.memory().frame.groupby("kind").bytes.sum()
net = net.to(torch.bfloat16)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=False)
x = x.to(torch.bfloat16)
step(x, y)
held = neuron_lab.memory().frame.groupby("kind").bytes.sum()
print(f"parameters: {held_before['parameters'] / 1024:.0f} KiB, then {held['parameters'] / 1024:.0f} KiB")
assert 2 * held["parameters"] == held_before["parameters"]

# %% [markdown]
# ## What to remember
#
# - `%neuron memory` is *now*, by name; the curve of a profile is *over time*, by line.
# - A list of losses keeps graphs: `.detach()` or `.item()`. A last expression stays in `Out`: end it with `;`.
# - After an error, `%neuron memory --free` before the next attempt.
# - When it does not fit: pieces of the batch, bfloat16, `torch.utils.checkpoint`.
