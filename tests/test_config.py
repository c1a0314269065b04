"""A study file's settings, and that what is wrong in one is named by its key."""

from pathlib import Path

import pytest

from irtbench import Exclusion, InputError, ScoringSettings
from irtbench.config import PRESETS, read_study
from irtbench.models.priors import GuessingPrior

SHIPPED = Path(__file__).resolve().parents[1] / "configs"


@pytest.fixture
def write(tmp_path: Path):
    (tmp_path / "answers.csv").write_text("respondent_id,item_id,answer\n")
    (tmp_path / "items.csv").write_text("item_id,key\n")

    def study(text: str) -> Path:
        path = tmp_path / "study.toml"
        path.write_text(text)
        return path

    return study


DATA = '[data]\nanswers = "answers.csv"\n'


def test_what_is_not_given_has_its_default_and_the_preset_none_switches_every_rule_off(write) -> None:
    settings = read_study(write(DATA))
    assert settings.pruning == PRESETS["standard"]
    assert settings.model.kind == "2pl"
    assert settings.data.answers.is_absolute()
    assert settings.output.directory is None
    rules = read_study(write(DATA + '[pruning]\npreset = "none"\nmin_communality = 0.1\n')).pruning
    assert rules.min_communality == 0.1
    assert rules.item_fit_alpha is rules.local_dependence_alpha is None
    assert not rules.drop_negative_slopes
    with pytest.raises(InputError, match=r"absent.toml: no such file"):
        read_study(write("").parent / "absent.toml")


def test_what_is_given_is_taken(write) -> None:
    settings = read_study(
        write(
            DATA + 'items = "items.csv"\n[model]\nkind = "3pl"\nn_options = 3\n'
            "[pruning]\nitem_fit_alpha = 0.01\nexclude = [{ item_id = 'i1', reason = 'typo' }]\n"
            '[published]\nsource = "them"\n[published.scales.neutral]\nn_kept = 28\ndifficulty = [-2, 0.5]\n'
        )
    )
    assert settings.model.kind == "3pl"
    assert settings.model.priors.guessing == GuessingPrior("beta", 20 / 3, 20 - 20 / 3)
    assert settings.pruning.item_fit_alpha == 0.01
    assert settings.pruning.min_communality == 0.15
    assert settings.pruning.exclude == (Exclusion("i1", "typo"),)
    assert settings.published.scales["neutral"].difficulty == (-2.0, 0.5)


def test_scores_have_the_options_of_the_command(write) -> None:
    (write("").parent / "workers.csv").write_text("respondent_id,country\n")
    assert read_study(write(DATA)).score.scoring(seed=3) == ScoringSettings(seed=3)
    settings = read_study(
        write(
            DATA + 'respondents = "workers.csv"\n[score]\nmethod = "wle"\nitem_error = "delta"\nlevel = 0.9\n'
            'norm_group = { country = "de" }\nnorm_groups = ["age", "country"]\nnorm_weight = "weight"\n'
        )
    )
    # a norm group asks for the smoothed norm, as in the command
    assert settings.score.scoring(seed=3) == ScoringSettings("wle", "delta", "smoothed", ("country", "de"), 0.9, 3)
    assert settings.score.norm_columns == ("age", "country")
    assert settings.data.respondents is not None


def test_the_shipped_study_file_is_read() -> None:
    found = read_study(SHIPPED / "quickstart.toml")
    assert len(found.score.systems) == 3
    beside = read_study(SHIPPED.parent / "data" / "crowd_study" / "study.toml")  # that of the copy in the package
    assert [file.resolve() for file in found.files[1:]] == [file.resolve() for file in beside.files[1:]]
    for part in ("screening", "grading", "scales", "model", "pruning"):
        assert getattr(found, part) == getattr(beside, part)


@pytest.mark.parametrize("name", ["lalor2016_5gs.toml", "lalor2016_4gs.toml"])
def test_the_papers_study_files_are_read(real_data: Path, name: str) -> None:
    assert read_study(SHIPPED / name).data.where == {"set": name[-8:-5]}
