"""The JSON document of an item bank: its fields and their types, checked on reading.

A field that may be unknown is null; numbers are finite; a field of another name is an error. Fields of a later version
are absent where they are not in use, so that the file stays one of the earlier version and its hash with it.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from irtbench.bank.norms import MOST_ABILITY, Norms
from irtbench.bank.scale import Scale, ScaleLine
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.items import ItemTable
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.item_models.named import MODELS
from irtbench.models.item_parameters import MOST_COVARIANCE, ItemParameters, JointError, sensible_items
from irtbench.models.quadrature import Quadrature

MOST_TOGETHER = 200  # items whose joint error is kept: of more it would be megabytes
DIGITS = 6  # of it
NEARLY_ONE = 0.01  # from which the logarithm of the sum of a population's weights may not be away

Ability = Annotated[float, Field(ge=-MOST_ABILITY, le=MOST_ABILITY)]
Covariance = Annotated[float, Field(ge=-MOST_COVARIANCE, le=MOST_COVARIANCE)]


@dataclass(frozen=True)
class Since:
    """The schema version from which on there is a field, which is absent where it is not in use."""

    version: int


@cache
def later_fields(part: type[BaseModel]) -> dict[str, int]:
    """The fields of a part that came after version 1, and when."""
    marks = {name: [mark for mark in f.metadata if isinstance(mark, Since)] for name, f in part.model_fields.items()}
    return {name: found[0].version for name, found in marks.items() if found}


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    @property
    def version(self) -> int:
        """The first schema version that has the fields in use, here and in the parts of this one."""
        used = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        parts = [part for value in used.values() for part in (value if isinstance(value, list) else [value])]
        since = [version for name, version in later_fields(type(self)).items() if name in used]
        return max([1, *since, *(part.version for part in parts if isinstance(part, _Part))])

    @model_serializer(mode="wrap")
    def _without_unused(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out fields of a later version that are not in use: the file is then one of the earlier version."""
        fields: dict[str, Any] = serialize(self)
        later = later_fields(type(self))
        return {name: value for name, value in fields.items() if name not in later or value is not None}


class CategoriesEntry(_Part):
    """The curves of an item in categories."""

    responses: Annotated[list[int | float | str], Field(min_length=2)]
    """The scores of the categories, the lowest first."""
    parameters: list[float]
    """As the model reads them: slopes and intercepts, asymptotes."""
    covariance: list[float] | None
    """Upper triangle of theirs, by rows."""


class ItemEntry(_Part):
    """One item: its line in the file."""

    item_id: str
    discrimination: float
    intercept: float
    guessing: float
    guessing_estimated: bool
    covariance: Annotated[list[float], Field(min_length=6, max_length=10)] | None
    """Upper triangle of the covariance of (a, d, c): aa, ad, ac, dd, dc, cc; or of (a, d, c, u)."""
    key: str | None
    label: str | None
    group: str | None
    text: str | None
    kind: Annotated[Literal["own", "rasch", "1pl", "fixed"] | None, Since(3)] = None
    """Whose slope and intercept they are, where not the item's own."""
    upper_asymptote: Annotated[float | None, Since(4)] = None
    model: Annotated[str | None, Since(6)] = None
    """With categories: the model's name."""
    categories: Annotated[CategoriesEntry | None, Since(6)] = None
    """Of an item that is not right or wrong."""


class NormsEntry(_Part):
    """Abilities of the norm sample."""

    n: int
    theta: list[float]
    weights: list[float] | None
    standard_error: Annotated[list[float] | None, Since(2)] = None
    groups: Annotated[dict[str, list[str | None]] | None, Since(2)] = None
    """Columns of the respondents."""
    on_form: Annotated[list[float] | None, Since(3)] = None
    """Abilities on the items of a form alone."""


class NormalPopulation(_Part):
    """The standard normal."""

    kind: Literal["normal"]


class GridPopulation(_Part):
    """A density estimated on nodes; the log weight is null where a node has no mass."""

    kind: Literal["grid"]
    nodes: Annotated[list[Ability], Field(min_length=3)]
    log_weights: list[float | None]


class JointErrorEntry(_Part):
    """The sampling error of all items together."""

    location: Annotated[Covariance, Field(ge=0)]
    unit: Annotated[Covariance, Field(ge=0)]
    covariance: list[Covariance]
    """Upper triangle by rows, of a, d and, where it was estimated, c of the first item, then of the next."""


class LineEntry(_Part):
    """How well it is known where a linked scale lies on the base scale."""

    slope: Annotated[Ability, Field(gt=0)]
    intercept: Ability
    covariance: Annotated[list[Covariance], Field(min_length=3, max_length=3)]
    """Upper triangle of the covariance of slope and intercept."""
    generation: Annotated[int, Field(ge=1)]


class ScaleEntry(_Part):
    """One scale."""

    name: str
    items: Annotated[list[ItemEntry], Field(min_length=1)]
    norms: NormsEntry | None
    population: Annotated[NormalPopulation | GridPopulation, Field(discriminator="kind")]
    provenance: dict[str, Any]
    joint_error: Annotated[JointErrorEntry | None, Since(4)] = None
    """Of up to ``MOST_TOGETHER`` items."""
    line: Annotated[LineEntry | None, Since(4)] = None
    """Of linked scales."""


class BankDocument(_Part):
    """The whole file but for its hash."""

    schema_version: Annotated[int, Field(ge=1)]
    card: Annotated[dict[str, str] | None, Since(3)] = None
    """Fields of `DataCard`, all of them but for `respondents`, from version 5 on, where it says nothing."""
    scales: Annotated[list[ScaleEntry], Field(min_length=1)]

    def content_hash(self, *, dated: bool = False) -> str:
        """SHA-256 over the document in canonical form: keys sorted, no white space.

        The date of the provenance is left out, so that building the same study again gives the same hash; `dated`
        takes it in, as earlier files do.
        """
        content = self.model_dump()
        for scale in [] if dated else content["scales"]:
            scale["provenance"].pop("date", None)
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    def to_text(self) -> str:
        """The file: one item a line, so that a changed item is a changed line."""

        def line(value: object) -> str:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)

        content, scales = self.model_dump(), []
        for scale in content["scales"]:
            items = ",\n    ".join(line(item) for item in scale["items"])
            fields = [
                f'"{name}": ' + (f"[\n    {items}\n   ]" if name == "items" else line(value))
                for name, value in scale.items()
            ]
            scales.append("  {\n   " + ",\n   ".join(fields) + "\n  }")
        head = f' "schema_version": {self.schema_version},\n "content_hash": {line(self.content_hash())},\n'
        if "card" in content:
            head += f' "card": {line(content["card"])},\n'
        return "{\n" + head + ' "scales": [\n' + ",\n".join(scales) + "\n ]\n}\n"


def entry_of(scale: Scale) -> ScaleEntry:
    """Entry that holds this scale; a covariance of an item that is not finite counts as unknown."""
    items, details, norms, population = scale.items, scale.details, scale.norms, scale.population
    refuse_any(
        (True, f"bank: item {item}: model {name} is your own; expected {', '.join(MODELS)}")
        for item, name in zip(items.item_ids, items.model, strict=True)
        if items.categories is not None and name not in MODELS
    )
    return ScaleEntry(
        name=scale.name,
        items=[
            ItemEntry(
                item_id=items.item_ids[k],
                discrimination=float(items.discrimination[k]),
                intercept=float(items.intercept[k]),
                guessing=float(items.guessing[k]),
                guessing_estimated=bool(items.guessing_estimated[k]),
                covariance=None if items.covariance is None else _triangle(items.covariance[k]),
                key=details.key[k],
                label=details.label[k],
                group=details.group[k],
                text=details.text[k],
                kind=None if items.kind is None else items.kind[k],
                upper_asymptote=None if items.upper_asymptote is None else float(items.upper_asymptote[k]),
                model=None if items.categories is None else items.model[k],
                categories=None if items.categories is None else _categories_entry(items.categories, k),
            )
            for k in range(items.n_items)
        ],
        norms=None
        if norms is None
        else NormsEntry(
            n=norms.n,
            theta=norms.theta.tolist(),
            weights=None if norms.weights is None else norms.weights.tolist(),
            standard_error=None if norms.standard_error is None else norms.standard_error.tolist(),
            groups={name: list(values) for name, values in norms.groups.items()} or None,
            on_form=None if norms.on_form is None else norms.on_form.tolist(),
        ),
        population=NormalPopulation(kind="normal")
        if population is None
        else GridPopulation(
            kind="grid",
            nodes=population.nodes.tolist(),
            log_weights=[w if math.isfinite(w) else None for w in population.log_weights.tolist()],
        ),
        provenance=dict(scale.provenance),
        joint_error=_joint_error_entry(scale),
        line=None
        if scale.line is None
        else LineEntry(
            slope=scale.line.slope,
            intercept=scale.line.intercept,
            covariance=scale.line.upper(),
            generation=scale.line.generation,
        ),
    )


def scale_of(entry: ScaleEntry) -> Scale:
    """Scale that this entry holds."""
    item_ids = tuple(item.item_id for item in entry.items)
    details = ItemTable(
        item_ids,
        key=tuple(item.key for item in entry.items),
        label=tuple(item.label for item in entry.items),
        group=tuple(item.group for item in entry.items),
        text=tuple(item.text for item in entry.items),
        attention=(False,) * len(item_ids),
    )
    in_categories = any(item.categories is not None for item in entry.items)
    try:
        items = sensible_items(_in_categories(entry) if in_categories else _right_or_wrong(entry))
    except InputError as error:
        raise InputError(f"scale {entry.name}: {error}") from None
    line, joint = entry.line, None if in_categories else _joint_error(entry, items)
    return Scale(
        entry.name, items, details, _norms(entry), _population(entry), entry.provenance, joint,
        None if line is None else ScaleLine(
            line.slope, line.intercept, _square(line.covariance, 2, "line"), line.generation
        ),
    )  # fmt: skip


def _right_or_wrong(entry: ScaleEntry) -> ItemParameters:
    """The items of a scale that are right or wrong."""
    upper = [item.upper_asymptote for item in entry.items]
    if None in upper and any(upper):
        raise InputError("expected an upper asymptote of every item or of none")
    covariance = np.stack([_square(item.covariance, 4 if any(upper) else 3, item.item_id) for item in entry.items])
    return ItemParameters(
        tuple(item.item_id for item in entry.items),
        np.array([item.discrimination for item in entry.items]),
        np.array([item.intercept for item in entry.items]),
        np.array([item.guessing for item in entry.items]),
        np.array([item.guessing_estimated for item in entry.items]),
        None if np.isnan(covariance).all() else covariance,
        tuple(item.kind or "own" for item in entry.items),
        np.array(upper, dtype=np.float64) if any(upper) else None,
    )


def _categories_entry(items: CategoryParameters, k: int) -> CategoriesEntry:
    n, covariance = len(items.names[k]), items.covariance
    return CategoriesEntry(
        responses=[value.item() if isinstance(value, np.generic) else value for value in items.categories[k]],
        parameters=items.parameters[k, :n].tolist(),
        covariance=None if covariance is None else _triangle(covariance[k, :n, :n]),
    )


def _in_categories(entry: ScaleEntry) -> ItemParameters:
    """The items of a scale in categories."""
    models, entries, responses, x = [], [], [], []
    for item in entry.items:
        if item.categories is None or item.model not in MODELS:
            raise InputError(f"item {item.item_id}: expected categories and one of the models {', '.join(MODELS)}")
        model, n = MODELS[str(item.model)], len(item.categories.responses)
        if len(item.categories.parameters) != len(model.parameters(n, 1)):
            raise InputError(
                f"item {item.item_id}: {len(item.categories.parameters)} parameters; expected "
                f"{len(model.parameters(n, 1))} of a {item.model} item of {n} categories"
            )
        models.append(model)
        responses.append(tuple(item.categories.responses))
        entries.append(item.categories)
        try:
            x.append(model.unbounded(np.array(item.categories.parameters)))
        except InputError as error:
            raise InputError(f"item {item.item_id}: {error}") from None
    width = max(map(len, x))
    covariance = np.full((len(x), width, width), np.nan)
    for square, own, item in zip(covariance, entries, entry.items, strict=True):
        n = len(own.parameters)
        square[:n, :n] = _square(own.covariance, n, item.item_id)
    return CategoryParameters(
        tuple(item.item_id for item in entry.items),
        tuple(models),
        tuple(responses),
        np.stack([np.pad(own, (0, width - len(own))) for own in x]),
        np.array([len(own) for own in x]),
        None if np.isnan(covariance[:, 0, 0]).any() else np.nan_to_num(covariance),
    ).as_items()


def _estimated(items: ItemParameters) -> NDArray[np.intp]:
    """Places of the parameters whose joint error is kept, among (a, d, c) of all items."""
    kept = np.ones((items.n_items, 3), dtype=np.bool_)
    kept[:, 2] = items.guessing_estimated
    return np.flatnonzero(kept)


def _joint_error_entry(scale: Scale) -> JointErrorEntry | None:
    error, n = scale.joint_error, scale.items.n_items
    if error is None or n > MOST_TOGETHER:
        return None
    kept = _estimated(scale.items)
    covariance = error.covariance.reshape(3 * n, 3 * n)[np.ix_(kept, kept)]
    upper = covariance[np.triu_indices(kept.size)].tolist()
    return JointErrorEntry(
        location=error.location, unit=error.unit, covariance=[float(f"{value:.{DIGITS}g}") for value in upper]
    )


def _joint_error(entry: ScaleEntry, items: ItemParameters) -> JointError | None:
    if entry.joint_error is None:
        return None
    kept, n = _estimated(items), items.n_items
    given, wanted = entry.joint_error.covariance, kept.size * (kept.size + 1) // 2
    if len(given) != wanted:
        raise InputError(
            f"scale {entry.name}: joint_error.covariance has {len(given)} values; expected {wanted} for {kept.size} "
            f"parameters of {n} items"
        )
    covariance = np.zeros((3 * n, 3 * n))
    covariance[np.ix_(kept, kept)] = _square(given, kept.size, "joint_error")
    return JointError(covariance.reshape(n, 3, n, 3), entry.joint_error.location, entry.joint_error.unit)


def _norms(entry: ScaleEntry) -> Norms | None:
    if entry.norms is None:
        return None
    norms = Norms(**entry.norms.model_dump(exclude={"n"}))
    if norms.n != entry.norms.n:
        raise InputError(f"scale {entry.name}: norms state n {entry.norms.n} for {norms.n} values of theta")
    return norms


def _population(entry: ScaleEntry) -> Quadrature | None:
    if isinstance(entry.population, NormalPopulation):
        return None
    nodes = np.array(entry.population.nodes)
    log_weights = np.array([-np.inf if w is None else w for w in entry.population.log_weights])
    refuse_any((
        (log_weights.shape != nodes.shape or not (np.diff(nodes) > 0).all() or np.isinf(log_weights).all(),
         f"scale {entry.name}: population needs increasing nodes with one log weight each, not all null"),
        (not abs(float(np.logaddexp.reduce(log_weights))) < NEARLY_ONE,
         f"scale {entry.name}: population.log_weights: expected weights whose sum is 1"),
    ))  # fmt: skip
    return Quadrature(nodes, log_weights)


def _triangle(covariance: NDArray[np.float64]) -> list[float] | None:
    """Upper triangle of a covariance by rows; None where it is not known."""
    upper = covariance[np.triu_indices(len(covariance))]
    return upper.tolist() if np.isfinite(upper).all() else None


def _square(upper: list[float] | None, width: int, item_id: str) -> NDArray[np.float64]:
    """Covariance of so many parameters of which this is the upper triangle; NaN where it is not known."""
    square = np.full((width, width), np.nan)
    if upper is not None:
        triangle = np.triu_indices(width)
        if len(upper) != len(triangle[0]):
            raise InputError(f"item {item_id}: covariance has {len(upper)} numbers; expected {len(triangle[0])}")
        square[triangle] = upper
        square.T[triangle] = upper
    return square
