"""Item parameters as the table items.csv, there and back; of items in categories also as NAEP publishes them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.given import ResponsesLike, as_any_responses, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.readers.irt_programs import in_our_columns, read_py_irt_parameters, recognises
from irtbench.data.readers.long_table import with_known_names
from irtbench.data.readers.records import look_at
from irtbench.data.readers.table import demand_cells, demand_columns, field_places, read_table, to_numbers
from irtbench.data.responses import ResponseMatrix, Responses, name_first
from irtbench.models.category_parameters import WORDS, CategoryParameters
from irtbench.models.item_models.named import MODELS
from irtbench.models.item_parameters import (
    MOST_DIFFICULTY,
    MOST_SLOPE,
    WITH_GUESSING,
    ItemParameters,
    sensible_items,
)
from irtbench.models.quadrature import Quadrature, normal_population

#: Item parameters in any form that `as_parameters` takes.
ParametersLike = ItemParameters | pd.DataFrame

#: The refusal of items with upper asymptotes wherever they are not taken.
UPPER_REFUSED = "items have upper asymptotes, which go with fit, score and diagnose alone; expected 2pl or 3pl items"

#: The same of items in categories.
CATEGORIES_REFUSED = "items in categories do not go with this; expected right or wrong ones"

MOST_PRIOR = 1e6  # mean and standard deviation of a prior of difficulty, in size
#: Columns of a table of items that state mean and standard deviation of a normal population.
POPULATION = ("population_mean", "population_sd")
#: Columns of NAEP's table, and those that name a scale there.
NAEP, NAEP_SCALE = ("a", "b", "irt_model"), ("subject", "year", "grade", "scale")


def as_parameters(given: ParametersLike, *, upper_asymptotes: bool = False, categories: bool = False) -> ItemParameters:
    """Item parameters as ours.

    Parameters
    ----------
    given
        `ItemParameters`, or a data frame with the columns of items.csv: ``discrimination`` and ``difficulty`` or
        ``intercept``; ``item_id`` (else the index names the items); ``guessing``, else 0; ``model``, which says where
        guessing was estimated; ``upper_asymptote`` where there is one. Standard errors alone make no covariance: it
        is not known then.
    upper_asymptotes
        Whether items may have any; otherwise they are refused.
    categories
        Whether items may be graded, of partial credit or nominal; otherwise they are refused.

    Raises
    ------
    InputError
        If it is neither, a column is missing, items have upper asymptotes that are not expected, or as
        `ItemParameters`.

    Examples
    --------
    >>> as_parameters(pd.DataFrame({"discrimination": [1.0, 2.0], "difficulty": [0.0, 0.5]}, index=["i1", "i2"]))
    <ItemParameters: 2 items (2pl), discrimination 1.00 to 2.00, difficulty 0.00 to 0.50>
    """
    if categories and isinstance(given, pd.DataFrame) and in_categories(given):
        return from_table_of_categories(given)
    if isinstance(given, ItemParameters):
        if given.upper_asymptote is not None and not upper_asymptotes:
            raise InputError(UPPER_REFUSED)
        if given.categories is not None and not categories:
            raise InputError(f"items: {given.item_ids[0]} ({given.model[0]}): {CATEGORIES_REFUSED}")
        return given
    if not isinstance(given, pd.DataFrame):
        what = f"a path; expected what irtbench.read_parameters({str(given)!r}) gives"
        what = what if isinstance(given, str | Path) else type(given).__name__
        raise InputError(f"items: expected ItemParameters or a data frame but got {what}")
    place = "intercept" if "intercept" in given else "difficulty"
    for name in ("discrimination", place):
        if name not in given:
            raise InputError(f"items: column {name} missing; it has: {name_first(list(given.columns), most=12)}")
    if "upper_asymptote" in given and not upper_asymptotes:
        raise InputError(UPPER_REFUSED)
    ids = tuple(str(item) for item in given.get("item_id", given.index))
    numbers: dict[str, NDArray[np.float64]] = {}
    for name in ("discrimination", place, "guessing", "upper_asymptote"):
        if name not in given:
            continue
        numbers[name] = pd.to_numeric(given[name], errors="coerce").to_numpy(dtype=np.float64)
        if np.isnan(numbers[name]).any():
            first = int(np.isnan(numbers[name]).argmax())
            wrong = given[name].iloc[first]
            raise InputError(f"items: item {ids[first]}, column {name}: expected a number but got {wrong}")
    return from_columns(ids, numbers, given.get("model"))


def from_columns(
    ids: tuple[str, ...], numbers: Mapping[str, NDArray[np.float64]], models: pd.Series | None
) -> ItemParameters:
    """Items of numbers in columns of items.csv, with ``intercept`` or ``difficulty``; guessing is 0 unless there."""
    a, none = numbers["discrimination"], np.zeros(len(ids))
    d = numbers["intercept"] if "intercept" in numbers else 0.0 - a * numbers["difficulty"]
    models = pd.Series("", index=range(len(ids))) if models is None else models
    kinds: Any = tuple(models.where(models.isin(["rasch", "1pl", "fixed"]), "own"))
    return ItemParameters(
        ids, a, d, numbers.get("guessing", none), models.isin(WITH_GUESSING).to_numpy(),
        kind=kinds, upper_asymptote=numbers.get("upper_asymptote"),
    )  # fmt: skip


def from_table_of_categories(given: pd.DataFrame) -> ItemParameters:
    """Items in categories of a data frame like items.csv."""
    table = given if "item_id" in given else given.rename_axis("item_id").reset_index()
    if "model" not in table or not set(table["model"]) <= set(MODELS):
        raise InputError(f"items: column model: expected one of {', '.join(MODELS)} for each item")
    table = table.rename(columns=str)
    known = table[[name for name in table if name in WORDS]].copy()
    for name in [str(each) for each in table if numeric(str(each))]:
        known[name] = pd.to_numeric(table[name], errors="coerce")
    return CategoryParameters.from_table(known, [MODELS[name] for name in table["model"]]).as_items()


def responses_and_items(
    responses: ResponsesLike | Responses,
    items: ParametersLike,
    *,
    upper_asymptotes: bool = False,
    categories: bool = False,
) -> tuple[ResponseMatrix, ItemParameters]:
    """Both as ours; the columns of an array are the items, in their order."""
    items = as_parameters(items, upper_asymptotes=upper_asymptotes, categories=categories)
    if items.categories is not None and isinstance(responses, np.ndarray | list | pd.DataFrame):
        return items.categories.matrix(responses), items
    return as_responses(responses, item_ids=items.item_ids), items


def parameter_table(items: ParametersLike, responses: ResponsesLike | Responses) -> pd.DataFrame:
    """Parameters with their standard errors and the classical figures of the same responses, a row an item.

    Raises
    ------
    InputError
        If the responses lack one of the items.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.5], [-1.0, 1.0])
    >>> table = irtbench.parameter_table(items, [[1, 0], [1, 1], [0, None]])
    >>> table[["item_id", "model", "difficulty", "n_responses", "proportion_correct"]]
      item_id model  difficulty  n_responses  proportion_correct
    0   item1   2pl        -1.0            3            0.666667
    1   item2   2pl         1.0            2            0.500000
    """
    items = as_parameters(items, upper_asymptotes=True, categories=True)
    data = as_any_responses(responses).select_items(items.item_ids)
    n = data.n_by_item
    if items.categories is not None and isinstance(data, ResponseMatrix):  # of which each is one, of several points
        n = data.observed.sum(axis=0)
    return items.table().assign(n_responses=n, proportion_correct=data.proportion_correct())


def read_parameters(
    path: str | Path, *, upper_asymptotes: bool = False, categories: bool = False, scaling: float | None = None
) -> ItemParameters:
    """Read item parameters from a table with ``item_id, discrimination, intercept`` and, if there, ``guessing, model``.

    In the place of ``intercept`` there may be ``difficulty``: d = -a b.

    Without a column ``guessing`` it is 0; guessing counts as estimated where ``model`` says one with it. A column
    ``upper_asymptote`` is read where that is expected, and otherwise refused. A table may also have the columns
    of R's mirt (``a1, d, g, u``) or catR (``a, b, c, d``), with the items' names in ``item_id``, ``item`` or the first
    column, as R writes them. Instead of a table it may be py-irt's ``best_parameters.json`` (see
    ``read_py_irt_parameters``).

    Where `categories` are expected, items may also be in categories: ``model`` (grm, gpcm, nominal, 2pl, 3pl), slope
    and steps ``step_1, step_2, ...``, as `FittedCategories.table` has them; or as NAEP publishes them, ``a, b, c, d_1,
    d_2, ..., irt_model`` with steps b - d_k. `scaling` is the constant D by which slopes of such a table are
    multiplied, 1 unless given; of NAEP's it has to be given (1.7).

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, a value is no number or beyond what items have (|a| > 100,
        |d| > 50 max(1, |a|)), or the items have several abilities.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.5], [-1.0, 1.0], 0.2)
    >>> items.table().to_csv("items.csv", index=False)
    >>> irtbench.read_parameters("items.csv")
    <ItemParameters: 2 items (2pl_fixed_guessing), discrimination 1.00 to 1.50, difficulty -1.00 to 1.00>
    """
    if recognises(look_at(Path(path))):
        found = read_py_irt_parameters(path)
        number = {name: found[name].to_numpy() for name in ("discrimination", "intercept")}
        return sensible_in_file(path, found["item_id"], number, None)
    table = read_table(path)
    if in_categories(table):
        if not categories:
            raise InputError(f"{path}: {CATEGORIES_REFUSED}")
        return read_categories(table, path, scaling).as_items()
    table = with_known_names(in_our_columns(table, path), "item_id")
    demand_columns(table, ["item_id", "discrimination", "intercept"], path)
    if several := [name for name in ("slope_2", "slope_specific") if name in table]:
        raise InputError(
            f"{path}: column {several[0]}: items of several abilities; expected one ability (fit without --factors and "
            "--testlets, or the items of each ability by themselves)"
        )
    if "upper_asymptote" in table and not upper_asymptotes:
        raise InputError(f"{path}: {UPPER_REFUSED}")
    if scaling is not None:
        raise InputError(f"{path}: scaling {scaling:g} goes with tables of items in categories")
    number = {
        name: to_numbers(table[name], place=field_places(path, name))
        for name in ("discrimination", "intercept", "guessing", "upper_asymptote")
        if name in table
    }
    return sensible_in_file(path, table["item_id"], number, table.get("model"))


def sensible_in_file(
    path: str | Path, ids: pd.Series, numbers: Mapping[str, NDArray[np.float64]], models: pd.Series | None
) -> ItemParameters:
    """Items of columns of a file, if their parameters are such as items have."""
    try:
        return sensible_items(from_columns(tuple(ids), numbers, models))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def scale_names(table: pd.DataFrame) -> pd.Series[str] | None:
    """The scale of each item; of NAEP's it is named by subject, year, grade and scale. None where none is named."""
    names = [name for name in NAEP_SCALE if name in table]
    if set(NAEP) <= {*table.columns} and names:
        return table[names].apply(lambda row: " ".join(text for text in row if text), axis=1)
    return table.get("scale")


def in_categories(table: pd.DataFrame) -> bool:
    """Whether a table of items has such as are not right or wrong."""
    return "n_categories" in table or "step_1" in table or set(NAEP) <= {*table.columns}


def read_categories(table: pd.DataFrame, path: str | Path, scaling: float | None) -> CategoryParameters:
    """The items of a table whose fields are texts; slopes are multiplied by the scaling constant D, 1 for None.

    Raises
    ------
    InputError
        If of NAEP's table, in which an item may be twice (the first row counts, with a warning), the constant is not
        given; if a column is missing, a value is no number, a model none of ours; as `CategoryParameters.from_table`.
    """
    published = set(NAEP) <= {*table.columns}
    if published and scaling is None:
        raise InputError(
            f"{path}: columns a, b, irt_model: the scaling constant D is not given; expected --scaling-constant 1.7 "
            "for NAEP's tables, 1 where slopes are logistic"
        )
    table = table.rename(columns={"irt_model": "model"})
    demand_columns(table, ["item_id", "model"], path)
    if unknown := sorted(set(table["model"]) - set(MODELS)):
        raise InputError(f"{path}: column model: {unknown[0]!r}; expected one of {', '.join(MODELS)}")
    if (repeated := table["item_id"].duplicated()).any():
        named = name_first(list(table["item_id"][repeated]), most=2)
        if not published:
            raise InputError(f"{path}: item {named}: named twice")
        warnings.warn(f"{path}: {int(repeated.sum())} items of a scale are there twice: {named}; the first row counts",
                      stacklevel=2)  # fmt: skip
        table = table[~repeated].reset_index(drop=True)
    parameters = [name for name in table.columns if name not in WORDS]
    known = {name: to_numbers(table[name], place=field_places(path, name)) for name in parameters if numeric(name)}
    found = pd.DataFrame(known, index=table.index)
    if published:
        later = [name for name in parameters if name.startswith("d_")]
        found = found.rename(columns={"a": "discrimination", "b": "difficulty", "c": "guessing"})
        found = found.assign(**{name.replace("d_", "step_"): found["difficulty"] - found[name] for name in later})
    slopes = [name for name in found.columns if name == "discrimination" or name.startswith("a")]
    found[slopes] *= 1.0 if scaling is None else scaling
    words = table[[name for name in table.columns if name in WORDS]]
    try:
        return CategoryParameters.from_table(words.join(found), [MODELS[name] for name in table["model"]])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def numeric(name: str) -> bool:
    """Whether a column is a parameter's: of ours or NAEP's, or an item model's own."""
    ours = ("discrimination", "difficulty", "guessing", "upper_asymptote", "n_categories", "a", "b", "c")
    kind, _, number = name.partition("_")
    return name in ours or (kind in ("step", "d") and number.isdigit()) or (name[0] in "ad" and name[1:].isdigit())


def read_population(path: str | Path) -> Quadrature | None:
    """The population that a table of items states in a file, see `stated_population`; None where it states none.

    Raises
    ------
    InputError
        If the file cannot be read, or as `stated_population`.
    """
    return None if recognises(look_at(Path(path))) else stated_population(read_table(path), path)


def stated_population(table: pd.DataFrame, source: str | Path) -> Quadrature | None:
    """The population that a table of items states in ``population_mean, population_sd``; None where it states none.

    A Rasch model's items, and those fitted with anchors, are on a scale on which the population is not N(0, 1).

    Raises
    ------
    InputError
        If the values are no numbers, differ from item to item, or a deviation is not positive; it names the source.
    """
    if not set(POPULATION) & set(table.columns):
        return None
    demand_columns(table, list(POPULATION), source)
    moments = {
        name: to_numbers(table[name], place=partial("{}: column {}".format, source, name)) for name in POPULATION
    }
    for name, values in moments.items():
        if np.unique(values).size != 1 or not np.isfinite(values).all():
            raise InputError(f"{source}: column {name}: expected one number, the same for every item")
    mean, deviation = (float(moments[name][0]) for name in POPULATION)
    if abs(mean) > MOST_DIFFICULTY:
        most = f"at most {MOST_DIFFICULTY:g} in size"
        raise InputError(f"{source}: column {POPULATION[0]}: expected {most} but got {mean:g}")
    if not 1 / MOST_SLOPE <= deviation <= MOST_SLOPE:
        raise InputError(
            f"{source}: column {POPULATION[1]}: expected a number above 0, from {1 / MOST_SLOPE:g} to {MOST_SLOPE:g}, "
            f"but got {deviation:g}"
        )
    return normal_population(mean, deviation)


def table_of_items(path: str | Path, *columns: str, once: bool = True) -> pd.DataFrame:
    """A table with ``item_id`` and these columns, in which items are named once."""
    table = with_known_names(read_table(path), "item_id")
    demand_columns(table, ["item_id", *columns], path)
    if once and (repeated := table["item_id"].duplicated()).any():
        raise InputError(f"{path}: item {table['item_id'][repeated].iloc[0]}: named twice")
    return table


def read_models(path: str | Path) -> dict[str, Literal["2pl", "3pl"] | float]:
    """Read each item's model from a table with ``item_id, model`` and, for a fixed guessing, ``guessing``.

    ``model`` is ``2pl``, ``3pl`` or ``2pl_fixed_guessing``, as in items.csv.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, an item is named twice, or a model is none of these.
    """
    table = table_of_items(path, "model")
    fixed = table["model"] == "2pl_fixed_guessing"
    if fixed.any():
        demand_columns(table, ["guessing"], path)
    known = fixed | table["model"].isin(["2pl", "3pl"])
    demand_cells(table, "model", path, known.to_numpy(), "2pl, 3pl or 2pl_fixed_guessing")
    models: dict[str, Literal["2pl", "3pl"] | float] = dict(zip(table["item_id"], table["model"], strict=True))
    if fixed.any():
        guessing = to_numbers(table["guessing"], place=field_places(path, "guessing"))
        models |= dict(zip(table["item_id"][fixed], guessing[fixed.to_numpy()].tolist(), strict=True))
    return models


def read_model_names(path: str | Path) -> dict[str, str]:
    """Read the name of each item's model from a table with ``item_id, model``: 2pl, 3pl, grm, gpcm, nominal.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, an item is named twice, or a model is none of these.
    """
    table = table_of_items(path, "model")
    demand_cells(table, "model", path, table["model"].isin(list(MODELS)).to_numpy(), f"one of {', '.join(MODELS)}")
    return dict(zip(table["item_id"], table["model"], strict=True))


def read_constraints(path: str | Path) -> list[list[tuple[str, str]]]:
    """Read sets of parameters that are the same from a table with ``item_id, parameter, set``.

    Parameters are called as `FittedCategories.coefficients` has them: a, d, c, and d1, d2, ... of items in categories;
    also discrimination, intercept, guessing.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, or a set has one parameter alone.
    """
    table = table_of_items(path, "parameter", "set", once=False)
    names = table["parameter"].replace({"discrimination": "a", "intercept": "d", "guessing": "c"})
    by_set = table.groupby("set", sort=False)
    found = {str(name): [*zip(rows["item_id"], names[rows.index], strict=True)] for name, rows in by_set}
    if alone := [name for name, members in found.items() if len(members) < 2]:
        raise InputError(f"{path}: set {alone[0]}: one parameter; expected two or more that are to be the same")
    return [*found.values()]


def read_item_priors(path: str | Path) -> dict[str, tuple[float, float]]:
    """Read normal priors of the difficulty of items from a table with ``item_id, mean, sd``.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, an item is named twice, a value is no finite number, or a
        standard deviation is not above 0.
    """
    table = table_of_items(path, "mean", "sd")
    moments = {name: to_numbers(table[name], place=field_places(path, name)) for name in ("mean", "sd")}
    for name, values in moments.items():
        right = (np.abs(values) <= MOST_PRIOR) & ((values > 0) | (name != "sd"))
        expected = f"a number {'above 0 ' if name == 'sd' else ''}of at most {MOST_PRIOR:g} in size"
        demand_cells(table, name, path, right, expected)
    pairs = zip(moments["mean"].tolist(), moments["sd"].tolist(), strict=True)
    return dict(zip(table["item_id"], pairs, strict=True))


def read_pattern(path: str | Path, item_ids: Sequence[str]) -> NDArray[np.bool_]:
    """Read which slopes of a model with several abilities are zero, shape (n_items, n_factors).

    Parameters
    ----------
    path
        A table with ``item_id, slope_1, slope_2, ...``: 1 where a slope is estimated, 0 where it is zero.
    item_ids
        The items wanted; the table may have others.

    Raises
    ------
    InputError
        If the file cannot be read, a column or an item is missing, an item is named twice, or a value is neither 0 nor
        1.
    """
    table = table_of_items(path, "slope_1", "slope_2")
    names = [name for k in range(1, len(table.columns)) if (name := f"slope_{k}") in table]
    free = pd.DataFrame(index=pd.Index(table["item_id"]))
    for name in names:
        values = to_numbers(table[name], place=field_places(path, name))
        demand_cells(table, name, path, np.isin(values, (0, 1)), "1 (estimated) or 0 (zero)")
        free[name] = values == 1
    if missing := [item for item in item_ids if item not in free.index]:
        raise InputError(f"{path}: no row for item {name_first(missing)}")
    return ~free.loc[list(item_ids)].to_numpy(dtype=np.bool_)


#: Programs whose columns are known.
Program = Literal["mirt", "catr"]


def parameter_columns(items: ParametersLike, program: Program) -> pd.DataFrame:
    """Parameters in a program's own columns, a row an item, ``item_id`` first.

    Parameters
    ----------
    items
        Of one ability.
    program
        ``"mirt"``: ``a1, d, g, u`` of P = g + (u - g) / (1 + exp(-(a1 theta + d))), as ``coef(model)`` of R's mirt
        prints them. ``"catr"``: ``a, b, c, d`` of P = c + (d - c) / (1 + exp(-a (theta - b))), the item bank of R's
        catR (Magis & Raîche, 2012), of right and wrong. Of items in categories mirt has ``d1, d2, ...`` (graded) or
        ``ak0, ak1, ..., d0, d1, ...`` (partial credit, nominal). The upper asymptote, u or d, is 1 where there is none.
        `read_parameters` reads those of right and wrong.

    Raises
    ------
    InputError
        If catR's difficulty is not defined: an item with slope 0.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 2.0], [-1.0, 0.5])
    >>> irtbench.parameter_columns(items, "mirt")
      item_id   a1    d    g    u
    0   item1  1.0  1.0  0.0  1.0
    1   item2  2.0 -1.0  0.0  1.0
    >>> irtbench.parameter_columns(items, "catr")
      item_id    a    b    c    d
    0   item1  1.0 -1.0  0.0  1.0
    1   item2  2.0  0.5  0.0  1.0
    """
    known = as_parameters(items, upper_asymptotes=isinstance(items, ItemParameters), categories=program == "mirt")
    if known.categories is not None:
        return known.categories.mirt_columns()
    upper = np.ones(known.n_items) if known.upper_asymptote is None else known.upper_asymptote
    if program == "mirt":
        columns = {"a1": known.discrimination, "d": known.intercept, "g": known.guessing, "u": upper}
    elif program == "catr":
        if (known.discrimination == 0).any():
            flat = [item for item, a in zip(known.item_ids, known.discrimination, strict=True) if a == 0]
            raise InputError(f"items: slope 0 of {name_first(flat)}: no difficulty, which catR needs; leave them out")
        columns = {"a": known.discrimination, "b": known.difficulty, "c": known.guessing, "d": upper}
    else:
        raise InputError(f"program: expected mirt or catr but got {program!r}")
    return pd.DataFrame({"item_id": known.item_ids, **columns})
