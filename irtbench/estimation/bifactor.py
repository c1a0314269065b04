"""Items of a test with testlets: a general ability, and one for the items of each testlet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from irtbench.data.input_error import InputError, demand_choice, refuse_any
from irtbench.data.responses import name_first
from irtbench.estimation.driver import fenced
from irtbench.estimation.factors import SeveralAbilities, combined, find_abilities, moments, scores_table
from irtbench.estimation.fit import choose_device, choose_precision
from irtbench.estimation.fit_categories import Models
from irtbench.estimation.settings import Device, Precision
from irtbench.estimation.several_abilities.abilities_mode import ROOM
from irtbench.estimation.several_abilities.answers import Answers, ResponsesOrScores
from irtbench.estimation.several_abilities.bifactor_problem import bifactor_problem
from irtbench.estimation.several_abilities.rotation_freedom import Block
from irtbench.estimation.status import Stop
from irtbench.models.coded_scores import Levels
from irtbench.models.pyro_model.categories import ALONE, ItemGroups

AT_ZERO = 1e-3  # a specific slope below is at its bound
WHAT_ERRORS_ARE_OF = "of intercepts and of general and specific slopes, from the observed information"


@dataclass(frozen=True, eq=False, kw_only=True)
class BifactorModel(
    SeveralAbilities, short="{n_testlets:testlet}, {item_ids:item}, {n_respondents:respondent}, {outcome}"
):
    """A bifactor model, of right and wrong P = 1 / (1 + exp(-(a_0 theta_0 + a_s theta_s + d))), s the item's testlet.

    The general ability theta_0 and the specific abilities theta_s are independent and standard normal. The slopes are
    a_0 and a_s, the latter 0 for an item in no testlet; the sum of the slopes on every ability is positive.

    Parameters
    ----------
    testlets
        The testlet of each item; None for an item in none.
    alike
        Testlets whose items have one specific slope.
    single
        Items alone in their testlet, which are treated as being in none.
    item_ids, models, categories, slopes, intercepts, log_likelihood, n_respondents, status, covariance, nodes,
    integration_error, n_by_item, n_correct_by_item, log_binomial_coefficients
        As in `SeveralAbilities`; so are one_slope, rating_scale and n_shared.
    """

    testlets: tuple[str | None, ...]
    alike: tuple[str, ...] = ()
    single: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The testlets, in the order of their first items."""
        return tuple(dict.fromkeys(name for name in self.testlets if name is not None))

    @property
    def n_testlets(self) -> int:
        """Number of testlets."""
        return len(self.names)

    @property
    def stopped_because(self) -> str:
        """Why the iterations ended, in words."""
        equal = "take one specific slope for each testlet (--specific-slopes equal)"
        all_alike = set(self.alike) == set(self.names)
        if self.status.stop is Stop.AT_BOUND and not all_alike:
            return (
                f"{name_first(self.status.steep_items)}: slopes grow without end, for testlets have hardly anything of "
                f"their own in common; {equal}"
            )
        return self.status.in_words(instead="take fewer testlets" if all_alike else equal)

    @property
    def n_parameters(self) -> int:
        """General slopes, intercepts and specific slopes, less those that items share."""
        n_specific = sum(name is not None for name in self.testlets)
        return len(self.item_ids) + self.n_intercepts + n_specific - self.n_shared

    @property
    def steepest(self) -> NDArray[np.float64]:
        """General slopes, shape (n_items,)."""
        return self.slopes[:, 0]

    @property
    def rates(self) -> NDArray[np.float64]:
        """That of the general slope alone is 1."""
        return np.broadcast_to([1.0, 0.0], self.slopes.shape)

    @property
    def slope_names(self) -> Sequence[str]:
        """Of the general and the specific slope."""
        return "slope_general", "slope_specific"

    @property
    def determined(self) -> NDArray[np.bool_]:
        """A specific slope at its bound 0 has no standard error."""
        return np.column_stack([np.ones(len(self.slopes), dtype=np.bool_), np.abs(self.slopes[:, 1]) > AT_ZERO])

    @property
    def what_errors_are_of(self) -> str:
        """What the standard errors are of, in words."""
        return "not computed" if self.covariance is None else WHAT_ERRORS_ARE_OF

    @property
    def explained_common_variance(self) -> float:
        """Share of the general ability in what items have in common: squared loadings on it over all squared ones.

        (Reise, 2012)
        """
        general, specific = (self.loadings**2).sum(axis=0)
        return float(general / (general + specific))

    @property
    def omega(self) -> float:
        """Share of all abilities in the variance of the sum of the normal variables behind the responses."""
        general, specific, error = self._variance_of_sum()
        return (general + specific) / (general + specific + error)

    @property
    def omega_hierarchical(self) -> float:
        """Share of the general ability alone in that variance      (Zinbarg, Revelle, Yovel & Li, 2005)."""
        general, specific, error = self._variance_of_sum()
        return general / (general + specific + error)

    def _variance_of_sum(self) -> tuple[float, float, float]:
        """Variance by the general ability, by specific ones, and by neither."""
        general, specific = self.loadings.T
        by_testlet = [specific[[name == given for given in self.testlets]].sum() for name in self.names]
        unique = float((1 - (self.loadings**2).sum(axis=1)).sum())
        return float(general.sum() ** 2), float(np.square(by_testlet).sum()), unique

    def testlet_table(self) -> pd.DataFrame:
        """One row a testlet: its items, and the share of its own ability in what they have in common."""
        rows = []
        for name in self.names:
            squares = self.loadings[[name == given for given in self.testlets]] ** 2
            general, specific = squares.sum(axis=0)
            rows.append(
                {
                    "testlet": name,
                    "n_items": len(squares),
                    "share_specific": specific / (general + specific),
                    "equal_slopes": name in self.alike,
                }
            )
        return pd.DataFrame(rows)

    def table(self) -> pd.DataFrame:
        """One row an item, columns of items.csv; discrimination and difficulty are those on the general ability.

        That is, at the mean of the testlet's own: a_0 and -d / a_0. Over all specific abilities the curve on the
        general one is flatter, about a_0 / sqrt(1 + a_s^2 / 1.702^2).
        """
        return pd.DataFrame(
            {
                **self.item_columns("bifactor"),
                "testlet": pd.Series(self.testlets, dtype=object),
                "slope_specific": self.slopes[:, 1],
                "loading_general": self.loadings[:, 0],
                "loading_specific": self.loadings[:, 1],
                "se_slope_specific": self.standard_errors()["slope_specific"],
            }
        )

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        own = {
            "n_responses": int(self.n_by_item.sum()),
            "n_testlets": self.n_testlets,
            "testlets": self.testlet_table(),
            "equal_specific_slopes": list(self.alike),
            "single_items": list(self.single),
            "explained_common_variance": self.explained_common_variance,
            "omega": self.omega,
            "omega_hierarchical": self.omega_hierarchical,
        }
        return self.summarised("bifactor", own)


#: Whether specific slopes are the items' own or equal within a testlet.
SpecificSlopes = Literal["free", "equal"]
#: Which testlet each item is of: names by item, or a name or None for each item in order.
GroupsGiven = Mapping[str, str] | Sequence[str | None]


def fit_bifactor(
    responses: ResponsesOrScores,
    testlets: GroupsGiven,
    *,
    models: Models = "2pl",
    levels: Levels = None,
    specific_slopes: SpecificSlopes = "free",
    prior_guessing: str | None = None,
    tolerance: float = 1e-5,
    max_steps: int = 1000,
    standard_errors: bool = True,
    seed: int = 0,
    device: Device = "auto",
    dtype: Precision = "float64",
) -> BifactorModel:
    """Estimate a bifactor model by marginal maximum likelihood: items of a testlet share an ability of their own.

    Abilities are integrated out by dimension reduction (Gibbons & Hedeker, 1992): the cost is that of two abilities,
    however many testlets there are. The result is checked on other nodes.

    With free specific slopes a testlet whose items have hardly anything of their own in common makes one slope of two
    grow without end, as a doublet does in factor analysis; with equal ones, z = a_0 theta_0 + d + a_s theta_s (Wang &
    Wilson, 2005, there with a_0 = 1), the variance a_s^2 of what a respondent brings to the testlet is estimated, and
    goes to 0 where there is nothing. Of a testlet of two items only the product of the slopes could be known, and they
    are equal. Models of one slope (rasch or 1pl, pcm, rsm) have the same a_0 for all items, the general ability's
    standard deviation in logits, and equal specific slopes. An item alone in its testlet is treated as being in none.

    Parameters
    ----------
    responses
        As for `fit_factors`, right or wrong or in categories.
    testlets
        The testlet of each item: a mapping from item to testlet, in which items in none are left out, or a sequence
        with a name or None for each item.
    models, levels, prior_guessing
        As for `fit_factors`.
    specific_slopes
        Whether each item has a specific slope of its own, or the items of a testlet have the same.
    tolerance, max_steps
        Converged when no item is further from its maximum than this many of its standard errors; stop unconverged
        after so many steps.
    standard_errors
        Whether to compute them. Whether the observed information is positive definite is tested all the same.
    seed
        Of Pyro's random numbers, none of which are drawn.
    device, dtype
        As in `FitSettings`: where to compute, and the floating point numbers of the sums that steps are made of.

    Raises
    ------
    InputError
        If the data do not determine the parameters (see `fit_model`, `fit_categories`), a model is of one ability, no
        testlet has two items, or one has them all.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> passages = ["A"] * 4 + ["B"] * 4 + [None] * 2
    >>> general, own = rng.normal(size=(500, 1)), rng.normal(size=(500, 2))
    >>> z = 1.5 * general + np.hstack([1.2 * own[:, [0] * 4 + [1] * 4], np.zeros((500, 2))])
    >>> responses = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(int)
    >>> fitted = irtbench.fit_bifactor(responses, passages)
    >>> fitted
    <BifactorModel: 2 testlets, 10 items, 500 respondents, log-likelihood -3035.22, converged>
    >>> fitted.table()[["item_id", "testlet", "discrimination", "slope_specific"]].round(2).iloc[[0, 4, 9]]
      item_id testlet  discrimination  slope_specific
    0   item1       A            1.25            1.25
    4   item5       B            1.58            1.34
    9  item10    None            1.03            0.00
    >>> round(fitted.explained_common_variance, 2), round(fitted.omega_hierarchical, 2)
    (0.6, 0.7)
    """
    demand_choice("testlets: specific_slopes", specific_slopes, SpecificSlopes)
    answers = Answers.of(responses, models, levels, prior_guessing)
    names, single = groups_of_items(answers.given.item_ids, testlets)
    equal = specific_slopes == "equal" or answers.one_slope
    with fenced(seed), torch.no_grad():
        abilities = bifactor_problem(
            answers, numbered_groups(names), equal=equal, device=choose_device(device), dtype=choose_precision(dtype)
        )
        found = find_abilities(abilities, tolerance=tolerance, max_steps=max_steps, standard_errors=standard_errors)
    alike = tuple(name for name in dict.fromkeys(names) if name and (equal or names.count(name) == 2))
    whole, doubts = Block(np.arange(len(names)), np.arange(2), None), never_together(answers, names)
    return combined(
        BifactorModel,
        answers,
        2,
        [whole],
        [found],
        testlets=names,
        alike=alike,
        single=single,
        doubts=doubts,
    )


def groups_of_items(item_ids: Sequence[str], given: GroupsGiven) -> tuple[tuple[str | None, ...], tuple[str, ...]]:
    """The testlet of each item, None where it is in none, and the items alone in theirs; see `fit_bifactor`."""
    if isinstance(given, Mapping):
        names = [given.get(item) for item in item_ids]
    else:
        names = list(given)
        if len(names) != len(item_ids):
            raise InputError(f"testlets: {len(names)} names for {len(item_ids)} items; expected one for each, or None")
    single = tuple(item for item, name in zip(item_ids, names, strict=True) if name and names.count(name) == 1)
    kept = tuple(name if name and names.count(name) > 1 else None for name in names)
    refuse_any((
        (not any(kept),
         f"testlets: no two items are of one testlet ({name_first(item_ids)}); expected a testlet of two or more"),
        (len(set(kept)) == 1,
         f"testlets: all items are of one testlet, {kept[0]}; expected several testlets or items in none, for "
         "otherwise its ability cannot be distinguished from the general one"),
    ))  # fmt: skip
    return kept, single


def never_together(answers: Answers, testlets: Sequence[str | None]) -> tuple[str, ...]:
    """What is doubtful of testlets of which nobody answered two items."""
    given, of_item = answers.given.to_matrix().observed, np.array(testlets, dtype=object)
    names = [name for name in dict.fromkeys(testlets) if name and given[:, of_item == name].sum(axis=1).max() < 2]
    if not names:
        return ()
    return (
        f"no respondent answered two items of testlet {name_first(names)}: nothing is known of what its items have in "
        "common; expected some who did",
    )


def numbered_groups(names: Sequence[str | None]) -> ItemGroups:
    """Testlets by number, in the order of their first items."""
    numbers = {name: k for k, name in enumerate(dict.fromkeys(name for name in names if name is not None))}
    return ItemGroups(torch.tensor([ALONE if name is None else numbers[name] for name in names]))


def bifactor_scores(fitted: BifactorModel, responses: ResponsesOrScores, *, device: Device = "auto") -> pd.DataFrame:
    """Posterior mean and standard deviation of each respondent's general ability, specific ones integrated out.

    Parameters
    ----------
    fitted
        The model.
    responses
        Responses to its items, in any order; missing ones are left out.
    device
        As in `FitSettings`.

    Returns
    -------
    DataFrame
        Columns ``respondent_id, n_items, n_correct, accuracy, theta, se``. With several trials of an item
        ``n_correct`` and a last column ``n_trials`` count responses, and ``accuracy`` is the mean share right.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> z = 1.5 * rng.normal(size=(500, 1)) + 1.2 * rng.normal(size=(500, 2))[:, [0] * 4 + [1] * 4]
    >>> responses = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(int)
    >>> fitted = irtbench.fit_bifactor(responses, ["A"] * 4 + ["B"] * 4)
    >>> irtbench.bifactor_scores(fitted, responses).round(2).head(2)
      respondent_id  n_items  n_correct  accuracy  theta    se
    0            r1        8          5      0.62   0.92  0.57
    1            r2        8          3      0.38   0.16  0.45
    """
    answers = fitted.answers(responses)
    with torch.no_grad():
        abilities = bifactor_problem(answers, numbered_groups(fitted.testlets), device=choose_device(device))
        items = fitted.tensors(abilities.problem, np.arange(2), np.arange(len(fitted.item_ids)))
        problem = abilities.placed(items, room=ROOM).problem
        mean, deviation = moments(problem, items, problem.nodes.general)
    return scores_table(answers.given.to_matrix(), {"theta": mean, "se": deviation})
