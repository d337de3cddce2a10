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
# # Recompiles, and how to stop them
#
# A NEFF is made for the exact shapes and dtypes of its inputs. A program whose shapes change compiles again and again, and
# on Trainium each compile is seconds. This notebook makes four kinds of recompiles, reads why they happened, and stops each.
# About five minutes, no network, no accelerator.

# %%
# %load_ext neuron_lab

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 5)).to("neuron")

# %% [markdown]
# ## The last batch
#
# 100 rows in batches of 32 leave a batch of 4. Every op that sees it is compiled for it.

# %%
rows = torch.utils.data.TensorDataset(torch.randn(100, 48))

# %%
# %%neuron profile -o leftover
for (x,) in torch.utils.data.DataLoader(rows, batch_size=32):
    scores = net(x.to("neuron")).softmax(-1)

# %%
assert [finding.code for finding in leftover.findings] == ["NRN012"]
assert "32 → 4" in leftover.findings[0].message

# %% [markdown]
# `%neuron recompiles` lists the NEFFs of the latest profile that were not their op's first: what differs from the nearest
# signature before, with every value that a loop met, the cost and the fix. Two layers of different widths are in it too, but
# not in a finding.

# %%
# %neuron recompiles

# %% [markdown]
# In training, drop the rest. In evaluation every row counts, so pad it and cut the result.


# %%
def padded(x, size):
    return F.pad(x, (0, 0, 0, size - len(x)))


# %%
# %%neuron profile -o even --fail-over neffs=0
scores = []
for (x,) in torch.utils.data.DataLoader(rows, batch_size=32):
    scores.append(net(padded(x, 32).to("neuron")).softmax(-1)[: len(x)])

# %%
assert sum(map(len, scores)) == 100
assert not even.findings

# %% [markdown]
# ## Sentences of every length: buckets
#
# Here the length differs from batch to batch, and each length is a storm of its own.

# %%
embedding = nn.Embedding(50, 48).to("neuron")
lengths = [5, 9, 12, 17, 21, 26, 30]
sentences = [torch.randint(50, (4, length)) for length in lengths]


def score(tokens):
    return net(embedding(tokens)).mean((0, 1))


# %%
# %%neuron profile -o storm
for tokens in sentences:
    score(tokens.to("neuron"))

# %%
assert "7 sizes" in storm.findings[0].message
print(f"{storm.summary.neffs} NEFFs for {len(lengths)} lengths")

# %% [markdown]
# Round each length up to a power of two, and let a mask keep the padding out of the mean. Seven lengths become three. The
# finding is still there, as each of the three is compiled once; the next pass is warm.


# %%
def bucketed(tokens):
    size = max(8, 2 ** math.ceil(math.log2(tokens.shape[1])))
    mask = torch.zeros(len(tokens), size, 1)
    mask[:, : tokens.shape[1]] = 1
    return F.pad(tokens, (0, size - tokens.shape[1])), mask


def score_bucketed(tokens, mask):
    return (net(embedding(tokens)) * mask).sum((0, 1)) / mask.sum()


# %%
# %%neuron profile -o buckets
for tokens in sentences:
    padded_tokens, mask = bucketed(tokens)
    result = score_bucketed(padded_tokens.to("neuron"), mask.to("neuron"))

# %%
assert buckets.summary.neffs < storm.summary.neffs
assert torch.allclose(result.cpu(), score(sentences[-1].to("neuron")).cpu(), atol=1e-5)
print(f"{storm.summary.neffs} NEFFs before, {buckets.summary.neffs} with buckets")

# %% [markdown]
# ## A sequence that grows: a static cache
#
# Generation with a cache that grows by `cat` meets a new size with every token.

# %%
query = torch.randn(1, 16, device="neuron")
tokens = [torch.randn(1, 16).to("neuron") for _ in range(6)]


def attend(keys):
    return (query @ keys.T).softmax(-1) @ keys


# %%
# %%neuron profile -o growing
cache = tokens[0]
for token in tokens[1:]:
    cache = torch.cat([cache, token])
    attended = attend(cache)

# %%
assert "static cache" in growing.findings[0].fix

# %% [markdown]
# Allocate the longest cache once, write each token into its place, and mask what is not there yet. The position is a
# tensor, so that its value is no part of the signature.

# %%
LENGTH = 8
places = torch.arange(LENGTH, device="neuron")


def attend_masked(cache, position):
    weights = (query @ cache.T).masked_fill(places > position, -1e9).softmax(-1)
    return weights @ cache


def generate():
    cache = torch.zeros(LENGTH, 16, device="neuron")
    position = torch.zeros((), dtype=torch.int64, device="neuron")
    cache = torch.where((places == position)[:, None], tokens[0], cache)
    for token in tokens[1:]:
        position = position + 1
        cache = torch.where((places == position)[:, None], token, cache)
        attended = attend_masked(cache, position)
    return attended


static = generate()  # once, cold

# %%
# %%neuron profile -o fixed --fail-over neffs=0
static = generate()

# %%
assert torch.allclose(static.cpu(), attended.cpu(), atol=1e-5)
assert not fixed.findings

# %% [markdown]
# ## A value that is part of the signature
#
# Numbers that are added or multiplied are inputs, and make no NEFF by their value. Sizes, dimensions and the `k` of `topk`
# are not.

# %%
scores = torch.randn(16, 32, device="neuron")

# %%
# %%neuron profile -o values
for k in range(1, 6):
    best = scores.topk(k).values

# %%
assert [finding.code for finding in values.findings] == ["NRN013"]
values.recompiles[["op", "changed", "fix"]]

# %% [markdown]
# Take the largest `k` once and cut the result.

# %%
most = scores.topk(5).values

# %%
# %%neuron profile -o one --fail-over neffs=0
most = scores.topk(5).values
for k in range(1, 6):
    best = most[:, :k]

# %% [markdown]
# ## What to remember
#
# - A recompile is a new *signature*: shape, dtype, layout or a static argument.
# - `%neuron recompiles` names the one thing that differs; `%neuron explain NRN012` and `NRN013` tell more.
# - `--fail-over neffs=0` on a warm cell keeps it that way.
#
# Next: `04_fallbacks_dtypes_and_narrowing`.
