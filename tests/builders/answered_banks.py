"""Scales of a bank, and simulated responses to all of them as a wide data frame."""

from dataclasses import replace

import numpy as np
import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters


def make_scale(name: str, n_items: int, *, guessing: float = 0.0) -> Scale:
    """Items of known parameters, one of them reversed, with their errors, and norms."""
    rng = np.random.default_rng(n_items)
    ids = [f"{name}{k}" for k in range(n_items)]
    a = rng.lognormal(0.2, 0.4, n_items)
    a[0] = -0.4  # a reversed item
    items = ItemParameters.from_difficulty(a, rng.normal(size=n_items), guessing, item_ids=ids)
    items = replace(items, covariance=np.broadcast_to(np.diag([0.02, 0.02, 0.0]), (n_items, 3, 3)))
    return Scale(name, items, ItemTable.plain(ids), Norms(rng.normal(size=200)))


def wide_responses(bank: ItemBank, n: int, *, missing: float = 0.1, seed: int = 0) -> pd.DataFrame:
    """A row for each of n people; responses are integers, null where missing."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=n)
    responses = [simulate_responses(theta, scale.items, rng=rng, missing=missing) for scale in bank.scales]
    values = pd.concat([pd.DataFrame(part.values, columns=list(part.item_ids)) for part in responses], axis=1)
    values.insert(0, "respondent_id", [f"r{k}" for k in range(n)])
    return values.astype(dict.fromkeys(values.columns[1:], "Int8"))
