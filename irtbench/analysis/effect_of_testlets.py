"""Do testlets matter: the bifactor model against one ability, and what testlets do to the error of ability."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from irtbench.analysis.model_comparison import LikelihoodRatio, compare_models, likelihood_ratio
from irtbench.data.input_error import InputError
from irtbench.data.shown import Shown
from irtbench.estimation.bifactor import BifactorModel, bifactor_scores, fit_bifactor
from irtbench.estimation.dispersion import p_on_boundary
from irtbench.estimation.factors import FactorModel, factor_scores, fit_factors
from irtbench.estimation.settings import Device
from irtbench.estimation.several_abilities.answers import ResponsesOrScores

ONE, EQUAL, FREE = "one ability", "bifactor, equal slopes", "bifactor, free slopes"


@dataclass(frozen=True, eq=False)
class EffectOfTestlets(Shown):
    """What testlets add to one ability.

    Parameters
    ----------
    one_ability, equal_slopes, bifactor
        The models without testlets, with one specific slope for each, and the one asked about, which may have these.
    test
        Likelihood ratio of equal slopes against one ability: is there any effect.
    abilities
        A row a respondent: ``respondent_id, n_items, n_correct, accuracy, theta, se`` of the general ability of the
        model asked about, and ``theta_one_ability, se_one_ability`` of the model without testlets.
    """

    one_ability: FactorModel
    equal_slopes: BifactorModel
    bifactor: BifactorModel
    test: LikelihoodRatio
    abilities: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """Information criteria of the models, a row a model, see `compare_models`; and whether they converged."""
        models = {ONE: self.one_ability, EQUAL: self.equal_slopes}
        if self.bifactor is not self.equal_slopes:
            models[FREE] = self.bifactor
        return compare_models(models).assign(converged=[model.converged for model in models.values()])

    @property
    def preferred(self) -> dict[str, str]:
        """The model of smallest ``aic`` and ``bic`` among those that have converged; ``none`` if none has."""
        table = self.table().set_index("model").query("converged")
        return {name: "none" if table.empty else str(table[name].idxmin()) for name in ("aic", "bic")}

    @property
    def mean_error(self) -> tuple[float, float]:
        """Root mean square of theta's standard error with testlets and without."""
        errors = (self.abilities[name] for name in ("se", "se_one_ability"))
        with_testlets, without = (float(np.sqrt(np.mean(np.square(error)))) for error in errors)
        return with_testlets, without

    @property
    def correlation(self) -> float:
        """Of the abilities with testlets and without."""
        return float(np.corrcoef(self.abilities["theta"], self.abilities["theta_one_ability"])[0, 1])

    def summary(self) -> dict[str, Any]:
        """What fit.json holds besides the model itself."""
        with_testlets, without = self.mean_error
        return {
            "models": self.table(),
            "likelihood_ratio_test": vars(self.test),
            "preferred": self.preferred,
            "mean_se": with_testlets,
            "mean_se_one_ability": without,
            "correlation_with_one_ability": self.correlation,
        }

    def in_words(self) -> list[str]:
        """Whether testlets matter and what they do to the error of ability, a sentence each."""
        test, preferred, model = self.test, self.preferred, self.bifactor
        converged = self.table()["converged"]
        choice = f"{preferred['aic']} by AIC, {preferred['bic']} by BIC"
        if preferred["aic"] == preferred["bic"]:
            choice = f"{preferred['aic']} by AIC and BIC"
        if not converged.all():
            choice = f"{choice}, of those that converged" if converged.any() else "none, for none has converged"
        with_testlets, without = self.mean_error
        ratio = f"likelihood ratio {test.statistic:.1f}, p = {test.p:.3g} by a mixture of chi-squares"
        sentences = [
            f"model preferred: {choice}",
            f"any effect of testlets (equal slopes against none): {test.note or ratio}",
        ]
        if not model.converged:
            return sentences
        return [
            *sentences,
            f"explained common variance {model.explained_common_variance:.3f} (share of the general ability), "
            f"omega {model.omega:.3f}, omega_h {model.omega_hierarchical:.3f}",
            f"standard error of theta: {with_testlets:.3f} with testlets, {without:.3f} as if there were none "
            f"({with_testlets / without - 1:+.0%}); the two abilities correlate {self.correlation:.3f}",
        ]

    def in_short(self) -> str:
        """The likelihood ratio, the models preferred and the share of the general ability."""
        return (
            f"likelihood ratio {self.test.statistic:.1f}, p {self.test.p:.3g}, {self.preferred['bic']} by BIC, "
            f"explained common variance {self.bifactor.explained_common_variance:.2f}"
        )


def effect_of_testlets(
    responses: ResponsesOrScores, fitted: BifactorModel, *, seed: int = 0, device: Device = "auto"
) -> EffectOfTestlets:
    """Compare a model with testlets to that of one ability, and their abilities.

    With one specific slope for each testlet, of which but the square is in the likelihood, one ability is the model on
    the boundary where these variances are all 0. The likelihood ratio is then distributed as a mixture of chi-squares
    with 0, 1, ... degrees of freedom (Self & Liang, 1987), here with the weights of testlets that are independent of
    each other, those of a binomial distribution. With free slopes it has no such distribution: at one ability their
    directions are not determined. So the test is that of equal slopes, and free ones are compared by AIC and BIC.

    Parameters
    ----------
    responses
        The responses that the model was fitted to.
    fitted
        The model with testlets.
    seed
        As for `fit_factors`.
    device
        As in `FitSettings`.

    Raises
    ------
    InputError
        If the responses are not those of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> z = 1.5 * rng.normal(size=(300, 1)) + 1.2 * rng.normal(size=(300, 2))[:, [0] * 4 + [1] * 4]
    >>> responses = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(int)
    >>> fitted = irtbench.fit_bifactor(responses, ["A"] * 4 + ["B"] * 4, specific_slopes="equal")
    >>> found = irtbench.effect_of_testlets(responses, fitted)
    >>> found.preferred["bic"], round(found.test.statistic, 1)
    ('bifactor, equal slopes', 92.3)
    >>> [round(error, 2) for error in found.mean_error]
    [0.68, 0.52]
    """
    data = fitted.answers(responses)
    if data.given.n_respondents != fitted.n_respondents:
        raise InputError("testlets: expected the responses that the model was fitted to")
    one_ability = fit_factors(data, 1, seed=seed, standard_errors=False, device=device)
    equal = fitted
    if set(fitted.alike) != set(fitted.names):
        equal = fit_bifactor(
            data, fitted.testlets, specific_slopes="equal", standard_errors=False, seed=seed, device=device
        )
    test = likelihood_ratio(one_ability, equal, on_boundary=True)
    if one_ability.converged and equal.converged:
        test = replace(test, p=p_on_boundary(test.statistic, fitted.n_testlets))
    else:
        test = replace(test, p=np.nan, note="no test, for a model without a maximum has no likelihood ratio")
    general = bifactor_scores(fitted, data, device=device)
    alone = factor_scores(one_ability, data, seed=seed, device=device)
    abilities = general.assign(theta_one_ability=alone["theta_1"], se_one_ability=alone["se_1"])
    return EffectOfTestlets(one_ability, equal, fitted, test, abilities)
