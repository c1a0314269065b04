"""The many-facet model: ability, items and raters from a long table of ratings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.special import chdtrc, expit, logit, ndtr, ndtri

from irtbench.data.input_error import InputError, refuse_any, refuse_first
from irtbench.data.multiple_testing import adjust
from irtbench.data.responses import name_first
from irtbench.estimation.raters.category_curve import CURVES, Floats
from irtbench.estimation.raters.fitted_raters import FittedRaters
from irtbench.estimation.raters.rating_mode import Covariance, Mode, find_mode
from irtbench.estimation.raters.rating_problem import Evaluated, RatingProblem
from irtbench.estimation.raters.ratings import FEW_RATINGS, RatingModel, Ratings
from irtbench.estimation.status import Status, Stop
from irtbench.estimation.threads import threads_for
from irtbench.models.category_parameters import CategoryParameters

MANY_RATERS = 30  # from more on their severities are drawn from a normal distribution with raters='auto'
FEWEST_RESPONDENTS, FEW_RESPONDENTS = 5, 30
MOST_PARTS_NAMED = 4  # of a design, whose raters are named
SHARED = 1.2  # ratings of an answer, from which on what they share matters
Z = float(ndtri(0.975))
ERRATIC, MUTED = 1.5, 0.5  # infit beyond which a rater is hardly of use (Linacre, 2002)
LEVEL = 0.05
CHANCE, SHRUNKEN = 1e-3, 0.1  # p of raters' mean abilities, and share of error in theta, from which on they matter
LEAST_SD, LITTLE_SD = 0.03, 0.3  # of ability: as good as 0, and where steps that do not settle go there
PART = 2**22  # numbers of one array, about
KNOWN = 1e-6  # share of the information on a cell that must be left for a test


def fit_raters(
    table: pd.DataFrame,
    *,
    model: Literal["gpcm", "grm"] = "gpcm",
    item_slopes: bool = False,
    consistency: bool = False,
    rater_steps: bool = False,
    answer_effect: bool = False,
    raters: Literal["auto", "fixed", "learnt"] = "auto",
    interaction: str | None = None,
    standard_errors: bool = True,
    tolerance: float = 1e-7,
    max_steps: int = 100,
    n_nodes: int = 15,
) -> FittedRaters:
    """Estimate how severe raters are, and what an average rater would have given (many-facet model; Linacre, 1989).

    With ability theta_i ~ N(0, sd^2), item j, rater r and categories 0..K,

        gpcm:    log P(k) / P(k - 1) = a_j c_r theta_i + d_jk - d_j,k-1 - s_r        (Muraki, 1992)
        grm:     logit P(at least k) = a_j c_r theta_i + d_jk - s_r                  (Samejima, 1969)

    Severities s_r are logits; a rater of severity 1 above another has odds of the higher score smaller by e. Estimates
    are marginal maximum likelihood: abilities are integrated out over nodes of each respondent's own. Standard errors
    are those of the observed information (Louis, 1982).

    Parameters
    ----------
    table
        A row a rating: ``respondent_id, item_id, rater_id, score``; rows without a score are left out. The categories
        of an item are the scores that it has, in their order.
    model
        ``gpcm``, the (generalised) partial credit model, or ``grm``, the graded response model.
    item_slopes
        Whether items have slopes a_j of their own, sd then being 1; otherwise all are 1 and sd is estimated.
    consistency
        Whether raters have slopes c_r > 0: a rater of low consistency separates abilities less well. The mean of
        log c is 0.
    rater_steps
        Whether raters use the categories each in their own way: steps t_rk are subtracted from d_jk, t_rK = 0. All
        items must have as many categories.
    answer_effect
        Whether the raters of one answer (respondent and item) share more than ability: theta_i + e_ij,
        e ~ N(0, sigma^2). Without it ratings of one answer count as if they were of several, and intervals of theta
        and fair scores are too short where answers are rated more than once. It takes about ten times as long.
    raters
        ``fixed``: severities are parameters and sum to 0. ``learnt``: they are drawn from N(0, tau^2), tau learnt from
        the data (empirical Bayes), and estimates are shrunken towards 0, the more so the fewer ratings: for many
        raters with few ratings each. Consistencies and steps likewise. ``auto``: learnt if there are more than 30.
    interaction
        A column with groups of ratings (a judge's own family of models, a month): whether raters are more severe on
        some, tested for each rater and group by itself (score test).
    standard_errors
        Whether to invert the information; without them errors are NaN, and so are intervals.
    tolerance
        Gain in log-likelihood that another step promises, per parameter, below which steps end.
    max_steps
        How many there are at most.
    n_nodes
        Nodes over which each respondent's ability is integrated out.

    Raises
    ------
    InputError
        If a column lacks, a score is no number, a rating is there twice, an item's scores are all the same, there are
        fewer than 5 respondents or 2 raters, the raters are fixed and one gave the lowest (or the highest) score
        always, ability does not vary, or the ratings do not determine a parameter.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> rows = pd.MultiIndex.from_product([range(200), ["q1", "q2", "q3"], ["ann", "bob", "eve"]])
    >>> table = rows.to_frame(index=False, name=["respondent_id", "item_id", "rater_id"])
    >>> theta, severity = rng.normal(size=200), {"ann": -0.5, "bob": 0.0, "eve": 0.5}
    >>> z = theta[table["respondent_id"]] - table["rater_id"].map(severity) + rng.logistic(size=len(table))
    >>> table["score"] = np.digitize(z, [-1.0, 0.0, 1.0])
    >>> found = irtbench.fit_raters(table, model="grm")
    >>> found.table()[["rater_id", "n", "severity", "se"]].round(1)
      rater_id    n  severity   se
    0      ann  600      -0.5  0.1
    1      bob  600      -0.0  0.1
    2      eve  600       0.5  0.1
    >>> found.precision([3, 9, 30]).round(2)
       n_ratings    se  reliability
    0          3  0.72         0.45
    1          9  0.53         0.71
    2         30  0.32         0.89
    """
    if raters not in ("auto", "fixed", "learnt") or model not in CURVES:
        raise InputError(f"raters: model {model}, raters {raters}; expected gpcm or grm, and auto, fixed or learnt")
    ratings, wanted = (
        Ratings.of(table, interaction),
        RatingModel(model, item_slopes, consistency, rater_steps, answer_effect),
    )
    learnt = raters == "learnt" or (raters == "auto" and len(ratings.rater_ids) > MANY_RATERS)
    check_ratings(ratings, wanted, learnt=learnt)
    problem = RatingProblem(ratings, wanted, n_nodes)
    with threads_for(ratings.n * n_nodes * problem.n_steps), advised(ratings.useless):
        mode = find_mode(problem, learnt=learnt, tolerance=tolerance, max_steps=max_steps)
        sd = float(np.exp(mode.x[problem.places["population"][0, 0]]))
        if sd < (LEAST_SD if mode.converged else LITTLE_SD):
            raise InputError(
                "raters: ability does not vary: scores of one respondent are no more alike than those of two; expected "
                "ratings that have something in common"
            )
        mean, deviation = mode.found.mean, mode.found.deviation
        covariance = mode.covariance if standard_errors else None
        likelihood = marginal_likelihood(problem, mode, covariance)
        if learnt:
            mode = with_mean_zero(problem, mode, covariance)
        found = problem.evaluate(mode.x, mean, deviation, by_scores=True)
        squares = problem.mean_squares(mode.x, mean, deviation)
        rater_rows, rater_sd, separation = raters_found(problem, mode, covariance, squares, learnt=learnt)
        interactions = None if interaction is None else interactions_found(problem, mode, covariance, interaction)
        score_rows = scores_found(problem, mode.x, found, covariance)
        items = items_of(problem, mode.x, covariance)
        item_rows = items_found(problem, items, squares)
    population = problem.places["population"][0]
    errors = errors_of(covariance, population, problem.n_parameters)
    stop = Stop.CONVERGED if mode.converged else Stop.STEP_LIMIT if mode.steps == max_steps else Stop.NO_ASCENT
    doubts = doubts_of(ratings, wanted, mean, deviation, learnt=learnt)
    doubts += (ratings.useless,) * bool(ratings.useless and not mode.converged)
    n_estimated = mode.design.shape[1] + len(mode.variances) * (1 - len(ratings.rater_ids))
    return FittedRaters(
        items, rater_rows, item_rows, score_rows, interactions, wanted, learnt,
        sd, float("nan") if item_slopes else sd * float(errors[0]),
        abs(float(mode.x[population[1]])) if answer_effect else float("nan"),
        float(errors[1]) if answer_effect else float("nan"),
        rater_sd, separation, likelihood, n_estimated, len(ratings.respondent_ids),
        ratings.n, int(ratings.parts.max()) + 1, Status(stop, mode.steps), doubts,
    )  # fmt: skip


@contextmanager
def advised(advice: str) -> Iterator[None]:
    """Errors end with this advice, where there is one."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error}; {advice}" if advice else str(error)) from error


def with_mean_zero(problem: RatingProblem, mode: Mode, covariance: Covariance | None) -> Mode:
    """The same with severities about their own mean, which the items' intercepts take up."""
    severities, n = problem.places["raters"][:, 0], problem.n_steps
    along, by = np.zeros(problem.n_parameters), np.zeros(problem.n_parameters)
    along[severities], by[severities] = 1.0, 1 / len(severities)
    along[problem.places["items"][:, :n]] = problem.weights * (np.arange(n) < problem.ratings.n_steps[:, None])
    if covariance is not None:
        covariance.shift(along, by)
    return replace(mode, x=mode.x - along * (by @ mode.x))


def marginal_likelihood(problem: RatingProblem, mode: Mode, covariance: Covariance | None) -> float:
    """Log-likelihood; of raters drawn from a normal distribution with them integrated out (Laplace)."""
    found = float(mode.found.log_likelihood.sum())
    if covariance is None or not len(mode.variances):
        return float("nan") if len(mode.variances) else found
    values, n = mode.x[problem.places["raters"]], len(problem.places["raters"])
    found -= float((values**2 / mode.variances).sum() + n * np.log(mode.variances).sum()) / 2
    return found - covariance.log_determinant_of(problem.places["raters"].reshape(-1)) / 2


def check_ratings(ratings: Ratings, model: RatingModel, *, learnt: bool) -> None:
    """Refuse ratings that do not determine the parameters; see `fit_raters`."""
    n, j, highest = len(ratings.rater_ids), int(ratings.n_steps.argmin()), ratings.n_steps[ratings.items]
    answers = np.bincount(ratings.answers[0])
    respondents = np.bincount(np.unique(np.stack([ratings.respondents, ratings.items]), axis=1)[0])
    always = {
        word: [ratings.rater_ids[r] for r in np.flatnonzero(np.bincount(ratings.raters, ~there, n) == 0)]
        for word, there in (("lowest", ratings.codes == 0), ("highest", ratings.codes == highest))
    }
    unused = np.ones((n, int(ratings.n_steps.max()) + 1), dtype=np.bool_)
    unused[ratings.raters, ratings.codes] = False
    refuse_any((
        (len(ratings.respondent_ids) < FEWEST_RESPONDENTS,
         f"raters: {len(ratings.respondent_ids)} respondents; expected at least {FEWEST_RESPONDENTS}"),
        (n < 2, "raters: one rater; expected at least 2 (scores of one rater are fitted by fit_categories)"),
        (model.rater_steps and len(set(ratings.n_steps)) > 1,
         f"raters: item {ratings.item_ids[j]} has {ratings.n_steps[j] + 1} categories and others more; expected as "
         "many in all items, or no steps by rater"),
        *((model.answer_effect and counts.max() < 2,
           "raters: what raters of an answer share cannot be separated from ability or chance; "
           f"expected {word}, or no effect of the answer")
          for counts, word in ((answers, "several ratings of some answers"), (respondents, "several answers of some"))),
        *((not learnt and who != [],
           f"raters: rater {name_first(who)} gave the {word} score always, so that the severity is not finite; "
           "expected raters='learnt', or that rater left out") for word, who in always.items()),
    ))  # fmt: skip
    if model.rater_steps and not learnt:
        refuse_first(unused, lambda r, k: (
            f"raters: rater {ratings.rater_ids[r]} never used category {k}, so that its steps are not finite; "
            "expected raters='learnt', or no steps by rater"
        ))  # fmt: skip


def doubts_of(
    ratings: Ratings, model: RatingModel, theta: Floats, deviation: Floats, *, learnt: bool
) -> tuple[str, ...]:
    """What the design does not determine, and whether raters were given respondents of different ability.

    That shrunken abilities even out in part.
    """
    n, m, each = int(ratings.parts.max()) + 1, len(ratings.respondent_ids), ratings.n / ratings.answers[1]
    parts = [name_first([ratings.rater_ids[r] for r in np.flatnonzero(ratings.parts == part)]) for part in range(n)]
    named = "; ".join(parts[:MOST_PARTS_NAMED])
    more = f"; and {n - MOST_PARTS_NAMED} more parts" if n > MOST_PARTS_NAMED else ""
    few = name_first([ratings.rater_ids[r] for r in np.flatnonzero(np.bincount(ratings.raters) < FEW_RATINGS)])
    respondents, raters = ratings.meetings
    counts = np.bincount(raters)
    means = np.bincount(raters, theta[respondents]) / counts
    p = chdtrc(len(counts) - 1, (counts * (means - theta.mean()) ** 2).sum() / theta.var())
    error = float((deviation**2).mean() / ((deviation**2).mean() + theta.var()))
    doubts = (
        (n > 1,
         f"the design falls into {n} parts that share no respondent or no item (raters {named}{more}): severities "
         "of two parts have no common zero, each part's sum to 0; scores across parts are comparable only if the "
         "respondents of each were drawn from one population"),
        (each >= SHARED and not model.answer_effect,
         f"an answer has {each:.1f} ratings on average, taken as independent given ability: "
         "if raters of one answer share more than that, intervals of theta and fair scores are too short; "
         "--answer-effect (answer_effect=True) estimates what they share"),
        (m < FEW_RESPONDENTS,
         f"{m} respondents: the standard deviation of ability, and with it how far theta is shrunken, is known badly"),
        (not learnt and few != "",
         f"fewer than {FEW_RATINGS} ratings by {few}: raters='learnt' draws their severities together"),
        (p <= CHANCE and error >= SHRUNKEN,
         f"raters saw respondents of different ability (p = {p:.1g}): if the severe were given the able, or the weak, "
         f"severities are too close together or too far apart, for abilities are shrunken (by {error:.0%}); more "
         "ratings of a respondent by different raters, or ratings allotted at random, help"),
    )  # fmt: skip
    return tuple(text for holds, text in doubts if holds)


def errors_of(covariance: Covariance | None, places: NDArray[np.int64], n: int) -> Floats:
    """Standard errors of some parameters, of the shape of their places."""
    rows = eye_array(n, format="csr")[places.reshape(-1)]
    variances = np.full(places.size, np.nan) if covariance is None else covariance.variances(rows)
    return np.asarray(np.sqrt(variances).reshape(places.shape))


def raters_found(
    problem: RatingProblem, mode: Mode, covariance: Covariance | None, squares: Floats, *, learnt: bool
) -> tuple[pd.DataFrame, float, float]:
    """The raters' table, the spread of severities and its reliability; severities of a part sum to 0."""
    ratings, places, model = problem.ratings, problem.places["raters"], problem.model
    n, n_raters = problem.n_parameters, len(ratings.rater_ids)
    severity, errors = mode.x[places[:, 0]], errors_of(covariance, places, n)
    parts, several = ratings.parts, ratings.parts.max() > 0
    if several and not learnt:
        rows = csr_array(np.eye(n_raters) - (parts[:, None] == parts) / np.bincount(parts)[parts][:, None])
        severity = rows @ severity
        if covariance is not None:
            errors[:, 0] = np.sqrt(covariance.variances(rows @ eye_array(n, format="csr")[places[:, 0]]))
    found, fit = observed(ratings, ratings.raters, squares)
    # of one who shares nothing with the others nothing is known
    se = np.where((np.bincount(parts)[parts] == 1) & (not learnt), np.nan, errors[:, 0])
    table = pd.DataFrame({
        "rater_id": ratings.rater_ids, **found, "severity": severity, "se": se, "severity_lower": severity - Z * se,
        "severity_upper": severity + Z * se,
    })  # fmt: skip
    if model.consistency:
        c = np.exp(mode.x[places[:, 1]])
        table = table.assign(consistency=c, se_consistency=c * errors[:, 1])
    for k in range(1, problem.n_steps if model.rater_steps else 1):
        table[f"step_{k}"], table[f"se_step_{k}"] = (own[:, k - problem.n_steps] for own in (mode.x[places], errors))
    table = table.assign(**fit, part=parts + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = adjust(2 * ndtr(-np.abs(severity / errors[:, 0])))
    flags: dict[str, Any] = {
        "severe": (p < LEVEL) & (severity > 0), "lenient": (p < LEVEL) & (severity < 0),
        "erratic": table["infit"] > ERRATIC, "muted": table["infit"] < MUTED, "apart": parts > 0,
    }  # fmt: skip
    words = [";".join(word for word, there in flags.items() if there[r]) for r in range(n_raters)]
    noise = float(np.mean(errors[:, 0] ** 2))
    variance = float(mode.variances[0] if learnt else max(severity.var(ddof=1) - noise, 0.0))  # by moments
    both = variance if learnt else variance + noise  # 0 where each rater is apart from all others
    reliability = (both - noise) / both if both > 0 else 0.0
    if not learnt:  # each part's mean is taken from its severities
        variance *= (n_raters - 1) / max(n_raters - len(set(parts)), 1)
    return table.assign(flags=words), variance**0.5, max(reliability, 0.0)


def interactions_found(problem: RatingProblem, mode: Mode, covariance: Covariance | None, name: str) -> pd.DataFrame:
    """Each rater's additional severity for each group, by one step from 0: a score test (Rao, 1948).

    The information on it is that left when all other parameters are estimated with it; those of one rater's groups add.
    """
    ratings = problem.ratings
    apart = replace(ratings, raters=ratings.cells, rater_ids=tuple(map(str, ratings.cell_names)))
    whole = RatingProblem(apart, problem.model, problem.n_nodes)
    same = np.empty(whole.n_parameters, dtype=np.int64)  # a rater's parameters are those of each of its groups
    for facet, places in problem.places.items():
        same[whole.places[facet]] = places if facet != "raters" else places[[r for r, _ in ratings.cell_names]]
    found = whole.evaluate(mode.x[same], mode.found.mean, mode.found.deviation, information=True)
    information, cells = (found.complete - found.missing).tocsr(), whole.places["raters"][:, 0]
    known, left = information.diagonal()[cells], np.full(len(cells), np.nan)
    if covariance is not None:
        left = known - covariance.variances(information[cells] @ eye_array(problem.n_parameters, format="csr")[same])
    left = np.where(left > KNOWN * known, left, np.nan)
    severity, se = found.gradient[cells] / left, 1 / np.sqrt(left)
    p = 2 * ndtr(-np.abs(severity / se))
    who, groups = zip(*((ratings.rater_ids[r], group) for r, group in ratings.cell_names), strict=True)
    table = pd.DataFrame({"rater_id": who, name: groups, "n": np.bincount(ratings.cells, minlength=len(cells))})
    return table.assign(severity=severity, se=se, z=severity / se, p=p, p_adjusted=adjust(p))


def items_of(problem: RatingProblem, x: Floats, covariance: Covariance | None) -> CategoryParameters:
    """The items as an average rater grades them."""
    ratings, model, k, slopes = problem.ratings, problem.curve.model, problem.n_steps, problem.model.item_slopes
    places, width = problem.places["items"], k + 1
    at, errors = np.zeros((len(places), width)), np.zeros((len(places), width, width))
    for j, (own, n) in enumerate(zip(places, ratings.n_steps, strict=True)):
        at[j, : n + 1] = model.unbounded(np.array([x[own[k]] if slopes else 1.0, *x[own[:n]]]))
        if covariance is not None:
            errors[j, 1 - slopes :, 1 - slopes :] = covariance.among([*own[k:], *own[:k]])
    of_items = None if covariance is None else errors
    return CategoryParameters(
        ratings.item_ids, (model,) * len(at), ratings.categories, at, ratings.n_steps + slopes, of_items
    )


def items_found(problem: RatingProblem, items: CategoryParameters, squares: Floats) -> pd.DataFrame:
    """The items' table."""
    found, fit = observed(problem.ratings, problem.ratings.items, squares)
    numbers = ["discrimination", "difficulty", *(f"step_{k + 1}" for k in range(problem.n_steps))]
    columns = [column for name in numbers for column in (name, f"se_{name}")]
    table = items.table().reindex(columns=["item_id", "n", "mean_score", "n_categories", *columns])
    if not problem.model.item_slopes:
        table["se_discrimination"] = np.nan
    return table.assign(**found, **fit)


def observed(ratings: Ratings, of: NDArray[np.int64], squares: Floats) -> tuple[dict[str, Any], dict[str, Any]]:
    """How many ratings each of some raters or items has, and their mean; mean squares, by information and plain."""
    counts, (score, *sums) = np.bincount(of), (np.bincount(of, own) for own in (ratings.given, *squares))
    return {"n": counts, "mean_score": score / counts}, {"infit": sums[0] / sums[1], "outfit": sums[2] / counts}


def scores_found(problem: RatingProblem, x: Floats, found: Evaluated, covariance: Covariance | None) -> pd.DataFrame:
    """The respondents' table; errors hold those of the parameters, by the delta method."""
    ratings, theta = problem.ratings, found.mean
    n = len(theta)
    fair, variance, of_theta = np.empty(n), np.full(n, np.nan), np.full(n, np.nan)
    step = max(1, PART // problem.places["items"].size)
    for k in range(0, n, step):
        own = slice(k, k + step)
        fair[own], rise, rows = fair_scores(problem, x, theta[own])
        if covariance is not None:
            rows = rows + diags_array(rise) @ found.by_scores[own]
            variance[own] = (rise * found.deviation[own]) ** 2 + covariance.variances(rows)
    if covariance is not None:
        common = np.asarray(found.by_scores.mean(axis=0)).reshape(-1)
        of_theta = np.sqrt(found.deviation**2 + covariance.variances(found.by_scores, common))
    counts = np.bincount(ratings.respondents)
    lowest, highest = (np.mean([own[end] for own in ratings.categories]) for end in (0, -1))
    share = (fair - lowest) / (highest - lowest)
    error = np.sqrt(variance)
    width = Z * error / (highest - lowest) / (share * (1 - share))  # of the logit, so that bounds are scores
    lower, upper = (lowest + (highest - lowest) * expit(logit(share) + sign * width) for sign in (-1, 1))
    return pd.DataFrame({
        "respondent_id": ratings.respondent_ids, "n_ratings": counts, "n_raters": np.bincount(ratings.meetings[0]),
        "mean_score": np.bincount(ratings.respondents, ratings.given) / counts,
        "theta": theta, "se": of_theta, "theta_lower": theta - Z * of_theta, "theta_upper": theta + Z * of_theta,
        "fair_score": fair, "se_fair": error, "fair_lower": lower, "fair_upper": upper,
    })  # fmt: skip


def fair_scores(problem: RatingProblem, x: Floats, theta: Floats) -> tuple[Floats, Floats, csr_array]:
    """Mean over the items of the score an average rater gives, its derivatives by theta and by the parameters."""
    places, n_steps, model = problem.places["items"], problem.n_steps, problem.model
    z, weights = problem.nodes[1][0], np.exp(problem.nodes[1][1])
    sigma = x[problem.places["population"][0, 1]] if model.answer_effect else 0.0
    effect = (theta[:, None] + sigma * z).reshape(1, -1)
    fair, rise, n = np.zeros(len(theta)), np.zeros(len(theta)), len(places)
    by = np.zeros((len(theta), *places.shape))
    for j, (own, k, values) in enumerate(
        zip(x[places], problem.ratings.n_steps, problem.ratings.categories, strict=True)
    ):
        a = own[n_steps] if model.item_slopes else 1.0
        points = problem.curve.points(
            np.arange(k + 1), np.tile(own[:k], (k + 1, 1)), np.repeat(a * effect, k + 1, axis=0)
        )
        worth = np.array(values)[:, None] * np.exp(points.log_likelihood)
        by_z = np.einsum("xq,xkq->kq", worth, points.by_predictors)
        by_u = problem.weights[:k] @ by_z
        fair += worth.sum(axis=0).reshape(-1, len(z)) @ weights / n
        rise += a * by_u.reshape(-1, len(z)) @ weights / n
        by[:, j, :k] = (by_z.reshape(k, -1, len(z)) @ weights).T / n
        if model.item_slopes:
            by[:, j, n_steps] = (by_u * effect[0]).reshape(-1, len(z)) @ weights / n
    rows = np.repeat(np.arange(len(theta)), places.size)
    columns = np.tile(places.reshape(-1), len(theta))
    return fair, rise, csr_array((by.reshape(-1), (rows, columns)), shape=(len(theta), problem.n_parameters))
