"""Where a table is: a path of this machine, or an address."""

from __future__ import annotations

import re
from pathlib import Path

#: What a path makes of an address: it takes one of two slashes away.
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)


def address_of(place: str | Path) -> str | None:
    """The address (``s3://...``, ``file:///...``) that was given, even as a path; None for a local path."""
    found = _ADDRESS.fullmatch(str(place))
    if found is None or Path(place).exists():
        return None
    return f"{found[1]}://{'/' if found[1] == 'file' else ''}{found[2]}"
