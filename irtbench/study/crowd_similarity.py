"""Pairs of respondents who are too alike, over all scales of a crowd."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from irtbench.data.given import AnswersLike, ResponsesLike, as_answers, as_responses
from irtbench.data.input_error import InputError
from irtbench.diagnostics.answer_similarity import AnswerSimilarity, answer_similarity
from irtbench.models.item_parameters import ItemParameters
from irtbench.study.person_screening import ScaleFit


def crowd_similarity(answers: AnswersLike, responses: ResponsesLike, fits: Sequence[ScaleFit]) -> AnswerSimilarity:
    """Compare every two respondents on all scales fitted, each with the abilities on its own.

    Parameters
    ----------
    answers
        Long table ``respondent_id, item_id, answer``, or a wide one (`as_answers`).
    responses
        Graded responses of the respondents who are compared (a matrix, array or data frame: `as_responses`).
    fits
        One fit a scale, whoever they are from.

    Raises
    ------
    InputError
        If no scale could be fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> truth = irtbench.ItemParameters.from_difficulty([1.5] * 20, np.linspace(-1.5, 1.5, 20))
    >>> values = irtbench.simulate_responses(rng.normal(size=80), truth, rng=rng).values
    >>> answers = pd.DataFrame(np.where(values == 1, "a", rng.choice(["b", "c"], values.shape)), columns=truth.item_ids)
    >>> answers.iloc[1] = answers.iloc[0] = ["b", "c"] * 5 + ["a"] * 10  # one has copied from the other
    >>> responses = (answers == "a").astype(int)
    >>> fits = irtbench.fit_scales(responses, {"all": truth.item_ids}, irtbench.FitSettings(), seed=0)
    >>> found = irtbench.crowd_similarity(answers, responses, fits)
    >>> found.table()[["respondent_1", "respondent_2", "n_identical", "n_identical_wrong"]].head(1)
      respondent_1 respondent_2  n_identical  n_identical_wrong
    0            0            1           20                 10
    """
    answers, responses = as_answers(answers), as_responses(responses)
    if not fits:
        raise InputError("answer similarity: no scale could be fitted, and without abilities nothing can be expected")
    parts = [fit.fitted.items for fit in fits]
    items = ItemParameters(
        tuple(item for part in parts for item in part.item_ids),
        np.concatenate([part.discrimination for part in parts]),
        np.concatenate([part.intercept for part in parts]),
        np.concatenate([part.guessing for part in parts]),
        np.concatenate([part.guessing_estimated for part in parts]),
    )
    scale = np.repeat(np.arange(len(parts)), [part.n_items for part in parts])
    theta = np.stack(
        [
            np.asarray(
                pd.Series(fit.abilities.theta, index=list(fit.responses.respondent_ids)).reindex(
                    list(responses.respondent_ids)
                ),
                dtype=np.float64,
            )
            for fit in fits
        ],
        axis=1,
    )
    return answer_similarity(answers, responses.select_items(items.item_ids), items, theta, scale=scale)


def most_similar(similarity: AnswerSimilarity, respondent_ids: Sequence[str], *, level: float) -> pd.DataFrame:
    """The other of the most suspect pair a respondent is in, if its adjusted p is below the level.

    Columns ``similar_to`` (empty if none) and ``similar_p``, a row for each respondent in order.
    """
    found: dict[str, tuple[str, float]] = {}
    for (first, second), p in zip(similarity.pairs, similarity.p_adjusted, strict=True):
        if p < level:
            found.setdefault(first, (second, p))
            found.setdefault(second, (first, p))
    rows = [found.get(respondent, ("", np.nan)) for respondent in respondent_ids]
    return pd.DataFrame(rows, columns=["similar_to", "similar_p"])
