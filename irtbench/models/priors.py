"""Priors of item parameters, as values that are printed with the fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from scipy.special import polygamma

from irtbench.data.input_error import demand_choice
from irtbench.data.shown import counted

PriorName = Literal["none", "weak", "hierarchical"]


@dataclass(frozen=True)
class GuessingPrior:
    """Prior density of the guessing parameter c.

    Parameters
    ----------
    density
        ``beta`` of c, whose mode on the logit scale, where c is estimated, lies at logit of the Beta's mean; or
        ``normal`` of logit c.
    first, second
        The two shape parameters of the Beta density; mean and standard deviation of the normal one.

    Raises
    ------
    ValueError
        If a number is not finite, or one that must be positive is not.

    Examples
    --------
    >>> GuessingPrior.read("normal:-1.1,0.5")
    GuessingPrior(density='normal', first=-1.1, second=0.5)
    >>> GuessingPrior.read("beta:5,15").describe()
    'c ~ Beta(5, 15)'
    """

    density: Literal["beta", "normal"]
    first: float
    second: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.first) and 0 < self.second < math.inf):
            raise ValueError("expected finite numbers, the second above 0")
        if self.density == "beta" and self.first <= 0:
            raise ValueError("expected two numbers above 0 for a Beta density")

    @classmethod
    def read(cls, text: str) -> GuessingPrior:
        """The density that ``normal:MEAN,SD`` (of logit c) or ``beta:ALPHA,BETA`` (of c) stands for.

        Raises
        ------
        ValueError
            If the text is none of these, saying what was expected.
        """
        name, _, rest = text.partition(":")
        try:
            first, second = (float(number) for number in rest.split(","))
        except ValueError:
            name = ""
        if name not in ("beta", "normal"):
            raise ValueError("expected normal:MEAN,SD of logit c, or beta:ALPHA,BETA of c")
        return cls("beta" if name == "beta" else "normal", first, second)

    @property
    def logit_deviation(self) -> float:
        """Standard deviation of logit c; of a Beta density sqrt(trigamma(alpha) + trigamma(beta))."""
        if self.density == "normal":
            return self.second
        return math.sqrt(float(polygamma(1, self.first) + polygamma(1, self.second)))

    @property
    def width_at_mode(self) -> float:
        """1 / sqrt(minus the second derivative of the log density of logit c at its mode); less than the deviation."""
        if self.density == "normal":
            return self.second
        mean = self.first / (self.first + self.second)
        return 1 / math.sqrt((self.first + self.second) * mean * (1 - mean))

    def describe(self, of: str = "c") -> str:
        """The density in words, of guessing or of another asymptote."""
        numbers = f"({self.first:.4g}, {self.second:.4g})"
        return f"{of} ~ Beta{numbers}" if self.density == "beta" else f"logit {of} ~ Normal{numbers}"


@dataclass(frozen=True)
class Hierarchy:
    """A bivariate normal density of ``log |a|`` and d, or of ``log |a|`` and b, learnt from the items themselves.

    It may be a mixture of such densities, whose mean, deviation and correlation then are those of the whole.

    Of ``log |a|`` and b where abilities are well known (`estimation.few_respondents`). Elsewhere of ``log |a|`` and
    d: the mode is taken on the scale of ``log |a|``, a slope keeps the sign it has at the start, and the mean is that
    of the items at every step, so that the density does not change when theta's location and scale do: with thousands
    of items and a hundred respondents, a density that gained by shrinking or shifting all items alike would outweigh
    the population.

    Parameters
    ----------
    mean
        Of ``log |a|`` and of d (or b).
    deviation
        Standard deviations of the two.
    correlation
        Between them.
    of
        Whether the second is the intercept d or the difficulty b = -d / a.
    uncertainty
        Standard deviation of what is known of the logarithm of the standard deviation of ``log |a|``; None if it is not
        known.
    components
        Weights and densities of a mixture; empty for one normal density.
    """

    mean: tuple[float, float] = (0.0, 0.0)
    deviation: tuple[float, float] = (0.5, 2.0)
    correlation: float = 0.0
    of: Literal["intercept", "difficulty"] = "intercept"
    uncertainty: float | None = None
    components: tuple[tuple[float, Hierarchy], ...] = ()

    @classmethod
    def mixture(cls, components: Sequence[tuple[float, Hierarchy]]) -> Hierarchy:
        """The mixture of some densities, each with its weight; of one, that density.

        Examples
        --------
        >>> narrow, wide = Hierarchy((0.0, 0.0), (0.3, 0.6)), Hierarchy((0.0, -2.0), (0.3, 1.0))
        >>> Hierarchy.mixture([(0.5, narrow), (0.5, wide)]).mean
        (0.0, -1.0)
        """
        if len(components) == 1:
            return components[0][1]
        x, y = (sum(weight * part.mean[k] for weight, part in components) for k in (0, 1))
        xx, xy, yy = (
            sum(
                weight * (part.covariance[k][m] + (part.mean[k] - (x, y)[k]) * (part.mean[m] - (x, y)[m]))
                for weight, part in components
            )
            for k, m in ((0, 0), (0, 1), (1, 1))
        )
        return cls(
            (x, y),
            (math.sqrt(xx), math.sqrt(yy)),
            xy / math.sqrt(xx * yy),
            of=components[0][1].of,
            components=tuple(components),
        )

    @property
    def parts(self) -> tuple[tuple[float, Hierarchy], ...]:
        """The normal densities that it is made of, each with its weight."""
        return self.components or ((1.0, self),)

    @property
    def covariance(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Covariance matrix of log |a| and d (or b)."""
        across = self.correlation * self.deviation[0] * self.deviation[1]
        return (self.deviation[0] ** 2, across), (across, self.deviation[1] ** 2)

    def describe(self) -> str:
        """The density in words, one normal one."""
        second = "d" if self.of == "intercept" else "b"
        known = "" if self.uncertainty is None else f", uncertain by a factor of {math.exp(self.uncertainty):.3g}"
        return (
            f"log |a| ~ Normal({self.mean[0]:.4g}, {self.deviation[0]:.4g}{known}), "
            f"{second} ~ Normal({self.mean[1]:.4g}, {self.deviation[1]:.4g}), correlation {self.correlation:.3g}"
        )


@dataclass(frozen=True)
class Priors:
    """Prior densities of the item parameters; None stands for a flat one.

    Parameters
    ----------
    name
        ``none`` is marginal maximum likelihood; ``weak`` keeps parameters that the data hardly bear on finite;
        ``hierarchical`` is learnt from the items, for few respondents or sparse data.
    slope
        Mean and standard deviation of a normal density of the slope a. Normal, not log-normal: a reversed item has a
        negative slope, and the prior must be able to show it.
    intercept
        Mean and standard deviation of a normal density of the intercept d.
    guessing
        Density of the guessing parameter c.
    hierarchy
        Density of ``log |a|`` and d (or b) together, instead of those of slope and intercept.
    upper
        Density of the upper asymptote u, in the same forms as that of guessing.
    log_slope
        Mean and standard deviation of a normal density of log |a|, instead of one of the slope.
    difficulty
        Means and standard deviations of normal densities of the difficulty b of single items, by their names, instead
        of one of their intercepts.
    distances
        Next to `hierarchy`, means and standard deviations of normal densities of how far apart the intercepts of an
        item in categories are, by what exactly they are of.
    """

    name: PriorName
    slope: tuple[float, float] | None = None
    intercept: tuple[float, float] | None = None
    guessing: GuessingPrior | None = None
    hierarchy: Hierarchy | None = None
    upper: GuessingPrior | None = None
    log_slope: tuple[float, float] | None = None
    difficulty: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    distances: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def named(cls, name: PriorName, *, n_options: int = 4, guessing_estimated: bool = True) -> Priors:
        """Build the priors of that name.

        Parameters
        ----------
        name
            ``none``, ``weak``, or ``hierarchical`` (where learning starts from).
        n_options
            Number of answers to choose from: a prior of guessing has the mean 1 / n_options and the weight of 20
            respondents.
        guessing_estimated
            Whether there is guessing to have a prior.

        Raises
        ------
        ValueError
            If there are fewer than two options.

        Examples
        --------
        >>> Priors.named("weak", n_options=4).guessing.describe()
        'c ~ Beta(5, 15)'
        """
        demand_choice("prior", name, PriorName)
        if n_options < 2:
            raise ValueError(f"n_options must be at least 2 but got {n_options}")
        if name == "none":
            return cls("none")
        guessing = GuessingPrior("beta", 20 / n_options, 20 - 20 / n_options) if guessing_estimated else None
        if name == "weak":
            return cls("weak", slope=(1.0, 1.5), intercept=(0.0, 4.0), guessing=guessing)
        return cls("hierarchical", guessing=guessing, hierarchy=Hierarchy())

    @property
    def is_flat(self) -> bool:
        """Whether there is no density at all: marginal maximum likelihood."""
        densities = (self.slope, self.intercept, self.guessing, self.hierarchy, self.upper, self.log_slope)
        return all(density is None for density in densities) and not self.difficulty

    @property
    def pair(self) -> Hierarchy:
        """The density of log |a| and d (or b), where there is one."""
        assert self.hierarchy is not None
        return self.hierarchy

    @property
    def bounds_difficulty(self) -> bool:
        """Whether an item that all got right has a finite mode."""
        return self.intercept is not None or self.hierarchy is not None

    def describe(self) -> str:
        """One line for people, with every number."""
        if self.is_flat:
            return "none (marginal maximum likelihood)"
        normal = {"a": self.slope, "d": self.intercept, "log |a|": self.log_slope}
        parts = [f"{of} ~ Normal({own[0]:.4g}, {own[1]:.4g})" for of, own in normal.items() if own is not None]
        if self.difficulty:
            parts.append(f"b ~ Normal of its own for {counted(len(self.difficulty), 'item')}")
        if self.hierarchy is not None:
            several = len(self.hierarchy.parts) > 1
            for weight, part in self.hierarchy.parts:
                parts.append((f"{weight:.3g} of items: " if several else "") + part.describe())
        parts += [f"{of} ~ Normal({mean:.4g}, {s:.4g})" for of, (mean, s) in self.distances.items()]
        asymptotes = {"c": self.guessing, "u": self.upper}
        parts += [density.describe(of) for of, density in asymptotes.items() if density is not None]
        own = self.name == "none" and (self.slope, self.intercept, self.difficulty) != (None, None, {})
        return f"{'own' if own else self.name}: " + ", ".join(parts)


FLAT = Priors("none")  # of marginal maximum likelihood
