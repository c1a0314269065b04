"""Screening of responses on disk: some thousand respondents at a time, each by the rules of screening in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from irtbench.config import StudyFile
from irtbench.data.coded_responses import MISSING
from irtbench.data.items import ItemTable
from irtbench.data.respondent_sample import draw_respondents
from irtbench.data.responses import ResponseMatrix
from irtbench.data.screening import Screening, ScreeningSettings, apply_rules, demand_somebody
from irtbench.data.screening_outcomes import ScreeningOutcomes
from irtbench.data.stored_responses import StoredResponses
from irtbench.scoring.item_error import abilities_of
from irtbench.study.division import divide
from irtbench.study.kept_respondents import demand_enough
from irtbench.study.person_screening import ScaleFit, fit_scales, joint_person_fit

ROWS = 2**13  # respondents screened at a time


@dataclass(frozen=True, eq=False)
class StoredScreening:
    """Who of the respondents of stored responses is kept.

    Parameters
    ----------
    kept
        Whether no rule removes the respondent, shape (n_respondents,).
    outcomes
        How many are kept and how many each rule removes, those without any response among them.
    fits
        Fits of the scales to a sample of those whom the other rules keep, by which person fit is told; empty without
        that rule.
    """

    kept: NDArray[np.bool_]
    outcomes: ScreeningOutcomes
    fits: tuple[ScaleFit, ...] = ()


def screen_stored(
    responses: StoredResponses,
    items: ItemTable,
    settings: StudyFile,
    *,
    sample: int,
    each: Callable[[Screening], None] = lambda screening: None,
    progress: Callable[[str], None] = lambda message: None,
) -> StoredScreening:
    """Apply the rules that a respondent's own responses decide on, and after them person fit, to every respondent.

    Person fit is told by fits to a random sample of the respondents whom the other rules keep.

    Parameters
    ----------
    responses
        Graded responses to all items of the study.
    items
        The items.
    settings
        The study file; a rule that needs more than responses must not be set.
    sample
        Most respondents of that sample, drawn by the study's seed.
    each
        Called with the screening of some respondents after the other, all of them together once.
    progress
        Called with a line now and then.

    Raises
    ------
    InputError
        If nobody is left, or fewer respondents than items can be estimated from.
    """
    rules, seed = settings.screening, settings.study.seed
    if rules.person_fit_p is None:
        return _screened(responses, items, settings, (), each, progress)
    before = _screened(responses, items, settings, (), lambda screening: None, progress)
    kept = np.flatnonzero(before.kept)
    drawn, places = draw_respondents(len(kept), sample, seed)
    progress(f"screening: person fit by a fit to {drawn.n} of {drawn.of} respondents")
    some = responses.sample(kept[places])
    fits = fit_scales(some, divide(items, settings), replace(settings.model, standard_errors=False), seed=seed)
    return _screened(responses, items, settings, tuple(fits), each, progress)


def screened_parts(
    responses: StoredResponses, items: ItemTable, rules: ScreeningSettings, fits: Sequence[ScaleFit] = ()
) -> Iterator[Screening]:
    """The screening of some respondents after the other; last come those who have no response to any item."""
    for part in _parts(responses):
        found = apply_rules(part, items, rules)
        yield found.judged_by_fit(_person_fit(part, found, fits)) if fits else found


def screening_of_some(
    responses: ResponseMatrix, items: ItemTable, rules: ScreeningSettings, fits: Sequence[ScaleFit] = ()
) -> Screening:
    """The same of respondents in memory."""
    found = apply_rules(responses, items, rules)
    return found.judged_by_fit(_person_fit(responses, found, fits)) if fits else found


def _screened(
    responses: StoredResponses,
    items: ItemTable,
    settings: StudyFile,
    fits: tuple[ScaleFit, ...],
    each: Callable[[Screening], None],
    progress: Callable[[str], None],
) -> StoredScreening:
    kept, outcomes, done = [], [], 0
    reasons: Counter[str] = Counter()
    for found in screened_parts(responses, items, settings.screening, fits):
        each(found)
        kept.append(found.kept)
        outcomes.append(ScreeningOutcomes.of(found))
        reasons.update(found.reason)
        done += len(found.reason)
        progress(f"screening: {done} respondents")
    if not reasons[""]:
        demand_somebody([reason for reason, n in reasons.items() for _ in range(n)])  # type: ignore[misc]
    whole = ScreeningOutcomes.together(outcomes, settings.screening)
    demand_enough(whole.n_kept, settings)
    return StoredScreening(np.concatenate(kept)[: responses.n_respondents], whole, fits)


def _parts(responses: StoredResponses) -> Iterator[ResponseMatrix]:
    n = responses.n_respondents
    for start in range(0, n, ROWS):
        yield responses.part(start, min(start + ROWS, n))
    idle = responses.n_without_response
    for start in range(0, idle, ROWS):
        ids = responses.ids_without_response(start, min(start + ROWS, idle))
        nothing = np.full((len(ids), responses.n_items), MISSING, dtype=np.int8)
        yield ResponseMatrix.from_coded(nothing, ids, responses.item_ids)


def _person_fit(part: ResponseMatrix, screening: Screening, fits: Sequence[ScaleFit]) -> NDArray[np.float64]:
    """lz* over all scales of those kept so far; NaN of the others."""
    kept = part.select_respondents(screening.kept)
    own = []
    for fit in fits:
        here = kept.select_items(fit.responses.item_ids).answered()
        if here.n_respondents:
            own.append(replace(fit, responses=here, abilities=abilities_of(fit.fitted, here, item_error="none")))
    return joint_person_fit(own, part.respondent_ids)
