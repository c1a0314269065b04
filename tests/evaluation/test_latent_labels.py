"""Labels without a key by a latent-class model: who is believed, what is hard, and how sure it is."""

import numpy as np
import pandas as pd
import pytest

import irtbench
from irtbench.evaluation import latent_class_labels


def crowd(
    n_items: int, n_respondents: int, each: int, n_labels: int, *, seed: int, bias: float = 0.5
) -> tuple[pd.Series, pd.DataFrame, pd.Series]:
    """Truth, answers and the items' ease: every item is labelled by ``each`` of respondents unlike in activity."""
    rng = np.random.default_rng(seed)
    names = [f"q{item}" for item in range(n_items)]
    truth = rng.integers(n_labels, size=n_items)
    ability, ease = rng.normal(1.5, 0.7, n_respondents), rng.normal(0, 0.5, n_items)
    leaning = rng.normal(0, bias, (n_respondents, n_labels))
    active = rng.random(n_respondents) ** 2 + 0.01
    who = np.array([rng.choice(n_respondents, each, replace=False, p=active / active.sum()) for _ in range(n_items)])
    logit = leaning[who] + rng.gumbel(size=(n_items, each, n_labels))
    logit[np.arange(n_items), :, truth] += ability[who] * np.exp(ease)[:, None]
    answers = pd.DataFrame(
        {
            "respondent_id": [f"r{one}" for one in who.ravel()],
            "item_id": np.repeat(names, each),
            "answer": [f"label{one}" for one in logit.argmax(axis=2).ravel()],
        }
    )
    return pd.Series([f"label{one}" for one in truth], index=names), answers, pd.Series(ease, index=names)


def right(found: irtbench.evaluation.GoldLabels, truth: pd.Series) -> np.ndarray:
    return np.asarray(np.array(found.label) == truth[list(found.item_ids)].to_numpy())


@pytest.mark.parametrize("by_model", [latent_class_labels, irtbench.dawid_skene_labels])
def test_two_good_respondents_are_believed_against_three_who_guess(by_model):
    if by_model is irtbench.dawid_skene_labels:
        pytest.importorskip("crowdkit")
    rng = np.random.default_rng(2)
    truth = rng.integers(2, size=300)
    chances = (0.95, 0.9, 0.55, 0.55, 0.55)
    given = np.where(rng.random((5, 300)) < np.array(chances)[:, None], truth, 1 - truth)
    answers = pd.DataFrame(given.astype(str), index=[f"r{r}" for r in range(5)], columns=[f"q{i}" for i in range(300)])
    key = pd.Series(truth.astype(str), index=answers.columns)
    found = by_model(answers)
    assert right(irtbench.majority_labels(answers), key).mean() < 0.87 < 0.92 < right(found, key).mean()
    if by_model is latent_class_labels:
        assert found.converged
        np.testing.assert_allclose(found.respondents["accuracy"], chances, atol=0.06)


@pytest.mark.parametrize(("n_labels", "each"), [(2, 3), (2, 10), (8, 8)])
def test_labels_are_as_often_right_as_they_say(n_labels, each):
    """Over crowds: their mean probability is the share right, and more are right than by majority, of three a few."""
    shares, said, by_majority = [], [], []
    for seed in range(4):
        truth, answers, _ = crowd(400, 40, each, n_labels, seed=seed)
        found = latent_class_labels(answers)
        shares.append(right(found, truth).mean())
        said.append(found.probability.mean())
        by_majority.append(right(irtbench.majority_labels(answers), truth).mean())
    assert np.mean(shares) == pytest.approx(np.mean(said), abs=0.03)
    assert np.mean(shares) > np.mean(by_majority) + (0.0 if each == 3 else 0.03)


def test_hard_items_are_found():
    truth, answers, ease = crowd(300, 30, 12, 2, seed=1)
    found = latent_class_labels(answers)
    assert np.corrcoef(found.difficulty, -ease[list(found.item_ids)])[0, 1] > 0.5
    sure, unsure = (right(found, truth)[chosen].mean() for chosen in (found.difficulty < 0, found.difficulty > 0.2))
    assert unsure < sure


def test_a_respondent_of_few_answers_is_drawn_to_the_crowd():
    """One who contradicts everybody is not believed after sixty items, and hardly doubted after one."""
    truth, answers, _ = crowd(200, 10, 5, 2, seed=3)
    wrong = truth.map({"label0": "label1", "label1": "label0"}).rename_axis("item_id").rename("answer").reset_index()
    for n, least, most in ((1, 0.6, 0.9), (60, 0.0, 0.3)):
        found = latent_class_labels(pd.concat([answers, wrong[:n].assign(respondent_id="liar")]))
        accuracy = found.respondents.set_index("respondent_id")["accuracy"]
        assert least < accuracy["liar"] < most


def test_names_of_labels_and_order_of_rows_do_not_matter():
    _, answers, _ = crowd(80, 12, 5, 3, seed=4)
    other = {"label0": "z", "label1": "a", "label2": "m"}
    turned = answers.assign(answer=answers["answer"].map(other)).sample(frac=1, random_state=1)
    found, renamed = (
        dict(zip(of.item_ids, of.label, strict=True)) for of in map(latent_class_labels, (answers, turned))
    )
    assert renamed == {item: other[label] for item, label in found.items()}


@pytest.mark.parametrize(
    ("rows", "label"), [(["a"], ["a"]), (["aa", "aa"], ["a", "a"]), (["abc"], ["a", "b", "c"]), (["a", "b"], [""])],
    ids=["one answer", "one label", "one respondent", "two who disagree"],
)  # fmt: skip
def test_the_smallest_crowds_have_labels(rows, label):
    found = latent_class_labels(pd.DataFrame(map(list, rows)).rename(index="r{}".format, columns="q{}".format))
    assert found.converged
    assert np.isfinite(found.probability).all()
    assert list(found.label) == label
