"""The marginal likelihood of ratings, its derivatives and its observed information, by blocks of respondents.

Ability theta_i ~ N(0, sd^2) is integrated out over Gauss-Hermite nodes of each respondent's own, at the mean and
standard deviation of its posterior; with an effect of the answer, e_ij ~ N(0, sigma^2) shared by the raters of one
answer, that is integrated out within, for answers are independent given ability. A rating's predictors are

    z_k = w_k a_j c_r (theta_i + e_ij) + d_jk - w_k s_r - t_rk        (`category_curve`)

with item slope a and intercepts d, a rater's severity s, consistency c and steps t.
Information: that of the complete data less the posterior covariance of the scores (Louis, 1982). Only pairs of
parameters that occur with one respondent are stored.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, Literal

import numpy as np
import torch
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array
from scipy.special import logsumexp

from irtbench.estimation.raters.category_curve import CURVES, NEVER, Curve, CurvePoints, Floats
from irtbench.estimation.raters.ratings import Ints, RatingModel, Ratings
from irtbench.estimation.threads import linear_algebra

Facet = Literal["items", "raters", "population"]
FACETS: tuple[Facet, ...] = ("items", "raters", "population")
N_ANSWER_NODES = 11  # of the effect of an answer
BLOCK = 2**19  # numbers of one array of a block, about
DENSE = 0.1  # share of items and raters that a respondent meets, from which on scores are no sparse matrix
TINY = 1e-12  # of a variance


@dataclass(frozen=True, eq=False)
class Sums:
    """Scores summed over the ratings of each respondent, or of each answer, a row each and each parameter there."""

    by: csr_array
    of: Ints  # the respondent or answer of each row, from 0 in the block
    column: Ints  # the parameter

    def placed(self, values: Floats, n_columns: int, dense: bool = False) -> Any:
        """Values of the rows, shape (n_rows, n_nodes), in rows (respondent or answer, node) and these columns."""
        n, n_nodes = self.of[-1] + 1, values.shape[1]
        if dense:
            found = np.zeros((n, n_columns, n_nodes))
            found[self.of, self.column] = values
            return found.transpose(0, 2, 1).reshape(-1, n_columns)
        rows = (self.of[:, None] * n_nodes + np.arange(n_nodes)).reshape(-1)
        which = rows, np.repeat(self.column, n_nodes)
        return csr_array((values.reshape(-1), which), shape=(n * n_nodes, n_columns))


@dataclass(frozen=True, eq=False)
class Block:
    """Respondents first to last and their ratings, with the places by which these are summed."""

    respondents: slice
    ratings: slice
    respondent: Ints  # of each rating, from 0 in the block
    starts: Ints  # first rating of each respondent
    answer: Ints  # of each rating, from 0
    answer_starts: Ints
    sums: list[Sums]  # of respondents, of ratings' scores and behind them of those of log sd; and of answers
    by_pair: csr_array
    pairs: Ints  # the pairs of the block among all


@dataclass(frozen=True, eq=False)
class Posterior:
    """A block's curves and posteriors at the nodes.

    Parameters
    ----------
    points, by, by_two
        The ratings' curves, and derivatives of u, their slope times ability, by name of parameters, first and second.
    theta
        Nodes of ability, shape (n_respondents, n_nodes).
    log_likelihood, w
        Of each respondent, and its posterior.
    v
        The posterior of the effect of each rating's answer given ability, shape (n, n_nodes, n_answer_nodes); or None.
    weight
        The posterior over all nodes of a rating, shape (n, n_nodes * n_answer_nodes).
    """

    points: CurvePoints
    by: dict[str, Floats]
    by_two: dict[tuple[str, str], Floats]
    theta: Floats
    log_likelihood: Floats
    w: Floats
    v: Floats | None
    weight: Floats


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What one pass over the ratings finds.

    Parameters
    ----------
    log_likelihood
        Of each respondent, shape (n_respondents,).
    mean, deviation
        Of each posterior of ability.
    gradient
        Of the log-likelihood, shape (n_parameters,).
    complete, missing
        Information of the complete data, and what is missing of it; None unless wanted.
    by_scores
        Posterior covariances of ability with the scores, the derivatives of its mean by the parameters, sparse,
        shape (n_respondents, n_parameters); None unless wanted.
    """

    log_likelihood: Floats
    mean: Floats
    deviation: Floats
    gradient: Floats
    complete: Any = None
    missing: Any = None
    by_scores: Any = None


@dataclass(frozen=True, eq=False)
class RatingProblem:
    """Ratings and a model of them; parameters are one vector, see `places`.

    Parameters
    ----------
    ratings, model
        The data and the parameters that there are.
    n_nodes
        Of ability.
    """

    ratings: Ratings
    model: RatingModel = field(default_factory=RatingModel)
    n_nodes: int = 15

    @property
    def curve(self) -> Curve:
        """The item model."""
        return CURVES[self.model.curve]

    @cached_property
    def n_steps(self) -> int:
        """Of the item with most categories."""
        return int(self.ratings.n_steps.max())

    @cached_property
    def weights(self) -> Floats:
        """w, shape (K,)."""
        return self.curve.weights(self.n_steps)

    @cached_property
    def places(self) -> dict[Facet, NDArray[np.int64]]:
        """Where each facet's parameters are in the vector, shape (levels, width).

        Of items d_1, ..., d_K and the slope; of raters severity, log consistency and steps 1 to K - 1; of the
        population log sd and sigma.
        """
        given, model, n = self.ratings, self.model, self.n_steps
        of_raters = 1 + model.consistency + model.rater_steps * (n - 1)
        shapes = (len(given.item_ids), n + model.item_slopes), (len(given.rater_ids), of_raters)
        found, first = dict[Facet, NDArray[np.int64]](), 0
        for facet, shape in zip(FACETS, (*shapes, (1, 1 + model.answer_effect)), strict=True):
            found[facet] = first + np.arange(shape[0] * shape[1]).reshape(shape)
            first += found[facet].size
        return found

    @property
    def n_parameters(self) -> int:
        """Length of the vector."""
        return sum(places.size for places in self.places.values())

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Which parameters are estimated: no intercepts of categories that an item has not."""
        found = np.ones(self.n_parameters, dtype=np.bool_)
        found[self.places["items"][:, : self.n_steps]] = np.arange(self.n_steps) < self.ratings.n_steps[:, None]
        found[self.places["population"][0, 0]] = not self.model.item_slopes
        return found

    def start(self) -> Floats:
        """Intercepts by the categories' shares, raters alike, slopes and standard deviation 1, sigma 0.5."""
        x, model, items = np.zeros(self.n_parameters), self.curve.model, self.places["items"]
        x[items] = np.where(np.arange(items.shape[1]) < self.n_steps, NEVER, 1.0)
        for j, (own, n) in enumerate(zip(items, self.ratings.n_steps, strict=True)):
            x[own[:n]] = model.read(model.start(self.ratings.shares(j), 1.0))[1:]
        x[self.places["population"][0, 1:]] = 0.5
        return x

    @cached_property
    def nodes(self) -> list[tuple[Floats, Floats]]:
        """Standard normal nodes and the logarithms of their weights, of ability and of an answer's effect.

        Without such an effect it has one node, at 0.
        """
        rules = map(hermegauss, (self.n_nodes, N_ANSWER_NODES if self.model.answer_effect else 1))
        return [(x, np.log(w / w.sum())) for x, w in rules]

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int64], Ints]:
        """Item and rater of those that occur together, shape (n_pairs, 2), and each rating's place there."""
        given, n_raters = self.ratings, len(self.ratings.rater_ids)
        number, place = np.unique(given.items * n_raters + given.raters, return_inverse=True)
        return np.stack(np.divmod(number, n_raters), axis=1), place.reshape(-1)

    @cached_property
    def dense(self) -> bool:
        """Whether respondents meet a good part of the items and raters."""
        given, n_levels = self.ratings, len(self.ratings.item_ids) + len(self.ratings.rater_ids)
        return given.answers[1] + len(given.meetings[0]) > DENSE * len(given.respondent_ids) * n_levels

    @cached_property
    def blocks(self) -> list[Block]:
        """Respondents by blocks of about so many numbers each."""
        given = self.ratings
        n_respondents = len(given.respondent_ids)
        first = np.concatenate([np.searchsorted(given.respondents, np.arange(n_respondents)), [given.n]])
        each = np.diff(first) * self.n_nodes * len(self.nodes[1][0]) * self.n_steps
        each = each + self.dense * self.n_nodes * self.n_parameters
        block = (np.cumsum(each) - each) // BLOCK
        ends = [*np.flatnonzero(np.diff(block)) + 1, n_respondents]
        return [self._block(first, lo, hi) for lo, hi in zip([0, *ends[:-1]], ends, strict=True)]

    def columns(self, items: Ints, raters: Ints) -> Ints:
        """Where the parameters of ratings of these items by these raters are, in the order of `patterns`."""
        each = self.places["items"][items], self.places["raters"][raters]
        return np.concatenate([*each, np.tile(self.places["population"][0, 1:], (len(items), 1))], axis=1)

    def _block(self, first: Ints, lo: int, hi: int) -> Block:
        given, own = self.ratings, slice(int(first[lo]), int(first[hi]))
        respondent = given.respondents[own] - lo
        answer = given.answers[0][own] - given.answers[0][own.start]
        columns, sd = self.columns(given.items[own], given.raters[own]), self.places["population"][0, 0]

        def grouped(numbers: Ints) -> tuple[csr_array, Ints]:
            found, places = np.unique(numbers, return_inverse=True)
            shape = (len(found), numbers.size)
            return csr_array((np.ones(numbers.size), (places.reshape(-1), np.arange(numbers.size))), shape), found

        def sums(of: Ints, column: Ints) -> Sums:
            by, found = grouped(of * self.n_parameters + column)
            return Sums(by, *np.divmod(found, self.n_parameters))

        each = np.repeat([respondent, answer], columns.shape[1], axis=1)
        every = [(np.append(each[0], np.arange(hi - lo)), np.append(columns, np.full(hi - lo, sd)))]
        every += [(each[1], columns.reshape(-1))] if self.model.answer_effect else []
        return Block(
            slice(lo, hi), own, respondent, first[lo:hi] - own.start, answer,
            np.flatnonzero(np.diff(answer, prepend=-1)), [sums(*own) for own in every], *grouped(self.pairs[1][own]),
        )  # fmt: skip

    def evaluate(
        self, x: Floats, mean: Floats, deviation: Floats, *, information: bool = False, by_scores: bool = False
    ) -> Evaluated:
        """Log-likelihood and derivatives at these parameters, with nodes at these means and standard deviations."""
        n, gradient, missing = len(mean), np.zeros(self.n_parameters), None
        each, rows, width = np.empty((3, n)), list[csr_array](), len(self.patterns[1])
        of_pairs = np.zeros((len(self.pairs[0]), width, width))
        # a thread a block; linear algebra with threads of its own would wait for these
        with linear_algebra().limit(limits=1, user_api="blas"), ThreadPoolExecutor(torch.get_num_threads()) as pool:
            found = pool.map(
                lambda block: self._evaluate(x, block, mean, deviation, information=information, by_scores=by_scores),
                self.blocks,
            )
            for block, (of_respondents, by_parameters, gathered, own) in zip(self.blocks, found, strict=True):
                each[:, block.respondents] = of_respondents
                gradient += by_parameters
                rows += [gathered] if by_scores else []
                if information:
                    of_pairs[block.pairs] += own[0]
                    missing = own[1] if missing is None else missing + own[1]
        complete = None
        if information:
            columns, sd, square = self.columns(*self.pairs[0].T), self.places["population"][0, 0], (len(x), len(x))
            which = np.repeat(columns, width, axis=1).reshape(-1), np.tile(columns, width).reshape(-1)
            of_sd = [2 * (gradient[sd] + n)], ([sd], [sd])  # whose score is the sum of (theta / sd)^2 - 1
            complete = csr_array((of_pairs.reshape(-1), which), square) + csr_array(of_sd, square)
            missing = csr_array(missing)
        gathered = block_array([[part] for part in rows], format="csr") if by_scores else None
        return Evaluated(each[0], each[1], each[2], gradient, complete, missing, gathered)

    def _posterior(self, x: Floats, block: Block, mean: Floats, deviation: Floats) -> Posterior:
        """Curves, likelihoods and posteriors of a block's respondents and answers."""
        (at, log_w), (at_answer, log_v) = self.nodes
        sd, sigma = np.exp(x[self.places["population"][0, 0]]), x[self.places["population"][0, -1]]
        n_q, n_m = len(at), len(at_answer)
        scale = deviation[block.respondents, None]
        theta = mean[block.respondents, None] + scale * at
        effect, v, z = theta[block.respondent], None, np.tile(at_answer, n_q)
        if n_m > 1:
            effect = (effect[:, :, None] + sigma * at_answer).reshape(-1, n_q * n_m)
        own, given, model, places = block.ratings, self.ratings, self.model, self.places
        items, raters = x[places["items"]][given.items[own]], x[places["raters"]][given.raters[own]]
        d = items[:, : self.n_steps] - raters[:, :1] * self.weights
        if model.rater_steps:
            d[:, :-1] -= raters[:, 1 + model.consistency :]
        a = items[:, self.n_steps, None] if model.item_slopes else np.ones((len(d), 1))
        c = np.exp(raters[:, 1, None]) if model.consistency else np.ones((len(d), 1))
        by_a = c * effect if model.consistency else effect
        u = a * by_a if model.item_slopes else by_a
        by_two = {("log c", "log c"): u, ("a", "log c"): by_a, ("a", "sigma"): c * z, ("log c", "sigma"): a * c * z}
        by = {"a": by_a, "log c": u, "sigma": a * c * z}
        by = {name: own for name, own in by.items() if name in self.patterns[1]}
        points = self.curve.points(given.codes[own], d, u)
        log_p, starts = points.log_likelihood, block.starts
        if n_m > 1:
            of_answer = np.add.reduceat(log_p, block.answer_starts).reshape(-1, n_q, n_m) + log_v
            log_p = logsumexp(of_answer, axis=2)
            v = np.exp(of_answer - log_p[:, :, None])
            starts = np.searchsorted(block.answer_starts, starts)
        joint = np.add.reduceat(log_p, starts) + log_w + at**2 / 2 + np.log(scale / sd) - (theta / sd) ** 2 / 2
        log_likelihood = logsumexp(joint, axis=1)
        w = np.exp(joint - log_likelihood[:, None])
        weight = w[block.respondent]
        if v is not None:
            v = v[block.answer]
            weight = (weight[:, :, None] * v).reshape(-1, n_q * n_m)
        return Posterior(points, by, by_two, theta, log_likelihood, w, v, weight)

    @np.errstate(invalid="ignore", over="ignore", divide="ignore")  # a step too far: not finite, and halved
    def _evaluate(
        self, x: Floats, block: Block, mean: Floats, deviation: Floats, *, information: bool, by_scores: bool
    ) -> tuple[Any, ...]:
        posterior = self._posterior(x, block, mean, deviation)
        points, by, theta, w, weight = posterior.points, posterior.by, posterior.theta, posterior.w, posterior.weight
        average = (w * theta).sum(axis=1)
        centred = theta - average[:, None]
        of_respondents = np.stack([posterior.log_likelihood, average, np.sqrt((w * centred**2).sum(axis=1))])
        sums_of = {"": points.gradient(weight)} | {name: points.gradient(weight * own) for name, own in by.items()}
        of_ratings = np.stack([sums_of[name] @ pattern for pattern, name in zip(*self.patterns, strict=True)], axis=1)
        sums, n_nodes, squares = (
            block.sums[0],
            theta.shape[1],
            (theta / np.exp(x[self.places["population"][0, 0]])) ** 2,
        )
        summed = sums.by @ np.append(of_ratings, (w * (squares - 1)).sum(axis=1))
        gradient = np.bincount(sums.column, summed, minlength=len(x))
        if not (information or by_scores):
            return of_respondents, gradient, None, None
        by_z, by_u = points.by_predictors, np.einsum("k,nkq->nq", self.weights, points.by_predictors)[:, None]
        own, none = {name: by_u * value[:, None] for name, value in by.items()}, by_z[:, :0]
        scores = np.concatenate([
            by_z, own.get("a", none), -by_u, own.get("log c", none), -by_z[:, :-1] if self.model.rater_steps else none,
            own.get("sigma", none),
        ], axis=1)  # fmt: skip
        within, gathered = 0.0, None
        if posterior.v is not None:
            by_node = scores.reshape(*scores.shape[:2], n_nodes, -1)
            scores = np.einsum("npqm,nqm->npq", by_node, posterior.v)
            if information:  # posterior covariances given ability: those that an answer's ratings share
                spread = np.einsum(
                    "npqm,nqm->npqm", by_node - scores[..., None], np.sqrt(weight).reshape(posterior.v.shape)
                )
                z = block.sums[1].placed(block.sums[1].by @ spread.reshape(-1, weight.shape[1]), len(x))
                within = z.T @ z
        summed = sums.by @ np.concatenate([scores.reshape(-1, n_nodes), squares - 1])
        summed -= np.einsum("eq,eq->e", summed, w[sums.of])[:, None]
        between = sums.placed(summed * np.sqrt(w)[sums.of], len(x), self.dense)
        if by_scores:  # posterior covariances of ability with each parameter's score
            nodes = np.arange(theta.size + 1)
            ability = csr_array(((np.sqrt(w) * centred).reshape(-1), nodes[:-1], nodes[::n_nodes]))
            gathered = csr_array(ability @ between)
        missing = between.T @ between + within if information else None
        both = (self._complete(posterior, block, by_u[:, 0]), missing) if information else None
        return of_respondents, gradient, gathered, both

    def mean_squares(self, x: Floats, mean: Floats, deviation: Floats) -> Floats:
        """Of each rating (x - E)^2, its variance, and their ratio, posterior means, shape (3, n_ratings).

        Under the model the first two have one expectation and the third has 1, abilities being drawn, not estimated.
        """
        found = np.empty((3, self.ratings.n))
        for block in self.blocks:
            posterior = self._posterior(x, block, mean, deviation)
            points, codes = posterior.points, self.ratings.codes[block.ratings]
            at_least = points.at_least()  # whose sum is x, and with 1, 3, 5, ... x^2
            expected = at_least.sum(axis=1)
            variance = np.einsum("k,nkq->nq", 2.0 * np.arange(self.n_steps) + 1, at_least) - expected**2
            square = (codes[:, None] - expected) ** 2
            each = square, variance, square / np.maximum(variance, TINY)
            found[:, block.ratings] = [(posterior.weight * own).sum(axis=1) for own in each]
        return found

    @cached_property
    def patterns(self) -> tuple[Floats, list[str]]:
        """How a rating's predictors change with its parameters: over the steps, shape (n, K), and with which function.

        The parameters are those of its item, rater and sigma; a function is 1 or a derivative of u.
        """
        model, w, one = self.model, self.weights, np.eye(self.n_steps)
        found = [*((step, "") for step in one), *([(w, "a")] if model.item_slopes else []), (-w, "")]
        found += [(w, "log c")] if model.consistency else []
        found += [(-step, "") for step in one[:-1]] if model.rater_steps else []
        found += [(w, "sigma")] if model.answer_effect else []
        return np.array([pattern for pattern, _ in found]), [name for _, name in found]

    def _complete(self, posterior: Posterior, block: Block, by_u: Floats) -> Floats:
        """Information of the complete data by pairs, shape (n_pairs of the block, width, width)."""
        points, weight, by_two = posterior.points, posterior.weight, posterior.by_two
        patterns, names = self.patterns
        functions = {"": np.ones((1, 1))} | posterior.by
        found = np.zeros((len(block.pairs), len(names), len(names)))
        at = {name: np.flatnonzero(np.array(names) == name) for name in functions}

        def by_pair(values: Floats) -> Floats:
            return np.asarray((block.by_pair @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:]))

        for first, second in combinations_with_replacement(functions, 2):
            own = by_pair(points.information(weight * functions[first] * functions[second]))
            part = patterns[at[first]] @ own @ patterns[at[second]].T
            if (first, second) in by_two:
                part -= by_pair(((weight * by_u) * by_two[first, second]).sum(axis=1))[:, None, None]
            found[:, at[first][:, None], at[second]] = part
            found[:, at[second][:, None], at[first]] = part.transpose(0, 2, 1)
        return found
