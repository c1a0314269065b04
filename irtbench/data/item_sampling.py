"""Items for a crowd, drawn from a corpus that a few annotators have labelled: by label and by their agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.shown import Figures, Shown


@dataclass(frozen=True)
class AgreementLevel(Figures):
    """So many of so many annotators gave the same label.

    Parameters
    ----------
    n_agree, n_annotators
        4 and 5 for "4 of 5".

    Raises
    ------
    InputError
        If not more than half agree, or more than there are.
    """

    n_agree: int
    n_annotators: int

    def __post_init__(self) -> None:
        if not self.n_annotators / 2 < self.n_agree <= self.n_annotators:
            raise InputError(
                f"agreement {self}: expected more than half of the annotators to agree, and no more than there are"
            )

    def __str__(self) -> str:
        return f"{self.n_agree}of{self.n_annotators}"

    @classmethod
    def read(cls, text: str) -> AgreementLevel:
        """Read ``4/5``, ``4of5``.

        Raises
        ------
        InputError
            If it is neither, or says what cannot be.
        """
        parts = text.replace("of", "/").split("/")
        if len(parts) != 2 or not all(part.strip().isdigit() for part in parts):
            raise InputError(f"agreement {text}: expected two numbers such as 4/5")
        return cls(int(parts[0]), int(parts[1]))


@dataclass(frozen=True, eq=False)
class AnnotatedItems(Shown, columns="item_ids, label, n_agree, n_annotators"):
    """What annotators said of items; arrays have shape (n_items,).

    Its table has one row an item.

    Parameters
    ----------
    item_ids
        The items.
    label
        The most common label; empty where several are equally common or nobody gave one.
    n_agree
        Annotators who gave it.
    n_annotators
        Annotators who gave any.
    """

    item_ids: tuple[str, ...]
    label: tuple[str, ...]
    n_agree: NDArray[np.int64]
    n_annotators: NDArray[np.int64]


def annotated_items(annotations: pd.DataFrame) -> AnnotatedItems:
    """Count what annotators said.

    Parameters
    ----------
    annotations
        One row an item, one column an annotation, the index holding the items; text, empty where none was given. Who
        annotated does not matter.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> labels = [["yes"] * 4 + ["no"], ["yes"] * 5, ["no"] * 4 + ["yes"], ["yes"] * 3 + ["no"] * 2]
    >>> annotations = pd.DataFrame(labels, index=["i1", "i2", "i3", "i4"])
    >>> irtbench.annotated_items(annotations).table()
      item_id label  n_agree  n_annotators
    0      i1   yes        4             5
    1      i2   yes        5             5
    2      i3    no        4             5
    3      i4   yes        3             5
    """
    long = annotations.reset_index(drop=True).stack()
    long = long[long.str.strip() != ""]
    counts = long.groupby([long.index.get_level_values(0), long.str.strip()]).size().unstack(fill_value=0)
    counts = counts.reindex(range(len(annotations)), fill_value=0)
    values = counts.to_numpy(dtype=np.int64)
    most = values.max(axis=1, initial=0)
    single = (values == most[:, None]).sum(axis=1) == 1
    labels = np.array([*counts.columns, ""], dtype=object)
    best = np.where(single & (most > 0), values.argmax(axis=1) if values.shape[1] else -1, -1)
    return AnnotatedItems(tuple(map(str, annotations.index)), tuple(map(str, labels[best])), most, values.sum(axis=1))


def sample_items(
    items: AnnotatedItems,
    *,
    levels: Sequence[AgreementLevel],
    per_label: int,
    labels: Sequence[str] = (),
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Draw items of each label at each level of agreement, all alike likely.

    The choice of Lalor, Wu & Yu (2016): 30 items a label of those on which 4 of 5 annotators agree, and 30 of those on
    which 5 of 5 do. Their corpus counts an item's gold label among the annotations.

    Parameters
    ----------
    items
        What annotators said.
    levels
        Levels of agreement, such as 4 of 5; exactly so many annotators, of whom exactly so many agree.
    per_label
        Items for each label and level.
    labels
        The labels; none: all that occur at one of the levels, sorted.
    rng
        Draws the items.

    Returns
    -------
    DataFrame
        ``item_id, label, n_agree, n_annotators, set``, the set being ``4of5`` and the like; in order of level, label,
        and the corpus.

    Raises
    ------
    InputError
        If there are fewer items of a label at a level than wanted, or none at any.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> labels = [["yes"] * 4 + ["no"], ["yes"] * 5, ["no"] * 4 + ["yes"], ["yes"] * 3 + ["no"] * 2]
    >>> annotations = pd.DataFrame(labels, index=["i1", "i2", "i3", "i4"])
    >>> found = irtbench.annotated_items(annotations)
    >>> levels = [irtbench.AgreementLevel(4, 5)]
    >>> irtbench.sample_items(found, levels=levels, per_label=1, rng=np.random.default_rng(1))
      item_id label  n_agree  n_annotators   set
    0      i3    no        4             5  4of5
    1      i1   yes        4             5  4of5
    """
    if per_label < 1:
        raise InputError(f"sample: expected at least 1 item a label but got {per_label}")
    known = items.table()
    known["set"] = [f"{k}of{n}" for k, n in zip(items.n_agree, items.n_annotators, strict=True)]
    known = known[known["label"] != ""]
    wanted = known[known["set"].isin([str(level) for level in levels])]
    if wanted.empty:
        there = ", ".join(f"{n} {name}" for name, n in known["set"].value_counts().head(5).items())
        raise InputError(f"sample: no item at {', '.join(map(str, levels))}; there are {there or 'none with a label'}")
    chosen = []
    for level in levels:
        for label in labels or sorted(wanted["label"].unique()):
            pool = np.flatnonzero((known["set"] == str(level)) & (known["label"] == label))
            if pool.size < per_label:
                raise InputError(
                    f"sample: {pool.size} items of label {label} on which {level.n_agree} of {level.n_annotators} "
                    f"agree; expected at least {per_label}"
                )
            chosen.append(known.iloc[np.sort(rng.choice(pool, per_label, replace=False))])
    return pd.concat(chosen, ignore_index=True)
