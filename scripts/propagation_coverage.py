"""Do intervals of propagated counts cover the truth? A generated corpus with known coreference.

    python scripts/propagation_coverage.py [--seed 2015] [--corpora 20]

Every document is a row of mentions, some names of one of four countries, most pronouns, and some mentions are agents of
an event. True antecedents are drawn from antecedent probabilities p. The model that is asked states p itself
(calibrated), p^3 renormalised (too sure) or p^(1/3) renormalised (not sure enough). Events are counted by period and
country. docs/propagation.md holds the table this prints.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from irtbench.evaluation.calibration import calibration
from irtbench.evaluation.event_counts import (
    NOBODY,
    EventCounts,
    antecedent_clusters,
    count_events,
    draw_antecedents,
    link_pairs,
    link_probabilities,
    name_clusters,
    summarise_samples,
)

COUNTRIES = ("Arda", "Bork", "Cyre", "Dorn")
N_DOCUMENTS, N_PERIODS, N_MENTIONS, N_SAMPLES = 100, 5, 12, 500
IS_NAME, IS_AGENT = 0.35, 0.5
MODELS = {"calibrated": 1.0, "too sure": 3.0, "not sure enough": 1 / 3}


def draw_document(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """True antecedent probabilities, the country each mention names, and whether it is the agent of an event."""
    named = np.where(rng.random(N_MENTIONS) < IS_NAME, rng.integers(len(COUNTRIES), size=N_MENTIONS), NOBODY)
    named[0] = rng.integers(len(COUNTRIES))
    probability = np.zeros((N_MENTIONS, N_MENTIONS))
    for mention in range(N_MENTIONS):
        if named[mention] != NOBODY:  # a name is linked to the last mention of that name, if there is one
            same = np.flatnonzero(named[:mention] == named[mention])
            probability[mention, same[-1] if same.size else mention] = 1.0
        else:  # a pronoun to any earlier mention, likely a recent one, and seldom to none
            score = rng.normal(0, 1.5, mention + 1) + 0.2 * np.arange(mention + 1)
            score[mention] -= 2.0
            weight = np.exp(score)
            probability[mention, : mention + 1] = weight / weight.sum()
    return probability, named, rng.random(N_MENTIONS) < IS_AGENT


def sharpen(probability: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """Each row to a power, renormalised; what was impossible stays so."""
    raised = probability**power
    return raised / raised.sum(axis=1, keepdims=True)


def draw_corpus(rng: np.random.Generator) -> tuple[EventCounts, dict[str, EventCounts], dict[str, list[NDArray]]]:
    """True counts, sampled counts of each model, and each model's pairs of link probability and truth."""
    who: dict[str, list[NDArray[np.int64]]] = {"truth": []} | {name: [] for name in MODELS}
    period: list[int] = []
    pairs: dict[str, list[NDArray]] = {name: [] for name in MODELS}
    for document in range(N_DOCUMENTS):
        probability, named, agent = draw_document(rng)
        truth = antecedent_clusters(draw_antecedents(probability, n_samples=1, rng=rng))
        who["truth"].append(name_clusters(truth, named)[:, agent])
        period += [document * N_PERIODS // N_DOCUMENTS] * int(agent.sum())
        for name, power in MODELS.items():
            stated = sharpen(probability, power)
            clusters = antecedent_clusters(draw_antecedents(stated, n_samples=N_SAMPLES, rng=rng))
            who[name].append(name_clusters(clusters, named)[:, agent])
            pairs[name].append(np.stack(link_pairs(link_probabilities(clusters), truth[0])))
    counts = {name: count_events(np.concatenate(w, axis=1), period, entities=COUNTRIES) for name, w in who.items()}
    return counts.pop("truth"), counts, pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=2015)
    parser.add_argument("--corpora", type=int, default=20)
    parser.add_argument("--figure", type=Path, help="draw the first corpus' counts here")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    covered = {name: {"normal": [], "quantile": []} for name in MODELS}
    width: dict[str, list[float]] = {name: [] for name in MODELS}
    order: dict[str, list[tuple[float, bool]]] = {name: [] for name in MODELS}
    pairs: dict[str, list[NDArray]] = {name: [] for name in MODELS}
    for corpus in range(options.corpora):
        truth, sampled, found_pairs = draw_corpus(rng)
        for name, counts in sampled.items():
            pairs[name] += found_pairs[name]
            for interval, inside in covered[name].items():
                found = summarise_samples(counts.counts.astype(np.float64), interval=interval)
                inside.append((found.lower <= truth.counts[0]) & (truth.counts[0] <= found.upper))
            width[name].append(float(np.mean(found.upper - found.lower)))
            for first, second in ((0, 1), (2, 3)):
                stated = counts.above(COUNTRIES[first], COUNTRIES[second])["above"]
                happened = truth.counts[0, :, first] > truth.counts[0, :, second]
                order[name] += zip(stated, happened, strict=True)
        if corpus == 0 and options.figure is not None:
            sampled["calibrated"].plot().figure.savefig(options.figure)
    print("| model | link calibration error | 95% interval | coverage, mean +- 1.96 sd | coverage, quantiles | width "
          "| Brier of 'A above B' |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for name in MODELS:
        q, y = np.concatenate(pairs[name], axis=1)
        links = calibration(q, y, rng=rng)
        above = np.array(order[name], dtype=np.float64)
        print(
            f"| {name} | {links.error:.4f} | {links.lower:.4f} to {links.upper:.4f} "
            f"| {np.mean(covered[name]['normal']):.1%} | {np.mean(covered[name]['quantile']):.1%} "
            f"| {np.mean(width[name]):.1f} | {np.mean((above[:, 0] - above[:, 1]) ** 2):.3f} |"
        )


if __name__ == "__main__":
    main()
