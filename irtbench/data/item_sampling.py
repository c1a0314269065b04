"""Items for a crowd: drawn from a corpus that a few annotators have labelled, and dealt to booklets."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.items import ItemTable
from irtbench.data.readers.item_table import read_items
from irtbench.data.readers.table import read_table
from irtbench.data.responses import name_first
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
    """The labels of items by annotators; arrays have shape (n_items,).

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
    """Count the labels of annotators.

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
        The labels of annotators.
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


OURS = ("item_id", "key", "label", "n_agree", "n_annotators", "set", "attention", "text")
NO_LABEL = ("-", "NA", "NaN")


def corpus_sample(
    file: Path, *, columns: Mapping[str, str], where: Mapping[str, str], text: str | None, checks: Path | None,
    annotations: Sequence[str], **drawn: Any,
) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """The items chosen in our columns, and with the corpus's own; `drawn` as of `draw`."""
    known, corpus = read_items(file, columns=columns, where=where), read_table(file)
    id_column = columns.get("item_id", "item_id")
    corpus = corpus.set_index(id_column, drop=False).loc[list(known.item_ids)]
    chosen = draw(known, annotated(corpus, file, annotations), **drawn)
    rows = corpus.loc[list(chosen["item_id"])]
    chosen["text"] = known.select(list(chosen["item_id"])).text if text is None else filled(text, rows, file)
    if checks is not None:
        more = read_items(checks)
        own = pd.DataFrame({"item_id": more.item_ids, "key": more.key, "text": more.text, "attention": 1})
        chosen = pd.concat([chosen, own], ignore_index=True)
    chosen = chosen[[name for name in OURS if name in chosen]]
    twice = chosen["item_id"][chosen["item_id"].duplicated()]
    if not twice.empty:
        raise InputError(f"sample: item {name_first(list(twice))} is both an item and an attention check")
    rest = rows.drop(columns=[name for name in rows.columns if name in OURS or name == id_column])
    return chosen, chosen.merge(rest, left_on="item_id", right_index=True, how="left")


def draw(
    known: ItemTable, labelled: pd.DataFrame | None, *, agreement: Sequence[str], per_label: int, labels: Sequence[str],
    rng: np.random.Generator,
) -> pd.DataFrame:  # fmt: skip
    """Items drawn by label and agreement, and attention checks; all, where no column of annotators is named."""
    everything = pd.DataFrame(
        {"item_id": known.item_ids, "key": known.key, "label": known.label, "attention": np.array(known.attention, int)}
    )
    if labelled is None:
        return everything
    levels = [AgreementLevel.read(given) for given in agreement]
    counted = annotated_items(labelled.loc[list(known.scale_items)])
    drawn = sample_items(counted, levels=levels, per_label=per_label, labels=labels, rng=rng)
    own = everything[everything["attention"] == 1]
    return pd.concat([drawn.assign(key=drawn["label"], attention=0), own], ignore_index=True)


def annotated(corpus: pd.DataFrame, file: Path, annotations: Sequence[str]) -> pd.DataFrame | None:
    """The columns with an annotator's label each; None where no pattern of them is given."""
    if not annotations:
        return None
    names = [name for name in corpus.columns if any(fnmatch.fnmatchcase(name, each) for each in annotations)]
    if not names:
        raise InputError(
            f"file {file}: no column like {', '.join(annotations)}; it has: {name_first(list(corpus), most=12)}"
        )
    return corpus[names].mask(lambda cells: cells.isin(NO_LABEL), "")


def filled(template: str, rows: pd.DataFrame, file: Path) -> list[str]:
    """The template with each row's columns in the place of their names in braces."""
    try:
        return [template.format_map(row) for row in rows.to_dict(orient="records")]
    except KeyError as error:
        raise InputError(
            f"--text: file {file} has no column {error}; it has: {name_first(list(rows.columns), most=12)}"
        ) from None
    except (ValueError, IndexError, AttributeError):
        raise InputError(f"--text {template}: expected text with columns in braces, such as {{text}}") from None


def deal_items(n_items: int, n_each: int, n_booklets: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
    """Deal items to booklets so that items, and pairs of items, come about equally often; shape (n_booklets, n_each).

    Every booklet takes the items dealt least often so far, and of these, one after the other, the one that met those
    already in the booklet least often; ties are drawn. Numbers of booklets of any two items differ by one at most: a
    nearly balanced incomplete block design (van der Linden, Veldkamp & Carlson, 2004).

    Parameters
    ----------
    n_items, n_each, n_booklets
        Items, items of a booklet, booklets.
    rng
        Breaks ties.

    Raises
    ------
    InputError
        If a booklet has fewer than one item or more than there are, or there is no booklet.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> dealt = irtbench.deal_items(6, 3, 4, rng=np.random.default_rng(1))
    >>> np.bincount(dealt.ravel()).tolist()  # each item in two of the four booklets
    [2, 2, 2, 2, 2, 2]
    """
    if not 1 <= n_each <= n_items or n_booklets < 1:
        raise InputError(
            f"booklets: expected at least 1 booklet and 1 to {n_items} items each but got {n_booklets} and {n_each}"
        )
    dealt = np.zeros(n_items, dtype=np.int64)
    together = np.zeros((n_items, n_items), dtype=np.int64)
    booklets = np.empty((n_booklets, n_each), dtype=np.int64)
    for booklet in booklets:
        met = np.zeros(n_items, dtype=np.int64)
        free = np.ones(n_items, dtype=np.bool_)
        for k in range(n_each):
            # least dealt first, then least met; the fraction breaks ties
            cost = np.where(free, dealt * (together.max(initial=0) * n_each + 1) + met + rng.random(n_items), np.inf)
            booklet[k] = item = int(cost.argmin())
            free[item] = False
            met += together[item]
        together[np.ix_(booklet, booklet)] += 1
        dealt[booklet] += 1
    return booklets


def make_booklets(
    item_ids: Sequence[str],
    *,
    n_booklets: int,
    n_each: int | None = None,
    checks: Sequence[str] = (),
    n_checks: int | None = None,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Booklets with an order of their own each, and attention checks spread over them.

    Items are dealt by ``deal_items`` and put in random order. A booklet of L places is cut into as many stretches as
    there are checks, as equal as can be; a check is at a random place of each, never first.

    Parameters
    ----------
    item_ids
        Items that are no checks.
    n_booklets
        Booklets, one a respondent (or a few).
    n_each
        Items of a booklet, checks left out; None for all.
    checks
        Attention checks.
    n_checks
        Checks of a booklet, drawn from them; None for all.
    rng
        Deals and mixes.

    Returns
    -------
    DataFrame
        ``booklet`` (from 1), ``position`` (from 1), ``item_id``, ``attention``.

    Raises
    ------
    InputError
        If there are fewer checks than wanted, a name is repeated, or as ``deal_items``.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> irtbench.make_booklets(["i1", "i2", "i3"], n_booklets=2, n_each=2, checks=["check"], rng=rng)
       booklet  position item_id  attention
    0        1         1      i2      False
    1        1         2      i3      False
    2        1         3   check       True
    3        2         1      i3      False
    4        2         2   check       True
    5        2         3      i1      False
    """
    n_each = len(item_ids) if n_each is None else n_each
    n_checks = len(checks) if n_checks is None else n_checks
    refuse_any((
        (not 0 <= n_checks <= len(checks),
         f"booklets: {n_checks} attention checks each are wanted but there are {len(checks)}"),
        (len({*item_ids, *checks}) < len(item_ids) + len(checks),
         "booklets: item names must be unique, those of attention checks too"),
        (n_checks > n_each,
         f"booklets: {n_checks} attention checks among {n_each} items; expected no more than items"),
    ))  # fmt: skip
    places = n_each + n_checks
    parts = []
    for number, dealt in enumerate(deal_items(len(item_ids), n_each, n_booklets, rng=rng), start=1):
        ends = np.linspace(1, places, n_checks + 1).round().astype(np.int64)
        at = np.array([rng.integers(low, high) for low, high in pairwise(ends)], dtype=np.int64)
        attention = np.zeros(places, dtype=np.bool_)
        attention[at] = True
        order = np.empty(places, dtype=object)
        order[~attention] = np.array(item_ids, dtype=object)[rng.permutation(dealt)]
        order[attention] = rng.permutation(np.array(checks, dtype=object))[:n_checks]
        parts.append(
            pd.DataFrame(
                {"booklet": number, "position": np.arange(1, places + 1), "item_id": order, "attention": attention}
            )
        )
    return pd.concat(parts, ignore_index=True)
