"""Does a system understand an item, or its wording? Items against their switched twins, and easy tags against others.

The protocol of Trichelair, Emami, Trischler, Suleman & Cheung (2019), How reasonable are common-sense reasoning tasks
(EMNLP, doi:10.18653/v1/D19-1335), for any set of items of which some have a twin that asks the same with the two
candidates in each other's place.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.items import ItemTags
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, Shown, counted, crossed
from irtbench.evaluation.paired_tests import mcnemar, paired_bootstrap
from irtbench.evaluation.proportion import check_level, wilson_interval
from irtbench.evaluation.system_comparison import compare_systems

#: The measures over all items and over the twins, in this order; those of the tags follow.
ACCURACY, BEFORE, AFTER, CONSISTENCY, BOTH = (
    "accuracy",
    "before switching",
    "after switching",
    "consistency",
    "both right",
)


@dataclass(frozen=True, eq=False)
class Measure(Shown, short="{name}, {values.shape[0]} systems x {values.shape[1]} items"):
    """One measure of all systems: a 1 or 0 for each of some items, and its share of 1.

    Parameters
    ----------
    name
        One of the module's names, or ``tag`` and ``not tag`` for the items with and without a tag.
    item_ids
        The original items that it is over.
    values
        Shape (n_systems, n_items): 1, 0, or NaN where a response is missing.
    """

    name: str
    item_ids: tuple[str, ...]
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SwitchProtocol(Drawn):
    """Measures of several systems under the protocol.

    Parameters
    ----------
    system_ids
        The systems.
    measures
        Accuracy on all original items; with twins, before and after switching, consistency and both right; with tags,
        accuracy on the items with and without each.
    """

    system_ids: tuple[str, ...]
    measures: tuple[Measure, ...]

    def measure(self, name: str) -> Measure:
        """The measure of this name."""
        return next(measure for measure in self.measures if measure.name == name)

    def table(self, *, level: float = 0.95) -> pd.DataFrame:
        """One row for each system and measure, with Wilson's interval; NaN where there is no response."""
        n = np.array([(~np.isnan(measure.values)).sum(axis=1) for measure in self.measures]).T
        count = np.array([np.nansum(measure.values, axis=1) for measure in self.measures]).T.astype(np.int64)
        lower, upper = wilson_interval(count, n, level=level)
        share = np.divide(count, n, out=np.full(n.shape, np.nan), where=n > 0)
        return crossed(
            {"respondent_id": self.system_ids, "measure": [measure.name for measure in self.measures]},
            {"n_items": n, "count": count, "share": share, "lower": lower, "upper": upper},
        )

    def in_short(self) -> str:
        """The systems and the measures."""
        return f"{counted(len(self.system_ids), 'system')}, {', '.join(measure.name for measure in self.measures)}"


def switch_protocol(
    responses: ResponsesLike, twins: Mapping[str, str], *, tags: ItemTags | None = None
) -> SwitchProtocol:
    """Apply the protocol.

    Consistency is the share of twins on which the prediction changes as it should when the candidates are switched.
    With two candidates the right answer is the other one after switching, so that a prediction changes if and only if
    it is right both times or wrong both times: consistency needs no accuracy. ``both right`` asks for it as well.

    Parameters
    ----------
    responses
        Graded responses of the systems to the original and the switched items.
    twins
        The original of each switched item; may be empty.
    tags
        Tags of the original items, such as ``associative``. Tags of switched items are not looked at.

    Raises
    ------
    InputError
        If a response is to an item that the tags do not know, an original is also switched or has two twins, or there
        are no original items.

    Warns
    -----
    RuntimeWarning
        If a system has no response to any pair of twins: its consistency is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> items = [f"w{k}" for k in range(10)] + [f"s{k}" for k in range(10)]
    >>> right = np.random.default_rng(1).random((2, 20)) < [[0.8], [0.6]]
    >>> responses = pd.DataFrame(right, index=["large", "small"], columns=items)
    >>> protocol = irtbench.switch_protocol(responses, {f"s{k}": f"w{k}" for k in range(10)})
    >>> protocol
    <SwitchProtocol: 2 systems, accuracy, before switching, after switching, consistency, both right>
    >>> protocol.table()[["respondent_id", "measure", "n_items", "share"]].round(2).head(5)
      respondent_id           measure  n_items  share
    0         large          accuracy       10    0.7
    1         large  before switching       10    0.7
    2         large   after switching       10    1.0
    3         large       consistency       10    0.7
    4         large        both right       10    0.7
    """
    responses = as_responses(responses)
    position = {item: k for k, item in enumerate(responses.item_ids)}
    switched_of = {original: switched for switched, original in twins.items()}
    twice = [original for switched, original in twins.items() if switched_of[original] != switched]
    forms = [switched for switched, original in twins.items() if original in twice[:1]]
    both_ways = sorted(set(twins) & set(switched_of))
    originals = [item for item in responses.item_ids if item not in twins]
    lonely = [item for item in responses.item_ids if item in twins and twins[item] not in position]
    refuse_any((
        (twice, f"consistency: {name_first(twice[:1])} has two switched forms, {' and '.join(forms[:2])}"),
        (both_ways, f"consistency: {name_first(both_ways)} is both an original and a switched item"),
        (not originals, "consistency: expected responses to original items but all are switched ones"),
        (lonely, f"consistency: no response to the original of {name_first(lonely)}; expected both of a pair"),
    ))  # fmt: skip
    x = responses.values
    measures = [Measure(ACCURACY, tuple(originals), x[:, [position[item] for item in originals]])]
    paired = tuple(item for item in originals if switched_of.get(item) in position)
    if paired:
        before = x[:, [position[item] for item in paired]]
        after = x[:, [position[switched_of[item]] for item in paired]]
        unknown: NDArray[np.bool_] = np.isnan(before) | np.isnan(after)
        for k in np.flatnonzero(unknown.all(axis=1)):
            system = responses.respondent_ids[k]
            warnings.warn(
                f"consistency of {system} is undefined: it has no response to any pair of twins",
                RuntimeWarning,
                stacklevel=2,
            )
        measures += [
            Measure(BEFORE, paired, before),
            Measure(AFTER, paired, after),
            Measure(CONSISTENCY, paired, np.where(unknown, np.nan, before == after)),
            Measure(BOTH, paired, np.where(unknown, np.nan, before * after)),
        ]
    if tags is not None:
        known = tags.select(originals)
        names = {measure.name for measure in measures} | {f"not {tag}" for tag in known.names}
        if taken := sorted(names & set(known.names)):
            raise InputError(f"consistency: a tag cannot be called {name_first(taken)}")
        for tag in known.names:
            for name, which in ((tag, known.has(tag)), (f"not {tag}", ~known.has(tag))):
                chosen = tuple(item for item, is_in in zip(originals, which, strict=True) if is_in)
                measures.append(Measure(name, chosen, measures[0].values[:, which]))
    return SwitchProtocol(responses.respondent_ids, tuple(measures))


def contrast_measures(protocol: SwitchProtocol, *, level: float = 0.95) -> pd.DataFrame:
    """Within each system: before against after switching, and the items with each tag against the others.

    Before and after are the same items: interval by the paired bootstrap, p by McNemar's exact test. Items with and
    without a tag are different ones: Newcombe's interval (1998, method 10) and Fisher's exact p.

    Returns
    -------
    pandas.DataFrame
        Columns ``respondent_id, first, second, n_first, n_second, difference, lower, upper, p, test``; NaN where a side
        has no response.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> items = [f"w{k}" for k in range(10)] + [f"s{k}" for k in range(10)]
    >>> right = np.random.default_rng(1).random((2, 20)) < [[0.8], [0.6]]
    >>> responses = pd.DataFrame(right, index=["large", "small"], columns=items)
    >>> protocol = irtbench.switch_protocol(responses, {f"s{k}": f"w{k}" for k in range(10)})
    >>> irtbench.contrast_measures(protocol)[["respondent_id", "first", "second", "difference"]]
      respondent_id             first           second  difference
    0         large  before switching  after switching        -0.3
    1         small  before switching  after switching        -0.1
    """
    check_level(level, where="consistency")
    names = [measure.name for measure in protocol.measures]
    pairs = [(BEFORE, AFTER, _paired)] if BEFORE in names else []
    pairs += [(name, f"not {name}", _unpaired) for name in names if f"not {name}" in names]
    rows = [
        (system, first, second, *compared(protocol.measure(first).values[k], protocol.measure(second).values[k], level))
        for k, system in enumerate(protocol.system_ids)
        for first, second, compared in pairs
    ]
    columns = ["respondent_id", "first", "second", "n_first", "n_second", "difference", "lower", "upper", "p", "test"]
    return pd.DataFrame(rows, columns=columns)


def compare_measures(
    protocol: SwitchProtocol, *, against: str | None = None, level: float = 0.95, adjustment: Adjustment = "holm"
) -> pd.DataFrame:
    """Between systems: the paired comparison of every measure, as ``compare_systems`` makes it.

    Parameters
    ----------
    protocol
        At least two systems.
    against
        The second of every pair; None for all pairs.
    level, adjustment
        See ``compare_systems``; p is adjusted here over all pairs and measures.

    Returns
    -------
    pandas.DataFrame
        Column ``measure``, then those of ``SystemComparison.table``. Measures without a response of some system are
        left out.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> items = [f"w{k}" for k in range(10)] + [f"s{k}" for k in range(10)]
    >>> right = np.random.default_rng(1).random((2, 20)) < [[0.8], [0.6]]
    >>> responses = pd.DataFrame(right, index=["large", "small"], columns=items)
    >>> protocol = irtbench.switch_protocol(responses, {f"s{k}": f"w{k}" for k in range(10)})
    >>> irtbench.compare_measures(protocol)[["measure", "first", "second", "difference"]].round(2)
                measure  first second  difference
    0          accuracy  large  small         0.2
    1  before switching  large  small         0.2
    2   after switching  large  small         0.4
    3       consistency  large  small         0.0
    4        both right  large  small         0.3
    """
    tables = []
    for measure in protocol.measures:
        if np.isnan(measure.values).all(axis=1).any():
            continue
        table = compare_systems(
            measure.values, protocol.system_ids, against=against, level=level, adjustment=None
        ).table()
        table.insert(0, "measure", measure.name)
        tables.append(table)
    if not tables:
        raise InputError("consistency: expected responses of every system to at least some of the same items")
    together = pd.concat(tables, ignore_index=True)
    for p in ("p", "permutation_p"):
        together[f"{p}_adjusted"] = adjust(together[p].to_numpy(dtype=np.float64), adjustment)
    return together


Contrast = tuple[int, int, float, float, float, float, str]  # sizes, the difference, its interval and p, the test


def _paired(x: NDArray[np.float64], y: NDArray[np.float64], level: float) -> Contrast:
    n = int((~np.isnan(x - y)).sum())
    if n == 0:
        return 0, 0, np.nan, np.nan, np.nan, np.nan, "mcnemar"
    result = paired_bootstrap(x, y, level=level)
    return n, n, result.difference, result.lower, result.upper, mcnemar(x, y).p, "mcnemar"


def _unpaired(x: NDArray[np.float64], y: NDArray[np.float64], level: float) -> Contrast:
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    if x.size == 0 or y.size == 0:
        return x.size, y.size, np.nan, np.nan, np.nan, np.nan, "fisher"
    interval_and_p = two_proportions(int(x.sum()), x.size, int(y.sum()), y.size, level=level)
    return x.size, y.size, float(x.mean() - y.mean()), *interval_and_p, "fisher"


def two_proportions(count_1: int, n_1: int, count_2: int, n_2: int, *, level: float) -> tuple[float, float, float]:
    """Newcombe's interval of the difference of two independent proportions, and Fisher's exact two-sided p.

    lower = d - sqrt((p1 - l1)^2 + (u2 - p2)^2), upper = d + sqrt((u1 - p1)^2 + (p2 - l2)^2), with Wilson's l and u.
    """
    p, size = np.array([count_1, count_2]) / [n_1, n_2], np.array([n_1, n_2])
    low, high = wilson_interval([count_1, count_2], size, level=level)
    difference = p[0] - p[1]
    lower = difference - np.hypot(p[0] - low[0], high[1] - p[1])
    upper = difference + np.hypot(high[0] - p[0], p[1] - low[1])
    exact = fisher_exact([[count_1, n_1 - count_1], [count_2, n_2 - count_2]])
    return float(lower), float(upper), float(exact.pvalue)
