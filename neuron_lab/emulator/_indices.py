"""What the CPU may refuse for its values: which arguments of which ops are indices, and into what; which ops divide.

Checked by csrc/bounds.cpp before an executable runs, by _refused.py in a compiled graph.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from torch._ops import OpOverload

DIVIDES = frozenset("div floor_divide fmod remainder".split())
"""Integers, and booleans, divided by 0."""


@dataclass(frozen=True, slots=True)
class IndexRule:
    """Argument positions; -1 means there is none. `dim` counts when `dim_argument` is -1.

    `size_argument` is a number, or a list whose product counts. `offsets`: where the bags of the list `of` begin, 0 first.
    """

    index: int
    of: int
    dim: int = 0
    dim_argument: int = -1
    size_argument: int = -1
    ignore_argument: int = -1
    negative: bool = False
    flat: bool = False
    offsets: bool = False


@dataclass(frozen=True, slots=True)
class _Names:
    """The arguments of one family of ops by name; `at` is the indexed dimension where no argument tells it."""

    index: str
    of: str = "self"
    dim: str = ""
    size: str = ""
    ignore: str = ""
    at: int = 0
    flat: bool = False
    negative: bool = False
    offsets: bool = False


# A list of indices (x[i, j]) and flat ones may be negative, as those ops allow.
_FAMILIES = (
    (
        "gather scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ index_select index_add index_add_ "
        "index_copy index_copy_ index_reduce index_reduce_",
        _Names("index", dim="dim"),
    ),
    ("index_fill index_fill_", _Names("index", dim="dim", negative=True)),
    ("index _unsafe_index index_put index_put_ _index_put_impl_ _unsafe_index_put", _Names("indices")),
    ("take put put_", _Names("index", flat=True)),
    ("embedding", _Names("indices", of="weight")),
    ("embedding_dense_backward", _Names("indices", of="grad_output", size="num_weights")),
    ("_embedding_bag _embedding_bag_forward_only", _Names("indices", of="weight")),
    ("_embedding_bag _embedding_bag_forward_only", _Names("offsets", of="indices", offsets=True)),
    ("_embedding_bag_backward _embedding_bag_dense_backward", _Names("indices", of="grad", size="num_weights")),
    ("_embedding_bag_per_sample_weights_backward", _Names("indices", of="weight")),
    ("max_unpool2d max_unpool3d", _Names("indices", size="output_size")),
    ("nll_loss nll_loss_forward nll_loss_backward", _Names("target", at=-1, ignore="ignore_index")),
    ("multi_margin_loss multi_margin_loss_backward", _Names("target", at=-1)),
    # -1 ends a row's list of classes.
    ("multilabel_margin_loss_forward multilabel_margin_loss_backward", _Names("target", at=-1, negative=True)),
    ("nll_loss2d nll_loss2d_forward nll_loss2d_backward", _Names("target", at=1, ignore="ignore_index")),
)


def index_rules(op: OpOverload) -> list[tuple[object, ...]]:
    """The rules for one overload, as tuples in the order of IndexRule's fields."""
    base = op._schema.name.partition("::")[2]
    positions = {argument.name: i for i, argument in enumerate(op._schema.arguments)}
    return [astuple(_rule(names, positions)) for ops, names in _FAMILIES if base in ops.split()]


def _rule(names: _Names, positions: dict[str, int]) -> IndexRule:
    return IndexRule(
        index=positions[names.index],
        of=positions[names.of],
        dim=names.at,
        dim_argument=positions.get(names.dim, -1),
        size_argument=positions.get(names.size, -1),
        ignore_argument=positions.get(names.ignore, -1),
        negative=names.negative,
        flat=names.flat,
        offsets=names.offsets,
    )
