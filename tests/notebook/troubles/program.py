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
# # What goes wrong in a notebook, as its author wrote it
#
# The tests run this in a kernel whose device has a stepped clock, and compare every report with a file beside this one.

# %%
# %load_ext neuron_lab

# %%
import time

import torch
import torch.nn.functional as F
from torch import nn

from neuron_lab import emulator

emulator.set_hbm_limit(32 << 20)

torch.manual_seed(0)
embedding = nn.Embedding(50, 64).to("neuron")
net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 4)).to("neuron")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


# %% [markdown]
# ## A recompile storm: every sentence has another length

# %% tags=["storm"]
# %%neuron profile
for length in (5, 9, 12, 17, 21, 26):
    tokens = torch.randint(50, (8, length)).to("neuron")
    scores = net(embedding(tokens)).mean(1).softmax(-1)

# %% [markdown]
# ## A fallback inside of a loop

# %% tags=["fallback"]
# %%neuron profile
for layer in (net[0], net[2]) * 3:
    norm = torch.linalg.svdvals(layer.weight.detach()).amax()

# %% [markdown]
# ## A leak through a traceback: the function has failed, and its variables live on


# %%
def validate(rows):
    activations = net[0](rows)
    return activations.view(100, -1).mean()


# %% tags=["traceback"]
# %%neuron profile
validate(torch.zeros(4096, 64, device="neuron"))

# %% tags=["held"]
# %neuron memory

# %% tags=["freed"]
# %neuron memory --free

# %% [markdown]
# ## What does not fit

# %%
x, y = torch.zeros(16384, 64).to("neuron"), torch.zeros(16384, dtype=torch.int64).to("neuron")

# %% tags=["oom"]
# %%neuron profile
loss = step(x, y)

# %%
# %neuron memory --free

# %% [markdown]
# ## An interrupt: the third batch never comes


# %%
def batches():
    for number in range(1, 4):
        if number == 3:
            print("waiting for batch 3")
            time.sleep(60)
        yield torch.ones(32, 64).to("neuron"), torch.zeros(32, dtype=torch.int64).to("neuron")


# %% tags=["interrupt"]
# %%neuron profile
for x, y in batches():
    step(x, y)
