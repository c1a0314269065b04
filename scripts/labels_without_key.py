"""How often labels without a key are right: the latent-class model beside crowd-kit's Dawid-Skene and GLAD.

    python scripts/labels_without_key.py [--draws 5] [--labels 2 4] [--each 3 5 10] [--real RESPONSES ITEMS] [--large]

Simulated are 400 items labelled by 3, 5 or 10 of 40 respondents unlike in activity, abilities ~ N(1.5, .7^2):
``leanings`` to labels ~ N(0, .8^2); ``guessers``, the same with 30% who only lean; ``hard items``, log ease ~
N(0, .7^2); ``GLAD``, the same with abilities ~ N(1, 1), some below 0; ``both``, leanings and hard items; ``few
answers``, as hard items, ten answers a respondent. Printed are the shares of right labels, means over the draws, and
the mean probability that the latent-class model gives its labels. RESPONSES has respondent_id, item_id, label; ITEMS
item_id, gold. --large times 200,000 labels.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import irtbench

KINDS = ("leanings", "guessers", "hard items", "GLAD", "both", "few answers")
N_ITEMS, N_RESPONDENTS = 400, 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--each", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--real", nargs=2, metavar=("RESPONSES", "ITEMS"))
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # crowd-kit's calls of pandas
    print("| crowd | labels | each | majority | Dawid-Skene | GLAD | latent class | its probability |")
    print("|" + "---|" * 8, flush=True)
    if arguments.real:
        answers = pd.read_csv(arguments.real[0], dtype=str).rename(columns={"label": "answer"})
        key = pd.read_csv(arguments.real[1], dtype=str).set_index("item_id")["gold"]
        row("real", key.nunique(), answers.shape[0] / len(key), [shares(answers, key)])
    for n_labels in arguments.labels:
        for kind in KINDS:
            for each in arguments.each:
                found = [shares(*crowd(kind, each, n_labels, seed)) for seed in range(arguments.draws)]
                row(kind, n_labels, each, found)
    if arguments.large:
        answers, key = large(40_000, 2_000)
        began = time.process_time()
        labels = irtbench.evaluation.latent_class_labels(answers)
        print(f"{len(answers)} labels: {time.process_time() - began:.1f} s, {right(labels.table(), key):.3f} right")


def row(kind: str, n_labels: int, each: float, found: list[list[float]]) -> None:
    print(f"| {kind} | {n_labels} | {each:g} | {' | '.join(f'{x:.3f}' for x in np.mean(found, axis=0))} |", flush=True)


def crowd(kind: str, each: int, n_labels: int, seed: int) -> tuple[pd.DataFrame, pd.Series[str]]:
    rng = np.random.default_rng(seed)
    n = N_ITEMS * each // 10 if kind == "few answers" else N_RESPONDENTS
    truth = rng.integers(n_labels, size=N_ITEMS)
    ability = rng.normal(1, 1, n) if kind == "GLAD" else rng.normal(1.5, 0.7, n)
    if kind == "guessers":
        ability[rng.random(n) < 0.3] = 0
    ease = np.ones(N_ITEMS) if kind in ("leanings", "guessers") else np.exp(rng.normal(0, 0.7, N_ITEMS))
    leaning = rng.normal(0, 0.8, (n, n_labels)) * (kind in ("leanings", "guessers", "both"))
    active = np.ones(n) if kind == "few answers" else rng.random(n) ** 2
    who = np.array([rng.choice(n, each, replace=False, p=active / active.sum()) for _ in range(N_ITEMS)])
    return answered(truth, who, ability * (1 if n_labels == 2 else 1.5), ease, leaning, rng)


def large(n_items: int, n: int) -> tuple[pd.DataFrame, pd.Series[str]]:
    rng = np.random.default_rng(0)
    who = np.array([rng.choice(n, 5, replace=False) for _ in range(n_items)])
    ease = np.exp(rng.normal(0, 0.5, n_items))
    return answered(rng.integers(2, size=n_items), who, rng.normal(1.5, 0.7, n), ease, np.zeros((n, 2)), rng)


def answered(
    truth: NDArray[np.int64], who: NDArray[np.int64], ability: NDArray[np.float64], ease: NDArray[np.float64],
    leaning: NDArray[np.float64], rng: np.random.Generator,
) -> tuple[pd.DataFrame, pd.Series[str]]:  # fmt: skip
    logit = leaning[who] + rng.gumbel(size=(*who.shape, leaning.shape[1]))
    logit[np.arange(len(truth)), :, truth] += ability[who] * ease[:, None]
    names = np.arange(len(truth)).astype(str)
    answers = pd.DataFrame(
        {
            "respondent_id": who.ravel().astype(str),
            "item_id": np.repeat(names, who.shape[1]),
            "answer": logit.argmax(axis=2).ravel().astype(str),
        }
    )
    return answers, pd.Series(truth.astype(str), index=names)


def shares(answers: pd.DataFrame, key: pd.Series[str]) -> list[float]:
    from crowdkit.aggregation.classification.dawid_skene import DawidSkene
    from crowdkit.aggregation.classification.glad import GLAD

    renamed = answers.rename(columns={"item_id": "task", "respondent_id": "worker", "answer": "label"})
    others = [DawidSkene(n_iter=100).fit_predict(renamed), GLAD(silent=True).fit_predict(renamed)]
    found = irtbench.evaluation.latent_class_labels(answers)
    rows = [
        irtbench.majority_labels(answers).table(),
        *(one.rename("gold").rename_axis("item_id").reset_index() for one in others),
    ]
    return [*(right(one, key) for one in (*rows, found.table())), float(found.probability.mean())]


def right(labels: pd.DataFrame, key: pd.Series[str]) -> float:
    return float((labels["gold"].to_numpy() == key[labels["item_id"]].to_numpy()).mean())


if __name__ == "__main__":
    main()
