"""Next to scores.csv: percentiles in groups of the norm sample, plausible values, surprising answers (NumPy only)."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.bank import ItemBank
from irtbench.bank.scale import Scale
from irtbench.data.checked_settings import shows_fields, with_keywords
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, demand_share
from irtbench.data.items import UnknownItems
from irtbench.data.responses import ResponseMatrix, demand_single
from irtbench.data.shown import Shown, counted
from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import STANDARD_NORMAL, Posterior, ability_posterior, posterior_of
from irtbench.scoring.item_error import draw_items
from irtbench.scoring.percentiles import percentiles
from irtbench.scoring.scores import (
    ScoringKeywords,
    ScoringSettings,
    in_order_of_respondents,
    item_error_on,
    known_responses,
    own_responses,
    score_abilities,
)

COLUMNS = (
    *("respondent_id", "scale", "column", "value", "n_people"),
    *("percentile", "percentile_lower", "percentile_upper"),
)


@shows_fields(ScoringSettings)
def percentiles_by_group(
    bank: ItemBank | Scale,
    responses: ResponsesLike,
    columns: Sequence[str],
    settings: ScoringSettings | None = None,
    *,
    most_values: int = 12,
    unknown_items: UnknownItems = "error",
    **keywords: Unpack[ScoringKeywords],
) -> pd.DataFrame:
    """Percentile of each respondent in each group of the norm samples.

    Theta is the same for all groups; only the people change that it is compared with. The norm is that of the settings,
    and ``smoothed`` where that is ``normal``, which knows no groups.

    Parameters
    ----------
    bank
        A bank, or one scale.
    responses
        Graded responses (a matrix, array or data frame: `as_responses`) of people or systems.
    columns
        Columns of the norm samples' respondents.
    settings
        As for ``score_responses``; its own norm group is left aside.
    most_values
        Of a column of more values than this the groups of most people.
    unknown_items
        What items mean that no scale has: an error that names the first five, or nothing.
    keywords
        Of the settings.

    Returns
    -------
    DataFrame
        A row for each respondent, scale, column and value, the groups of most people first: ``respondent_id, scale,
        column, value, n_people, percentile, percentile_lower, percentile_upper``.

    Raises
    ------
    InputError
        As ``score_responses``.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> people = irtbench.Norms([-0.4, 0.1, 0.9, 1.2], groups={"country": ("de", "de", "fr", "fr")})
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids), people)
    >>> found = irtbench.percentiles_by_group(scale, [[1, 1, 1, 0, 1, 0]], ["country"])
    >>> found[["respondent_id", "value", "n_people", "percentile"]].round(0)
      respondent_id value  n_people  percentile
    0            r1    de         2        84.0
    1            r1    fr         2         6.0
    """
    responses, scales = known_responses(bank, responses, unknown_items)
    settings = replace(with_keywords(settings or ScoringSettings(), keywords), norm_group=None)
    norm = "smoothed" if settings.norm == "normal" else settings.norm
    tables = []
    for scale in scales:
        if scale.norms is None:
            continue
        abilities = score_abilities(scale, own_responses(scale.items.item_ids, responses), settings)
        for column in columns:
            values = Counter(value for value in scale.norms.groups.get(column, ()) if value is not None)
            for value, n_people in values.most_common(most_values):
                place = percentiles(abilities, scale.norms.group(column, value), norm=norm, population=scale.population)
                tables.append(
                    pd.DataFrame(
                        {
                            "respondent_id": responses.respondent_ids,
                            "scale": scale.name,
                            "column": column,
                            "value": value,
                            "n_people": n_people,
                            "percentile": place.percentile,
                            "percentile_lower": place.lower,
                            "percentile_upper": place.upper,
                        }
                    )
                )
    return in_order_of_respondents(tables) if tables else pd.DataFrame(columns=COLUMNS)


def with_groups(scores: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """scores.csv with the percentiles in each group at its end: ``percentile:country=de``, and its two ends."""
    keys, found = ["respondent_id", "scale"], scores
    for (column, value), rows in groups.groupby(["column", "value"], sort=False):
        names = {name: f"{name}:{column}={value}" for name in ("percentile", "percentile_lower", "percentile_upper")}
        found = found.merge(rows[[*keys, *names]].rename(columns=names), on=keys, how="left", validate="one_to_one")
    return found


def with_plausible_values(
    scores: pd.DataFrame,
    bank: ItemBank,
    responses: ResponseMatrix,
    settings: ScoringSettings,
    n_values: int,
    *,
    of_many: bool = False,
) -> pd.DataFrame:
    """Rows of scores.csv with draws of ability at their end, ``pv1, pv2, ...``; NaN where nothing was answered.

    Of one block of many the draws of abilities are its own, by the name of its first respondent; those of the items are
    the same for all blocks.
    """
    names, rng = [f"pv{k + 1}" for k in range(n_values)], np.random.default_rng(settings.seed)
    of_items = rng
    if of_many:
        rng = np.random.default_rng([settings.seed, zlib.crc32(responses.respondent_ids[0].encode())])
    parts = []
    for scale in bank.scales:
        own = own_responses(scale.items.item_ids, responses)
        carried = item_error_on(scale, settings) != "none" and scale.items.covariance is not None
        drawn = plausible_values(
            own, scale.items, n_values=n_values, rng=rng, quadrature=scale.population,
            n_item_draws=n_values if carried else 0, item_rng=of_items,
        )  # fmt: skip
        drawn[own.n_by_respondent == 0] = np.nan
        part = pd.DataFrame(drawn, columns=names)
        parts.append(part.assign(respondent_id=own.respondent_ids, scale=scale.name))
    return scores.merge(pd.concat(parts), on=["respondent_id", "scale"], how="left", validate="one_to_one")


def plausible_values(
    responses: ResponsesLike,
    items: ParametersLike,
    *,
    n_values: int = 5,
    rng: np.random.Generator,
    quadrature: Quadrature | None = None,
    n_item_draws: int = 0,
    item_rng: np.random.Generator | None = None,
) -> NDArray[np.float64]:
    """Draw abilities of each respondent from the posterior, shape (n_respondents, n_values).

    Point estimates misstate a group's distribution: EAPs vary too little, ML estimates too much. Statistics computed
    from plausible values, column by column and then averaged, do not (Mislevy, 1991).

    Parameters
    ----------
    responses, items, quadrature
        As for ``ability_posterior``.
    n_values
        Values of each respondent.
    rng
        The random numbers.
    n_item_draws
        So many sets of items are drawn from their sampling distribution, and each gives its share of the values to
        all respondents at once: what respondents share, their values then share. 0: the items count as known.
    item_rng
        The random numbers of these items, where others are drawn for with the same; None for `rng`.

    Raises
    ------
    InputError
        If there are fewer than one value of each, or than no draws of the items.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> values = irtbench.plausible_values(responses, items, rng=rng)
    >>> values.shape, values.std(axis=0).round(1)
    ((300, 5), array([1. , 1.1, 1. , 1. , 1. ]))
    """
    responses, items = responses_and_items(responses, items, categories=True)
    if n_values < 1 or n_item_draws < 0:
        raise InputError("plausible values: expected at least one of each, and none or more draws of the items")
    if n_item_draws == 0:
        return ability_posterior(responses, items, quadrature=quadrature).draw(n_values, rng=rng)
    each, extra = divmod(n_values, n_item_draws)
    shares = [each + (k < extra) for k in range(min(n_item_draws, n_values))]
    return np.concatenate(
        [
            ability_posterior(responses, drawn, quadrature=quadrature).draw(share, rng=rng)
            for drawn, share in zip(draw_items(items, len(shares), rng=item_rng or rng), shares, strict=True)
        ],
        axis=1,
    )


LEAST_CHANCE = 1e-12  # of a response, where a curve touches 0 or 1
LEVEL_COLUMNS = [
    *("respondent_id", "scale", "level", "difficulty_from", "difficulty_to", "n_items"),
    *("observed", "expected", "expected_lower", "expected_upper", "z"),
]


@dataclass(frozen=True, eq=False)
class Explanation(Shown):
    """Where responses differ from those of people of the same ability.

    Parameters
    ----------
    items
        A row for each response: ``respondent_id, scale, item_id, difficulty, response, expected, surprise``.
        ``expected`` is the share of people of that ability who get the item right, the item itself left out of the
        ability; ``surprise`` is ``missed`` or ``right`` where the response given had a chance below the limit, else
        empty.
    difficulty
        A row for each respondent, scale and level of difficulty, easy to hard: ``respondent_id, scale, level,
        difficulty_from, difficulty_to, n_items, observed, expected, expected_lower, expected_upper, z``. ``observed``
        and ``expected`` are accuracies, the interval is where the observed one falls with 95% probability for people
        of that ability.
    """

    items: pd.DataFrame
    difficulty: pd.DataFrame

    @classmethod
    def together(cls, parts: Iterable[Explanation]) -> Explanation:
        """Those of several scales, or of several files, one behind the other."""
        items, difficulty = zip(*((part.items, part.difficulty) for part in parts), strict=True)
        return cls(pd.concat(items, ignore_index=True), pd.concat(difficulty, ignore_index=True))

    def surprises(self) -> pd.DataFrame:
        """The surprising responses only, the least likely first for each respondent and scale."""
        rows = self.items[self.items["surprise"] != ""]
        given = np.where(rows["response"] == 1, rows["expected"], 1 - rows["expected"])
        return (
            rows.assign(chance=given)
            .sort_values(["respondent_id", "scale", "chance"], kind="stable")
            .reset_index(drop=True)
        )

    def table(self) -> pd.DataFrame:
        """The same as `surprises`, columns of surprises.csv."""
        return self.surprises()

    def in_short(self) -> str:
        """How many responses, and how many of them surprise."""
        return f"{counted(len(self.items), 'response')}, {int((self.items['surprise'] != '').sum())} of them surprising"


def explain_all(bank: ItemBank, responses: ResponsesLike, *, unknown_items: UnknownItems = "error") -> Explanation:
    """The explanations of all scales of a bank in one; see ``explain``.

    Raises
    ------
    InputError
        If an item is unknown and ``unknown_items`` is ``error``, or no item is known.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> irtbench.explain_all(irtbench.ItemBank((scale,)), [[0, 0, 1, 1, 1, 1]])
    <Explanation: 6 responses, 2 of them surprising>
    """
    responses, scales = known_responses(bank, responses, unknown_items)
    return Explanation.together(explain(scale, responses) for scale in scales)


def explain(scale: Scale, responses: ResponsesLike, *, surprising_below: float = 0.1, n_levels: int = 5) -> Explanation:
    """Compare each respondent's responses with those of people of the same ability.

    An item's expected response is E(P_j | the other responses) = sum_q p_q P_jq / sum_q p_q with p_q the posterior
    without item j, which is the posterior divided by the chance of the response given. Levels of difficulty divide the
    scale's items into parts of equal number by b, the ability where a curve is steepest. Expected accuracy within a
    level is the mean of P_j over the whole posterior, its variance that of the accuracy drawn from it:
    E(sum P (1 - P)) + Var(sum P).

    Parameters
    ----------
    scale
        The items and their population.
    responses
        Graded responses (a matrix, array or data frame: `as_responses`); items that the scale has not are left aside.
    surprising_below
        A response is surprising if people of that ability give it more rarely than this.
    n_levels
        Parts of the items by difficulty.

    Raises
    ------
    InputError
        If there are several trials of an item, ``surprising_below`` lies outside (0, 1), or there is no level.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> found = irtbench.explain(scale, [[0, 0, 1, 1, 1, 1]])
    >>> found
    <Explanation: 6 responses, 2 of them surprising>
    >>> found.table()[["item_id", "response", "expected", "surprise"]].round(2)
      item_id  response  expected surprise
    0   item1         0      0.97   missed
    1   item2         0      0.92   missed
    """
    responses = as_responses(responses, item_ids=scale.items.item_ids)
    demand_single(responses, "an explanation of surprises")
    demand_share("explanation: surprising_below", surprising_below)
    if n_levels < 1:
        raise InputError(f"explanation: expected at least one level but got {n_levels}")
    own = own_responses(scale.items.item_ids, responses)
    items = scale.items.select(own.item_ids)
    posterior = posterior_of(own.values, items, scale.population or STANDARD_NORMAL)
    expected, right = _expected(own, posterior, items), own.values == 1
    chance, kind = np.where(right, expected, 1 - expected), np.where(right, "right", "missed")
    rows, columns = np.nonzero(own.observed)
    table = pd.DataFrame(
        {
            "respondent_id": np.array(own.respondent_ids, dtype=object)[rows],
            "scale": scale.name,
            "item_id": np.array(own.item_ids, dtype=object)[columns],
            "difficulty": items.difficulty[columns],
            "response": own.values[rows, columns].astype(np.int8),
            "expected": expected[rows, columns],
            "surprise": np.where(chance < surprising_below, kind, "")[rows, columns],
        }
    )
    rank = np.searchsorted(np.sort(scale.items.difficulty), items.difficulty)  # infinite ones are at the ends
    level_of = rank * n_levels // scale.items.n_items
    levels = [_accuracy(own, posterior, items, level_of == level).assign(level=level + 1) for level in range(n_levels)]
    by_level = pd.concat(levels).assign(scale=scale.name)[LEVEL_COLUMNS]
    return Explanation(table, by_level.sort_values(["respondent_id", "level"], kind="stable", ignore_index=True))


def _expected(own: ResponseMatrix, posterior: Posterior, items: ItemParameters) -> np.ndarray:
    """The expected response to each item, which itself is left out of the ability."""
    p = icc(posterior.nodes, items)
    right, wrong = p.clip(LEAST_CHANCE), (1 - p).clip(LEAST_CHANCE)
    without_right = 1 / (posterior.mass @ (1 / right))
    without_wrong = (posterior.mass @ (right / wrong)) / (posterior.mass @ (1 / wrong))
    return np.where(own.values == 1, without_right, without_wrong)


def _accuracy(own: ResponseMatrix, posterior: Posterior, items: ItemParameters, members: np.ndarray) -> pd.DataFrame:
    """Accuracy on some of the items, observed and expected, of each respondent who answered one of them."""
    seen = own.observed & members
    some, n = seen.any(axis=1), np.maximum(seen.sum(axis=1), 1)
    observed = np.where(seen, own.values, 0).sum(axis=1) / n
    mean, variance = posterior.number_right(icc(posterior.nodes, items), seen)
    expected, sd = mean / n, np.sqrt(variance) / n
    found = {
        "respondent_id": np.array(own.respondent_ids, dtype=object),
        "difficulty_from": np.where(seen, items.difficulty, np.inf).min(axis=1),
        "difficulty_to": np.where(seen, items.difficulty, -np.inf).max(axis=1),
        "n_items": n,
        "observed": observed,
        "expected": expected,
        "expected_lower": np.maximum(0.0, expected - 1.96 * sd),
        "expected_upper": np.minimum(1.0, expected + 1.96 * sd),
        "z": np.divide(observed - expected, sd, out=np.full_like(sd, np.nan), where=sd > 0),
    }
    return pd.DataFrame(found)[some]
