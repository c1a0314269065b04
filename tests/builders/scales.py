"""Scales of known items, and items in categories by chance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.item_parameters import ItemParameters

GRADED_AND_PARTIAL = (Graded(), PartialCredit())


def scale_of(items: ItemParameters, norms: Norms | None = None, *, name: str = "all", **more: Any) -> Scale:
    """A scale of these items without key or text."""
    return Scale(name, items, ItemTable.plain(items.item_ids), norms, **more)


def bank_of(items: ItemParameters, norms: Norms | None = None, **more: Any) -> ItemBank:
    """A bank of one such scale."""
    return ItemBank((scale_of(items, norms, **more),))


def grades(
    rng: np.random.Generator,
    n: int,
    *scores: Sequence[object],
    models: Sequence[ItemModel] = GRADED_AND_PARTIAL,
    shift: float = 0.0,
) -> CategoryParameters:
    """Items g00, g01, ... with these scores (0 to 3 unless given) and models by turns; the last is harder by a shift.

    Items that are right or wrong have a guessing of .2 where their model has one.
    """
    scores = scores or (range(4),)
    b = np.sort(rng.normal(0, 0.8, (n, max(map(len, scores)) - 1)) + rng.normal(0, 0.5, (n, 1)), axis=1)
    b[-1] += shift
    each = [models[j % len(models)] for j in range(n)]
    labels = [(0, 1) if isinstance(model, Logistic) else scores[j % len(scores)] for j, model in enumerate(each)]
    table = pd.DataFrame(b, columns=[f"step_{k + 1}" for k in range(b.shape[1])]).assign(
        item_id=[f"g{j:02}" for j in range(n)], discrimination=rng.uniform(0.7, 2, n), guessing=0.2,
        difficulty=b[:, 0], categories=["|".join(map(str, own)) for own in labels],
    )  # fmt: skip
    return CategoryParameters.from_table(table, each)


def of_two_categories(items: ItemParameters) -> ItemParameters:
    """The same 2PL items, with their covariance, as items in the categories 0 and 1."""
    return CategoryParameters.of_right_or_wrong(items).as_items()
