"""Types in signatures by the names that the code gives them, where they are told in full."""

import re
from typing import Any

from sphinx.application import Sphinx

ARRAY = re.compile(r"[~\w.]*ndarray\[[~\w.]*tuple\[[^\]]*\], [~\w.]*dtype\[[~\w.]*?(\w+)\]\]")
ARRAY_LIKE = re.compile(
    r"[~\w.]*_Buffer \| [~\w.]*_SupportsArray\[.*?\]\] \| [~\w.]*_NestedSequence\[.*?\]\]\] \| .*? \| "
    r"[~\w.]*_NestedSequence\[[^\]]*\]"
)


def shortened(text: str) -> str:
    """A signature with NumPy's types by their names."""
    return ARRAY_LIKE.sub("ArrayLike", ARRAY.sub(r"NDArray[\1]", text))


def shorten(
    app: Sphinx, what: str, name: str, thing: object, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Change a signature and what is returned."""
    return signature and shortened(signature), returned and shortened(returned)


def setup(app: Sphinx) -> dict[str, bool]:
    """Ask Sphinx to be called with every signature."""
    app.connect("autodoc-process-signature", shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
