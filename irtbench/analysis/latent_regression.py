"""Ability as a sum: what is known of respondents, with effects, and the rest (latent regression)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtr, ndtri

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError, demand_share, refuse_any, refuse_first
from irtbench.data.readers.long_table import with_known_names
from irtbench.data.readers.table import MISSING, demand_columns, read_table
from irtbench.data.responses import name_first
from irtbench.data.shown import Shown, counted
from irtbench.models.category_parameters import rates_of
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.theta_posterior import (
    STANDARD_NORMAL,
    Posterior,
    known_items,
    log_likelihood,
    normalise,
    step_for_any_pattern,
)

Array = NDArray[np.float64]
REACH = 8.0  # residual standard deviations, and abilities, that the nodes reach
MOST_NODES = 2_001
MOST_WIDENED = 5  # times that the nodes are placed, for a term with values far from the others
INTERCEPT = "intercept"


@dataclass(frozen=True, eq=False)
class AbilityRegression(Shown):
    """Effects on ability, and what they leave.

    Parameters
    ----------
    respondent_ids
        The respondents, in the order of the responses.
    terms
        Names of the effects, the intercept first.
    effects
        gamma, shape (n_terms,).
    residual_sd
        sigma, of ability given the terms.
    covariance
        Of gamma and log sigma, by the observed information, shape (n_terms + 1, n_terms + 1).
    explained
        Share of the variance of ability that the terms explain: var(x gamma) / (var(x gamma) + sigma^2).
    log_likelihood
        Of the responses given the terms.
    design
        x, shape (n_respondents, n_terms).
    nodes, log_likelihoods
        Abilities, and the log-likelihood of each respondent's responses there.
    """

    respondent_ids: tuple[str, ...]
    terms: tuple[str, ...]
    effects: Array
    residual_sd: float
    covariance: Array
    explained: float
    log_likelihood: float
    design: Array
    nodes: Array
    log_likelihoods: Array

    @property
    def se_residual_sd(self) -> float:
        """Standard error of sigma."""
        return float(self.residual_sd * np.sqrt(self.covariance[-1, -1]))

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """One row a term: ``term, effect, se, z, p, lower, upper``."""
        demand_share("ability regression: level", level)
        se, reach = np.sqrt(np.diagonal(self.covariance)[:-1]), float(ndtri((1 + level) / 2))
        z = self.effects / se
        return pd.DataFrame(
            {
                "term": self.terms,
                "effect": self.effects,
                "se": se,
                "z": z,
                "p": 2 * ndtr(-np.abs(z)),
                "lower": self.effects - reach * se,
                "upper": self.effects + reach * se,
            }
        )

    def posterior(self) -> Posterior:
        """Of each respondent's ability, with N(x gamma, sigma^2) as the prior."""
        return self._posterior(np.append(self.effects, np.log(self.residual_sd)))

    def scores(self) -> pd.DataFrame:
        """One row a respondent: ``respondent_id, theta, se, expected``, expected being x gamma."""
        found = self.posterior()
        return pd.DataFrame(
            {
                "respondent_id": self.respondent_ids,
                "theta": found.mean(),
                "se": found.standard_deviation(),
                "expected": self.design @ self.effects,
            }
        )

    def plausible_values(self, n_values: int, *, rng: np.random.Generator) -> Array:
        """Draws of each respondent's ability, shape (n_respondents, n_values); each set with effects drawn anew.

        Relations of ability to the terms, computed set by set and averaged, are then those of the population (Mislevy,
        1991), which those of point estimates are not.
        """
        if n_values < 1:
            raise InputError(f"plausible values: expected at least one of each respondent but got {n_values}")
        at = np.append(self.effects, np.log(self.residual_sd))
        drawn = rng.multivariate_normal(at, self.covariance, size=n_values)
        return np.hstack([self._posterior(parameters).draw(1, rng=rng) for parameters in drawn])

    def _posterior(self, parameters: Array) -> Posterior:
        prior = log_prior(parameters, self.design, self.nodes)
        return Posterior(self.nodes, normalise(self.log_likelihoods + prior)[0])

    def in_short(self) -> str:
        """Respondents, terms, and the share explained."""
        return (
            f"{counted(len(self.respondent_ids), 'respondent')}, {', '.join(self.terms[1:])}: {self.explained:.0%} of "
            "the variance of ability explained"
        )


def ability_regression(
    responses: ResponsesLike, items: ParametersLike, covariates: pd.DataFrame | Array
) -> AbilityRegression:
    """Regress ability on what is known of the respondents, by marginal maximum likelihood.

    theta_i = x_i gamma + e_i, e_i ~ N(0, sigma^2), with abilities integrated out (Mislevy, 1984): regressing EAPs on x
    is biased, since they are drawn to the middle. The items count as known; they may be in categories.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`); missing ones are left out.
    items
        Parameters of at least these items, on whose scale the effects are.
    covariates
        A row a respondent: in the order of the responses, or by the index of a data frame that names them. Columns of
        numbers are terms; of labels an indicator for each but the most frequent, the first by name of several.

    Raises
    ------
    InputError
        If a respondent has no row, a value is missing, a column does not vary, or terms are collinear.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 12, np.linspace(-2, 2, 12))
    >>> kind = rng.choice(["base", "tuned"], 500, p=[0.6, 0.4])
    >>> known = pd.DataFrame({"hours": rng.uniform(0, 4, 500), "kind": kind})
    >>> theta = 0.4 * known["hours"] + 0.5 * (known["kind"] == "tuned") - 1 + 0.8 * rng.normal(size=500)
    >>> found = irtbench.ability_regression(irtbench.simulate_responses(theta, items, rng=rng), items, known)
    >>> found.table()[["term", "effect", "se"]].round(1)
              term  effect   se
    0    intercept    -1.0  0.1
    1        hours     0.4  0.0
    2  kind: tuned     0.5  0.1
    """
    data, known = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    known = known_items(data, known)
    terms, x = design_of(covariates, data.respondent_ids)
    q, r = np.linalg.qr(x)  # terms that are orthogonal and of like size, whatever their units
    q, r = q * np.sqrt(len(x)), r / np.sqrt(len(x))
    expected = np.zeros(1)
    for _ in range(MOST_WIDENED):
        nodes = nodes_of(known, expected)
        likelihoods = log_likelihood(data.correct, nodes, known, trials=data.trials)
        at, covariance, total = maximised(likelihoods, nodes, q)
        expected = q @ at[:-1]
        if nodes[0] + REACH / 2 <= expected.min() and expected.max() <= nodes[-1] - REACH / 2:
            break
    back = block_diag(np.linalg.inv(r), 1.0)
    effects, sigma = back[:-1, :-1] @ at[:-1], float(np.exp(at[-1]))
    explained = float((x @ effects).var())
    return AbilityRegression(
        data.respondent_ids, terms, effects, sigma, back @ covariance @ back.T,
        explained / (explained + sigma**2), total, x, nodes, likelihoods,
    )  # fmt: skip


def nodes_of(items: ItemParameters, expected: Array) -> Array:
    """Abilities about the items, from which a scale may lie far, and those expected, close enough for any pattern."""
    step = min(step_for_any_pattern(items, STANDARD_NORMAL), 0.1)
    low, high = np.quantile(items.difficulty[np.isfinite(items.difficulty)], [0.05, 0.95])
    low, high = min(low, 0.0, expected.min()) - REACH, max(high, 0.0, expected.max()) + REACH
    return np.linspace(low, high, min(MOST_NODES, int((high - low) / step) + 1))


def maximised(likelihoods: Array, nodes: Array, q: Array) -> tuple[Array, Array, float]:
    """Effects of orthogonal terms and log sigma, their covariance by the observed information, the log-likelihood."""

    def minus(parameters: Array) -> tuple[float, Array]:
        mass, total = normalise(likelihoods + log_prior(parameters, q, nodes))
        sigma = np.exp(parameters[-1])
        mean = mass @ nodes
        residual = mean - q @ parameters[:-1]
        squares = mass @ nodes**2 - mean**2 + residual**2
        gradient = np.append(q.T @ residual / sigma**2, (squares / sigma**2 - 1).sum())
        return -float(total.sum()), -gradient

    top = nodes[likelihoods.argmax(axis=1)]
    inside = np.clip(top, *np.quantile(top, [0.1, 0.9]))  # all right and all wrong are at the ends
    effects = q.T @ inside / len(q)
    start = np.append(effects, np.log(max(float((inside - q @ effects).std()), 0.3)))
    found = minimize(minus, start, jac=True, method="BFGS", options={"gtol": 1e-6 * len(q)})
    hessian = rates_of(lambda at: minus(at)[1], found.x)
    hessian = (hessian + hessian.T) / 2
    if not np.isfinite(hessian).all() or np.linalg.eigvalsh(hessian).min() <= 0:
        raise InputError("ability regression: the responses do not determine the effects; expected more of them")
    return found.x, np.asarray(np.linalg.inv(hessian), dtype=np.float64), -float(found.fun)


def log_prior(parameters: Array, x: Array, nodes: Array) -> Array:
    """Logarithm of the mass of N(x gamma, sigma^2) at the nodes, shape (n_respondents, n_nodes)."""
    z = (nodes - (x @ parameters[:-1])[:, None]) / np.exp(parameters[-1])
    found = -(z**2) / 2
    return np.asarray(found - logsumexp(found, axis=1, keepdims=True))


def design_of(covariates: pd.DataFrame | Array, respondent_ids: tuple[str, ...]) -> tuple[tuple[str, ...], Array]:
    """Names and values of the terms, an intercept first; see `ability_regression`."""
    if not isinstance(covariates, pd.DataFrame):
        values = pd.DataFrame(np.asarray(covariates, dtype=np.float64))
        covariates = values.rename(columns=lambda k: f"x{k + 1}")
    if not isinstance(covariates.index, pd.RangeIndex):
        covariates = covariates.set_axis(covariates.index.astype(str), axis=0)
        if lacking := sorted(set(respondent_ids) - set(covariates.index)):
            raise InputError(f"covariates: no row of respondent {name_first(lacking)}; expected one for each")
        covariates = covariates.loc[list(respondent_ids)]
    names = pd.Index([*covariates.columns, *covariates.index.map("respondent {}".format)])
    infinite = np.isinf(covariates.select_dtypes("number").to_numpy(dtype=np.float64))
    refuse_any((
        *((True, f"covariates: {name} is there twice; expected once") for name in names[names.duplicated()]),
        (len(covariates) != len(respondent_ids),
         f"covariates: {len(covariates)} rows for {len(respondent_ids)} respondents; expected one each"),
        (bool(infinite.any()), "covariates: a value is infinite; expected finite numbers"),
    ))  # fmt: skip
    refuse_first(
        covariates.isna().to_numpy(),
        lambda row, k: f"covariates: column {covariates.columns[k]}: no value of respondent {respondent_ids[row]}",
    )
    refuse_any(
        (own.nunique() < 2, f"covariates: column {name}: the same for all; expected a column that varies")
        for name, own in covariates.items()
    )
    ones = pd.Series(1.0, covariates.index, name=INTERCEPT)
    terms = pd.concat([ones, *(columns_of(covariates[name]) for name in covariates)], axis=1)
    x = terms.to_numpy(dtype=np.float64)
    if np.linalg.matrix_rank(x / np.linalg.norm(x, axis=0)) < x.shape[1]:
        raise InputError("covariates: a term is a sum of others; expected terms that are not collinear")
    return tuple(map(str, terms)), x


def columns_of(own: pd.Series[Any]) -> pd.DataFrame:
    """A column of numbers as it is; of labels an indicator for each but the most frequent."""
    if pd.api.types.is_numeric_dtype(own) and not pd.api.types.is_bool_dtype(own):
        return own.to_frame()
    levels = pd.get_dummies(own.astype(str), prefix=str(own.name), prefix_sep=": ", dtype=np.float64)
    return levels.drop(columns=levels.sum().idxmax())


def read_covariates(path: str | Path) -> pd.DataFrame:
    """Read what is known of respondents from a table ``respondent_id`` and columns of numbers or labels."""
    table = with_known_names(read_table(path), "respondent_id")
    demand_columns(table, ["respondent_id"], path)
    refuse_first(
        table["respondent_id"].duplicated().to_numpy(),
        lambda row: f"{path}: respondent {table['respondent_id'].iloc[row]} is there twice; expected once",
    )
    found = table.set_index("respondent_id").rename_axis(None)
    if found.empty:
        raise InputError(f"{path}: no column but respondent_id; expected what is known of respondents")
    found = found.mask(found.isin(MISSING))
    numbers = found.apply(pd.to_numeric, errors="coerce")
    numeric = [name for name in found if numbers[name].notna().equals(found[name].notna())]
    return found.assign(**{str(name): numbers[name] for name in numeric})
