"""What screening changes: agreement, reliability and item parameters of everybody and of those kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.given import ItemsLike, ResponsesLike, as_answers, as_items, as_responses
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.data.screening import Screening
from irtbench.data.shown import Shown
from irtbench.diagnostics.measurement_precision import empirical_reliability
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import FitSettings
from irtbench.evaluation.agreement import Agreement, agreement, agreement_by_label
from irtbench.models.curves import icc
from irtbench.models.parameter_table import parameter_table
from irtbench.scoring.item_error import abilities_of
from irtbench.study.person_screening import ScaleFit, fit_scales

_COMPARED = ("discrimination", "difficulty", "se_discrimination", "se_difficulty")


@dataclass(frozen=True, eq=False)
class ScreeningEffect(Shown):
    """Scales and items before and after screening.

    Parameters
    ----------
    scales
        A row a scale and stage (``before``, ``after``), and of all scales together: ``scale, stage, n_respondents,
        n_responses, proportion_correct, fleiss_kappa, krippendorff_alpha, gwet_ac1, reliability``; agreement is NaN
        without raw answers, reliability where nothing is fitted. Where a scale holds the items of one label, agreement
        on it is low whoever answers, for chance agreement is high.
    items
        A row an item: discrimination and difficulty with their standard errors, before and after.
    """

    scales: pd.DataFrame
    items: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """The rows of ``scales``, columns of screening_effect.csv."""
        return self.scales


def screening_effect(
    screening: Screening,
    responses: ResponsesLike,
    items: ItemsLike,
    scales: Mapping[str, Sequence[str]],
    settings: FitSettings,
    *,
    answers: pd.DataFrame | None = None,
    seed: int,
) -> ScreeningEffect:
    """Agree and fit twice: with everybody who has a response, and with the respondents kept.

    Parameters
    ----------
    screening
        Who is kept.
    responses
        Graded responses of all respondents (a matrix, array or data frame: `as_responses`).
    items
        The items, for keys and labels (`as_items`).
    scales
        Items of each scale.
    settings, seed
        For the fits.
    answers
        Raw answers ``respondent_id, item_id, answer``; None if only graded responses are there.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> truth = irtbench.ItemParameters.from_difficulty([1.5] * 6, np.linspace(-1.5, 1.5, 6))
    >>> responses = irtbench.simulate_responses(rng.normal(size=100), truth, rng=rng)
    >>> scales = {"easy": truth.item_ids[:3], "hard": truth.item_ids[3:]}
    >>> items = irtbench.ItemTable.plain(truth.item_ids)
    >>> screening = irtbench.screen(responses, items, chance_level=0.1)
    >>> quick = irtbench.FitSettings(standard_errors=False)
    >>> found = irtbench.screening_effect(screening, responses, items, scales, quick, seed=0)
    >>> found.table()[["scale", "stage", "n_respondents", "proportion_correct"]].round(2)
      scale   stage  n_respondents  proportion_correct
    0  easy  before            100                0.71
    1  hard  before            100                0.24
    2   all  before            100                0.48
    3  easy   after             59                0.91
    4  hard   after             59                0.38
    5   all   after             59                0.65
    """
    responses, items = as_responses(responses), as_items(items)
    answers = None if answers is None else as_answers(answers)
    rows, tables = [], []
    for stage, kept in (("before", screening.n_responses > 0), ("after", screening.kept)):
        chosen = responses.select_respondents(kept)
        fits = {fit.name: fit for fit in fit_scales(chosen, scales, settings, seed=seed)}
        agreed = _agreement(answers, items, chosen, scales)
        together = {**scales, "all": [item for ids in scales.values() for item in ids]}
        rows += [
            _row(name, stage, chosen.select_items(ids), fits.get(name), agreed.get(name))
            for name, ids in together.items()
        ]
        tables.append(_parameters(fits.values(), stage))
    both = tables[0].merge(tables[1], on=["scale", "item_id"], how="outer", sort=False)
    order = {item: k for k, item in enumerate(responses.item_ids)}
    return ScreeningEffect(
        pd.DataFrame(rows), both.sort_values("item_id", key=lambda ids: ids.map(order), kind="stable")
    )


FEWEST_LEFT_OUT = 5  # by one rule, of whom something is said together
WEAKER = 0.5  # standard deviations of ability below those kept, from which on who is left out is the less able
HONEST = 0.5  # of the difference that easy and hard items make for people of their ability; guessers show none


def exclusions_by_ability(
    screening: Screening, responses: ResponseMatrix, fits: Mapping[str, FittedModel]
) -> tuple[str, ...]:
    """Where a rule leaves out the less able, who answered as honest people do: a sentence for each such rule.

    Who guesses is as often right on hard items as on easy ones: a group counts as honest if the mean difference between
    the easier and the harder half of the items is surely (three standard errors) above zero and at least half of what
    the model expects at their abilities on the scales of those kept.
    """
    rows = [_seen_by(fit, responses, screening.n_responses > 0) for fit in fits.values()]
    if not rows:
        return ()
    people = pd.concat(rows).groupby("respondent_id").mean()
    reason = pd.Series(screening.reason, index=screening.respondent_ids).reindex(people.index)
    kept = people[reason == ""]
    said = []
    for rule, group in people[reason != ""].groupby(reason[reason != ""]):
        asked = group.dropna()
        n, gap = len(asked), asked["gap"]
        if n < FEWEST_LEFT_OUT or (kept["theta"].mean() - asked["theta"].mean()) < WEAKER * kept["theta"].std():
            continue
        if gap.mean() > max(3 * gap.std() / np.sqrt(n), HONEST * asked["expected_gap"].mean()):
            said.append(
                f"{n} respondents left out ({rule}) have a mean ability of {asked['theta'].mean():.2f}, those kept "
                f"{kept['theta'].mean():.2f}, and are right more often on easier items than on harder ones, by "
                f"{gap.mean():.2f}, as honest people are ({asked['expected_gap'].mean():.2f} expected of them): the "
                "rule follows ability, and percentiles are among those kept alone"
            )
    return tuple(said)


def _seen_by(fit: FittedModel, responses: ResponseMatrix, chosen: NDArray[np.bool_]) -> pd.DataFrame:
    """Ability of each respondent, and how much more is right of the easier half of the items: seen, and expected."""
    items = fit.items
    part = responses.select_respondents(chosen).select_items(list(items.item_ids)).answered()
    theta = abilities_of(fit, part, item_error="none").theta
    easy = items.difficulty <= np.median(items.difficulty)
    shares, expected = part.shares, np.where(np.isnan(part.shares), np.nan, icc(theta, items))

    def gap(of: NDArray[np.float64]) -> NDArray[np.float64]:
        halves = [pd.DataFrame(of[:, half]).mean(axis=1).to_numpy() for half in (easy, ~easy)]
        return np.asarray(halves[0] - halves[1])

    ids = pd.Index(part.respondent_ids, name="respondent_id")
    return pd.DataFrame({"theta": theta, "gap": gap(shares), "expected_gap": gap(expected)}, index=ids)


def _agreement(
    answers: pd.DataFrame | None, items: ItemTable, chosen: ResponseMatrix, scales: Mapping[str, Sequence[str]]
) -> Mapping[str, Agreement]:
    if answers is None:
        return {}
    own = answers[answers["respondent_id"].isin(chosen.respondent_ids)]
    return agreement_by_label(own, items) | {"all": agreement(own, items=items)}


def _row(
    name: str, stage: str, responses: ResponseMatrix, fit: ScaleFit | None, agreed: Agreement | None
) -> dict[str, object]:
    return {
        "scale": name,
        "stage": stage,
        "n_respondents": int((responses.n_by_respondent > 0).sum()),
        "n_responses": responses.n_responses,
        "proportion_correct": float(np.nanmean(responses.shares)),
        "fleiss_kappa": np.nan if agreed is None else agreed.fleiss_kappa,
        "krippendorff_alpha": np.nan if agreed is None else agreed.krippendorff_alpha,
        "gwet_ac1": np.nan if agreed is None else agreed.gwet_ac1,
        "reliability": np.nan
        if fit is None
        else empirical_reliability(fit.abilities.theta, fit.abilities.standard_error),
    }


def _parameters(fits: Iterable[ScaleFit], stage: str) -> pd.DataFrame:
    columns = ["scale", "item_id", *_COMPARED]
    tables = [parameter_table(fit.fitted.items, fit.responses).assign(scale=fit.name)[columns] for fit in fits]
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)
    return table.rename(columns={name: f"{name}_{stage}" for name in _COMPARED})
