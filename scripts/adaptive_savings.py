"""How many items an adaptive test saves at a standard error of .3 against a fixed form.

    python scripts/adaptive_savings.py [--respondents 300] [--seed 1]

Banks are drawn: slopes log-normal with mean of logarithms .2 and standard deviation .3, difficulties normal.
Respondents are drawn from the standard normal population and answer every item of the bank by its parameters. The
adaptive test ends at a posterior standard deviation of .3, or when no item is left. Fixed forms are the most
informative of their length for the population (``assemble_forms``): one as long as it must be for the same root mean
square of the standard error, one for 90% of the respondents to reach .3 (or as many as the adaptive test, if fewer).
With `--orders` instead: how many items a test asks that takes them in an order fixed beforehand and ends at .3.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

import irtbench

GOAL, ENOUGH = 0.3, 0.9
BANKS = ((60, 1.0), (120, 1.0), (300, 1.0), (300, 1.5))
CHOICES: dict[str, dict[str, object]] = {
    "information": {"rule": "information"},
    "posterior": {"rule": "posterior"},
    "variance": {"rule": "variance"},
    "best of 5": {"rule": "information", "best_of": 5},
    "exposure 30%": {"rule": "information", "most_exposure": 0.3},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--respondents", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--orders", action="store_true")
    arguments = parser.parse_args()
    if arguments.orders:
        compare_orders(arguments.respondents, arguments.seed)
        return
    print("| bank | sd of b | rule | items asked | reach .3 | same mean se: fixed | saved | 90% at .3: fixed | saved |")
    print("|---|---|---|---|---|---|---|---|---|")
    for n_items, spread in BANKS:
        items, responses = drawn(n_items, spread, arguments.respondents, arguments.seed)
        on_form = cache(partial(errors_on_form, items, responses))
        for rule, choice in CHOICES.items():
            found = irtbench.replay_adaptive(items, responses, se=GOAL, seed=arguments.seed, **choice)
            reached, mean = float((found.standard_error <= GOAL).mean()), rms(found.standard_error)
            alike = shortest(lambda length: rms(on_form(length)) <= mean, n_items)  # noqa: B023 - called at once
            share = min(reached, ENOUGH)
            most = shortest(lambda length: (on_form(length) <= GOAL).mean() >= share, n_items)  # noqa: B023
            asked = found.n_items.mean()
            cells = [n_items, f"{spread:g}", rule, f"{asked:.1f}", f"{reached:.0%}"]
            cells += [alike, f"{1 - asked / alike:.0%}", most, f"{1 - asked / most:.0%}"]
            print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def drawn(
    n_items: int, spread: float, n_respondents: int, seed: int
) -> tuple[irtbench.ItemParameters, irtbench.ResponseMatrix]:
    """A bank and responses to all of it."""
    rng = np.random.default_rng(seed)
    a, b = rng.lognormal(0.2, 0.3, n_items), spread * rng.normal(size=n_items)
    items = irtbench.ItemParameters.from_difficulty(a, b)
    return items, irtbench.simulate_responses(rng.normal(size=n_respondents), items, rng=rng)


def compare_orders(n_respondents: int, seed: int) -> None:
    """Items asked until .3 in orders fixed beforehand, and where each item is chosen."""
    print("| bank | sd of b | item_order | information | random | chosen one by one |\n|---|---|---|---|---|---|")
    for n_items, spread in BANKS:
        items, responses = drawn(n_items, spread, n_respondents, seed)
        nodes = irtbench.normal_grid(61)
        each = nodes.weights @ irtbench.information(nodes.nodes, items)
        orders = (
            irtbench.item_order(items, se=GOAL),
            [items.item_ids[k] for k in np.argsort(-each)],
            np.random.default_rng(seed).permutation(items.item_ids).tolist(),
        )
        asked = [asked_in_order(items, responses, order) for order in orders]
        asked.append(float(irtbench.replay_adaptive(items, responses, se=GOAL, seed=seed).n_items.mean()))
        print(f"| {n_items} | {spread:g} | " + " | ".join(f"{mean:.1f}" for mean in asked) + " |", flush=True)


def asked_in_order(items: irtbench.ItemParameters, responses: irtbench.ResponseMatrix, order: Sequence[str]) -> float:
    """Mean number of items until .3, or all."""
    fresh = irtbench.Adaptive(items, se=GOAL)
    places = {item: k for k, item in enumerate(responses.item_ids)}
    numbers = []
    for row in responses.values:
        test = fresh.again()
        for item in order:
            if test.stopped:
                break
            test.record(item, row[places[item]])
        numbers.append(test.n_items)
    return float(np.mean(numbers))


def shortest(enough: Callable[[int], bool], longest: int) -> int:
    """The least length that is enough, by halving."""
    low, high = 1, longest
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def errors_on_form(items: irtbench.ItemParameters, responses: irtbench.ResponseMatrix, length: int) -> np.ndarray:
    """Standard errors of the respondents' abilities on the best form of a length."""
    form = irtbench.assemble_forms(items, length=length, objective="population").forms[0]
    return irtbench.estimate_ability(responses.select_items(form), items).standard_error


def rms(errors: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(errors**2)))


if __name__ == "__main__":
    main()
