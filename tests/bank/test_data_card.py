"""What a bank says of itself: kept in the file, in the banks made of it, and absent where nothing was said."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import irtbench
from builders.command_line import run
from builders.refusals import is_refused
from builders.scales import scale_of
from irtbench.config import read_card

CARD = irtbench.DataCard(title="Entailment <b>", license="CC-BY-4.0", population="1,000 workers")
ITEMS = irtbench.ItemParameters.from_difficulty([1.0, 1.5, 0.8, 1.2, 1.0], [-1.0, 0.0, 1.0, 0.5, -0.5])


def bank_of(card: irtbench.DataCard | None) -> irtbench.ItemBank:
    return irtbench.ItemBank((scale_of(ITEMS, irtbench.Norms(np.linspace(-2, 2, 30))),), card)


def test_the_card_is_read_as_it_was_saved_and_the_hash_watches_it_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bank.json"
    irtbench.save_bank(bank_of(CARD), path)
    assert irtbench.load_bank(path).card == CARD
    assert bank_of(CARD).schema_version == 3
    assert bank_of(CARD).content_hash != bank_of(replace(CARD, license="CC0")).content_hash
    path.write_text(path.read_text().replace("CC-BY-4.0", "CC0-1.0"))
    is_refused("does not fit its hash", irtbench.load_bank, path)
    for nothing in (None, irtbench.DataCard()):  # the file is what it was without a card
        path.unlink()
        irtbench.save_bank(bank_of(nothing), path)
        assert list(json.loads(path.read_text())) == ["schema_version", "content_hash", "scales"]
        assert (bank_of(nothing).schema_version, irtbench.load_bank(path).card) == (1, None)
    for text, saying in (
        ("licence = 'CC0'\n", "card.licence: unknown"),
        ("title = 3\n", "card.title: expected a text but got 3"),
        ("title = \n", "not valid TOML"),
    ):
        (tmp_path / "card.toml").write_text(text)
        is_refused(saying, read_card, tmp_path / "card.toml")


def test_a_bank_of_models_says_so_in_sentences_and_earlier_banks_are_as_they_were(tmp_path: Path) -> None:
    bank = bank_of(replace(CARD, respondents="models"))
    irtbench.save_bank(bank, tmp_path / "bank.json")
    assert (bank.schema_version, irtbench.load_bank(tmp_path / "bank.json").respondents) == (5, "models")
    (tmp_path / "r.csv").write_text("respondent_id,item1,item2,item3,item4,item5\nx,1,1,0,1,1\n")
    said = run(f"score {tmp_path}/bank.json {tmp_path}/r.csv").out
    assert "better than ... of the models" in said
    assert "0 is the mean of the models" in said
    assert "crowd" not in said


def test_banks_made_of_it_keep_it(tmp_path: Path) -> None:
    assert irtbench.form_bank(bank_of(CARD), ["item1", "item3"]).card == CARD
    people = tmp_path / "people.csv"
    pd.DataFrame({"respondent_id": list("abc"), "theta": [0.1, 0.2, 0.3]}).to_csv(people, index=False)
    assert irtbench.with_norms(bank_of(CARD), people).card == CARD
    irtbench.save_bank(bank_of(CARD), tmp_path / "bank.json")
    irtbench.save_bank(bank_of(None), tmp_path / "new.json")
    run(f"link {tmp_path}/bank.json --items {tmp_path}/new.json -o {tmp_path}/linked -q")
    assert irtbench.load_bank(tmp_path / "linked" / "bank.json").card == CARD


def test_a_fit_and_a_study_write_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    drawn = irtbench.simulate_responses(rng.normal(size=600), ITEMS, rng=rng)
    drawn.to_long().to_csv(tmp_path / "r.csv", index=False)
    (tmp_path / "card.toml").write_text('title = "T"\ncollection = "a \\"platform\\""\n')
    run(f"fit {tmp_path}/r.csv -o {tmp_path}/fit --card {tmp_path}/card.toml -q")
    known = irtbench.load_bank(tmp_path / "fit" / "bank.json")
    assert known.card == irtbench.DataCard(title="T", collection='a "platform"')
    (tmp_path / "study.toml").write_text(
        '[study]\ntitle = "A study"\n[data]\nanswers = "r.csv"\ncontent = "responses"\n[pruning]\npreset = "none"\n'
        '[card]\nlicense = "CC0-1.0"\n'
    )
    settings = irtbench.read_study(tmp_path / "study.toml")
    assert settings.card == irtbench.DataCard(title="A study", license="CC0-1.0")
    assert irtbench.run_study(settings).bank.card == settings.card
