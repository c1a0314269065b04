"""False alarms and power of the test for pairs of respondents who are too alike, in simulated crowds.

    python scripts/similarity_rates.py [--crowds 20] [--respondents 300] [--seed 1]

Honest crowds: abilities standard normal, a log-normal(.2, .3), b normal(-1, 1), three options, wrong ones chosen with
Dirichlet(3, 3) shares. In crowds with copying 15 pairs share a part of their answers. Items and abilities are estimated
from the same answers. Prints the tables of docs/crowds.md.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.building.prune_rules import constant_items
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.answer_similarity import AnswerSimilarity, answer_similarity
from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FitSettings
from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.scoring.item_error import abilities_of

N_ITEMS = (30, 90)
SHARES = (0.3, 0.5, 0.7, 0.9)
N_PAIRS = 15
N_WRONG = 2


def simulate(n_respondents: int, n_items: int, share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Answers, 0 the right one; respondents 2 k + 1 copied a share of theirs from 2 k, for k below N_PAIRS."""
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(-1, 1, n_items))
    right = rng.random((n_respondents, n_items)) < icc(rng.normal(size=n_respondents), items)
    liked = rng.dirichlet([3] * N_WRONG, n_items).cumsum(axis=1)
    wrong = 1 + (rng.random((n_respondents, n_items))[..., None] > liked[:, :-1]).sum(axis=2)
    answers = np.where(right, 0, wrong)
    if share > 0:
        source, copier = answers[0 : 2 * N_PAIRS : 2], answers[1 : 2 * N_PAIRS : 2]
        copier[...] = np.where(rng.random(copier.shape) < share, source, copier)
    return answers


def tested(answers: NDArray[np.int64]) -> AnswerSimilarity:
    """The test with items and abilities estimated from the answers themselves."""
    n_respondents, n_items = answers.shape
    ids = tuple(f"r{i}" for i in range(n_respondents)), tuple(f"i{j}" for j in range(n_items))
    responses = ResponseMatrix((answers == 0).astype(np.float64), *ids)
    constant = {removal.item_id for removal in constant_items(responses)}
    responses = responses.select_items([item for item in ids[1] if item not in constant])
    fitted = fit_model(responses, FitSettings(standard_errors=False))
    table = pd.DataFrame(
        {
            "respondent_id": np.repeat(ids[0], n_items),
            "item_id": np.tile(ids[1], n_respondents),
            "answer": answers.ravel().astype(str),
        }
    )
    theta = abilities_of(fitted, responses).theta
    return answer_similarity(table, responses, fitted.items, theta, most_listed=n_respondents**2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crowds", type=int, default=20)
    parser.add_argument("--respondents", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    print("| items | p < .05 | p < .01 | p < .001 | p < .0001 | crowds with a pair at adjusted p < .05 |")
    print("|---|---|---|---|---|---|")
    for n_items in N_ITEMS:
        found = [tested(simulate(arguments.respondents, n_items, 0.0, rng)) for _ in range(arguments.crowds)]
        p = np.concatenate([each.p for each in found])
        total = sum(each.n_tested for each in found)
        rates = " | ".join(f"{(p < level).sum() / total:.2g}" for level in (0.05, 0.01, 0.001, 0.0001))
        alarms = sum(each.p_adjusted.min() < 0.05 for each in found)
        print(f"| {n_items} | {rates} | {alarms} of {arguments.crowds} |", flush=True)
    print("\n| items | answers copied | p < .001 | adjusted p < .05 |\n|---|---|---|---|")
    for n_items in N_ITEMS:
        for share in SHARES:
            hits = []
            for _ in range(max(2, arguments.crowds // 5)):
                each = tested(simulate(arguments.respondents, n_items, share, rng))
                copied = [{f"r{2 * k}", f"r{2 * k + 1}"} for k in range(N_PAIRS)]
                own = [k for k, pair in enumerate(each.pairs) if set(pair) in copied]
                hits += list(zip(each.p[own] < 0.001, each.p_adjusted[own] < 0.05, strict=True))
            one, adjusted = np.mean(hits, axis=0)
            print(f"| {n_items} | {share:.0%} | {one:.2f} | {adjusted:.2f} |", flush=True)


if __name__ == "__main__":
    main()
