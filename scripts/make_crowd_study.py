"""Simulate the crowd study that irtbench ships: the shape of Lalor, Wu & Yu (2016), with known truth.

    python scripts/make_crowd_study.py [--seed 2016] [--output data/crowd_study]

The same seed writes the same bytes. README.md beside them says what is in the files.
"""

from __future__ import annotations

import argparse
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters

LABELS = ("contradiction", "entailment", "neutral")
ITEMS_PER_LABEL = 30

# Ranges of discrimination and difficulty, inside those of the paper's Table 4 (5GS).
DISCRIMINATION = {"contradiction": (1.0, 2.7), "entailment": (1.0, 2.4), "neutral": (1.3, 3.5)}
DIFFICULTY = {"contradiction": (-2.7, 0.7), "entailment": (-2.9, -1.9), "neutral": (-2.0, -0.6)}

# Items gone wrong: discrimination and difficulty instead of those drawn.
FLAT = {"c11": (0.1, -4.0), "e17": (0.1, -6.0)}
REVERSED = {"c22": (-1.3, -1.4), "n05": (-1.0, -1.2)}
TWIN, TWIN_OF, COPIED = "n14", "n13", 0.7

ATTENTION = {"check1": "contradiction", "check2": "entailment", "check3": "neutral"}

N_RESPONDENTS = {"attentive": 955, "inattentive": 15, "clicker": 30}
ABILITY_CORRELATION = 0.6
GUESSES = {"attentive": 0.0, "inattentive": 0.4, "clicker": 1.0}  # share of answers given without reading
PASSES_CHECK = {"attentive": 0.985, "inattentive": 0.6, "clicker": 0.0}  # else the answer is a guess
MEDIAN_SECONDS = {"attentive": 9.0, "inattentive": 5.0, "clicker": 1.5}
N_EMPTY = 12

SYSTEMS = {"low": -1.5, "average": 0.0, "high": 1.5}
MISSES_ITEMS, N_MISSED = "low", 8


@dataclass(frozen=True)
class TrueItems:
    """Items of the scales with their truth: ``preference`` is the share of wrong answers on the first other label."""

    parameters: ItemParameters
    label: NDArray[np.int64]
    preference: NDArray[np.float64]
    planted: tuple[str, ...]


def draw_items(rng: np.random.Generator) -> TrueItems:
    ids, slopes, difficulties, planted = [], [], [], []
    for label in LABELS:
        for k in range(ITEMS_PER_LABEL):
            item = f"{label[0]}{k + 1:02d}"
            low, high = DISCRIMINATION[label]
            a = low + (high - low) * rng.beta(2, 2)
            b = rng.uniform(*DIFFICULTY[label])
            a, b = {**FLAT, **REVERSED}.get(item, (a, b))
            ids.append(item)
            slopes.append(round(a, 3))
            difficulties.append(round(b, 3))
            planted.append(
                "flat"
                if item in FLAT
                else "reversed"
                if item in REVERSED
                else "twin"
                if item in (TWIN, TWIN_OF)
                else ""
            )
    return TrueItems(
        ItemParameters.from_difficulty(slopes, difficulties, item_ids=ids),
        np.repeat(np.arange(len(LABELS)), ITEMS_PER_LABEL),
        rng.beta(2, 2, len(ids)),
        tuple(planted),
    )


def draw_abilities(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """One ability a label, standard normal each, shape (n, 3): a common part and one of its own."""
    common, own = rng.standard_normal((n, 1)), rng.standard_normal((n, len(LABELS)))
    return (np.sqrt(ABILITY_CORRELATION) * common + np.sqrt(1 - ABILITY_CORRELATION) * own).round(4)


def draw_answers(theta: NDArray[np.float64], items: TrueItems, rng: np.random.Generator) -> NDArray[np.int64]:
    """Labels as numbers, shape (n_respondents, n_items), of people who read every item."""
    by_label = [
        items.parameters.select(np.array(items.parameters.item_ids)[items.label == k]) for k in range(len(LABELS))
    ]
    p = np.hstack([icc(theta[:, k], part) for k, part in enumerate(by_label)])
    correct = rng.random(p.shape) < p
    # the two other labels are gold + 1 and gold + 2, counted round
    shift = np.where(rng.random(p.shape) < items.preference, 1, 2)
    answers = (items.label + np.where(correct, 0, shift)) % len(LABELS)
    first, second = (items.parameters.item_ids.index(item) for item in (TWIN_OF, TWIN))
    copies = rng.random(len(answers)) < COPIED
    answers[copies, second] = answers[copies, first]
    return answers


def simulate_crowd(items: TrueItems, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Answers, each respondent's in the order given, and the truth about the respondents."""
    kind = rng.permutation(np.repeat(list(N_RESPONDENTS), list(N_RESPONDENTS.values())))
    n, n_checks = kind.size, len(ATTENTION)
    theta = draw_abilities(n, rng)
    answers = draw_answers(theta, items, rng)
    unread = rng.random(answers.shape) < [[GUESSES[k]] for k in kind]
    answers = np.where(unread, rng.integers(len(LABELS), size=answers.shape), answers)
    passes = rng.random((n, n_checks)) < [[PASSES_CHECK[k]] for k in kind]
    check_gold = [LABELS.index(label) for label in ATTENTION.values()]
    checks = np.where(passes, check_gold, rng.integers(len(LABELS), size=(n, n_checks)))

    item_ids = np.array([*items.parameters.item_ids, *ATTENTION])
    given = np.array(LABELS, dtype=object)[np.hstack([answers, checks])]
    empty = rng.choice(n * items.label.size, size=N_EMPTY, replace=False)
    given[np.unravel_index(empty, answers.shape)] = ""
    pace = np.array([[MEDIAN_SECONDS[k]] for k in kind]) * np.exp(0.3 * rng.standard_normal((n, 1)))
    seconds = pace * np.exp(0.5 * rng.standard_normal(given.shape))

    respondent_ids = np.array([f"w{i + 1:04d}" for i in range(n)])
    order = rng.permuted(np.tile(np.arange(item_ids.size), (n, 1)), axis=1)
    rows = np.arange(n)[:, None]
    table = pd.DataFrame(
        {
            "respondent_id": np.repeat(respondent_ids, item_ids.size),
            "item_id": item_ids[order].ravel(),
            "answer": given[rows, order].ravel(),
            "seconds": [f"{s:.1f}" for s in seconds[rows, order].ravel()],
        }
    )
    truth = pd.DataFrame({"respondent_id": respondent_ids, "kind": kind})
    for k, label in enumerate(LABELS):  # a clicker's ability shows nowhere
        truth[f"theta_{label}"] = np.where(kind == "clicker", np.nan, theta[:, k])
    return table, truth


def simulate_system(name: str, theta: float, items: TrueItems, rng: np.random.Generator) -> pd.DataFrame:
    """Answers of one system, equally able on all labels."""
    answers = draw_answers(np.full((1, len(LABELS)), theta), items, rng)[0]
    table = pd.DataFrame(
        {"respondent_id": name, "item_id": items.parameters.item_ids, "answer": np.array(LABELS)[answers]}
    )
    if name == MISSES_ITEMS:
        table = table.drop(index=rng.choice(len(table), size=N_MISSED, replace=False))
    return table


def item_texts() -> list[str]:
    """A premise for each number, and a hypothesis for each label and number; not read by the simulation."""
    who = ("man", "woman", "boy", "girl", "dog", "worker")
    what = ("waits at a bus stop", "runs along a beach", "sits under a tree", "crosses a bridge", "looks at a river")
    scenes = [(subject, act) for subject in who for act in what]
    hypotheses = {
        "contradiction": "The {0} is asleep at home.",
        "entailment": "A {0} is outside.",
        "neutral": "The {0} is on holiday.",
    }
    return [
        f"Premise: A {subject} {act}. Hypothesis: {hypotheses[label].format(subject)}"
        for label in LABELS
        for subject, act in scenes
    ]


def item_tables(items: TrueItems) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What everybody may know of the items, and the truth."""
    gold = [LABELS[k] for k in items.label]
    known = pd.DataFrame(
        {
            "item_id": [*items.parameters.item_ids, *ATTENTION],
            "gold": [*gold, *ATTENTION.values()],
            "attention": [0] * len(gold) + [1] * len(ATTENTION),
            "text": [*item_texts(), *(f"To show that you read this, answer {label}." for label in ATTENTION.values())],
        }
    )
    truth = pd.DataFrame(
        {
            "item_id": items.parameters.item_ids,
            "label": gold,
            "discrimination": items.parameters.discrimination,
            "difficulty": items.parameters.difficulty.round(3) + 0.0,
            "planted": items.planted,
        }
    )
    return known, truth


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write the same bytes for the same table: line ends of one kind, and no date in a compressed file."""
    content = table.to_csv(index=False, lineterminator="\n").encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def make_study(output: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = draw_items(rng)
    answers, truth_respondents = simulate_crowd(items, rng)
    known, truth_items = item_tables(items)
    (output / "systems").mkdir(parents=True, exist_ok=True)
    write_csv(answers, output / "answers.csv.gz")
    write_csv(known, output / "items.csv")
    write_csv(truth_items, output / "truth_items.csv")
    write_csv(truth_respondents, output / "truth_respondents.csv")
    for name, theta in SYSTEMS.items():
        write_csv(simulate_system(name, theta, items, rng), output / "systems" / f"{name}.csv")


def main() -> None:
    default = Path(__file__).resolve().parents[1] / "data" / "crowd_study"
    parser = argparse.ArgumentParser(description="Simulate the crowd study that irtbench ships.")
    parser.add_argument("--seed", type=int, default=2016)
    parser.add_argument("--output", type=Path, default=default, help="folder to write into")
    arguments = parser.parse_args()
    make_study(arguments.output, arguments.seed)
    print(f"written to {arguments.output}")


if __name__ == "__main__":
    main()
