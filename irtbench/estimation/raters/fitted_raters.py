"""What a fit of ratings found: raters, items, fair scores, and what more ratings would buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.polynomial.hermite_e import hermegauss

from irtbench.data.input_error import refuse_any
from irtbench.data.shown import Drawn
from irtbench.estimation.raters.ratings import RatingModel
from irtbench.estimation.status import InformationCriteria, Status
from irtbench.models.category_parameters import CategoryParameters


@dataclass(frozen=True, eq=False)
class FittedRaters(
    InformationCriteria,
    Drawn,
    short="{rater_table:rater}, {n_respondents:respondent}, {n_ratings:rating}, severity sd {rater_sd:.2f}, {outcome}",
):
    """Ability, items and raters of one set of ratings, on one scale of logits.

    Parameters
    ----------
    items
        The items as an average rater grades them: what `CategoryParameters` can do with them, for abilities on this
        scale.
    rater_table, item_table, score_table
        What `table`, `item_rows` and `scores` show.
    interactions
        A row a rater and group: ``rater_id``, the group, ``n, severity`` (what the rater adds to its own severity for
        this group, all else as estimated), ``se, z, p, p_adjusted``; None where none was asked for.
    model
        Which parameters there are.
    learnt
        Whether raters' parameters are drawn from normal distributions whose variances are learnt.
    ability_sd, se_ability_sd
        Standard deviation of ability; 1 and NaN where the items' slopes are free.
    answer_sd, se_answer_sd
        Standard deviation of what the raters of one answer share beyond ability; NaN where it was not asked for.
    rater_sd
        Standard deviation of the raters' true severities, learnt or by the method of moments.
    separation
        Reliability of the severities: the share of their variance that is not error.
    log_likelihood
        Marginal over abilities (and answers), at the estimates; over raters as well where these are learnt (Laplace's
        approximation; NaN without standard errors).
    n_estimated, n_respondents, n_ratings, n_parts
        Parameters, sizes, and parts of the design that nothing connects.
    status
        How the steps ended.
    doubts
        What speaks against reading the figures as they are, a sentence each.
    """

    items: CategoryParameters
    rater_table: pd.DataFrame
    item_table: pd.DataFrame
    score_table: pd.DataFrame
    interactions: pd.DataFrame | None
    model: RatingModel
    learnt: bool
    ability_sd: float
    se_ability_sd: float
    answer_sd: float
    se_answer_sd: float
    rater_sd: float
    separation: float
    log_likelihood: float
    n_estimated: int
    n_respondents: int
    n_ratings: int
    n_parts: int
    status: Status
    doubts: tuple[str, ...]

    @property
    def n_parameters(self) -> int:
        """Number of estimated parameters; of raters drawn from a normal distribution its variance counts alone."""
        return self.n_estimated

    @property
    def stopped_because(self) -> str:
        """Why there is no maximum; empty where there is one."""
        return "" if self.converged else "the steps did not settle: there are too few ratings"

    def table(self) -> pd.DataFrame:
        """One row a rater.

        ``rater_id, n, mean_score, severity, se, severity_lower, severity_upper`` (logits; 0 is the average rater, of
        the rater's part where there are several), where asked for ``consistency, se_consistency`` (1 is the average)
        and ``step_k, se_step_k``, then ``infit, outfit, part, flags``: severe or lenient where an interval of 95%
        adjusted for the number of raters leaves out 0, erratic or muted where infit is above 1.5 or below 0.5, apart
        where the rater is not of the largest part.
        """
        return self.rater_table.copy()

    def item_rows(self) -> pd.DataFrame:
        """One row an item: ``item_id, n, mean_score, n_categories, discrimination, difficulty, step_k``, errors, fit.

        A step is the ability at which its two categories are equally likely (partial credit), or at which
        reaching the upper one is (graded), with an average rater; difficulty is their mean.
        """
        return self.item_table.copy()

    def scores(self) -> pd.DataFrame:
        """One row a respondent.

        ``respondent_id, n_ratings, n_raters, mean_score, theta, se, theta_lower, theta_upper, fair_score, se_fair,
        fair_lower, fair_upper``. Theta is the posterior mean. The fair score is the mean over all items of the score
        that an average rater is expected to give at theta. Both errors hold that of the raters and items; that of
        theta is about the mean of these respondents, for a shift common to all is no difference between them.
        """
        return self.score_table.copy()

    def precision(self, n_ratings: int | Sequence[int], *, per_answer: int = 1) -> pd.DataFrame:
        """What so many ratings by average raters buy: ``n_ratings, se, reliability`` of ability.

        The posterior variance is 1 / (1 / sd^2 + n I(theta)), I the mean information of the items, averaged over
        theta ~ N(0, sd^2); reliability is one less its share of sd^2.

        Parameters
        ----------
        n_ratings
            Ratings of a respondent, one number or several.
        per_answer
            How many of them are of one answer: with k ratings of an answer of effect sigma, the k informations I of
            it count as k I / (1 + k I sigma^2).

        Raises
        ------
        InputError
            If a number is below 1, or several ratings of an answer are asked of a fit without its effect.
        """
        numbers = np.atleast_1d(np.asarray(n_ratings, dtype=np.int64))
        refuse_any((
            (bool((numbers < 1).any()) or per_answer < 1, "precision: expected numbers of ratings of at least 1"),
            (per_answer > 1 and not self.model.answer_effect,
             "precision: what several ratings of one answer share is not known; expected a fit with "
             "answer_effect=True, or per_answer 1"),
        ))  # fmt: skip
        x, w = hermegauss(41)
        information = self.items.information(self.ability_sd * x)
        shared = self.answer_sd**2 if self.model.answer_effect else 0.0
        each = (information / (1 + per_answer * information * shared)).mean(axis=1)
        variance = np.array([(w / w.sum()) @ (1 / (1 / self.ability_sd**2 + n * each)) for n in numbers])
        reliability = 1 - variance / self.ability_sd**2
        return pd.DataFrame({"n_ratings": numbers, "se": np.sqrt(variance), "reliability": reliability})

    def summary(self) -> dict[str, object]:
        """The single figures, as raters.json holds them."""
        return self.criteria() | {
            "model": self.model.curve,
            "raters": "learnt" if self.learnt else "fixed",
            "n_raters": len(self.rater_table),
            "n_items": len(self.item_table),
            "n_ratings": self.n_ratings,
            "n_parts": self.n_parts,
            "ability_sd": self.ability_sd,
            "se_ability_sd": self.se_ability_sd,
            "answer_sd": self.answer_sd,
            "se_answer_sd": self.se_answer_sd,
            "rater_sd": self.rater_sd,
            "separation": self.separation,
            "converged": self.converged,
            "stopped_because": self.stopped_because,
            "steps": self.steps,
            "doubts": list(self.doubts),
        }
