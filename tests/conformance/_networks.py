"""Networks of the usual kinds, small; called with a batch, each returns its loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Residual(nn.Module):
    """A basic block of ResNet."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut: nn.Module = nn.Identity()
        if not same:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        y += self.shortcut(x)
        return F.relu(y, inplace=True)


class Classifier(nn.Module):
    """Features, then cross-entropy of a linear layer."""

    def __init__(self, features: nn.Module, width: int, classes: int = 3) -> None:
        super().__init__()
        self.features, self.head = features, nn.Linear(width, classes)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.features(x).flatten(1)), labels)


def resnet(depths: tuple[int, ...], width: int = 8) -> nn.Module:
    """`(2, 2, 2, 2)` is ResNet-18, in a smaller width."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = width
    for stage, depth in enumerate(depths):
        for block in range(depth):
            layers.append(Residual(inputs, width << stage, 2 if stage and not block else 1))
            inputs = width << stage
    return Classifier(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1)), inputs)


class Gated(nn.Module):
    """Squeeze and excitation: channels weighted by what they hold."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, 4, 1), nn.ReLU(), nn.Conv2d(4, width, 1), nn.Hardsigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


def mobilenet() -> nn.Module:
    def block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        wide = inputs * 2
        return [
            nn.Conv2d(inputs, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            Gated(wide),
            nn.Conv2d(wide, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]

    return Classifier(nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), *block(8, 16, 2), nn.AdaptiveAvgPool2d(1)), 16)


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 8), (8, 16)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(True), nn.MaxPool2d(2)]
    return Classifier(nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 16), nn.ReLU(True), nn.Dropout()), 16)


class UNet(nn.Module):
    """Down by a strided convolution, up by a transposed one and by interpolation, with connections across."""

    def __init__(self) -> None:
        super().__init__()

        def convolved(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1), nn.GroupNorm(2, outputs), nn.SiLU())

        self.enter, self.down, self.deeper = convolved(3, 8), convolved(8, 16, 2), convolved(16, 16, 2)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2)
        self.upsample = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.join, self.leave = convolved(32, 8), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        one = self.enter(x)
        two = self.down(one)
        three = self.join(torch.cat([self.up(self.deeper(two)), two], 1))
        logits = self.leave(torch.cat([self.upsample(three), one], 1))
        chosen = F.one_hot(mask, 2).permute(0, 3, 1, 2)
        overlap = (logits.softmax(1) * chosen).sum((0, 2, 3)) / chosen.sum((0, 2, 3)).clamp(min=1)
        return F.cross_entropy(logits, mask) + 1 - overlap.mean()


class Reader(nn.Module):
    """A recurrent network over packed sequences of different lengths."""

    def __init__(self, kind: Callable[..., nn.Module], width: int, **options: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6, padding_idx=0)
        self.recurrent = kind(6, 8, batch_first=True, **options)
        self.head = nn.Linear(width, 3)

    def forward(self, ids: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.embedding(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.recurrent(packed)
        padded, sizes = pad_packed_sequence(states, batch_first=True)
        mean = padded.sum(1) / sizes.to(padded.device)[:, None]
        hidden = last[0] if isinstance(last, tuple) else last
        return F.cross_entropy(self.head(mean), labels) + hidden.square().mean()


class Experts(nn.Module):
    """Each token goes to its two best experts: top-k, one-hot, where, index_add_ and a loss that balances the load."""

    def __init__(self, experts: int = 3) -> None:
        super().__init__()
        self.gate = nn.Linear(8, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(experts)
        )

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        scores = self.gate(tokens).softmax(-1)
        weights, chosen = scores.topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        y = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == number)
            y.index_add_(0, rows, expert(tokens[rows]) * weights[rows, places, None])
        load = F.one_hot(chosen, len(self.experts)).float().mean((0, 1))
        return F.mse_loss(y.view_as(x), target) + 0.1 * (load * scores.mean(0)).sum()


class Translator(nn.Module):
    """torch.nn.Transformer with causal and padding masks."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(20, 16), nn.Embedding(20, 16)
        self.transformer = nn.Transformer(16, 2, 1, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 20)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        entered, wanted = target[:, :-1], target[:, 1:]
        causal = nn.Transformer.generate_square_subsequent_mask(entered.shape[1], device=source.device)
        states = self.transformer(
            self.source(source),
            self.target(entered),
            tgt_mask=causal.isinf(),
            src_key_padding_mask=source == 0,
            memory_key_padding_mask=source == 0,
            tgt_is_causal=True,
        )
        return F.cross_entropy(self.head(states).flatten(0, 1), wanted.flatten(), ignore_index=0, label_smoothing=0.1)


class Attention(nn.Module):
    """MultiheadAttention with keys and values of another width, an additive mask and its weights in the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(
            8, 2, kdim=6, vdim=4, dropout=0.2, add_bias_kv=True, add_zero_attn=True, batch_first=True
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = torch.full((q.shape[1], k.shape[1]), -1e4, device=q.device).triu(1)
        y, weights = self.attention(q, k, v, attn_mask=mask, average_attn_weights=False)
        return y.square().mean() - (weights + 1e-6).log().mean()


class Variational(nn.Module):
    """A variational autoencoder: convolutions down, a drawn code, transposed convolutions up."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 4, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(256, 8))
        self.decode = nn.Sequential(
            nn.Linear(4, 256), nn.Unflatten(1, (4, 8, 8)), nn.ELU(), nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        mean, log_variance = self.encode(x).chunk(2, -1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        rebuilt = F.binary_cross_entropy(self.decode(code), x, reduction="sum")
        return (rebuilt - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()) / len(x)


class Diffusion(nn.Module):
    """One step of denoising: a time for each sample, its noise by a table, its place in sines."""

    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), 0))
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 16))
        self.enter, self.leave = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 1, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, x: Tensor) -> Tensor:
        times = torch.randint(0, 50, (len(x),), device=x.device)
        noise = torch.randn_like(x)
        kept = self.kept[times].view(-1, 1, 1, 1)
        angles = times[:, None] * torch.exp(torch.arange(4, device=x.device) * (-math.log(1e4) / 4))
        place = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        state = self.norm(self.enter(kept.sqrt() * x + (1 - kept).sqrt() * noise)) + place[:, :, None, None]
        return F.mse_loss(self.leave(F.silu(state)), noise)


class Graph(nn.Module):
    """Messages along edges: gather, softmax over each node's edges by scatter, mean and maximum of what arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.score, self.head = nn.Linear(6, 8), nn.Linear(12, 1), nn.Linear(24, 3)

    def forward(self, nodes: Tensor, edges: Tensor, labels: Tensor) -> Tensor:
        start, end = edges
        score = F.leaky_relu(self.score(torch.cat([nodes[start], nodes[end]], -1))).squeeze(-1)
        count = len(nodes)
        top = score.new_full((count,), -torch.inf).scatter_reduce(0, end, score, "amax")
        share = (score - top[end].detach()).exp()
        share = share / score.new_zeros(count).index_add(0, end, share)[end]
        message = self.message(nodes)[start] * share[:, None]
        empty, where = message.new_zeros(count, 8), end[:, None].expand(-1, 8)
        arrived = [
            empty.scatter_add(0, where, message),
            empty.scatter_reduce(0, where, message, "mean", include_self=False),
            empty.scatter_reduce(0, where, message, "amax"),
        ]
        return F.cross_entropy(self.head(torch.cat(arrived, -1)), labels)


class Contrast(nn.Module):
    """Two views that should meet: normalised, compared with all others, under a learned scale; and a triplet."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 8), nn.Linear(5, 8)
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        a, b = F.normalize(self.one(x), dim=-1), F.normalize(self.other(y), dim=-1)
        logits = self.scale.exp().clamp(max=100) * a @ b.t()
        labels = torch.arange(len(x), device=x.device)
        triplet = F.triplet_margin_loss(a, b, b.roll(1, 0), swap=True)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2 + triplet


class Recommender(nn.Module):
    """Bags of categories, their products with one another, and a dense part."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(10, 4, mode=mode) for mode in ("sum", "mean", "max"))
        self.dense, self.head = nn.Linear(5, 4), nn.Linear(10, 1)

    def forward(self, dense: Tensor, categories: Tensor, offsets: Tensor, clicked: Tensor) -> Tensor:
        parts = torch.stack([self.dense(dense), *(bag(categories, offsets) for bag in self.bags)], 1)
        rows, columns = torch.tril_indices(4, 4, -1, device=dense.device)
        products = torch.bmm(parts, parts.mT)[:, rows, columns]
        return F.binary_cross_entropy_with_logits(
            self.head(torch.cat([products, parts[:, 0]], -1)).squeeze(-1), clicked
        )


class Spelling(nn.Module):
    """A one-dimensional network with pooling, whose errors are weighted by a learned temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6, max_norm=1.0)
        self.layers = nn.ModuleList(nn.Conv1d(6, 4, size, padding="same", dilation=size - 2) for size in (3, 5))
        self.norm, self.head = nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, ids: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        x = self.embedding(ids).mT
        pooled = torch.cat([F.max_pool1d(layer(x).relu(), 3, 2).amax(-1) for layer in self.layers], -1)
        logits = self.head(self.norm(F.glu(torch.cat([pooled, pooled], -1)))) * lengths[:, None].log()
        return F.multi_margin_loss(logits, labels) + F.nll_loss(F.log_softmax(logits, -1), labels)
