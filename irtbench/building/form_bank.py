"""The bank of a form: its items, with norms that a percentile on so few items can stand on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from irtbench.bank.bank import ItemBank
from irtbench.bank.left_out import NOT_ON_A_SCALE, LeftOut, items_left_out
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.building.item_pool import BankLike, scales_given
from irtbench.data.checked_settings import seeded
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.models.simulation import simulate_responses
from irtbench.models.theta_posterior import STANDARD_NORMAL, posterior_of, row_batches

NOT_ON_THE_FORM = "not_on_the_form"


def form_bank(bank: BankLike, form: Sequence[str], *, seed: int = 0) -> ItemBank:
    """The bank with the items of a form alone, on the same scale of ability.

    The norm sample keeps the abilities and standard errors that it has from all items: they say what the population is
    like, and ``normal`` and ``smoothed`` percentiles stand on them. An empirical percentile compares estimates, and
    those from few items are shrunk more: for it every respondent gets an ability on the form as well, the EAP of
    responses to it drawn at an ability that is drawn from the respondent's posterior.

    Items of the bank that are not on the form are noted in the provenance: responses to them are left out, not refused.
    A scale without an item on the form is left out.

    Parameters
    ----------
    bank
        A bank, a scale, item parameters, or a data frame like items.csv.
    form
        Its items.
    seed
        Of the draws.

    Raises
    ------
    InputError
        If the form has no item or one that the bank has not.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.8, -0.3, 0.4, 1.1, 1.9])
    >>> people = irtbench.Norms(np.random.default_rng(1).normal(size=200))
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids), norms=people)
    >>> form = irtbench.assemble_forms(scale, length=3)
    >>> form.forms[0]
    ('item2', 'item3', 'item5')
    >>> short = irtbench.form_bank(scale, form.forms[0])
    >>> irtbench.score_responses(short, [[1, 1, 0]])[["n_items", "theta", "percentile"]].round(2)
       n_items  theta  percentile
    0        3   0.34        63.3
    """
    scales = scales_given(bank)
    known = {item for scale in scales for item in scale.items.item_ids}
    unknown = [item for item in form if item not in known]
    if unknown:
        raise InputError(f"form: item {name_first(unknown)} is not in the bank; expected its items")
    chosen = set(form)
    kept = [scale for scale in scales if not chosen.isdisjoint(scale.items.item_ids)]
    if not kept:
        raise InputError("form: has no item; expected at least one")
    rng = seeded(seed)
    dropped = [LeftOut(item, NOT_ON_THE_FORM, scale.name)
               for scale in scales for item in scale.items.item_ids if item not in chosen]  # fmt: skip
    left_out = [vars(item) for item in [*items_left_out(scales).values(), *dropped]]
    card = bank.card if isinstance(bank, ItemBank) else None
    return ItemBank(tuple(_on_form(scale, chosen, left_out, rng) for scale in kept), card)


def _on_form(scale: Scale, chosen: set[str], left_out: list[dict[str, object]], rng: np.random.Generator) -> Scale:
    own = [item for item in scale.items.item_ids if item in chosen]
    short = replace(
        scale.select(own),
        provenance={**scale.provenance, NOT_ON_A_SCALE: left_out, "form_of": scale.items.n_items},
    )
    if scale.norms is None or len(own) == scale.items.n_items:
        return short
    return replace(short, norms=_norms_on_form(scale.norms, short, rng))


def _norms_on_form(norms: Norms, short: Scale, rng: np.random.Generator) -> Norms:
    """The norm sample with an ability on the form beside that on all items."""
    theta = norms.theta + norms.spread * rng.normal(size=norms.n)
    values = simulate_responses(theta, short.items, rng=rng).correct
    on_form = np.empty(norms.n)
    for rows in row_batches(norms.n, short.items.n_items):
        on_form[rows] = posterior_of(values[rows], short.items, short.population or STANDARD_NORMAL).mean()
    return replace(norms, standard_error=norms.spread, on_form=on_form)
