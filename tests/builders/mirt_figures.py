"""The data sets of R mirt's reference figures with mirt's own parameters and abilities (shared by several tests)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.data.responses import ResponseMatrix
from irtbench.models.item_parameters import ItemParameters


def lsat6(real_data: Path, reference: Path, model: str) -> tuple[ResponseMatrix, ItemParameters, np.ndarray]:
    """LSAT section 6, parameters of ``model`` (2pl, 3plprior, rasch), EAP of each respondent."""
    table = pd.read_csv(real_data / "lsat6" / "responses.csv").rename(columns={"correct": "response"})
    responses = ResponseMatrix.from_long(table)
    mirt = pd.read_csv(reference / f"mirt_lsat6_{model}_pars.csv")
    eap = pd.read_csv(reference / f"mirt_lsat6_{model}_EAP.csv", dtype={"pattern": str}).set_index("pattern")["theta"]
    theta = eap.loc[["".join(str(int(x)) for x in row) for row in responses.values]].to_numpy()
    return responses, ItemParameters(responses.item_ids, mirt["a"], mirt["d"], mirt["c"], mirt["c"] > 0), theta


def papers_scale(real_data: Path, reference: Path, label: str) -> tuple[ResponseMatrix, ItemParameters, np.ndarray]:
    """All 30 items of a label of 5GS (entailment, neutral), 2PL parameters, EAP of each respondent."""
    mirt = pd.read_csv(reference / f"mirt_5gs_{label}_2pl_pars.csv")
    ids = tuple(mirt["item_id"])
    responses = snli(real_data, "5gs", ids)
    eap = pd.read_csv(reference / f"mirt_5gs_{label}_2pl_EAP.csv").set_index("respondent_id")["theta"]
    items = ItemParameters(ids, mirt["a"], mirt["intercept"], np.zeros(30), np.zeros(30, dtype=bool))
    return responses, items, eap.loc[list(responses.respondent_ids)].to_numpy()


def snli(real_data: Path, set_name: str, item_ids: Sequence[str]) -> ResponseMatrix:
    """Responses to these items of a set (4gs, 5gs)."""
    file = real_data / "lalor2016_snli" / f"responses_{set_name}.csv.gz"
    table = pd.read_csv(file).rename(columns={"correct": "response"})
    return ResponseMatrix.from_long(table[table["item_id"].isin(item_ids)], item_ids=tuple(item_ids))


def reference_form(folder: Path, study: str, form: str) -> tuple[ItemParameters, np.ndarray]:
    """Items of R mirt's calibration and the covariance of (a, d, c), turned from that of (c, b, a), d = -a b."""
    table = pd.read_csv(folder / f"{study}_pars_{form}.csv")
    ids, a, b = tuple(table["item"]), table["a"].to_numpy(), table["b"].to_numpy()
    c = table["c"].to_numpy() if "c" in table else np.zeros(len(ids))
    whole = pd.read_csv(folder / f"{study}_vcov_{form}.csv", index_col=0)
    n = len(ids)
    of_abc = np.zeros((3, n, 3, n))
    names = [[f"{name}.{item}" for item in ids] for name in "abc"]
    known = range(3 if c.any() else 2)
    for k in known:
        for m in known:
            of_abc[k, :, m, :] = whole.loc[names[k], names[m]]
    turn = np.zeros((3, 3, n))  # of (a, d, c) by (a, b, c)
    turn[0, 0], turn[1, 0], turn[1, 1], turn[2, 2] = 1, -b, -a, 1
    covariance = np.einsum("xkj,kjml,yml->jxly", turn, of_abc, turn)
    return ItemParameters.from_difficulty(a, b, c, item_ids=ids, guessing_estimated=bool(c.any())), covariance


def verbal(reference: Path) -> tuple[ResponseMatrix, np.ndarray]:
    """Verbal aggression of 316 people (24 items of difR's data), and who of them are women."""
    table = pd.read_csv(reference / "next" / "data" / "verbal.csv")
    items = [name for name in table if name not in ("Anger", "Gender")]
    ids = tuple(f"r{k}" for k in range(len(table)))
    return ResponseMatrix(table[items].to_numpy(float), ids, tuple(items)), table["Gender"].to_numpy() == 0
