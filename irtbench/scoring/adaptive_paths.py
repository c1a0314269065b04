"""Adaptive tests of many respondents: replayed from responses they gave to all, or simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.scale import Scale
from irtbench.data.checked_settings import seeded, shows_fields, with_keywords
from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError
from irtbench.data.responses import demand_single, name_first
from irtbench.data.shown import Drawn, counted
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.simulation import simulate_responses
from irtbench.scoring.adaptive import Adaptive, AdaptiveKeywords, AdaptiveSettings, scores_of


@dataclass(frozen=True, eq=False)
class AdaptivePaths(Drawn):
    """The adaptive tests of several respondents.

    Parameters
    ----------
    paths
        A row for each item asked: ``respondent_id, step, item_id, response, theta, se``.
    respondent_ids
        The respondents.
    n_items
        Items asked of each, shape (n_respondents,).
    theta, standard_error
        At the end, shape (n_respondents,).
    stopped
        Why each test ended, see `Stopped`.
    before
        Theta before any response, the population's mean.
    """

    paths: pd.DataFrame
    respondent_ids: tuple[str, ...]
    n_items: NDArray[np.int64]
    theta: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    stopped: tuple[str, ...]
    before: float = 0.0

    def table(self) -> pd.DataFrame:
        """Columns of path.csv; ``stopped`` is in the last row of each respondent."""
        last = ~self.paths["respondent_id"].duplicated(keep="last")
        why = self.paths["respondent_id"].map(dict(zip(self.respondent_ids, self.stopped, strict=True)))
        return self.paths.assign(stopped=why.where(last, ""))

    def ends(self) -> pd.DataFrame:
        """One row a respondent: items asked, ability and its error at the end, and why the test ended."""
        return pd.DataFrame(
            {
                "respondent_id": self.respondent_ids,
                "n_items": self.n_items,
                "theta": self.theta,
                "se": self.standard_error,
                "stopped": self.stopped,
            }
        )

    def exposure(self) -> pd.DataFrame:
        """How many of the tests asked each item, the most used first: ``item_id, n_tests, share``."""
        asked = self.paths["item_id"].value_counts().rename_axis("item_id").reset_index(name="n_tests")
        return asked.assign(share=asked["n_tests"] / max(len(self.respondent_ids), 1))

    def in_short(self) -> str:
        """How many respondents, and the items asked of one on average."""
        people = counted(len(self.respondent_ids), "respondent")
        if not self.n_items.size:
            return people
        return f"{people}, {self.n_items.mean():.1f} items each, mean standard error {self.standard_error.mean():.2f}"


@shows_fields(AdaptiveSettings)
def replay_adaptive(
    items: Scale | ParametersLike,
    responses: ResponsesLike,
    settings: AdaptiveSettings | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    ask_unanswered: bool = False,
    seed: int = 0,
    **keywords: Unpack[AdaptiveKeywords],
) -> AdaptivePaths:
    """What an adaptive test would have asked respondents whose responses are known.

    Parameters
    ----------
    items
        A scale of a bank, or item parameters.
    responses
        Responses to the items, or scores of items in categories; others are left aside.
    settings
        How items are chosen and when a test ends.
    columns
        See `Adaptive`.
    ask_unanswered
        Whether an item without a response of the respondent may be asked, with what ``missing`` says then. Otherwise
        only items with a response are.
    seed
        Of the draws among the best items.
    keywords
        Of the settings: ``se=0.4``.

    Raises
    ------
    InputError
        If none of the items is known, or there are several trials of an item.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 60), rng.normal(size=60))
    >>> responses = irtbench.simulate_responses(rng.normal(size=5), items, rng=rng)
    >>> found = irtbench.replay_adaptive(items, responses, se=0.4)
    >>> found
    <AdaptivePaths: 5 respondents, 9.4 items each, mean standard error 0.39>
    >>> found.paths.head(2).round(2)
      respondent_id  step item_id  response  theta   se
    0            r1     1   item2       1.0   0.62  0.8
    1            r1     2  item30       1.0   1.00  0.7
    """
    matrix, known = responses_and_items(responses, items.items if isinstance(items, Scale) else items, categories=True)
    if known.categories is None:
        demand_single(matrix, "an adaptive test")
    members = set(known.item_ids)
    own = matrix.select_items([item for item in matrix.item_ids if item in members])
    if own.n_items == 0:
        raise InputError(
            f"adaptive: none of the items is known: {name_first(matrix.item_ids)}; expected such as "
            f"{name_first(known.item_ids, most=3)}"
        )
    values, place = own.correct, {item: k for k, item in enumerate(own.item_ids)}
    scores = {item: scores_of(known, k) for k, item in enumerate(known.item_ids)}

    def answer(row: int, item: str) -> Any:
        code = values[row, place[item]] if item in place else np.nan
        return None if np.isnan(code) else scores[item][int(code)]

    def lacking(row: int) -> set[str]:
        return set() if ask_unanswered else {item for item in known.item_ids if answer(row, item) is None}

    wanted = with_keywords(settings or AdaptiveSettings(), keywords)
    test = Adaptive(items, wanted, columns=columns, rng=seeded(seed))
    return _run(test, own.respondent_ids, answer, lacking)


@shows_fields(AdaptiveSettings)
def simulate_adaptive(
    items: Scale | ParametersLike,
    theta: NDArray[np.float64] | list[float],
    settings: AdaptiveSettings | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    **keywords: Unpack[AdaptiveKeywords],
) -> AdaptivePaths:
    """Adaptive tests of respondents of these abilities, who answer as the items' parameters say.

    Parameters
    ----------
    items, settings, columns, keywords
        As for ``replay_adaptive``.
    theta
        True abilities, shape (n_respondents,).
    seed
        Of the responses and of the draws among the best items.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 9, [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2])
    >>> irtbench.simulate_adaptive(items, [-1.0, 1.0], most_items=4, seed=1).ends().round(2)
      respondent_id  n_items  theta    se stopped
    0            r1        4  -1.03  0.61  length
    1            r2        4   1.62  0.65  length
    """
    known = items.items if isinstance(items, Scale) else items
    values = simulate_responses(np.asarray(theta, dtype=np.float64), known, rng=seeded(seed))
    return replay_adaptive(items, values, settings, columns=columns, seed=seed, **keywords)


def _run(
    first: Adaptive,
    respondent_ids: tuple[str, ...],
    answer: Callable[[int, str], Any],
    lacking: Callable[[int], set[str]],
) -> AdaptivePaths:
    """One test after the other; items that more than their share of the tests so far asked are left out."""
    parts, ends = [], []
    uses: dict[str, int] = {}
    most = first.settings.most_exposure
    for row, name in enumerate(respondent_ids):
        closed = set() if most is None else {item for item, n in uses.items() if n >= most * (row + 1)}
        test = first.again(unavailable=lacking(row) | closed)
        while (item := test.next_item()) is not None:
            test.record(item, answer(row, item))
            uses[item] = uses.get(item, 0) + 1
        path = test.table()
        path.insert(0, "respondent_id", name)
        parts.append(path)
        ends.append((test.n_items, test.theta, test.standard_error, test.stopped))
    columns = ["respondent_id", *first.table().columns]
    n_items, theta, error, stopped = zip(*ends, strict=True) if ends else ((), (), (), ())
    return AdaptivePaths(
        pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns),
        respondent_ids,
        np.array(n_items, dtype=np.int64),
        np.array(theta, dtype=np.float64),
        np.array(error, dtype=np.float64),
        tuple(stopped),
        first.theta,
    )
