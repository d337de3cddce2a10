"""Rewrites of ATen ops into ops that torch-mlir lowers correctly, by subject."""

from __future__ import annotations


def register() -> None:
    """Fill the registry. Importing the modules does it; calling this twice changes nothing."""
    from . import (  # noqa: F401
        activations,
        arithmetic,
        attention,
        bags,
        bessel,
        complex,
        convolution,
        factorisations,
        foreach,
        gammas,
        grids,
        grouped,
        indexing,
        linear_algebra,
        margins,
        normalisation,
        numbers,
        optimizers,
        orthogonal,
        pointwise,
        pooling,
        prims,
        recurrences,
        recurrent,
        reductions,
        scans,
        scatters,
        selection,
        shapes,
        special,
        upsampling,
    )
