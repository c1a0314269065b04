"""Forms for the accuracy on all items: the first items by hand, a form as hard as the whole, wishes, bad input."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run
from builders.scales import scale_of
from irtbench import InputError, ItemParameters, assemble_forms, simulate_responses


def items_of(rng: np.random.Generator, n: int) -> ItemParameters:
    return ItemParameters.from_difficulty(rng.lognormal(0.1, 0.4, n), rng.normal(size=n))


def test_the_first_item_and_what_it_leaves_by_hand() -> None:
    # ten responses to three items, each half right: both right in four of ten for the first and second, a covariance of
    # .4 - .25, in three for the first and third, and in two for the second and third
    known = np.array([[*map(float, responses)] for responses in ("1111100000", "1111010000", "1010101010")]).T
    raw = np.cov(known.T, bias=True)
    np.testing.assert_allclose(raw, [[0.25, 0.15, 0.05], [0.15, 0.25, -0.05], [0.05, -0.05, 0.25]])
    # shrunk by .2, with a level of variance .25 in all of systems beyond; the first is best for either kind
    covariance = 0.8 * raw + 0.25
    np.fill_diagonal(covariance, 0.5)
    np.testing.assert_allclose(covariance.sum(axis=1), [1.16, 1.08, 1.0])
    items = ItemParameters.from_difficulty([1.0] * 3, [0.0, 0.1, 0.2])
    found = assemble_forms(items, length=1, objective="accuracy", known=known)
    assert found.forms == (("item1",),)
    # the variance of the mean of three, 3.24 / 9, less (1.16 / 3)^2 / .5
    assert found.objective == pytest.approx(np.sqrt(3.24 / 9 - (1.16 / 3) ** 2 / 0.5))
    assert not found.optimal
    assert f"accuracy known to {found.objective:.3f}" in repr(found)


def test_a_form_is_as_hard_as_the_whole_and_tells_more_than_one_drawn() -> None:
    rng = np.random.default_rng(3)
    items = items_of(rng, 200)
    known = simulate_responses(rng.normal(size=300), items, rng=rng)
    new = simulate_responses(rng.normal(1, 1, size=300), items, rng=rng)
    truth = new.values.mean(axis=1)
    scale = scale_of(items)
    drawn = [rng.choice(items.item_ids, 30, replace=False) for _ in range(10)]
    for responses in (known, None):
        form = assemble_forms(scale, length=30, objective="accuracy", known=responses).forms[0]
        hard = known.select_items(list(form)).values.mean()
        assert abs(hard - known.values.mean()) < 0.06
        found = irtbench.predict_accuracy(scale, new.select_items(list(form)))
        others = [irtbench.predict_accuracy(scale, new.select_items(list(one))).accuracy for one in drawn]
        error = np.abs(found.accuracy - truth).mean()
        assert error < np.mean([np.abs(other - truth).mean() for other in others])
        assert ((found.lower <= truth) & (truth <= found.upper)).mean() > 0.93


def test_required_and_forbidden_items() -> None:
    items = items_of(np.random.default_rng(4), 40)
    found = assemble_forms(items, length=8, objective="accuracy").forms[0]
    out, wanted = found[0], next(item for item in items.item_ids if item not in found)
    again = assemble_forms(items, length=8, objective="accuracy", required=(wanted,), forbidden=(out,)).forms[0]
    assert (wanted in again, out in again, len(again)) == (True, False, 8)


def test_what_does_not_go_with_accuracy_is_refused() -> None:
    items = ItemParameters.from_difficulty([1.0] * 5, np.arange(5.0))
    gap = np.ones((4, 5))
    gap[0, 0] = np.nan
    for wishes, saying in (
        ({"se": 0.5}, "got se"),
        ({"length": 2, "forms": 2}, "got forms"),
        ({"length": 2, "enemies": [("item1", "item2")]}, "got enemies"),
        ({"length": 2, "known": gap}, "complete responses of at least two"),
        ({"length": 6}, "5 items are left"),
        ({"length": 2, "required": ("item9",)}, "item9 is not in the bank"),
    ):
        with pytest.raises(InputError, match=saying):
            assemble_forms(items, objective="accuracy", **wishes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="go with the objective accuracy"):
        assemble_forms(items, length=2, known=np.ones((4, 5)))


def test_the_command_writes_the_same_form(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    scale = scale_of(items_of(rng, 30))
    known = simulate_responses(rng.normal(size=50), scale.items, rng=rng)
    irtbench.save_bank(irtbench.ItemBank((scale,)), tmp_path / "bank.json")
    known.to_long().to_csv(tmp_path / "known.csv", index=False)
    done = run("form assemble bank.json --for accuracy --length 6 --learn-from known.csv -o form", cwd=tmp_path)
    wanted = assemble_forms(scale, length=6, objective="accuracy", known=known)
    assert tuple(pd.read_csv(tmp_path / "form" / "form.csv")["item_id"]) == wanted.forms[0]
    assert f"the accuracy on all items is known to a standard deviation of {wanted.objective:.3f}" in done.out
    refused = run("form assemble bank.json --for accuracy --se 0.4 -o x", cwd=tmp_path, status=2)
    assert "for accuracy goes with length" in refused.err
