"""The figure that a notebook shows as a picture."""

from __future__ import annotations

import io

from matplotlib import figure


class Figure(figure.Figure):
    """IPython draws figures once pyplot is imported; this one draws itself, so that pyplot's state stays the user's."""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()
