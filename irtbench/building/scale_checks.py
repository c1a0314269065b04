"""What is asked of a scale before any item leaves: one ability or two, and is guessing needed."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from irtbench.analysis.factor_test import one_more_factor
from irtbench.analysis.guessing import GuessingTest, guessing_test
from irtbench.analysis.model_comparison import LikelihoodRatio, compare_models
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.shown import Shown, counted
from irtbench.diagnostics.global_fit import GlobalFit, global_fit_of_factors
from irtbench.estimation.factors import fit_factors
from irtbench.estimation.settings import Device

FEWEST_ITEMS = 4  # two abilities need more than three items


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
        return int((self.guessing.p_adjusted < 0.05).sum())

    def table(self) -> pd.DataFrame:
        """One row a model: the information criteria of one and two abilities."""
        return self.models

    def in_short(self) -> str:
        """What two abilities gain, and how many items are guessed."""
        gain = f"{self.two_against_one.statistic:.1f} with {self.two_against_one.df} more parameters"
        return f"two abilities gain a likelihood ratio of {gain}, {counted(self.n_guessing, 'item')} guessed"


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
