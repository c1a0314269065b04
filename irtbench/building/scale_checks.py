"""What is asked of a scale before any item leaves: one ability or two, and is guessing needed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from irtbench.analysis.factor_test import one_more_factor
from irtbench.analysis.guessing import GuessingTest, guessing_test
from irtbench.analysis.model_comparison import LikelihoodRatio, compare_models
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Shown, counted
from irtbench.diagnostics.global_fit import GlobalFit, global_fit_of_factors
from irtbench.estimation.factors import fit_factors
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import Device, FitSettings
from irtbench.models.item_parameters import ItemParameters

FEWEST_ITEMS = 4  # two abilities need more than three items
GUESSED = 0.05  # p of guessing, adjusted where it is of an item
GUESSING = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)  # of all items, tried against none
MOST_TESTED = 5_000  # respondents, of whom guessing is tested where there are more


@dataclass(frozen=True, eq=False)
class ScaleChecks(Shown):
    """Models of the items given, beside the 2PL with one ability.

    Parameters
    ----------
    models
        Information criteria of one and two abilities, a row a model.
    two_against_one
        Likelihood-ratio test of the second ability, with the p of a bootstrap where one was asked for.
    fit_of_two
        Global fit of two abilities.
    two_converged
        Whether the model with two abilities is a maximum.
    guessing
        Test of each item's guessing parameter.
    """

    models: pd.DataFrame
    two_against_one: LikelihoodRatio
    fit_of_two: GlobalFit
    two_converged: bool
    guessing: GuessingTest

    @property
    def n_guessing(self) -> int:
        """Items whose guessing parameter is needed at .05, after adjustment."""
        return int((self.guessing.p_adjusted < GUESSED).sum())

    def table(self) -> pd.DataFrame:
        """One row a model: the information criteria of one and two abilities."""
        return self.models

    def in_short(self) -> str:
        """What two abilities gain, and how many items are guessed."""
        gain = f"{self.two_against_one.statistic:.1f} with {self.two_against_one.df} more parameters"
        return f"two abilities gain a likelihood ratio of {gain}, {counted(self.n_guessing, 'item')} guessed"


def slopes_beside_guessing(
    responses: ResponseMatrix, fitted: FittedModel, known: float = 0.0
) -> tuple[ItemParameters, float] | None:
    """The items of a 3PL, and the guessing of all, where a 2PL without any was fitted and is significantly worse.

    Guessing flattens the slopes of a 2PL. Tested is one c of all items, for an item's own takes many respondents: half
    of P(chi-squared(1) >= 2 (log L at the best c - log L at 0)), since c = 0 lies on the boundary (Self & Liang, 1987).
    One that is `known` is not tested again.
    """
    settings = fitted.settings
    if settings.kind != "2pl" or settings.guessing or settings.by_item or responses.trials is not None:
        return None
    every = -(-responses.n_respondents // MOST_TESTED)
    some = responses.select_respondents(np.arange(responses.n_respondents) % every == 0).answered()
    if not known:
        each = {c: replace(settings, guessing=c).for_samples() for c in (0.0, *GUESSING)}
        fits = {c: fit_model(some, one) for c, one in each.items()}
        best = max(GUESSING, key=lambda c: fits[c].log_likelihood)
        ratio = 2 * (fits[best].log_likelihood - fits[0.0].log_likelihood)
        if not (fits[0.0].converged and chdtrc(1, max(0.0, ratio)) / 2 < GUESSED):
            return None  # where a slope grows without end the best c is better still
        known = best
    found = fit_model(some, FitSettings(kind="3pl", device=settings.device, standard_errors=False))
    return (found.items, known) if found.converged else None


def check_scale(
    responses: ResponsesLike, *, n_test_samples: int = 0, seed: int = 0, device: Device = "auto"
) -> ScaleChecks | None:
    """Compare one with two abilities, and test guessing item by item; None for fewer than four items.

    With ``n_test_samples`` the likelihood ratio of two abilities has a p, see `one_more_factor`; `device` is as in
    `FitSettings`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> irtbench.check_scale(responses)
    <ScaleChecks: two abilities gain a likelihood ratio of 1.9 with 5 more parameters, 0 items guessed>
    """
    responses = as_responses(responses)
    if responses.n_items < FEWEST_ITEMS:
        return None
    one, two = (fit_factors(responses, number, seed=seed, standard_errors=False, device=device) for number in (1, 2))
    return ScaleChecks(
        models=compare_models({"one ability": one, "two abilities": two}),
        two_against_one=one_more_factor(responses, one, two, n_samples=n_test_samples, seed=seed, device=device),
        fit_of_two=global_fit_of_factors(responses, two.slopes, two.intercept, n_parameters=two.n_parameters),
        two_converged=two.converged,
        guessing=guessing_test(responses, device=device),
    )
