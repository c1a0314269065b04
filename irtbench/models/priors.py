"""Priors of item parameters, as values that are printed with the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PriorName = Literal["none", "weak"]


@dataclass(frozen=True)
class Priors:
    """Prior densities of the item parameters; None stands for a flat one.

    Parameters
    ----------
    name
        ``none`` is marginal maximum likelihood; ``weak`` keeps parameters that the data hardly bear on finite.
    slope
        Mean and standard deviation of a normal density of the slope a. Normal, not log-normal: a reversed item has a
        negative slope, and the prior must be able to show it.
    intercept
        Mean and standard deviation of a normal density of the intercept d.
    guessing
        The two shape parameters of a Beta density of the guessing parameter c. On the logit scale, where c is
        estimated, its mode lies at logit of the Beta's mean.
    """

    name: PriorName
    slope: tuple[float, float] | None = None
    intercept: tuple[float, float] | None = None
    guessing: tuple[float, float] | None = None

    @classmethod
    def named(cls, name: PriorName, *, n_options: int = 4) -> Priors:
        """Build the priors of that name.

        Parameters
        ----------
        name
            ``none`` or ``weak``.
        n_options
            Number of answers to choose from: a weak prior of guessing has the mean 1 / n_options and the weight of
            20 respondents.

        Raises
        ------
        ValueError
            If there are fewer than two options.

        Examples
        --------
        >>> Priors.named("weak", n_options=4).guessing
        (5.0, 15.0)
        """
        if n_options < 2:
            raise ValueError(f"n_options must be at least 2 but got {n_options}")
        if name == "none":
            return cls("none")
        return cls("weak", slope=(1.0, 1.5), intercept=(0.0, 4.0), guessing=(20 / n_options, 20 - 20 / n_options))

    def describe(self) -> str:
        """One line for people, with every number."""
        if self.name == "none":
            return "none (marginal maximum likelihood)"
        parts = []
        if self.slope is not None:
            parts.append(f"a ~ Normal({self.slope[0]:g}, {self.slope[1]:g})")
        if self.intercept is not None:
            parts.append(f"d ~ Normal({self.intercept[0]:g}, {self.intercept[1]:g})")
        if self.guessing is not None:
            parts.append(f"c ~ Beta({self.guessing[0]:g}, {self.guessing[1]:g})")
        return f"{self.name}: " + ", ".join(parts)
