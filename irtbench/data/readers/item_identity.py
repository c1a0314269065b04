"""Items by name or by content: wrong names are common, and a hash of the content tells."""

from __future__ import annotations

import warnings
from typing import Literal

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

#: Whether items are joined by their name (``id``, whatever their content), or by the hash of their content; ``None``
#: joins by name and refuses a name with two contents.
Join = Literal["id", "hash"] | None


def join_items(frame: pd.DataFrame, join: Join, place: str) -> pd.DataFrame:
    """Name the items of a long table by their hash, or check that each name has one content only.

    Parameters
    ----------
    frame
        Has columns ``item_id`` and perhaps ``item_hash``.
    join
        See ``Join``.
    place
        Where the table is from, for the errors.

    Raises
    ------
    InputError
        If a name has several hashes and ``join`` does not say what to go by, or items are to be joined by a hash that
        is missing.

    Warns
    -----
    UserWarning
        If names and contents clash, and the user chose by which of them to join.
    """
    if join not in (None, "id", "hash"):
        raise InputError(f"join: expected 'id' or 'hash' but got '{join}'")
    if "item_hash" not in frame.columns:
        if join == "hash":
            raise InputError(
                f"{place}: items cannot be joined by hash: the file has no content to hash; expected join by id"
            )
        return frame
    known = frame.loc[frame["item_hash"].notna(), ["item_id", "item_hash"]].drop_duplicates()
    several = known.loc[known["item_id"].duplicated(), "item_id"].unique().tolist()
    if several and join is None:
        raise InputError(
            f"{place}: items of one name and different content: {name_first(several)}; join by 'hash', or by 'id' if "
            "the content differs in nothing that matters (--join, or join=)"
        )
    clashes = [f"items of one name and different content: {name_first(several)}"] if several else []
    if join == "hash":
        missing = frame.loc[frame["item_hash"].isna(), "item_id"].unique().tolist()
        if missing:
            raise InputError(f"{place}: items cannot be joined by hash: none for {name_first(missing)}")
        twice = known[known["item_hash"].duplicated(keep=False)].groupby("item_hash", sort=False)["item_id"]
        names = [" = ".join(group) for _, group in twice]
        clashes += [f"one content under several names: {name_first(names)}"] if names else []
        frame = frame.assign(item_id=frame["item_hash"])
    if clashes:
        warnings.warn(f"{place}: {'; '.join(clashes)}", stacklevel=2)
    return frame
