"""What an item model is: the probability of each category of an item's responses, given ability and its parameters.

A model is written once, in the few functions of `Maths` that NumPy and torch both have; derivatives by parameters and
abilities follow by automatic differentiation. Parameters are on scales without bounds, on which steps are taken;
`natural` has them as they are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logit, logsumexp

from irtbench.data.input_error import InputError

#: What a parameter is, which says what prior it has.
Role = Literal["slope", "intercept", "gap", "guessing", "upper", "dispersion"]
Parameters = tuple[tuple[str, Role], ...]


@dataclass(frozen=True)
class Maths:
    """The functions that item models are written in, of one library; parameters, categories are the last axis but one.

    Parameters
    ----------
    exp, log1p, log_sigmoid
        Element by element; log_sigmoid(z) = -log(1 + exp(-z)).
    cumulative, log_sum
        Cumulative sums, and logarithms of sums of exponentials, the latter with an axis of length 1 kept.
    join, stack
        Arrays one after another along that axis, and along a new one before it.
    """

    exp: Callable[[Any], Any]
    log1p: Callable[[Any], Any]
    log_sigmoid: Callable[[Any], Any]
    cumulative: Callable[[Any], Any]
    log_sum: Callable[[Any], Any]
    join: Callable[[Sequence[Any]], Any]
    stack: Callable[[Sequence[Any]], Any]


NUMPY = Maths(
    exp=np.exp,
    log1p=np.log1p,
    log_sigmoid=log_expit,
    cumulative=partial(np.cumsum, axis=-2),
    log_sum=partial(logsumexp, axis=-2, keepdims=True),
    join=partial(np.concatenate, axis=-2),
    stack=partial(np.stack, axis=-3),
)


class ItemModel(ABC):
    """One model: its parameters' names and roles, its categories' probabilities, and where to start."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The model's name in tables."""

    @abstractmethod
    def parameters(self, n_categories: int, n_abilities: int) -> Parameters:
        """Name and role of each parameter of an item of so many categories."""

    @abstractmethod
    def log_probabilities(self, x: Any, theta: Any, maths: Maths) -> Any:
        """Logarithm of P(category | theta), shape (..., n_categories, n_nodes).

        Parameters
        ----------
        x
            Parameters, shape (..., n_parameters, 1).
        theta
            The abilities, one after another: `theta[0]` broadcasts against a parameter, `x[..., :1, :]`.
        maths
            Of the library that x is of.
        """

    def derivatives(self, x: Any, theta: Any, maths: Maths) -> tuple[Any, Any, Any] | None:
        """Log-probabilities and their derivatives by parameters and abilities in closed form, where these are quicker.

        None, unless a model has them: they then come from automatic differentiation. Shapes (..., n_categories,
        n_nodes), the same with n_parameters before them, and with n_abilities.
        """
        return None

    @abstractmethod
    def start(self, shares: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
        """Parameters to start from, of one ability.

        Parameters
        ----------
        shares
            Of the responses in each category, shape (n_categories,).
        slope
            By the correlation of the item with all others.
        """

    def natural(self, x: Any, n_abilities: int, maths: Maths) -> Any:
        """The parameters as they are read (asymptotes and not their logits, ...), shape (..., n_parameters, 1)."""
        return x

    def read(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same of one item of one ability, shape (n_parameters,)."""
        return np.asarray(self.natural(x[:, None], 1, NUMPY)[:, 0])

    def unbounded(self, natural: NDArray[np.float64]) -> NDArray[np.float64]:
        """The parameters on the scales without bounds, of those of one ability as they are read."""
        return natural

    def moved(self, natural: NDArray[np.float64], slope: float, intercept: float) -> NDArray[np.float64]:
        """The parameters as they are read, and linear in them, on a scale with theta = slope theta_own + intercept.

        Raises
        ------
        InputError
            Unless a model says them.
        """
        raise InputError(f"model {self.name}: does not say what its parameters are on another scale; expected `moved`")

    def names(self, n_categories: int) -> list[str]:
        """Names of the parameters of an item of so many categories, of one ability."""
        return [name for name, _ in self.parameters(n_categories, 1)]

    def columns(self, natural: NDArray[np.float64], n_categories: int) -> dict[str, float]:
        """Columns of items.csv of the parameters as they are read: under their own names, unless a model has others."""
        return dict(zip(self.names(n_categories), natural.tolist(), strict=True))

    def mirt_columns(self, natural: NDArray[np.float64], n_categories: int) -> dict[str, float]:
        """The parameters under the names of R's mirt."""
        names = [{"a": "a1", "c": "g"}.get(name, name) for name in self.names(n_categories)]
        return dict(zip(names, natural.tolist(), strict=True))

    def from_columns(self, row: Mapping[str, float], n_categories: int) -> NDArray[np.float64]:
        """The parameters as they are read, of columns of items.csv; a column that is not there is a `KeyError`."""
        return np.array([row[name] for name in self.names(n_categories)])


class SlopeAndShares(ItemModel):
    """A model of a slope, an intercept and shares, such as asymptotes, on the scale of whose logits steps are taken."""

    @property
    @abstractmethod
    def shares(self) -> tuple[str, ...]:
        """The shares in the words of items.csv."""

    @property
    def table_names(self) -> tuple[str, ...]:
        """The parameters in the words of items.csv."""
        return "discrimination", "difficulty", *self.shares

    def natural(self, x: Any, n_abilities: int, maths: Maths) -> Any:
        """Slopes, intercept and shares."""
        n = n_abilities + 1
        return maths.join([x[..., :n, :], maths.exp(maths.log_sigmoid(x[..., n:, :]))])

    def unbounded(self, natural: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logits of the shares."""
        return np.array([*natural[:2], *logit(natural[2:])])

    def moved(self, natural: NDArray[np.float64], slope: float, intercept: float) -> NDArray[np.float64]:
        """A / slope, d - a intercept / slope; shares stay."""
        return np.array([natural[0] / slope, natural[1] - natural[0] * intercept / slope, *natural[2:]])

    def columns(self, natural: NDArray[np.float64], n_categories: int) -> dict[str, float]:
        """``discrimination, difficulty`` and the shares."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return dict(zip(self.table_names, [natural[0], -natural[1] / natural[0], *natural[2:]], strict=True))

    def from_columns(self, row: Mapping[str, float], n_categories: int) -> NDArray[np.float64]:
        """Of slope, difficulty and shares."""
        a, b, *shares = (row[name] for name in self.table_names)
        return np.array([a, -a * b, *shares])


class SteppedModel(ItemModel):
    """A model of ordered categories, each with a step to it: the table has slope, steps b_k and their mean."""

    @abstractmethod
    def steps(self, natural: NDArray[np.float64]) -> NDArray[np.float64]:
        """-a b_k of the parameters as they are read, ``a, d1, d2, ...``."""

    @abstractmethod
    def intercepts(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """d_1, d_2, ... of these -a b_k."""

    def moved(self, natural: NDArray[np.float64], slope: float, intercept: float) -> NDArray[np.float64]:
        """A / slope, and as much less of -a b_k as the intercept times that."""
        a = natural[0] / slope
        return np.array([a, *self.intercepts(self.steps(natural) - a * intercept)])

    def columns(self, natural: NDArray[np.float64], n_categories: int) -> dict[str, float]:
        """``discrimination``, ``difficulty`` (the mean step), ``step_1, step_2, ...``."""
        with np.errstate(divide="ignore", invalid="ignore"):
            b = -self.steps(natural) / natural[0]
        found = {"discrimination": float(natural[0]), "difficulty": float(b.mean())}
        return found | {f"step_{k}": float(step) for k, step in enumerate(b, start=1)}

    def from_columns(self, row: Mapping[str, float], n_categories: int) -> NDArray[np.float64]:
        """Of slope and steps."""
        a, b = row["discrimination"], np.array([row[f"step_{k}"] for k in range(1, n_categories)])
        return np.array([a, *self.intercepts(-a * b)])


def mirt_scored(slope: float, scores: NDArray[np.float64], intercepts: NDArray[np.float64]) -> dict[str, float]:
    """``a1, ak0, ak1, ..., d0, d1, ...`` of P(k) proportional to exp(a1 ak_k theta + d_k)."""
    found = {f"ak{k}": float(score) for k, score in enumerate(scores)}
    return {"a1": slope} | found | {f"d{k}": float(d) for k, d in enumerate([0.0, *intercepts])}


def slopes(n_abilities: int) -> Parameters:
    """Names of the slopes by each ability."""
    return (("a", "slope"),) if n_abilities == 1 else tuple((f"a{k + 1}", "slope") for k in range(n_abilities))


def by_ability(x: Any, theta: Any) -> tuple[Any, Any]:
    """Slopes times abilities, shape (..., 1, n_nodes), and the parameters behind the slopes."""
    n = len(theta)
    return sum(x[..., k : k + 1, :] * theta[k] for k in range(n)), x[..., n:, :]


def along_abilities(by_z: Any, rest: Sequence[Any], x: Any, theta: Any, maths: Maths) -> tuple[Any, Any]:
    """Derivatives by all parameters and by abilities, of those by z = a theta + ... and what is behind the slopes."""
    by_x = maths.stack([*(by_z * along for along in theta), *rest])
    return by_x, maths.stack([by_z * x[..., k, :, None] for k in range(len(theta))])


def steps_of_shares(shares: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
    """Intercepts d_k of P(at least k) = s(a theta + d_k) that have these shares in a standard normal population."""
    at_least = np.cumsum(shares[::-1])[::-1][1:].clip(0.001, 0.999)
    return np.log(at_least / (1 - at_least)) * np.sqrt(1 + slope**2 / 2.89)
