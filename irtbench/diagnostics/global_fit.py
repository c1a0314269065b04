"""Does one ability fit all the items together: M2, RMSEA, SRMSR, TLI and CFI."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from scipy.special import chdtrc, chndtr, chndtrinc

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Figures
from irtbench.diagnostics.correlation import pairwise_correlation
from irtbench.diagnostics.moments import FEWEST_TOGETHER, MOST_MOMENTS, CategoryMoments, Margins, Moments
from irtbench.diagnostics.person_fit import check_items_agree
from irtbench.diagnostics.quadratic_form import Residuals, complete_form, dense_form, fine_enough, score_forms
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature, normal_grid

FEWEST_RESPONDENTS = 50  # with fewer M2 hardly ever rejects, nor where items outnumber respondents
MOST_CATEGORY_MOMENTS = 4_000  # of items in categories: a matrix of 128 MB
MOST_DENSE_MOMENTS = 2_000  # of complete responses: 62 items; a matrix of 32 MB


@dataclass(frozen=True)
class GlobalFit(Figures):
    """Fit of the model to all items at once.

    Parameters
    ----------
    m2, df, p
        Limited-information statistic, its degrees of freedom and p; NaN where not available, see ``reason``.
    rmsea, rmsea_lower, rmsea_upper
        Root mean square error of approximation with its 90% interval.
    srmsr
        Standardised root mean square residual of the correlations.
    tli, cfi
        Tucker-Lewis and comparative fit index against the model of independent items.
    n_respondents
        Respondents with any response.
    respondents_used
        On how many respondents and pairs of items the figures rest, in words.
    n_per_pair
        Mean number of respondents who answered both items of a pair used; all of them where responses are complete.
    reason
        Why M2 and what follows from it is not available, in words; empty where it is.
    """

    m2: float = float("nan")
    df: int = 0
    p: float = float("nan")
    rmsea: float = float("nan")
    rmsea_lower: float = float("nan")
    rmsea_upper: float = float("nan")
    srmsr: float = float("nan")
    tli: float = float("nan")
    cfi: float = float("nan")
    n_respondents: int = 0
    respondents_used: str = "none"
    n_per_pair: float = float("nan")
    reason: str = ""


def global_fit(responses: ResponsesLike, items: ParametersLike, *, quadrature: Quadrature | None = None) -> GlobalFit:
    """Limited-information fit of the model to the responses of one and two items.

    M2 = N e' C e,  C = Xi^-1 - Xi^-1 D (D' Xi^-1 D)^-1 D' Xi^-1                        (Maydeu-Olivares & Joe, 2006)

    with e the observed less the expected shares of right responses to every item and every pair, Xi their
    covariance under the model and D the derivatives of the expected shares by the item parameters. It is chi-square
    with J (J + 1) / 2 less the number of parameters as degrees of freedom.

    RMSEA = sqrt(max(0, (M2 - df) / (df (N - 1)))), with the interval from the noncentral chi-square.
    TLI and CFI compare with the M2 of independent items, which is N times the sum of the squared correlations.
    SRMSR is the root mean square of observed less expected correlations.

    Where responses are missing, the sums over respondents of E[x_j - P_j] and E[(x_j - P_j)(x_k - P_k)], given all
    their answers, take the place of the shares' residuals e, and C is that of their covariance among respondents
    simulated with abilities from their posteriors and asked the same. These are scores of the model, whose expectation
    is 0 whoever answered what, as long as that depends on the answers seen; shares of the whole population are no
    measure where abler people answer more, or a second stage is chosen by the first. N is then the mean number who
    answered both items of a pair. Pairs that fewer than twenty respondents answered together, as in a design with
    booklets, are left out, and df counts the scores left less the parameters these depend on. With more than a thousand
    items, or of incomplete responses with more than about 44, M2 uses as many pairs as can be computed, drawn at
    random; where these are fewer than the parameters there is none. With fewer than 50 respondents, or more items than
    respondents, p is near 1 whatever fits, and M2 is not given.

    Of items in categories it is C2 (Cai & Monroe, 2014): e are shares of every category but the lowest, and mean
    products of two items' scores; of complete responses.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).
    items
        Parameters of the same items in the same order; ``n_free`` of them counts against df.
    quadrature
        The population; None for the standard normal.

    Raises
    ------
    InputError
        If the items differ.

    Warns
    -----
    RuntimeWarning
        If M2 is not available: it and what follows from it is NaN, and ``reason`` says why. No degree of freedom may be
        left, no pair answered by enough respondents, items nearly coincide, or respondents are fewer than 50 or than
        the items. With several trials of an item all is
        NaN, without a warning.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> found = irtbench.global_fit(responses, items)
    >>> found
    <GlobalFit: m2 1.65, df 9, p 0.9959, rmsea 0, rmsea_lower 0, rmsea_upper 0, srmsr 0.04132, tli 1.05>
    >>> found.p > 0.05
    True
    """
    responses, items = responses_and_items(responses, items, categories=True)
    check_items_agree(responses, items)
    population = normal_grid() if quadrature is None else quadrature
    if items.categories is not None:
        return _of_categories(responses, items.categories, population)
    moments = Moments.of(items, population if responses.is_complete else fine_enough(population, items))
    return _global_fit(responses, moments, items.n_parameters)


def global_fit_of_factors(
    responses: ResponsesLike,
    slopes: NDArray[np.float64],
    intercept: NDArray[np.float64],
    *,
    n_parameters: int,
    zero_loadings: NDArray[np.bool_] | None = None,
) -> GlobalFit:
    """The same for a 2PL with several independent standard normal abilities, P = 1 / (1 + exp(-(a' theta + d))).

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).
    slopes, intercept
        a of shape (n_items, n_factors) and d of shape (n_items,), items in the order of the responses.
    n_parameters
        Number of free parameters; an exploratory model has fewer than slopes and intercepts, since a rotation changes
        nothing.
    zero_loadings
        Where slopes were fixed at zero, shape (n_items, n_factors); None if exploratory.

    Raises
    ------
    InputError
        If the shapes do not fit the responses.

    Warns
    -----
    RuntimeWarning
        As `global_fit`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> fitted = irtbench.fit_factors(responses, 1)
    >>> found = irtbench.global_fit_of_factors(
    ...     responses, fitted.slopes, fitted.intercept, n_parameters=fitted.n_parameters
    ... )
    >>> found.df, found.p > 0.05
    (9, True)
    """
    responses = as_responses(responses)
    if slopes.ndim != 2 or slopes.shape[0] != responses.n_items or intercept.shape != (responses.n_items,):
        raise InputError(
            f"global fit: slopes {slopes.shape} and intercepts {intercept.shape} for {responses.n_items} items"
        )
    free = np.ones(slopes.shape, dtype=np.bool_) if zero_loadings is None else ~zero_loadings
    return _global_fit(responses, Moments.of_factors(slopes, intercept, free), n_parameters)


def _global_fit(responses: ResponseMatrix, moments: Moments, n_parameters: int) -> GlobalFit:
    """The statistics of these moments."""
    if responses.trials is not None:
        return GlobalFit(reason="several trials of an item, and it is of one response each")
    if responses.n_items > MOST_MOMENTS:
        return GlobalFit(reason=f"{responses.n_items:,} items have more pairs than can be computed")
    margins = Margins.of(responses, moments)
    correlations = pairwise_correlation(responses.values)
    pairs = margins.pairs[0], margins.pairs[1]
    residuals = (
        None
        if responses.is_complete
        else Residuals.of(
            np.nan_to_num(responses.values), responses.n_trials, *moments.log_probabilities(), np.log(moments.weights)
        )
    )
    figures, reason = dict[str, Any](), ""
    try:
        m2, df = _m2(responses, moments, margins, n_parameters, residuals)
        figures = _indices(m2, df, margins.n_per_pair, correlations[pairs], margins.n[-margins.n_pairs :])
    except (ArithmeticError, LinAlgError) as error:
        reason = str(error)
        warnings.warn(f"global fit: M2 is not available: {reason}", RuntimeWarning, stacklevel=3)
    expected = moments.expected_products() if residuals is None else residuals.correlations()
    return GlobalFit(
        **figures,
        srmsr=_root_mean_square((correlations - expected)[pairs]),
        n_respondents=int((responses.n_by_respondent > 0).sum()),
        respondents_used=_respondents_used(responses, margins),
        n_per_pair=margins.n_per_pair,
        reason=reason,
    )


def _of_categories(responses: ResponseMatrix, items: CategoryParameters, population: Quadrature) -> GlobalFit:
    """C2 of complete responses in categories."""
    pairs = np.triu_indices(items.n_items, 1)
    n, n_moments = responses.n_respondents, int(items.top.sum()) + pairs[0].size
    fewest = max(FEWEST_RESPONDENTS, items.n_items)
    try:
        refuse_any((
            (not responses.is_complete, "C2 of items in categories is of complete responses"),
            (n_moments > MOST_CATEGORY_MOMENTS,
             f"C2 of {n_moments} moments; at most {MOST_CATEGORY_MOMENTS} are computed"),
            (n < fewest, f"{n} respondents to {items.n_items} items; expected at least {fewest}"),
        ), ArithmeticError)  # fmt: skip
        moments = CategoryMoments.of(items, population)
        jacobian, residual = np.sqrt(n) * moments.jacobian(), np.sqrt(n) * moments.residual(responses.correct)
        m2, rank = dense_form(moments.covariance(), residual, jacobian, jacobian.shape[1])
        refuse_any([(n_moments <= rank, f"{items.n_items} items leave no degree of freedom")], ArithmeticError)
    except ArithmeticError as error:
        return GlobalFit(reason=str(error))
    correlations = pairwise_correlation(responses.correct)[pairs]
    srmsr = _root_mean_square(correlations - moments.scores.expected_products()[pairs])
    figures = _indices(m2, n_moments - rank, float(n), correlations, np.full(correlations.size, float(n)))
    return GlobalFit(**figures, srmsr=srmsr, n_respondents=n, respondents_used=f"all {n}", n_per_pair=float(n))


def _m2(
    responses: ResponseMatrix, moments: Moments, margins: Margins, n_parameters: int, residuals: Residuals | None
) -> tuple[float, int]:
    """M2 and its degrees of freedom."""
    largest = margins.chosen.size - n_parameters  # degrees of freedom, were every parameter to move the shares
    n_respondents, certain = int((responses.n_by_respondent > 0).sum()), int((moments.deviation == 0).sum())
    fewest, all_pairs = max(FEWEST_RESPONDENTS, moments.n_items), residuals is None and not margins.n_pairs_not_drawn
    refuse_any((
        (margins.n_pairs_not_drawn and largest < 1,
         f"of {moments.n_items} items no more than {margins.n_pairs} pairs can be computed, fewer than parameters"),
        (responses.n_respondents < 2 or not margins.n_pairs,
         f"no two items were answered by {FEWEST_TOGETHER} respondents or more"),
        (n_respondents < fewest,
         f"{n_respondents} respondents to {moments.n_items} items; expected at least {fewest}"),
        (certain, f"the model leaves no doubt how {certain} of the items are answered"),
        (all_pairs and largest < 1, f"{moments.n_items} items leave no degree of freedom"),
    ), ArithmeticError)  # fmt: skip
    if residuals is not None:
        m2, rank = _of_scores(residuals, moments, margins, n_parameters)
    else:
        residual, root_n = moments.residual(responses.values), np.sqrt(margins.n)
        if all_pairs and moments.n_moments > MOST_DENSE_MOMENTS:
            return responses.n_respondents * complete_form(moments, residual, n_parameters), largest
        covariance = moments.covariance(margins.chosen)
        jacobian = moments.jacobian().tocsr()[margins.chosen].toarray()
        m2, rank = dense_form(covariance, root_n * residual[margins.chosen], root_n[:, None] * jacobian, n_parameters)
    df = margins.chosen.size - rank
    refuse_any([(df < 1, f"{margins.n_pairs} pairs of items leave no degree of freedom")], ArithmeticError)
    return m2, df


def _of_scores(residuals: Residuals, moments: Moments, margins: Margins, n_parameters: int) -> tuple[float, int]:
    """M2 of incomplete responses, and the number of parameters that move its scores."""
    place = np.arange(moments.item_of.size) - np.searchsorted(moments.item_of, moments.item_of)
    own = np.zeros((moments.n_items, moments.weights.size, int(place.max(initial=0)) + 1))
    own[moments.item_of, :, place] = moments.derivative / (moments.spread * moments.deviation[:, None])[moments.item_of]
    singles = moments.items_of(margins.chosen)[0][: margins.chosen.size - margins.n_pairs]
    first, second = margins.pairs
    few_pairs = 20 * first.size < moments.n_items**2

    def scores(of: Residuals) -> Iterator[NDArray[np.float64]]:
        for nodes, residual, weighted in of.weighted():
            if few_pairs:
                each = [weighted[:, k, None] @ residual[:, second[first == k]].swapaxes(1, 2) for k in np.unique(first)]
                products = np.concatenate(each, axis=2)[:, 0]
            else:
                products = (weighted @ residual.swapaxes(1, 2))[:, first, second]
            of_parameters = (weighted.swapaxes(0, 1) @ own[:, nodes])[moments.item_of, :, place].T
            if moments.shares is not None:
                of_parameters = of_parameters @ moments.shares
            yield np.hstack([weighted[:, singles].sum(axis=2), products, of_parameters])

    n = margins.chosen.size
    total, covariance = score_forms(residuals, scores, n, np.random.default_rng(0))
    return dense_form(covariance[:n, :n], total[:n], covariance[:n, n:], n_parameters)


def _respondents_used(responses: ResponseMatrix, margins: Margins) -> str:
    """On whom and on which pairs the figures rest."""
    n, n_pairs = margins.n_pairs, responses.n_items * (responses.n_items - 1) // 2
    left_out, not_drawn = margins.n_pairs_left_out, margins.n_pairs_not_drawn
    words = (
        (n, f", {margins.n_per_pair:.0f} on average to a pair of items"),
        (left_out, f"; {left_out} of {n_pairs} pairs that too few answered left out"),
        (not_drawn, f"; {n} pairs drawn from {n + not_drawn}"),
    )
    every = responses.is_complete and not not_drawn
    more = "".join(text for said, text in words if said and not every)
    return f"all {int((responses.n_by_respondent > 0).sum())}{more}"


def _root_mean_square(differences: NDArray[np.float64]) -> float:
    """Over those that are defined; NaN if none is."""
    defined = differences[~np.isnan(differences)]
    return float(np.sqrt(np.mean(defined**2))) if defined.size else np.nan


def _indices(
    m2: float, df: int, n: float, correlations: NDArray[np.float64], n_by_pair: NDArray[np.float64]
) -> dict[str, Any]:
    """M2 with its p, RMSEA with its 90% interval, TLI and CFI; NaN if items correlate no more than independent ones.

    Independent items have the identity for Xi, fit every single exactly, and leave as residuals the correlations of the
    pairs, each of n respondents.
    """
    ends = (max(m2 - df, 0.0), _noncentrality(m2, df, 0.95), _noncentrality(m2, df, 0.05))
    rmsea, lower, upper = (float(np.sqrt(excess / (df * (n - 1)))) for excess in ends)
    defined, tli, cfi = ~np.isnan(correlations), np.nan, np.nan
    m2_independent, df_independent = float(n_by_pair[defined] @ correlations[defined] ** 2), int(defined.sum())
    if m2_independent > df_independent:
        ratio = m2_independent / df_independent
        tli = (ratio - m2 / df) / (ratio - 1)
        cfi = min(max(1 - (m2 - df) / (m2_independent - df_independent), 0.0), 1.0)
    return {
        "m2": m2, "df": df, "p": float(chdtrc(df, m2)), "rmsea": rmsea, "rmsea_lower": lower, "rmsea_upper": upper,
        "tli": tli, "cfi": cfi,
    }  # fmt: skip


def _noncentrality(m2: float, df: int, probability: float) -> float:
    """Noncentrality under which a chi-square falls below m2 with this probability; 0 if none is small enough."""
    return float(chndtrinc(m2, df, probability)) if chndtr(m2, df, 0.0) > probability else 0.0
