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
# # Reading a profile
#
# `%%neuron profile` answers one question: where did the time of this cell go? This notebook reads its report from top to
# bottom, on a program with three faults, and removes them one by one. About five minutes, no network, no accelerator.
#
# The numbers are measured on the emulator, on this machine. They tell *what* costs and *why*; how many milliseconds it
# costs on Trainium is another matter.

# %%
# %load_ext neuron_lab

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)).to("neuron")
batches = [torch.randn(32, 64) for _ in range(8)]

# %% [markdown]
# ## A program with faults
#
# It counts how often each class is predicted, and adds up the confidence.


# %%
def confidence(logits):
    return logits.softmax(-1).amax(-1).mean()


# %%
# %%neuron profile -o faulty
total = 0.0
seen = []
for x in batches:
    logits = net(x.to("neuron"))
    seen.append(logits.argmax(-1).unique())
    total += confidence(logits).item()

# %% [markdown]
# ### The bar
#
# The first line names the cell, the device, the op calls and the NEFFs, and at its end the wall time. The bar divides that
# time; its parts add up to it.
#
# | part | is |
# |---|---|
# | compile | making NEFFs |
# | load from disk | reading NEFFs that an earlier process made |
# | start the compiler | once in a process |
# | device | NEFFs that run |
# | CPU fallback | ops that have no NEFF |
# | copies | between host and device |
# | Python and the rest | your program, PyTorch, launching |
#
# `.summary` has the same in seconds.

# %%
parts = ("compile_s", "load_s", "startup_s", "device_s", "fallback_s", "copies_s", "rest_s")
assert abs(sum(faulty.summary[part] for part in parts) - faulty.summary.wall_s) < 1e-6
assert faulty.summary.cold_calls > 0

# %% [markdown]
# ### The table
#
# One row an op, sorted by the column with the mark. `NEFFs` is the number of signatures the op ran with. *device* is its
# time in NEFFs, *fallback* its calls on the CPU. The *median* is over warm calls only: a cold call is no measure of a warm
# one. *64→32* counts calls with 64-bit values, which TorchNeuron narrows (`04` tells when that matters), *bytes* is what the
# calls read and wrote. `--sort`, `--top` and `--by neff` change the table; `.ops` is all of it.

# %%
faulty.ops[["op", "calls", "neffs", "device_ms", "fallback_calls", "total_ms"]]

# %% [markdown]
# ### The lines
#
# The same numbers beside your own source, also for functions from other cells: `confidence` appears with its line. `┆` after
# a number: lines above it are left out. A size alone is the bytes that its ops read and wrote, a *sync* above the table a value
# that Python waited for. `.lines` is the whole list.

# %%
lines = faulty.lines
assert lines.source.str.contains("softmax").any()  # the helper's line, from another cell
lines[["place", "line", "source", "neffs", "fallback_calls", "copies"]]

# %% [markdown]
# ### The findings
#
# What you would have to search for otherwise: a code, the line, the cost and what to do. A clean warm program has none.

# %%
for finding in faulty.findings:
    print(finding.code, finding.where, "|", finding.message)
assert {"NRN031", "NRN032", "NRN041"} <= {finding.code for finding in faulty.findings}

# %%
# %neuron explain NRN041

# %% [markdown]
# ### The explorer
#
# In JupyterLab a live view takes the place of each report as soon as the kernel is free. `.explore()` shows it for any
# profile, also a loaded one:
#
# 1. Click NRN031 in it: the line with `unique` is marked in your source, everything else fades on the timeline.
# 2. Click into the timeline and turn the wheel, until single calls have their names. Drag moves, `0` shows all again.
# 3. Drag along the ruler on top: the op table and the source now tell about this range only. *clear range* ends it.
# 4. Move over HBM: the line below says what it was made of at that moment.
# 5. *lines* above the table: your lines, the slowest first. Click one to see it in your source and on the timeline.
#
# Saved without its kernel, the notebook shows the report.

# %%
faulty.explore()

# %% [markdown]
# ## Cold first, then warm
#
# The first run compiled. Run it again before you judge it.

# %%
# %%neuron profile -o warm
total = 0.0
seen = []
for x in batches:
    logits = net(x.to("neuron"))
    seen.append(logits.argmax(-1).unique())
    total += confidence(logits).item()

# %%
assert warm.summary.cold_calls == 0
assert warm.summary.fallback_calls == len(batches)

# %% [markdown]
# ## Without the faults
#
# `unique` has a result whose size depends on the data, so that the program waits for it; a count of fixed size,
# by comparison with the largest logit, does not. It also does without `argmax`, for which TorchNeuron's table has no kernel.
# `.item()` waits for the device in every step; the sum can stay there. Without `.detach()` it would keep the activations of
# every batch, for a backward that never comes.


# %%
def count(logits):
    return (logits == logits.amax(-1, keepdim=True)).sum(0)


def run():
    total = torch.zeros((), device="neuron")
    counts = torch.zeros(10, dtype=torch.int64, device="neuron")
    for x in batches:
        logits = net(x.to("neuron"))
        counts += count(logits)
        total += confidence(logits).detach()
    return total, counts


total, counts = run()  # once, cold

# %%
# %%neuron profile -o clean --fail-over neffs=0,fallbacks=0
total, counts = run()

# %%
assert not clean.findings
assert int(counts.sum()) == 8 * 32
print(f"{len(warm.findings)} findings before, {len(clean.findings)} now")

# %% [markdown]
# `--fail-over` makes the cell fail when it compiles anything or falls back: put it into a notebook that runs in CI, and the
# message names the op and the line.
#
# ## What changed
#
# `.compare` sets a profile beside an earlier one; `%%neuron profile --compare warm` shows the same below the report. Both of
# these ran warm on one device, so their times can be subtracted. Cold against warm would be shown, and not subtracted.

# %%
change = clean.compare(warm)
assert change.times_compared
change

# %% [markdown]
# A profile outlives its notebook: `.save` writes it as JSON, with the versions it is true for, and `neuron_lab.load` reads
# it on any machine. `.to_chrome_trace` draws it as a timeline in Perfetto, `.to_html` makes a page of it, with the explorer.

# %%
import tempfile

import neuron_lab

with tempfile.TemporaryDirectory() as folder:
    clean.save(f"{folder}/clean.json")
    again = neuron_lab.load(f"{folder}/clean.json")
assert again.ops.equals(clean.ops)

# %% [markdown]
# And all profiles of this notebook in one table:

# %%
# %neuron report

# %% [markdown]
# ## Exercise
#
# Which line of `run` moves the most bytes? Answer it with `clean.lines`.

# %% tags=["solution"]
print(clean.lines.sort_values("bytes").iloc[-1].source)

# %% [markdown]
# Next: `03_recompiles_and_how_to_stop_them`.
