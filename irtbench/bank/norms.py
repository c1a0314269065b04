"""A norm sample: the people of the reference population, as their abilities, and weights that match its shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError, refuse_any, refuse_first
from irtbench.data.readers.table import demand_filled, field_places, read_table, to_numbers
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, Shown, counted, spanned

LEAST_SPREAD = 0.01  # of an ability in the norm sample, so that the smoothed norm has a density
MOST_NORMS = 100_000  # respondents of a study that become its norm sample: a percentile is then known to .16 points
NORM_DECIMALS = 4  # of theta in the norm sample: far below any standard error, and ties stay ties
MOST_ABILITY, MOST_WEIGHT = 1_000.0, 1e12  # of a respondent, in size

TOLERANCE = 1e-10  # of a share
MOST_ROUNDS = 2_000
SETTLED = 1e-5  # change of a population's mean and variance that is none
ROUNDING = 0.01  # by which stated shares may fail to add up to 1
#: For each column of the respondents the population's share of each of its values.
Margins = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Norms(Drawn, columns="theta, se=standard_error, weight=weights"):
    """The screened respondents of the reference population, as their abilities.

    Parameters
    ----------
    theta
        Ability of each respondent (EAP, or as estimated with the items), kept to ``NORM_DECIMALS`` decimals, shape
        (n,).
    weights
        Positive weight of each respondent where the sample is not drawn evenly, shape (n,); None for equal weights.
    standard_error
        Standard deviation of each respondent's posterior, kept to as many decimals, shape (n,); None if not known.
    groups
        What is known of the respondents besides: for each column its value for every respondent, None where missing.
    on_form
        Where ``theta`` is from more items than the scale has: the ability of each respondent on these alone, kept to as
        many decimals, shape (n,), which a system's rank is compared with. None where it is ``theta``.

    Raises
    ------
    InputError
        If the sample is empty, a value is not finite, a weight is not positive, an error is negative, or lengths
        differ.
    """

    theta: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None
    standard_error: NDArray[np.float64] | None = None
    groups: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    on_form: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        size = f"of at most {MOST_ABILITY:g}"
        self._keep("theta", "theta", -MOST_ABILITY, f"a list of at least one finite number, each {size} in size")
        self._keep("weights", "weights", np.nextafter(0, 1), f"positive and finite, of at most {MOST_WEIGHT:g}")
        self._keep("standard_error", "standard errors", 0.0, f"finite and not negative, {size}")
        self._keep("on_form", "abilities on the form", -MOST_ABILITY, f"finite, {size} in size")
        groups = {name: tuple(values) for name, values in self.groups.items()}
        refuse_any(
            (len(values) != self.n, f"norms: column {name} has {len(values)} values for {self.n} respondents")
            for name, values in groups.items()
        )
        object.__setattr__(self, "groups", groups)

    def _keep(self, name: str, words: str, least: float, expected: str) -> None:
        """Check the values of a field, round them unless they are weights, and close them to writing."""
        if getattr(self, name) is None:
            return
        values = np.array(getattr(self, name), dtype=np.float64)
        values, most = (values, MOST_WEIGHT) if name == "weights" else (values.round(NORM_DECIMALS), MOST_ABILITY)
        n = values.size if name == "theta" else self.n
        refuse_any((
            (values.shape != (n,) and name != "theta", f"norms: {values.size} {words} for {n} respondents"),
            (values.ndim != 1 or values.size == 0 or not ((values <= most) & (values >= least)).all(),
             f"norms: {words} must be {expected}"),
        ))  # fmt: skip
        values.setflags(write=False)
        object.__setattr__(self, name, values)

    @property
    def n(self) -> int:
        """Number of respondents."""
        return self.theta.size

    @property
    def compared(self) -> NDArray[np.float64]:
        """Abilities as shrunk as those of a system that answers the scale's items, shape (n,)."""
        return self.theta if self.on_form is None else self.on_form

    @cached_property
    def ranked(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What is compared in ascending order, and the sum of the weights below each and of all, shape (n + 1,)."""
        order = np.argsort(self.compared)
        weights = np.ones(self.n) if self.weights is None else self.weights[order]
        return self.compared[order], np.concatenate([[0.0], np.cumsum(weights)])

    @property
    def effective_n(self) -> float:
        """Number of respondents of equal weight that would tell as much, (sum w)^2 / sum w^2 (Kish, 1965)."""
        return self.n if self.weights is None else float(self.weights.sum() ** 2 / (self.weights**2).sum())

    @property
    def spread(self) -> NDArray[np.float64]:
        """Standard deviation of each respondent's ability about the EAP, shape (n,).

        Where no standard errors are kept it is one for all, sqrt(1 - variance of the EAPs): the reference population
        has variance 1, and EAPs lack what is not known of each. At least ``LEAST_SPREAD``.
        """
        if self.standard_error is not None:
            return np.maximum(self.standard_error, LEAST_SPREAD)
        mean = np.average(self.theta, weights=self.weights)
        variance = float(np.average((self.theta - mean) ** 2, weights=self.weights))
        return np.full(self.n, max(np.sqrt(max(1 - variance, 0.0)), LEAST_SPREAD))

    def posteriors(self, mean: float, deviation: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of each respondent's ability in the sample's own population N(m, s^2).

        EAPs are drawn to the mean of the population that was their prior, N(mean, deviation^2), those of an abler group
        too. What the answers alone say is the posterior divided by it; m and s^2 have the greatest likelihood (EM), as
        if one respondent more were of the prior's population, so that few people do not become all alike. As they are
        where no standard errors are kept.
        """
        if self.standard_error is None:
            return self.theta, self.spread
        precision = np.maximum(self.spread**-2 - deviation**-2, 0.0)
        weighted = np.where(precision > 0, self.theta * self.spread**-2 - mean * deviation**-2, 0.0)
        own, s2 = self.theta, deviation**2
        n, before = self.effective_n, (np.inf, np.inf)
        for _ in range(MOST_ROUNDS):
            m = (n * float(np.average(own, weights=self.weights)) + mean) / (n + 1)
            if np.allclose((m, s2), before, rtol=0, atol=SETTLED):
                break
            before, total = (m, s2), precision + 1 / s2
            own = (weighted + m / s2) / total
            s2 = (n * float(np.average(1 / total + (own - m) ** 2, weights=self.weights)) + deviation**2) / (n + 1)
        return own, np.maximum(total**-0.5, LEAST_SPREAD)

    def group(self, column: str, value: str) -> Norms:
        """The respondents whose ``column`` has this value, as a norm sample of its own.

        Raises
        ------
        InputError
            If there is no such column, or nobody with the value.
        """
        if column not in self.groups:
            known = ", ".join(self.groups) or "none"
            raise InputError(f"norms: no column {column} of the respondents is kept; there is: {known}")
        chosen = np.array([entry == value for entry in self.groups[column]])
        if not chosen.any():
            values = sorted({entry for entry in self.groups[column] if entry is not None})
            raise InputError(f"norms: nobody has {column} {value}; expected one of {name_first(values)}")
        return Norms(
            self.theta[chosen],
            None if self.weights is None else self.weights[chosen],
            self.spread[chosen],
            {
                name: tuple(entry for entry, keep in zip(values, chosen, strict=True) if keep)
                for name, values in self.groups.items()
            },
            None if self.on_form is None else self.on_form[chosen],
        )

    def table(self) -> pd.DataFrame:
        """One row a respondent: ``theta, se, weight`` and the groups, as `with_norms` reads them."""
        return super().table().assign(**{name: pd.Series(values, dtype=object) for name, values in self.groups.items()})

    def in_short(self) -> str:
        """How many people, the range of their abilities, and what else is known of them."""
        known = f", by {name_first(list(self.groups))}" if self.groups else ""
        return f"{counted(self.n, 'respondent')}, theta {spanned(self.theta)}{known}"


@dataclass(frozen=True, eq=False)
class Raking(
    Shown, short="{weights:respondent}, effective {effective_n:.0f}, weights {weights.min:.2f} to {weights.max:.2f}"
):
    """Weights of respondents, and what they cost.

    Parameters
    ----------
    weights
        Mean 1, shape (n,).
    effective_n
        Number of respondents of equal weight that would tell as much, (sum w)^2 / sum w^2 (Kish, 1965).
    rounds
        Rounds over the columns.
    """

    weights: NDArray[np.float64]
    effective_n: float
    rounds: int

    def table(self) -> pd.DataFrame:
        """One row: respondents, effective number, smallest and largest weight."""
        w = self.weights
        return pd.DataFrame({"n": [w.size], "effective_n": self.effective_n, "lowest": w.min(), "highest": w.max()})


def rake(
    groups: Mapping[str, Sequence[str | None]], margins: Margins, start: NDArray[np.float64] | None = None
) -> Raking:
    """Weights by which the respondents have the population's shares of every column, one column at a time.

    Column by column each weight is multiplied by the share wanted of its value over the share it has, over again until
    all shares are right (Deming & Stephan, 1940). Of all such weights they are nearest to the first ones by the
    divergence of Kullback and Leibler. Respondents of whom a column is not known keep their part of the whole in it,
    and the shares are those among the others.

    Parameters
    ----------
    groups
        For each column its value for every respondent, None where missing.
    margins
        The population's shares, for each column of all values that respondents have; they add up to 1.
    start
        First weights, positive; None for equal ones.

    Raises
    ------
    InputError
        If a column or value is unknown, a share is not positive, shares do not add up to 1, or no weights have all of
        them.

    Examples
    --------
    >>> import irtbench
    >>> groups = {"sex": ["f", "f", "f", "m"], "age": ["old", "old", "young", "young"]}
    >>> raking = irtbench.rake(groups, {"sex": {"f": 0.5, "m": 0.5}})
    >>> raking.weights.round(3).tolist(), round(raking.effective_n, 3)
    ([0.667, 0.667, 0.667, 2.0], 3.0)
    """
    cells = {column: members_of(column, groups, shares) for column, shares in margins.items()}
    if not cells:
        raise InputError("margins: expected at least one column")
    n = len(next(iter(groups.values())))
    weights = np.ones(n) if start is None else np.array(start, dtype=np.float64)
    weights = weights / weights.sum()
    for rounds in range(1, MOST_ROUNDS + 1):
        before = weights.copy()
        for parts in cells.values():
            known = sum(weights[members].sum() for members, _ in parts)
            for members, share in parts:
                weights[members] *= share * known / weights[members].sum()
        off = max(
            abs(weights[members].sum() - share * sum(weights[part].sum() for part, _ in parts))
            for parts in cells.values()
            for members, share in parts
        )
        if off < TOLERANCE:
            return Raking(n * weights, float(1 / (weights**2).sum()), rounds)
        if not np.isfinite(weights).all() or (weights <= 0).any() or (weights == before).all():
            break
    raise InputError(
        f"margins: no weights of these {n} people have the shares of {name_first(list(margins))} together; expected "
        "shares of fewer columns, or of values taken together"
    )


def members_of(
    column: str, groups: Mapping[str, Sequence[str | None]], shares: Mapping[str, float]
) -> list[tuple[NDArray[np.bool_], float]]:
    """Who has each value of a column, and the share wanted."""
    if column not in groups:
        known = name_first(list(groups)) if groups else "none"
        raise InputError(f"margins: no column {column} of the respondents is kept; there is: {known}")
    values = np.array(groups[column], dtype=object)
    there = set(values[values != None])  # noqa: E711 - elementwise
    unknown, nobody, total = sorted(there - set(shares)), sorted(set(shares) - there), sum(shares.values())
    refuse_any((
        (unknown, f"margins: no share of {column} {name_first(unknown)}, which respondents have; expected one"),
        (nobody, f"margins: nobody has {column} {name_first(nobody)}; expected values taken together, or other people"),
        (any(not share > 0 for share in shares.values()) or abs(total - 1) > ROUNDING,
         f"margins: shares of {column} must be above 0 and add up to 1 but add up to {total:g}"),
    ))  # fmt: skip
    return [(values == value, share / total) for value, share in shares.items()]


def raked_norms(norms: Norms, margins: Margins) -> Norms:
    """The norm sample with weights that bring it to a population's shares; its own weights are the first ones.

    Examples
    --------
    >>> import irtbench
    >>> people = irtbench.Norms([-0.4, 0.1, 0.9, 1.2], groups={"country": ("de", "de", "de", "fr")})
    >>> raked = irtbench.raked_norms(people, {"country": {"de": 0.5, "fr": 0.5}})
    >>> raked.weights.round(2).tolist(), round(raked.effective_n, 2)
    ([0.67, 0.67, 0.67, 2.0], 3.0)
    """
    return replace(norms, weights=rake(norms.groups, margins, norms.weights).weights)


def read_margins(path: str | Path) -> dict[str, dict[str, float]]:
    r"""Read a table ``column, value, share``: the population's share of each value of the respondents' columns.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, a field is empty, a share is no number, or a value comes twice.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("census.csv").write_text("column,value,share\nsex,f,0.51\nsex,m,0.49\n")
    >>> irtbench.read_margins("census.csv")
    {'sex': {'f': 0.51, 'm': 0.49}}
    """
    table = read_table(path, ["column", "value", "share"])
    demand_filled(table, path, "column", "value", "share")
    shares, named = to_numbers(table["share"], place=field_places(path, "share")), table[["column", "value"]]
    refuse_first(
        named.duplicated().to_numpy(),
        lambda row: f"file {path}: {' '.join(map(str, named.to_numpy()[row]))} comes twice; expected a row a value",
    )
    by_column = table.assign(share=shares).groupby("column", sort=False)
    return {str(column): dict(zip(rows["value"], rows["share"].tolist(), strict=True)) for column, rows in by_column}
