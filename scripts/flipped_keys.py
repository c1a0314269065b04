"""How well are wrong keys found: keys of real data turned round on purpose, and what `wrong_keys` says of them.

    python scripts/flipped_keys.py --replications 2 --seed 0 [--data NAME ...]

Of the crowds for which only right and wrong is known, a wrong key turns right into wrong; of the answers of the HCI and
of snow2008_rte one of the item's other options becomes the key. Printed for each share of keys turned round: the share
of them among the first n of the list, where n is their number; how many keys are put forward (p > .5), and how many of
those were not touched; how often the true key is the one proposed. The data lie beside the checkout (IRTBENCH_REAL_DATA
names another place).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.analysis.wrong_keys import WrongKeys, wrong_keys
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FitSettings
from irtbench.models.priors import PriorName

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("IRTBENCH_REAL_DATA", ROOT.parent / "shared"))
SHARES = (0.02, 0.05, 0.1)


def data_sets() -> Iterator[tuple[str, pd.DataFrame, dict[str, str]]]:
    """Name, long table of answers, and keys."""
    next_figures = SHARED / "reference" / "next" / "data"
    wide = pd.read_csv(next_figures / "hci_answers.csv")
    wide.insert(0, "respondent_id", [f"p{k}" for k in range(len(wide))])
    keys = pd.read_csv(next_figures / "hci_key.csv").set_index("item")["key"].to_dict()
    yield "HCI", wide.melt("respondent_id", var_name="item_id", value_name="answer"), keys
    crowd = pd.read_csv(SHARED / "data" / "lalor2016_snli" / "responses_5gs.csv.gz")
    for label in ("entailment", "contradiction", "neutral"):
        yield f"5GS {label}", *graded(crowd[crowd["item_id"].str.endswith(label[0])])
    entailed = pd.read_csv(SHARED / "data" / "snow2008_rte" / "responses.csv", dtype=str)
    gold = pd.read_csv(SHARED / "data" / "snow2008_rte" / "items.csv", dtype=str).set_index("item_id")["gold"].to_dict()
    yield "snow2008_rte", entailed.rename(columns={"label": "answer"})[["respondent_id", "item_id", "answer"]], gold
    yield "leaderboard", *graded(pd.read_csv(SHARED / "data" / "openllm_leaderboard" / "responses.csv.gz"))


def graded(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Responses as answers 1 and 0 to keys of 1."""
    answers = table[["respondent_id", "item_id"]].assign(answer=table["correct"].astype(int).astype(str))
    return answers, dict.fromkeys(answers["item_id"].unique(), "1")


def found_by(answers: pd.DataFrame, keys: dict[str, str]) -> WrongKeys:
    """Grade by these keys, fit, and look for wrong ones."""
    right = (answers["answer"] == answers["item_id"].map(keys)).astype(float)
    responses = ResponseMatrix.from_long(answers.assign(response=right), item_ids=tuple(keys))
    share = responses.proportion_correct()
    varied = [item for item, p in zip(responses.item_ids, share, strict=True) if 0 < p < 1]
    prior: PriorName = "hierarchical" if len(varied) > responses.n_respondents else "weak"
    fitted = fit_model(responses.select_items(varied), FitSettings(prior=prior, standard_errors=False))
    if not fitted.converged:
        print(f"not converged: {fitted.stopped_because}", file=sys.stderr)
    return wrong_keys(answers, keys, responses, fitted.items, population=fitted.quadrature)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", nargs="*", help="only these")
    given = parser.parse_args()
    print("| data | turned round | among the first n | put forward, untouched | true key proposed |")
    print("|---|---|---|---|---|")
    for name, answers, keys in data_sets():
        if given.data and name not in given.data:
            continue
        clean = found_by(answers, keys)
        flagged = int((clean.p_wrong_key > 0.5).sum())
        print(f"| {name} | 0 of {len(keys)} | | {flagged}, {flagged} | |", flush=True)
        options = answers.groupby("item_id")["answer"].unique()
        for share in SHARES:
            n = max(1, round(share * len(keys)))
            precision, forward, untouched, proposed = [], [], [], []
            for replication in range(given.replications):
                rng = np.random.default_rng([given.seed, replication, n])
                turned = dict(keys)
                for item in rng.choice(sorted(keys), n, replace=False):
                    seen = options[item] if len(options[item]) > 1 else answers["answer"].unique()
                    turned[item] = str(rng.choice([option for option in seen if option != keys[item]]))
                wrong = {item for item in keys if turned[item] != keys[item]}
                table = found_by(answers, turned).table()
                likely = table["item_id"][table["p_wrong_key"] > 0.5]
                precision.append(table["item_id"][:n].isin(wrong).mean())
                forward.append(len(likely))
                untouched.append(int((~likely.isin(wrong)).sum()))
                rows = table[table["item_id"].isin(wrong)]
                proposed.append((rows["proposed"] == rows["item_id"].map(keys)).mean())
            print(
                f"| {name} | {n} of {len(keys)} | {np.mean(precision):.2f} | {np.mean(forward):.1f}, "
                f"{np.mean(untouched):.1f} | {np.mean(proposed):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
