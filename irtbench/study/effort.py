"""Which commands and which prior suit a data set, and roughly how long they take and what they hold in memory.

The figures are of one processor of 2026 and give the order of magnitude. Measured (seconds of processor time,
start of the program left out): 2PL 1,000 x 400 .26, 20,000 x 50 .28; 3PL 2,000 x 100 .71; prior hierarchical 100 x 500
3.6, 100 x 1,500 6.6; 19 samples of the bootstrap of local dependence at 1,000 x 30 .49, at 4,000 x 30 .83. Whole
commands: `fit --prior hierarchical` of 90 systems x 1,157 items 30 (21 expected), `build` of the shipped crowd study,
1,000 x 90 in three scales, 17 (29 expected).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from irtbench.building.prune_rules import FEWEST_ITEMS
from irtbench.data.responses import Responses
from irtbench.data.shown import Figures
from irtbench.estimation.settings import FEWEST_RESPONDENTS

FEW_RESPONSES = 10  # to an item, or by a respondent: what they say of either is next to nothing
FEW_PER_ITEM = 50  # responses to the median item, below which a prior is learnt from the items
SOME_PER_ITEM = 200  # the same, below which a weak prior is taken
MANY_PER_ITEM = 1_000  # the same, from which items that outnumber respondents need no prior learnt from them
START = 5.0  # seconds until torch and Pyro are there
PER_CELL = {"none": 5e-7, "weak": 5e-7, "hierarchical": 1.5e-4}  # seconds of a 2PL for each respondent and item
ROUNDS = 3  # of pruning
BOOTSTRAP, BOOTSTRAP_PER_CELL = 2.0, 2e-5  # seconds of a round, and for each respondent and item of a scale
PROGRAM, BYTES_PER_CELL = 350, 60  # MiB of the libraries, and what a fit holds for each respondent and item
MOST_PAIRS = 100_000  # of systems; nobody reads a table of more

Prior = Literal["none", "weak", "hierarchical"]


@dataclass(frozen=True)
class Shape:
    """What the advice goes by."""

    n_respondents: int
    n_items: int
    per_item: float
    graded: bool
    has_answers: bool
    n_scales: int = 1
    some_apart: bool = False

    @property
    def cells(self) -> int:
        """Respondents x items."""
        return self.n_respondents * self.n_items


@dataclass(frozen=True)
class CommandAdvice(Figures):
    """Whether a command works on the data, why, and roughly how long it takes (seconds) and holds (MiB)."""

    command: str
    works: bool
    why: str
    seconds: float | None = None
    megabytes: float | None = None


def choose_prior(shape: Shape) -> tuple[Prior, str]:
    """The prior of `fit` that suits the data, and why."""
    if shape.n_items > shape.n_respondents and shape.per_item < MANY_PER_ITEM:
        return "hierarchical", (
            f"{shape.n_items} items outnumber {shape.n_respondents} respondents: the prior is learnt from the items"
        )
    if shape.per_item < FEW_PER_ITEM:
        return "hierarchical", f"{shape.per_item:g} responses to the median item: the prior is learnt from the items"
    apart = (
        shape.some_apart and shape.n_items <= shape.n_respondents
    )  # of more items the weak prior would set the scale
    if apart or shape.per_item < SOME_PER_ITEM:
        why = "some items were answered differently by one respondent alone" if shape.some_apart else (
            f"{shape.per_item:g} responses to the median item"
        )  # fmt: skip
        return "weak", f"{why}: it keeps slopes finite"
    return "none", f"{shape.per_item:g} responses to the median item suffice for maximum likelihood"


def prior_for(responses: Responses) -> tuple[Prior, str]:
    """The prior of `fit` that suits these responses, and why."""
    n, right = responses.n_by_item, responses.proportion_correct() * responses.n_by_item
    rarer = np.minimum(right, n - right)
    varied = rarer > 0  # not of an item without a response
    shape = Shape(
        n_respondents=responses.n_respondents,
        n_items=int(varied.sum()),
        per_item=float(np.median(n[varied])) if varied.any() else 0.0,
        graded=True,
        has_answers=False,
        some_apart=bool((varied & (rarer.round() == 1) & (n >= FEW_RESPONSES)).any()),
    )
    return choose_prior(shape)


def advise(shape: Shape, prior: Prior, obstacles: tuple[str, ...]) -> tuple[CommandAdvice, ...]:
    """What each command can do with the data; `obstacles` are the findings that stop every fit, in a few words."""
    megabytes = PROGRAM + BYTES_PER_CELL * shape.cells / 2**20
    one_fit = START + PER_CELL[prior] * shape.cells
    per_scale = shape.cells / max(1, shape.n_scales)
    built = START + shape.n_scales * ROUNDS * (BOOTSTRAP + BOOTSTRAP_PER_CELL * per_scale)
    built += ROUNDS * PER_CELL[prior] * shape.cells
    stop = _obstacle(shape, obstacles)
    fits = stop == ""
    of_responses = "takes graded responses; build grades answers by their key" if shape.has_answers else stop
    alone = of_responses == ""
    too_few = ""
    if fits and shape.n_items <= FEWEST_ITEMS:
        too_few = f"{shape.n_items} items; expected more than {FEWEST_ITEMS}"
    elif fits and shape.n_items > shape.n_respondents:
        too_few = "item fit and local dependence say little with more items than respondents; fit them"
    builds = fits and not too_few
    advice = "irtbench init writes its study file" + ("" if prior == "none" else f'; [model] prior = "{prior}"')
    pairs = shape.n_respondents * (shape.n_respondents - 1) // 2
    compared = f"{pairs} pairs of respondents" + ("" if pairs <= MOST_PAIRS else ": too many")
    compared += "; with --bank, whose key grades" * shape.has_answers
    return (
        CommandAdvice("fit", alone, of_responses or f"--prior {prior}", one_fit if alone else None, megabytes),
        CommandAdvice(
            "items diagnose", alone, of_responses or "after fit, on its items.csv",
            START + BOOTSTRAP + BOOTSTRAP_PER_CELL * shape.cells if alone else None, megabytes,
        ),
        CommandAdvice(
            "build", builds, too_few or stop or advice, built if builds else None, None if too_few else megabytes
        ),
        CommandAdvice("compare", 0 < pairs <= MOST_PAIRS, compared if pairs else "needs two systems or more"),
        CommandAdvice(
            "crowd agree", shape.has_answers, "raw answers are there" if shape.has_answers else "needs raw answers"
        ),
        CommandAdvice("score", True, "with a bank of these items"),
    )  # fmt: skip


def _obstacle(shape: Shape, obstacles: tuple[str, ...]) -> str:
    if not shape.graded:
        return f"first: {', '.join(obstacles)}" if obstacles else "answers are not graded: --items with their key"
    if shape.n_respondents < FEWEST_RESPONDENTS:
        return f"{shape.n_respondents} respondents; expected at least {FEWEST_RESPONDENTS}"
    if shape.n_items == 0:
        return "no item was answered right by some and wrong by others"
    return f"first: {', '.join(obstacles)}" if obstacles else ""
