"""Which arguments of which ops are indices, and into what: checked by csrc/bounds.cpp before an executable runs."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from torch._ops import OpOverload


@dataclass(frozen=True, slots=True)
class IndexRule:
    """Argument positions; -1 means there is none. `dim` counts when `dim_argument` is -1."""

    index: int
    of: int
    dim: int = 0
    dim_argument: int = -1
    size_argument: int = -1
    ignore_argument: int = -1
    negative: bool = False
    flat: bool = False


# (index argument, indexed tensor, where the dimension or the size stands, extras), by argument name. A list of indices
# and `flat` allow negative values, as their ops do.
_BY_NAME: dict[str, dict[str, str | int | bool]] = {
    **dict.fromkeys(
        ["gather", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add", "index_copy", "index_fill"]
        + ["scatter_", "scatter_add_", "scatter_reduce_", "index_add_", "index_copy_", "index_fill_"],
        {"index": "index", "of": "self", "dim": "dim"},
    ),
    **dict.fromkeys(["index", "_unsafe_index"], {"index": "indices", "of": "self"}),
    **dict.fromkeys(
        ["index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"], {"index": "indices", "of": "self"}
    ),
    "take": {"index": "index", "of": "self", "flat": True},
    "put": {"index": "index", "of": "self", "flat": True},
    "put_": {"index": "index", "of": "self", "flat": True},
    "embedding": {"index": "indices", "of": "weight"},
    "embedding_dense_backward": {"index": "indices", "of": "grad_output", "size": "num_weights"},
    **dict.fromkeys(["nll_loss", "nll_loss_forward", "nll_loss_backward"], {"index": "target", "of": "self", "at": -1, "ignore": "ignore_index"}),
    **dict.fromkeys(
        ["nll_loss2d", "nll_loss2d_forward", "nll_loss2d_backward"],
        {"index": "target", "of": "self", "at": 1, "ignore": "ignore_index"},
    ),
}
_NEGATIVE = frozenset({"index_fill", "index_fill_"})


def index_rules(op: OpOverload) -> list[tuple[object, ...]]:
    """The rules for one overload, as tuples in the order of IndexRule's fields."""
    base = op._schema.name.partition("::")[2]
    row = _BY_NAME.get(base)
    if row is None:
        return []
    positions = {argument.name: i for i, argument in enumerate(op._schema.arguments)}
    rule = IndexRule(
        index=positions[str(row["index"])],
        of=positions[str(row["of"])],
        dim=int(row.get("at", 0)),
        dim_argument=positions.get(str(row.get("dim", "")), -1),
        size_argument=positions.get(str(row.get("size", "")), -1),
        ignore_argument=positions.get(str(row.get("ignore", "")), -1),
        negative=base in _NEGATIVE,
        flat=bool(row.get("flat", False)),
    )
    return [astuple(rule)]
