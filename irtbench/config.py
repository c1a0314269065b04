"""Read a study file (TOML) into the settings of each step, with errors that name the key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

from irtbench.bank.scale import DataCard
from irtbench.building.form_wishes import FormWishes
from irtbench.building.prune_rules import KEEP_ALL, LALOR2016, PruneRules
from irtbench.data.checked_settings import Count, Inside, Range, Seed, Settings, WrongSetting, settings_from
from irtbench.data.grading import GradingSettings
from irtbench.data.how_to_read import FormatName, ReadingOptions
from irtbench.data.input_error import InputError
from irtbench.data.place import address_of, keep_credentials
from irtbench.data.screening import ScreeningSettings
from irtbench.estimation.settings import FitSettings
from irtbench.evaluation.agreement import Agreement
from irtbench.models.item_models.named import IN_CATEGORIES
from irtbench.scoring.ability import Method
from irtbench.scoring.item_error import ItemError
from irtbench.scoring.percentiles import Norm
from irtbench.scoring.scores import ScoringSettings

Section = TypeVar("Section")

PRESETS: dict[str, PruneRules] = {"standard": PruneRules(), "lalor2016": LALOR2016, "none": KEEP_ALL}


@dataclass(frozen=True)
class StudySettings(Settings):
    """What the study is called, its seed, and a word about it for the report.

    Parameters
    ----------
    title
        What the study is called, above the report and in the bank.
    description
        A word about it, for the report.
    seed
        Of all random numbers.
    screening_effect
        Whether every scale is fitted twice before pruning, to all respondents and to those kept, to show what screening
        changes.
    factors
        Where the number of abilities is counted, compare models of one up to so many factors over all items, and turn
        the loadings to the scales where there are as many; 0 for parallel analysis alone.
    """

    title: str = "Untitled study"
    description: str = ""
    seed: Seed = 0
    screening_effect: bool = False
    factors: Annotated[int, Range(at_least=0, at_most=3)] = 0


#: Keys of ``[data]`` that have another name than the option that says the same.
KEY_OF_OPTION = {"items": "item_pattern", "exclude": "exclude_columns"}


@dataclass(frozen=True)
class DataSettings(Settings):
    """Where the data are.

    Parameters
    ----------
    answers
        File or folder of answers or graded responses; these also at an address (``s3://...``), in Parquet.
    items
        Table of items; needed to grade answers and to form scales by label.
    format
        Any format of docs/formats.md by its name, or ``auto`` to recognise it by content.
    content
        ``answers``, graded by the items' key, or ``responses`` already graded 1 / 0.
    columns
        Our names for columns of the answers, where the file has others: ``answer = "label"``.
    item_columns
        The same for the table of items: ``key = "gold"``.
    where
        Keep only the items whose column has this value: ``set = "5gs"``. Their answers are taken, others left out.
    respondents
        Table of respondents, for the columns that ``[score]`` names; without it they are columns of the answers.
    respondent_columns
        The same as ``columns`` for the table of respondents: ``respondent_id = "worker"``.
    trials
        Several responses of a respondent to an item: ``count`` takes k right of n; ``first``, ``last``, ``majority``
        (more than half), ``any`` or ``mean`` make one of them; ``error`` refuses them. This key and the six below hold
        for the answers and for the systems of ``[score]``.
    threshold
        For scores that are not 1 or 0: right where score >= threshold.
    levels
        Of grades that are labels: all in order, the lowest first.
    metric
        The score or question to take where a file has several; of a folder each file takes the first that it has.
    errored
        What an item means at which a system's run failed.
    join
        Whether items are identified by their name (``id``) or by the ``hash`` of their content; by default one name
        with two contents is an error.
    respondent
        Whom a log's responses are of: ``model``, ``run``, ``file``, ``folder``, or a pattern of its path.
    item_pattern
        Columns of a wide table that are items: ``Q*``.
    exclude_columns
        Columns of a wide table that are no items.
    """

    answers: Path
    items: Path | None = None
    format: FormatName = "auto"
    content: Literal["answers", "responses"] = "answers"
    columns: dict[str, str] = field(default_factory=dict)
    item_columns: dict[str, str] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)
    respondents: Path | None = None
    respondent_columns: dict[str, str] = field(default_factory=dict)
    trials: Literal["count", "error", "first", "last", "mean", "majority", "any"] = "count"
    threshold: float | None = None
    levels: tuple[str, ...] = ()
    metric: tuple[str, ...] = ()
    errored: Literal["missing", "wrong"] = "missing"
    join: Literal["id", "hash"] | None = None
    respondent: str = "model"
    item_pattern: str | None = None
    exclude_columns: tuple[str, ...] = ()

    def how_to_read(self) -> ReadingOptions:
        """What it says of reading, by the names that readers have for it; nothing of the table of respondents."""
        names = [name for name in ReadingOptions.__annotations__ if name != "respondents"]
        return cast(ReadingOptions, {name: getattr(self, KEY_OF_OPTION.get(name, name)) for name in names})


@dataclass(frozen=True)
class ScaleSettings(Settings):
    """How items are divided into scales.

    Parameters
    ----------
    by
        ``label`` for a scale of each label of the items, ``none`` for all items on one.
    """

    by: Literal["label", "none"] = "label"


@dataclass(frozen=True)
class ScoreSettings(Settings):
    """Which systems are scored at the end and how, by the names of the options of ``irtbench score``.

    Parameters
    ----------
    systems
        Tables of systems' answers.
    method
        Estimator of ability, see ``estimate_ability``. This key, ``item_error`` and ``level`` hold for the respondents'
        own scores too.
    item_error
        Whether and how the error of the items' parameters enters abilities and intervals, see ``with_item_error``.
    norm
        What the percentile refers to; None: ``normal``, or ``smoothed`` with a norm group.
    norm_group
        The part of the norm sample that counts: ``{ country = "de" }``.
    norm_groups
        Columns of the respondents that the bank keeps with its norm sample, for norm groups now and later.
    norm_weight
        Column of the respondents with their weights in the norm sample; None for equal weights.
    norm_margins
        The population's shares of values of the respondents' columns, to which the norm sample is weighted (`rake`):
        ``{ country = { de = 0.7, fr = 0.3 } }``. They ask for the norm ``smoothed`` unless another is given.
    level
        Coverage of the intervals.

    Raises
    ------
    InputError
        If values contradict each other, or the level lies outside (0, 1).
    """

    systems: tuple[Path, ...] = ()
    method: Method = "eap"
    item_error: ItemError = "auto"
    norm: Norm | None = None
    norm_group: dict[str, str] = field(default_factory=dict)
    norm_groups: tuple[str, ...] = ()
    norm_weight: str | None = None
    norm_margins: dict[str, dict[str, float]] = field(default_factory=dict)
    level: Inside = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.norm_group) > 1:
            raise InputError(f"norm_group must name one column and value but names {', '.join(self.norm_group)}")
        if self.norm_margins and self.norm == "normal":
            raise InputError(
                "norm_margins: the norm normal has no weights; expected norm smoothed or empirical with it"
            )
        try:
            self.scoring(seed=0)
        except InputError as error:
            raise InputError(str(error).removeprefix("scoring: ")) from None

    def scoring(self, *, seed: int) -> ScoringSettings:
        """How systems and respondents are scored."""
        group = next(iter(self.norm_group.items()), None)
        norm = self.norm or ("normal" if group is None and not self.norm_margins else "smoothed")
        return ScoringSettings(self.method, self.item_error, norm, group, self.level, seed)

    @property
    def norm_columns(self) -> tuple[str, ...]:
        """Columns of the respondents by which norm groups are formed or weighted, each once."""
        return tuple(dict.fromkeys([*self.norm_groups, *self.norm_group, *self.norm_margins]))


@dataclass(frozen=True)
class PublishedScale(Settings):
    """What a publication says of one scale.

    Parameters
    ----------
    n_kept
        Items kept.
    difficulty
        The least and the greatest difficulty of the items kept.
    discrimination
        The same of discrimination.
    """

    n_kept: Count | None = None
    difficulty: tuple[float, float] | None = None
    discrimination: tuple[float, float] | None = None


@dataclass(frozen=True)
class PublishedSettings(Settings):
    """Published figures of the same study, which the report compares with its own.

    Parameters
    ----------
    source
        Who published them.
    n_given
        Items before pruning, all scales together.
    n_kept
        Items after it.
    scales
        The same for each scale, with parameter ranges.
    agreement
        Published statistics of agreement by the names of `Agreement`: ``majority``, ``supermajority``,
        ``fleiss_kappa``.
    notes
        Why the figures differ where they do, a paragraph each.
    """

    source: str = ""
    n_given: Count | None = None
    n_kept: Count | None = None
    scales: dict[str, PublishedScale] = field(default_factory=dict)
    agreement: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        known = [f.name for f in fields(Agreement) if f.type in ("float", "float | None")]
        for name in self.agreement:
            if name not in known:
                raise InputError(f"agreement.{name}: unknown statistic; expected some of {', '.join(known)}")


@dataclass(frozen=True)
class OutputSettings(Settings):
    """Where the results go.

    Parameters
    ----------
    directory
        A folder, relative to the study file; ``-o`` of the command line goes before it.
    """

    directory: Path | None = None


@dataclass(frozen=True)
class StudyFile(Settings):
    """A study file's settings, one field a table; paths are resolved against the file's folder.

    Where ``[model] kind`` is one of items in categories it is ``grades``, and responses are grades.
    """

    path: Path
    study: StudySettings
    data: DataSettings
    screening: ScreeningSettings
    grading: GradingSettings
    scales: ScaleSettings
    model: FitSettings
    pruning: PruneRules
    score: ScoreSettings
    published: PublishedSettings
    output: OutputSettings
    forms: FormWishes | None = None
    card: DataCard | None = None
    grades: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grades is not None:
            self._check_grades(self.grades)
        elif self.data.levels:
            raise InputError(f"{self.path}: data.levels: go with grades; expected model.kind grm, gpcm, pcm or rsm too")
        if self.model.priors.upper is not None:
            raise InputError(
                f"{self.path}: model.kind: items with upper asymptotes go with fit, score and diagnose alone; expected "
                f"2pl or 3pl but got {self.model.kind}"
            )
        if self.score.item_error not in ("auto", "none") and not self.model.standard_errors:
            raise InputError(
                f"{self.path}: score.item_error: {self.score.item_error} needs the items' standard errors; "
                "expected model.standard_errors = true"
            )

    def _check_grades(self, kind: str) -> None:
        """Refuse what items in categories do not go with."""
        usual = replace(
            FitSettings(), prior=self.model.prior, device=self.model.device, n_nodes=self.model.n_nodes,
            standard_errors=self.model.standard_errors,
        )  # fmt: skip
        for wrong, place, why in (
            (kind == "nominal", "model.kind", "nominal: its categories have no order, which item statistics need; "
             "expected grm, gpcm, pcm or rsm"),
            (self.data.content != "responses", "data.content", 'answers have no grades; expected "responses"'),
            (self.data.threshold is not None, "data.threshold", "makes grades right or wrong; expected none with them"),
            (self.model.prior == "hierarchical" and kind in ("pcm", "rsm"), "model.prior", "hierarchical is a prior of "
             f"slopes; with {kind} expected none or weak"),
            (self.model != usual, "model", f"kind {kind} goes with prior, n_nodes, standard_errors and device alone"),
            (self.pruning.compare_factors, "pruning.compare_factors", "models of several abilities are of right and "
             "wrong; expected false with grades"),
            (self.screening.chance_level is not None, "screening.chance_level", "grades are not right by chance; "
             "expected none"),
        ):  # fmt: skip
            if wrong:
                raise InputError(f"{self.path}: {place}: {why}")

    @property
    def scoring(self) -> ScoringSettings:
        """How systems and respondents are scored, by the study's seed."""
        return self.score.scoring(seed=self.study.seed)

    @property
    def files(self) -> tuple[Path, ...]:
        """The study file and every file that it names."""
        data = self.data
        tables = (data.answers, data.items, data.respondents, *self.score.systems)
        return (self.path, *(file for file in tables if file is not None))


def read_study(path: Path) -> StudyFile:
    r"""Read and check a study file.

    Raises
    ------
    InputError
        If the file is missing or no TOML, a key is unknown, a value has the wrong type, or a file it names is missing.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("answers.csv").write_text("respondent_id,item_id,answer\nann,i1,yes\n")
    >>> _ = Path("study.toml").write_text('[data]\nanswers = "answers.csv"\n[model]\nprior = "weak"\n')
    >>> study = irtbench.read_study(Path("study.toml"))
    >>> study.model.prior, study.data.answers.name
    ('weak', 'answers.csv')
    """
    return study_from(_read_toml(path, "a study file"), path)


def study_from(tables: Mapping[str, Any], path: Path) -> StudyFile:
    """Check the tables of a study file, and find the files it names; see `read_study`."""
    known = [f.name for f in fields(StudyFile) if f.name not in ("path", "grades")]
    for name, table in tables.items():
        if name not in known:
            raise InputError(f"{path}: [{name}]: unknown table; expected one of {', '.join(known)}")
        if not isinstance(table, Mapping):
            raise InputError(f"{path}: {name}: expected a table [{name}] but got {table!r}")
    if "data" not in tables:
        raise InputError(f"{path}: [data]: missing; expected a table with at least the key answers")

    def section(cls: type[Section], name: str) -> Section:
        return read_section(path, name, tables.get(name, {}), cls)

    model, grades = tables.get("model", {}), None
    if model.get("kind") in IN_CATEGORIES:
        grades, tables = model["kind"], {**tables, "model": {key: model[key] for key in model if key != "kind"}}
    data = section(DataSettings, "data")
    score = section(ScoreSettings, "score")
    output = section(OutputSettings, "output")
    study = section(StudySettings, "study")
    folder = path.resolve().parent
    return StudyFile(
        path=path,
        study=study,
        data=DataSettings(
            **(vars(data) | {"answers": _answers(path, data, folder)})
            | {"items": data.items and existing(path, "data.items", folder / data.items)}
            | {"respondents": data.respondents and existing(path, "data.respondents", folder / data.respondents)}
        ),
        screening=section(ScreeningSettings, "screening"),
        grading=section(GradingSettings, "grading"),
        scales=section(ScaleSettings, "scales"),
        model=section(FitSettings, "model"),
        pruning=read_rules(path, tables.get("pruning", {})),
        score=replace(
            score,
            systems=tuple(existing(path, "score.systems", folder / system, folders=True) for system in score.systems),
        ),
        published=section(PublishedSettings, "published"),
        output=OutputSettings(output.directory and folder / output.directory),
        forms=section(FormWishes, "forms") if "forms" in tables else None,
        card=_titled(section(DataCard, "card"), study) if "card" in tables else None,
        grades=grades,
    )


def _answers(path: Path, data: DataSettings, folder: Path) -> Path:
    """The file or folder of answers; an address as it is."""
    address = address_of(data.answers)
    if address is None:
        return existing(path, "data.answers", folder / data.answers, folders=True)
    if data.content == "answers":
        raise InputError(f'{path}: data.answers: {address}: an address goes with content = "responses"')
    return keep_credentials(data.answers)


def _titled(card: DataCard, study: StudySettings) -> DataCard:
    """The card with the study's title and description where it has none of its own."""
    title = "" if study.title == StudySettings.title else study.title
    return replace(card, title=card.title or title, description=card.description or study.description)


def read_card(path: Path) -> DataCard:
    """Read a data card: a TOML file with its fields, by themselves or in the table ``[card]`` as in a study file.

    Raises
    ------
    InputError
        If the file is missing or no TOML, a field is unknown, or a value is no text.
    """
    table = _read_toml(path, "a data card")
    own = table.get("card", table)
    return read_section(path, "card", own if isinstance(own, Mapping) else table, DataCard)


def _read_toml(path: Path, what: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; expected {what}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:  # odd dates and numbers are ValueErrors
        raise InputError(f"{path}: not valid TOML: {error}") from None


def read_section(path: Path, name: str, table: Mapping[str, Any], cls: type[Section]) -> Section:
    """Settings of one table; an unknown key or a wrong value is an `InputError` that names file, table and key."""
    try:
        return settings_from(cls, table)
    except WrongSetting as error:
        raise InputError(f"{path}: {name}.{error.place}: {error.words}") from None
    except InputError as error:
        raise InputError(f"{path}: {name}: {str(error).removeprefix(f'{name}: ').removeprefix('form: ')}") from None


def read_rules(path: Path, table: Mapping[str, Any]) -> PruneRules:
    """Rules of the preset named (``standard`` unless another is), with what the table says instead."""
    preset = table.get("preset", "standard")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise InputError(f"{path}: pruning.preset: expected one of {', '.join(PRESETS)} but got {preset!r}")
    given = {key: value for key, value in table.items() if key != "preset"}
    return read_section(path, "pruning", asdict(PRESETS[preset]) | given, PruneRules)


def existing(path: Path, key: str, file: Path, *, folders: bool = False) -> Path:
    """Return the file, or where that will do the folder, if it is there; a study file's own folder need not be."""
    if not (file.resolve().is_file() or (folders and file.resolve().is_dir())):
        raise InputError(f"{path}: {key}: no such file: {file}")
    return file
