"""Simulated responses to all scales of a bank, as a wide data frame."""

import numpy as np
import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.models.simulation import simulate_responses


def wide_responses(bank: ItemBank, n: int, *, missing: float = 0.1, seed: int = 0) -> pd.DataFrame:
    """A row for each of n people; responses are integers, null where missing."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=n)
    responses = [simulate_responses(theta, scale.items, rng=rng, missing=missing) for scale in bank.scales]
    values = pd.concat([pd.DataFrame(part.values, columns=list(part.item_ids)) for part in responses], axis=1)
    values.insert(0, "respondent_id", [f"r{k}" for k in range(n)])
    return values.astype(dict.fromkeys(values.columns[1:], "Int8"))
