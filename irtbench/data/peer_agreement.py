"""How often a respondent answers as the others do, item by item."""

from __future__ import annotations

import pandas as pd

from irtbench.data.given import AnswersLike, as_answers


def peer_shares(answers: pd.DataFrame) -> pd.Series[float]:
    """Share of the other respondents to the item who gave the same answer, for each row.

    (n_ik - 1) / (n_i - 1) with n_ik answers k to item i and n_i in all; NaN where nobody else answered the item. The
    mean over a respondent's rows is the agreement with one of the others drawn at random for each item.

    Parameters
    ----------
    answers
        Long table ``respondent_id, item_id, answer`` without empty answers, a row for each pair.
    """
    n_item = answers.groupby("item_id")["answer"].transform("size")
    n_same = answers.groupby(["item_id", "answer"])["answer"].transform("size")
    return (n_same - 1) / (n_item - 1).where(n_item > 1)


def peer_agreement(answers: AnswersLike) -> pd.Series[float]:
    """Mean of ``peer_shares`` over each respondent's answers; the index holds the respondents.

    Parameters
    ----------
    answers
        Long table ``respondent_id, item_id, answer``, or a wide one (`as_answers`); empty answers are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> irtbench.peer_agreement(answers).round(2).to_dict()
    {'ann': 0.44, 'bob': 0.61, 'cy': 0.39, 'dee': 0.33}
    """
    answers = as_answers(answers)
    given = answers[answers["answer"].fillna("") != ""]
    return peer_shares(given).groupby(given["respondent_id"]).mean()
