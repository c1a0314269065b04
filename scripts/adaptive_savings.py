"""How many items an adaptive test saves at a standard error of .3 against a fixed form.

    python scripts/adaptive_savings.py [--respondents 300] [--seed 1]

Banks are drawn: slopes log-normal with mean of logarithms .2 and standard deviation .3, difficulties normal.
Respondents are drawn from the standard normal population and answer every item of the bank by its parameters. The
adaptive test ends at a posterior standard deviation of .3, or when no item is left. Fixed forms are the most
informative of their length for the population (``assemble_forms``): one as long as it must be for the same root mean
square of the standard error, one for 90% of the respondents to reach .3 (or as many as the adaptive test, if fewer).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
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
    arguments = parser.parse_args()
    print("| bank | sd of b | rule | items asked | reach .3 | same mean se: fixed | saved | 90% at .3: fixed | saved |")
    print("|---|---|---|---|---|---|---|---|---|")
    for n_items, spread in BANKS:
        rng = np.random.default_rng(arguments.seed)
        a, b = rng.lognormal(0.2, 0.3, n_items), spread * rng.normal(size=n_items)
        items = irtbench.ItemParameters.from_difficulty(a, b)
        theta = rng.normal(size=arguments.respondents)
        responses = irtbench.simulate_responses(theta, items, rng=rng)
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
