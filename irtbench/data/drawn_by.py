"""What draws results: it stands right of the data, which do not know it, and is told to them by the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The figure of a result, on axes that are given or on new ones.
figure_of: Callable[[object, Axes | None], Axes] | None = None
