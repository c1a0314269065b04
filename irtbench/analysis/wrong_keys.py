"""Is the key of an item wrong: ranks items by the probability that the able choose another option."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import betaln, gammaln, ndtr, softmax

from irtbench.data.checked_settings import seeded
from irtbench.data.given import AnswersLike, ResponsesLike, as_answers, as_responses
from irtbench.data.shown import Drawn, counted
from irtbench.diagnostics.internal_consistency import answers_by_item, classical_statistics
from irtbench.models.category_parameters import rates_of
from irtbench.models.curves import log_icc
from irtbench.models.parameter_table import ParametersLike, as_parameters
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import STANDARD_NORMAL, log_likelihood, node_posterior

MOST_OPTIONS = 8  # of an item that are distinguished; the rarer ones count as one
OTHERS = "(others)"
MOST_RESPONDENTS = 5_000  # of an item: more say nothing new, and a random sample of them is as good
N_DRAWS = 20_000
MOST_ROUNDS = 200  # of the share of wrong keys
TOLERANCE = 1e-8
SUSPICIOUS = 0.5  # p from which a key is put forward
FEWEST_RESPONDENTS = 100  # with 40 or 60 a right key is above .5 in one set of 15, with 100 or 200 in none
FIRMNESS = (1.0, 50.0)  # least and largest alpha + beta: shares are never taken to be much alike


@dataclass(frozen=True, eq=False)
class WrongKeys(Drawn, columns="item_ids, key, proposed, p_wrong_key, discrimination, item_rest, p_proposed"):
    """Probability that each item's key is wrong; arrays have shape (n_items,), in the order of the responses.

    Parameters
    ----------
    item_ids, key
        The items and their keys.
    proposed
        The option most likely right if the key is wrong; empty where nobody chose another.
    p_wrong_key
        Probability that the key is wrong.
    p_proposed
        Probability that the proposed option is the right one.
    discrimination
        Slope of the fitted model, as graded by the key.
    item_rest
        Correlation with the sum score of the other items.
    share_wrong
        Share of wrong keys among the items, estimated from all of them.
    n_respondents
        Who answered; fewer than 100 are too few for any key to be called wrong.
    """

    item_ids: tuple[str, ...]
    key: tuple[str, ...]
    proposed: tuple[str, ...]
    p_wrong_key: NDArray[np.float64]
    p_proposed: NDArray[np.float64]
    discrimination: NDArray[np.float64]
    item_rest: NDArray[np.float64]
    share_wrong: float
    n_respondents: int

    @property
    def too_few(self) -> str:
        """Why no key is put forward as wrong, in words; empty where there are respondents enough."""
        few = (
            f"{self.n_respondents} respondents are too few to call a key wrong, at least {FEWEST_RESPONDENTS}; "
            "p_wrong_key only says which items to read first"
        )
        return few if self.n_respondents < FEWEST_RESPONDENTS else ""

    @property
    def suspicious(self) -> tuple[str, ...]:
        """Items whose key is put forward as wrong: p above .5, of at least 100 respondents."""
        each = zip(self.item_ids, self.p_wrong_key, strict=True)
        return tuple(item for item, p in each if p > SUSPICIOUS and not self.too_few)

    def table(self) -> pd.DataFrame:
        """One row an item, the most suspicious first, columns of keys.csv."""
        return super().table().sort_values(["p_wrong_key", "item_rest"], ascending=[False, True], ignore_index=True)

    def in_short(self) -> str:
        """How many items, and how many of their keys are probably wrong."""
        few = f", too few respondents ({self.n_respondents}) to call one wrong" if self.too_few else ""
        above = int((self.p_wrong_key > SUSPICIOUS).sum())
        return f"{counted(len(self.item_ids), 'item')}, {above} with p_wrong_key > .5{few}"

    def expected_precision(self, first: int) -> float:
        """Share of wrong keys to expect among the `first` most suspicious items; NaN for none."""
        highest = np.sort(self.p_wrong_key)[::-1][:first]
        return float(highest.mean()) if highest.size else float("nan")


def wrong_keys(
    answers: AnswersLike,
    keys: dict[str, str],
    responses: ResponsesLike,
    items: ParametersLike,
    *,
    population: Quadrature = STANDARD_NORMAL,
    seed: int = 0,
) -> WrongKeys:
    """Probability that each key is wrong, from the options that able and weak respondents choose.

    What the other items say of a respondent's ability is kept as a posterior over nodes. A nominal response model of
    the item's options (Bock, 1972; `fit_options`) then says which option has the largest slope, that is, which one the
    ablest choose. With p_o the probability of option o to be that one, n_o of n respondents who chose it, m options and
    a share w of wrong keys,

        P(o is right) ~ w_o p_o BetaBinomial(n_o; n, alpha, beta) / C(n - n_o + m - 2, m - 2),
        w_key = 1 - w,  w_o = w / (m - 1) for any other option.

    The beta density is that of the right options' shares over the items, the last factor says that the others share the
    rest in any way alike. w, alpha and beta are estimated from all items (empirical Bayes): w is the mean of P(key is
    wrong), alpha and beta follow from the mean and the variance of the right options' shares.

    All of this takes the right option to be the one that the ablest choose. Where a question leads the able astray that
    is not so, and the answers alone cannot tell such an item from one with a wrong key.

    Parameters
    ----------
    answers
        Raw answers, a long or wide data frame (`as_answers`), normalised as the keys are; empty ones are left out.
    keys
        The key of each item.
    responses
        The answers as graded by the keys, by the same respondents (`as_responses`).
    items
        Parameters fitted to these responses (`as_parameters`); wrong keys among them show as slopes near or below 0 and
        do no harm. Items without any, such as those whose key nobody chose, say nothing of ability and are judged all
        the same.
    population
        Of ability.
    seed
        Of the draws.

    Raises
    ------
    InputError
        If the responses have an item without a key, or somebody who answered is not among them.

    Examples
    --------
    Two hundred people answer eight items of three options; the key of the first is wrong.

    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 8, np.linspace(-1, 1, 8))
    >>> right = irtbench.simulate_responses(rng.normal(size=200), items, rng=rng).table().set_index("respondent_id")
    >>> answers = right.replace(1, "a").where(right == 1, rng.choice(["b", "c"], right.shape))
    >>> keys = dict.fromkeys(items.item_ids, "a") | {"item1": "b"}
    >>> responses = answers == pd.Series(keys)
    >>> found = irtbench.wrong_keys(answers, keys, responses, items.select(items.item_ids[1:]))
    >>> found
    <WrongKeys: 8 items, 1 with p_wrong_key > .5>
    >>> found.table()[["item_id", "key", "proposed", "p_wrong_key"]].round(2).head(2)
      item_id key proposed  p_wrong_key
    0   item1   b        a          1.0
    1   item7   a        c          0.0
    """
    answers, responses, items = as_answers(answers), as_responses(responses), as_parameters(items)
    fitted = [item for item in responses.item_ids if item in set(items.item_ids)]
    known, place = items.select(fitted), {item: k for k, item in enumerate(fitted)}
    right, wrong = log_icc(population.nodes, known)
    whole = log_likelihood(responses.select_items(fitted).values, population.nodes, known)
    values = responses.values
    ablest, options, counts = [], [], []
    for k, (item, rows, texts) in enumerate(answers_by_item(answers, keys, responses)):
        names, rng = options_of(texts, keys[item]), seeded(seed)  # the order of items does not matter
        code = {name: k for k, name in enumerate(names)}
        codes = np.asarray(texts.map(code).fillna(code.get(OTHERS, 0)), dtype=np.intp)
        options.append(names)
        counts.append(np.bincount(codes, minlength=len(names)))
        if len(names) < 2:
            ablest.append(np.ones(1))
            continue
        if len(rows) > MOST_RESPONDENTS:
            some = rng.choice(len(rows), MOST_RESPONDENTS, replace=False)
            rows, codes = rows[some], codes[some]
        rest = whole[rows]
        if item in place:
            x, own = values[rows, k][:, None], place[item]
            rest = rest - np.where(np.isnan(x), 0.0, np.where(x == 1, right[:, own], wrong[:, own]))
        mass, _ = node_posterior(rest, population)
        slopes = fit_options(codes, population.nodes, mass, len(names))
        ablest.append(steepest(*slopes, n_draws=N_DRAWS, rng=rng))
    posteriors, share = _weigh(ablest, counts)
    best = [int(p[1:].argmax()) + 1 if p.size > 1 else 0 for p in posteriors]
    return WrongKeys(
        item_ids=responses.item_ids,
        key=tuple(keys[item] for item in responses.item_ids),
        proposed=tuple(names[b] if b else "" for names, b in zip(options, best, strict=True)),
        p_wrong_key=np.array([1 - p[0] for p in posteriors]),
        p_proposed=np.array([p[b] if b else 0.0 for p, b in zip(posteriors, best, strict=True)]),
        discrimination=np.array(
            [known.discrimination[place[item]] if item in place else np.nan for item in responses.item_ids]
        ),
        item_rest=classical_statistics(responses).item_rest,
        share_wrong=share,
        n_respondents=int((responses.n_by_respondent > 0).sum()),
    )


def options_of(chosen: pd.Series[str], key: str) -> list[str]:
    """The key first, then the other options by how many chose them; the rarest as one where they are many."""
    counted = chosen.value_counts()
    others = sorted(set(counted.index) - {key}, key=lambda option: (-counted[option], option))
    if len(others) >= MOST_OPTIONS:
        others = [*others[: MOST_OPTIONS - 2], OTHERS]
    return [key, *others]


def _weigh(
    steepest: list[NDArray[np.float64]], counts: list[NDArray[np.intp]]
) -> tuple[list[NDArray[np.float64]], float]:
    """Probability of each option to be right, the key first, and the share of wrong keys."""
    share, floor = 0.05, 0.5 / max(1, len(steepest))
    posteriors = [np.eye(1, p.size)[0] for p in steepest]
    for _ in range(MOST_ROUNDS):
        alpha, beta = _right_shares(posteriors, counts)
        posteriors = [_right(p, n, share, alpha, beta) for p, n in zip(steepest, counts, strict=True)]
        found = float(np.clip(np.mean([1 - p[0] for p in posteriors]), floor, 0.5)) if posteriors else share
        if abs(found - share) < TOLERANCE:
            break
        share = found
    return posteriors, share


def _right(
    steepest: NDArray[np.float64], counts: NDArray[np.intp], share: float, alpha: float, beta: float
) -> NDArray[np.float64]:
    """Probability of each of an item's options to be right, shape (n_options,)."""
    m, n = steepest.size, counts.sum()
    if m < 2:
        return np.ones(1)
    rest, log_prior = n - counts, np.append(np.log1p(-share), np.full(m - 1, np.log(share / (m - 1))))
    popularity = betaln(counts + alpha, rest + beta) - gammaln(counts + 1) - gammaln(rest + m - 1)  # but for a constant
    return np.asarray(softmax(log_prior + np.log(np.maximum(steepest, TINY)) + popularity), dtype=np.float64)


def _right_shares(posteriors: list[NDArray[np.float64]], counts: list[NDArray[np.intp]]) -> tuple[float, float]:
    """Alpha and beta of the beta density of the right options' shares, by their mean and variance."""
    known = [(p, n / n.sum(), n.sum()) for p, n in zip(posteriors, counts, strict=True) if n.sum() and p.size > 1]
    if not known:
        return 1.0, 1.0
    mean = float(np.clip(np.mean([p @ share for p, share, _ in known]), 0.01, 0.99))
    variance = float(np.mean([p @ (share - mean) ** 2 for p, share, _ in known]))
    by_chance = float(np.mean([1 / n for _, _, n in known]))
    between = (variance - mean * (1 - mean) * by_chance) / (1 - by_chance) if by_chance < 1 else 0.0
    total = float(np.clip(mean * (1 - mean) / max(between, TINY) - 1, *FIRMNESS))
    return mean * total, (1 - mean) * total


SLOPE_SD, INTERCEPT_SD = 1.0, 3.0  # of the normal priors on each option's slope and intercept
TINY = np.finfo(np.float64).tiny


def fit_options(
    chosen: NDArray[np.intp], nodes: NDArray[np.float64], mass: NDArray[np.float64], n_options: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slopes of the nominal response model of one item (Bock, 1972): their posterior's mode, and its covariance there.

        P(option o | theta) = exp(a_o theta + d_o) / sum_p exp(a_p theta + d_p)

    maximised over sum_n log sum_q mass_nq P(o_n | theta_q) with normal priors on a_o and d_o; mass_n is the posterior
    of theta given the respondent's other answers. Only differences of slopes mean anything.
    """
    of_option, respondents = np.eye(n_options)[chosen].T, np.arange(len(chosen))
    share = np.log(of_option.sum(axis=1) + 0.5)
    precision = np.repeat([SLOPE_SD**-2, INTERCEPT_SD**-2], n_options)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slope, intercept = flat.reshape(2, n_options, 1)
        p = softmax(slope * nodes + intercept, axis=0)
        likelihood = np.maximum((mass @ p.T)[respondents, chosen], TINY)
        expected = p * ((of_option / likelihood) @ mass)  # respondents of each option at each node
        by_logit = expected - p * expected.sum(axis=0)
        gradient = precision * flat - np.concatenate([by_logit @ nodes, by_logit.sum(axis=1)])
        return 0.5 * float(precision @ flat**2) - float(np.log(likelihood).sum()), gradient

    start = np.concatenate([np.zeros(n_options), share - share.mean()])
    mode = minimize(loss, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-6, "maxiter": 500}).x
    information = rates_of(lambda flat: loss(flat)[1], mode)
    covariance = np.asarray(np.linalg.inv((information + information.T) / 2), dtype=np.float64)
    return mode[:n_options], covariance[:n_options, :n_options]


def steepest(
    slope: NDArray[np.float64], covariance: NDArray[np.float64], *, n_draws: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Probability of each option to have the largest slope, shape (n_options,).

    The share of draws from the normal approximation; where no draw says so, how probably the option passes the mode's
    steepest one.
    """
    draws = rng.multivariate_normal(slope, covariance, n_draws, method="eigh")
    share = np.bincount(draws.argmax(axis=1), minlength=slope.size) / n_draws
    first, own = int(slope.argmax()), covariance.diagonal()
    passing = ndtr((slope - slope[first]) / np.sqrt(np.maximum(own + own[first] - 2 * covariance[first], TINY)))
    share = np.where(share > 0, share, np.minimum(passing, 1 / n_draws))
    return np.asarray(share / share.sum(), dtype=np.float64)
