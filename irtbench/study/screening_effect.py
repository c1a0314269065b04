"""A crowd screened, and what that changes: agreement, reliability and items of everybody and of those kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq

import irtbench.study
from irtbench.data.answer_patterns import RapidGuesses, rapid_guesses
from irtbench.data.given import ItemsLike, ResponsesLike, as_answers, as_items, as_responses
from irtbench.data.grading import GradingSettings, as_compared, grade
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.data.screening import Screening, ScreeningSettings, screen
from irtbench.data.shown import Shown
from irtbench.diagnostics.measurement_precision import empirical_reliability
from irtbench.estimation.settings import FitSettings
from irtbench.evaluation.agreement import Agreement, agreement, agreement_by_label
from irtbench.models.curves import icc
from irtbench.models.parameter_table import parameter_table

if TYPE_CHECKING:
    from irtbench.config import StudyFile
    from irtbench.estimation.fitted import FittedModel
    from irtbench.study.person_screening import ScaleFit
    from irtbench.study.study_data import Categories, StudyData

_COMPARED = ("discrimination", "difficulty", "se_discrimination", "se_difficulty")


FEWEST_LEFT_OUT = 5  # by one rule, about whom something is reported together
WEAKER = 0.5  # standard deviations of ability below those kept, from which on who is left out is the less able
HONEST = 0.5  # of the difference that easy and hard items make for people of their ability; guessers show none
ABILITIES = -8.0, 8.0  # between which that of a group is sought


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
    return effect_of_screening(
        screening, responses, scales, lambda chosen: irtbench.study.fit_scales(chosen, scales, settings, seed=seed),
        lambda chosen: agreement_on(answers, items, chosen, GradingSettings()),
    )  # fmt: skip


def effect_of_screening(
    screening: Screening,
    responses: ResponseMatrix,
    scales: Mapping[str, Sequence[str]],
    fit: Callable[[ResponseMatrix], Sequence[ScaleFit]],
    agree: Callable[[ResponseMatrix], Mapping[str, Agreement]] = lambda chosen: {},
) -> ScreeningEffect:
    """The same where responses are fitted, and their respondents agree, in this way."""
    rows, tables = [], []
    for stage, kept in (("before", screening.n_responses > 0), ("after", screening.kept)):
        chosen = responses.select_respondents(kept)
        fits, agreed = {found.name: found for found in fit(chosen)}, agree(chosen)
        together = {**scales, "all": [item for ids in scales.values() for item in ids]}
        rows += [
            _row(name, stage, chosen.select_items(ids), fits.get(name), agreed.get(name))
            | ({"n_responses": int(chosen.select_items(ids).observed.sum())} if screening.n_points is not None else {})
            for name, ids in together.items()
        ]
        tables.append(_parameters(fits.values(), stage))
    both = tables[0].merge(tables[1], on=["scale", "item_id"], how="outer", sort=False)
    order = {item: k for k, item in enumerate(responses.item_ids)}
    return ScreeningEffect(
        pd.DataFrame(rows), both.sort_values("item_id", key=lambda ids: ids.map(order), kind="stable")
    )


def exclusions_by_ability(
    screening: Screening, responses: ResponseMatrix, fits: Mapping[str, FittedModel]
) -> tuple[str, ...]:
    """Where a rule leaves out the less able, who answered as honest people do: a sentence for each such rule.

    The ability of a group is that at which as many responses are expected to be right as are (one for all of them: what
    single people's estimates shrink is no matter). Who guesses is as often right on hard items as on easy ones: a group
    counts as honest if the mean difference between the easier and the harder half of the items is surely (three
    standard errors) above zero and at least half of what the model expects at that ability.
    """
    reason = pd.Series(screening.reason, index=screening.respondent_ids)[screening.n_responses > 0]
    sentences = []
    for rule in sorted(set(reason) - {""}):
        left_out = responses.select_respondents(np.isin(screening.respondent_ids, reason.index[reason == rule]))
        seen = [found for fit in fits.values() if (found := _of_group(fit, left_out)) is not None]
        if not seen:
            continue
        gap = pd.concat([by_person for by_person, *_ in seen]).groupby(level=0).mean()
        ability, kept, sd, expected = np.mean([figures for _, *figures in seen], axis=0)
        if len(gap) < FEWEST_LEFT_OUT or kept - ability < WEAKER * sd:
            continue
        if gap.mean() > max(3 * gap.std() / np.sqrt(len(gap)), HONEST * expected):
            sentences.append(
                f"{len(gap)} respondents left out ({rule}) have an ability of {ability:.2f}, those kept {kept:z.2f} on "
                f"average, and are right more often on easier items than on harder ones, by {gap.mean():.2f}, as "
                f"honest people are ({expected:.2f} expected of them): the rule follows ability, and percentiles are "
                "among those kept alone"
            )
    return tuple(sentences)


def _of_group(
    fit: FittedModel, responses: ResponseMatrix
) -> tuple[pd.Series[float], float, float, float, float] | None:
    """How much more of the easier half of the items each has right; the group's ability, mean and standard deviation
    of those fitted to, and the difference expected at that ability. None where nobody answered items of both halves.
    """  # fmt: skip
    items = fit.items
    part = responses.select_items(list(items.item_ids))
    easy = items.difficulty <= np.median(items.difficulty)
    observed = ~np.isnan(part.shares)
    both = observed[:, easy].any(axis=1) & observed[:, ~easy].any(axis=1)
    if not both.any():
        return None
    shares, observed = part.shares[both], observed[both]

    def gap(of: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.nanmean(of[:, easy], axis=1) - np.nanmean(of[:, ~easy], axis=1))

    def too_many(theta: float) -> float:
        return float((np.where(observed, icc(theta, items) - shares, 0.0)).sum())

    low, high = ABILITIES
    theta = low if too_many(low) > 0 else high if too_many(high) < 0 else float(brentq(too_many, low, high))
    expected = gap(np.where(observed, icc(theta, items), np.nan)).mean()
    people = pd.Series(gap(shares), index=np.array(part.respondent_ids, dtype=object)[both])
    return people, theta, fit.quadrature.mean, fit.quadrature.deviation, float(expected)


def agreement_on(
    answers: pd.DataFrame | None, items: ItemTable, chosen: ResponseMatrix, grading: GradingSettings
) -> Mapping[str, Agreement]:
    """How far these respondents agree on the items of each label and on all; nothing without raw answers."""
    if answers is None:
        return {}
    whole, by_label = agreement_of(answers, items, chosen.respondent_ids, grading)
    return by_label | {"all": whole}


def agreement_of(
    answers: pd.DataFrame, items: ItemTable, respondent_ids: Sequence[str], grading: GradingSettings
) -> tuple[Agreement, dict[str, Agreement]]:
    """Agreement of some respondents on all items and those of each label, of answers as they are graded."""
    own, rules = answers[answers["respondent_id"].isin(respondent_ids)], grading.normalise
    own = own.assign(answer=as_compared(own["answer"], grading))
    return agreement(own, items=items, normalise=rules), agreement_by_label(own, items, normalise=rules)


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


@dataclass(frozen=True)
class AfterTheRules:
    """What is asked of a crowd besides the rules."""

    rapid: Literal["keep", "missing"] = "keep"
    similar: float | None = None
    effect: bool = False


@dataclass(frozen=True, eq=False)
class ScreenedCrowd:
    """Who is kept, whose answers stay, pairs too alike, and what screening changes."""

    screening: Screening
    people: pd.DataFrame
    times: RapidGuesses | None
    stays: pd.Series[bool]
    pairs: pd.DataFrame | None
    changed: ScreeningEffect | None

    def summary(self) -> dict[str, Any]:
        """What screening.json says."""
        counts = self.people["reason"].replace("", "kept").value_counts(sort=False)
        found: dict[str, Any] = {
            "n_respondents": len(self.people),
            "n_kept": int(self.screening.kept.sum()),
            "reasons": {str(name): int(n) for name, n in counts.items()},
            "n_answers": len(self.stays),
            "n_answers_kept": int(self.stays.sum()),
            "time_limit": self.screening.time_limit,
            "n_rapid_guesses": None if self.times is None else int(self.times.rapid.sum()),
            "n_similar_pairs": None if self.pairs is None else len(self.pairs),
            "settings": asdict(self.screening.settings),
        }
        return found if self.changed is None else found | {"effect": self.changed.scales}


def screen_crowd(
    given: pd.DataFrame, known: ItemTable, rules: ScreeningSettings, also: AfterTheRules,
    approval: pd.Series[float] | None, *, seed: int, progress: Callable[[str], None],
) -> ScreenedCrowd:  # fmt: skip
    """Screen a crowd's answers, with seconds if they are there."""
    timed = given if "seconds" in given else None
    responses, scales = grade(given, known), known.scales()
    screening = screen(responses, known, rules, seconds=timed, answers=given, approval=approval)
    if rules.person_fit_p is not None:
        progress("first fit")
        screening = irtbench.study.screen_by_fit(screening, responses, scales, FitSettings(), seed=seed)

    def fit(chosen: ResponseMatrix, *, errors: bool) -> Sequence[ScaleFit]:
        return irtbench.study.fit_scales(chosen, scales, FitSettings(standard_errors=errors), seed=seed)

    return after_the_rules(given, responses, known, scales, None, screening, also, fit, progress)


def screen_grades(
    settings: StudyFile, data: StudyData, also: AfterTheRules, progress: Callable[[str], None]
) -> ScreenedCrowd:
    """The same of the grades of a study, which have no keys."""
    people = irtbench.study.person_screening
    assert data.given is not None
    return after_the_rules(
        data.given, data.responses.to_matrix(), data.items, irtbench.study.study_data.divide(data.items, settings),
        data.categories, people.screen_respondents(settings, data, progress=progress).last, also,
        partial(people.fits_of_study, settings=settings, data=data), progress,
    )  # fmt: skip


def after_the_rules(
    given: pd.DataFrame,
    responses: ResponseMatrix,
    items: ItemTable,
    scales: Mapping[str, Sequence[str]],
    categories: Categories | None,
    screening: Screening,
    also: AfterTheRules,
    fit: Callable[..., Sequence[ScaleFit]],
    progress: Callable[[str], None],
) -> ScreenedCrowd:
    """Times, pairs too alike by a fit to those kept, the effect of screening, and whose answers stay."""
    times, pairs, changed, rules, people = None, None, None, screening.settings, screening.table()
    answers = given if categories is None else None
    if "seconds" in given:
        times = rapid_guesses(given, method=rules.rapid_method, share=rules.rapid_share)
    if also.similar is not None:
        progress("pairs of respondents")
        kept = responses.select_respondents(screening.kept)
        own, _ = irtbench.study.study_data.in_own_categories(kept, categories)
        alike = irtbench.study.person_screening.crowd_similarity(answers, own.to_matrix(), fit(kept, errors=False))
        pairs = alike.table()[alike.p_adjusted < also.similar]
        people = people.join(
            irtbench.study.person_screening.most_similar(alike, responses.respondent_ids, level=also.similar)
        )
    if also.effect:
        progress("before and after")
        changed = effect_of_screening(
            screening, responses, scales, partial(fit, errors=True),
            lambda chosen: agreement_on(answers, items, chosen, GradingSettings()),
        )  # fmt: skip
    stays = given["respondent_id"].isin(np.array(screening.respondent_ids)[screening.kept])
    if also.rapid == "missing" and times is not None:
        stays &= ~times.rapid
    return ScreenedCrowd(screening, people, times, stays, pairs, changed)
