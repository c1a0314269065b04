"""What pruning found: models compared, rounds of fit and diagnostics, what left and why; kept on disk."""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from irtbench.analysis.model_comparison import (
    GuessingTest,
    LikelihoodRatio,
    compare_models,
    guessing_test,
    one_more_factor,
)
from irtbench.building.prune_rules import PruneRules, Removal, communalities, describe_removals
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.place import read_sealed, write_sealed
from irtbench.data.responses import ResponseMatrix, Responses, hash_of
from irtbench.data.shown import Shown, counted
from irtbench.diagnostics.global_fit import GlobalFit, global_fit_of_factors
from irtbench.diagnostics.item_fit import ItemFit
from irtbench.diagnostics.local_dependence import LocalDependence
from irtbench.estimation.factors import fit_factors
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import Device, FitSettings
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.named import MODELS
from irtbench.models.item_parameters import ItemParameters

log = logging.getLogger(__name__)

PLAIN = (str, float, int, bool, type(None))  # most values, by far

Record = TypeVar("Record")
Made = TypeVar("Made")


def checkpoint_key(responses: Responses, *settings: object) -> str:
    """Hash of the responses and of all settings on which the steps depend, by what they print as."""
    return hash_of(responses.content_hash, *settings)


class Checkpoint:
    """A folder with one JSON file for each finished step."""

    def __init__(self, folder: Path | None, key: str) -> None:
        self.folder, self.key = folder, key

    def load(self, name: str, cls: type[Record]) -> Record | None:
        """A finished step; None if it is absent, damaged or of another key."""
        try:
            record = None if self.folder is None else read_sealed(self.folder / f"{name}.json", self.key)
            return None if record is None else from_plain(cls, record)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def once(self, name: str, cls: type[Record], make: Callable[[], Made]) -> Record | Made:
        """A finished step, or what is made now and then kept."""
        if (finished := self.load(name, cls)) is not None:
            return finished
        made = make()
        self.save(name, made)
        return made

    def save(self, name: str, record: object) -> None:
        """Write one step, whole or not at all; where that fails the work goes on, and a warning says so."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_sealed(self.folder / f"{name}.json", to_plain(record), self.key)
        except OSError as error:
            log.warning("a finished step cannot be kept in %s: %s", self.folder, error.strerror)


#: How values that are no JSON are written, the the first kind that they are of.
AS_PLAIN: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (ResponseMatrix, lambda responses: None),
    (ItemModel, lambda model: model.name),
    (pd.DataFrame, lambda table: {str(name): column.tolist() for name, column in table.items()}),
    (np.ndarray, lambda one: {"dtype": str(one.dtype), "shape": one.shape, "values": one.ravel().tolist()}),
    (np.generic, lambda number: number.item()),
    (Enum, lambda choice: choice.value),
    (tuple | list, lambda entries: [to_plain(entry) for entry in entries]),
    (Mapping, lambda entries: {str(name): to_plain(entry) for name, entry in entries.items()}),
    (Path, str),
)
#: How what is no dataclass is read again.
FROM_PLAIN: dict[Any, Callable[[Any], Any]] = {
    ResponseMatrix: lambda nothing: None,
    ItemModel: MODELS.__getitem__,
    pd.DataFrame: pd.DataFrame,
}


def to_plain(value: Any) -> Any:
    """Dataclasses, tuples, mappings, arrays and tables as JSON values; every float survives to the last bit.

    Responses become None: they are written apart, where they are at all.
    """
    if type(value) in PLAIN:
        return value
    plain = next((plain for kind, plain in AS_PLAIN if isinstance(value, kind)), None)
    if plain is None and is_dataclass(value):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    return plain(value) if plain else value


def from_plain(hint: Any, value: Any) -> Any:
    """Inverse of `to_plain` for a value of the type that the hint names."""
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        hint = next(choice for choice in get_args(hint) if choice is not type(None))
    if hint in FROM_PLAIN:
        return FROM_PLAIN[hint](value)
    if isinstance(hint, type) and issubclass(hint, Enum | Path):
        return hint(value)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        make: Callable[..., Any] = hint  # type: ignore[assignment]
        given = [f for f in fields(hint) if f.name in value or f.default is MISSING]  # what came later is left out
        return make(**{f.name: from_plain(hints[f.name], value[f.name]) for f in given})
    if isinstance(value, dict) and "dtype" in value:
        return np.array(value["values"], dtype=value["dtype"]).reshape(value["shape"])
    origin = get_origin(hint)  # of NDArray[...]: an alias of its class or, with later versions, one by name
    if np.ndarray in (origin, get_origin(getattr(origin, "__value__", None))):
        raise TypeError(f"expected an array but got {type(value).__name__}")
    if get_origin(hint) in (dict, Mapping) and (
        is_dataclass(get_args(hint)[1]) or get_origin(get_args(hint)[1]) is tuple
    ):
        return {name: from_plain(get_args(hint)[1], entry) for name, entry in value.items()}
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        each = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is Ellipsis else inner
        return tuple(from_plain(kind, entry) for kind, entry in zip(each, value, strict=True))
    return value


FEWEST_ITEMS = 4  # two abilities need more than three items
GUESSED = 0.05  # p of guessing, adjusted where it is of an item
GUESSING = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)  # of all items, tried against none
MOST_TESTED = 5_000  # respondents, of whom guessing is tested where there are more

SIGNIFICANT_MISFIT = 0.05  # p of M2 below which a scale may be rejected as a whole


@dataclass(frozen=True, eq=False)
class ScaleChecks(
    Shown,
    short="two abilities gain a likelihood ratio of {two_against_one.statistic:.1f} "
    "with {two_against_one.df} more parameters, {n_guessing:item} guessed",
):
    """Models of the items given, compared with the 2PL with one ability.

    Parameters
    ----------
    models
        Information criteria of one and two abilities, a row a model.
    two_against_one
        Likelihood-ratio test of the second ability, with the p of a bootstrap where one was asked for.
    fit_of_two
        Global fit of two abilities.
    two_converged
        Whether the model with two abilities is a maximum.
    guessing
        Test of each item's guessing parameter.
    """

    models: pd.DataFrame
    two_against_one: LikelihoodRatio
    fit_of_two: GlobalFit
    two_converged: bool
    guessing: GuessingTest

    @property
    def n_guessing(self) -> int:
        """Items whose guessing parameter is needed at .05, after adjustment."""
        return int((self.guessing.p_adjusted < GUESSED).sum())

    def table(self) -> pd.DataFrame:
        """One row a model: the information criteria of one and two abilities."""
        return self.models


def refit_with_guessing(
    responses: ResponseMatrix, fitted: FittedModel, known: float = 0.0
) -> tuple[ItemParameters, float] | None:
    """The items of a 3PL, and the guessing of all, where a 2PL without any was fitted and is significantly worse.

    Guessing flattens the slopes of a 2PL. Tested is one c of all items, for an item's own takes many respondents: half
    of P(chi-squared(1) >= 2 (log L at the best c - log L at 0)), since c = 0 lies on the boundary (Self & Liang, 1987).
    One that is `known` is not tested again.
    """
    settings = fitted.settings
    if settings.kind != "2pl" or settings.guessing or settings.by_item or responses.trials is not None:
        return None
    every = -(-responses.n_respondents // MOST_TESTED)
    some = responses.select_respondents(np.arange(responses.n_respondents) % every == 0).answered()
    if not known:
        without = fitted if every == 1 else fit_model(some, settings.for_samples())
        if not without.converged:
            return None  # where a slope grows without end the best c is better still
        likelihood = {
            c: fit_model(some, replace(settings, guessing=c).for_samples(), start=without.items).log_likelihood
            for c in GUESSING
        }
        known = max(GUESSING, key=likelihood.__getitem__)
        if not chdtrc(1, max(0.0, 2 * (likelihood[known] - without.log_likelihood))) / 2 < GUESSED:
            return None
    found = fit_model(some, FitSettings(kind="3pl", device=settings.device, standard_errors=False))
    return (found.items, known) if found.converged else None


def check_scale(
    responses: ResponsesLike, *, n_test_samples: int = 0, seed: int = 0, device: Device = "auto"
) -> ScaleChecks | None:
    """Compare one with two abilities, and test guessing item by item; None for fewer than four items.

    With ``n_test_samples`` the likelihood ratio of two abilities has a p, see `one_more_factor`; `device` is as in
    `FitSettings`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> irtbench.check_scale(responses)
    <ScaleChecks: two abilities gain a likelihood ratio of 1.9 with 5 more parameters, 0 items guessed>
    """
    responses = as_responses(responses)
    if responses.n_items < FEWEST_ITEMS:
        return None
    one, two = (fit_factors(responses, number, seed=seed, standard_errors=False, device=device) for number in (1, 2))
    return ScaleChecks(
        models=compare_models({"one ability": one, "two abilities": two}),
        two_against_one=one_more_factor(responses, one, two, n_samples=n_test_samples, seed=seed, device=device),
        fit_of_two=global_fit_of_factors(responses, two.slopes, two.intercept, n_parameters=two.n_parameters),
        two_converged=two.converged,
        guessing=guessing_test(responses, device=device),
    )


def misfit_as_a_whole(before: GlobalFit, rules: PruneRules, checks: ScaleChecks | None = None) -> str | None:
    """Say why one ability does not fit all the items, and whether two do, or None if one does."""
    failures = _failures(before, rules)
    if not failures:
        return None
    verdict = "one ability does not fit its items: " + ", ".join(failures)
    if checks is None:
        return verdict
    two = checks.fit_of_two
    if two.reason:
        return f"{verdict}; for two abilities it is not known: {two.reason}"
    words = "two abilities do not either" if _failures(two, rules) else "two abilities would"
    return f"{verdict}; {words} (CFI {two.cfi:.3f}, TLI {two.tli:.3f})"


def _failures(whole: GlobalFit, rules: PruneRules) -> list[str]:
    """Cut-offs of the rules that a global fit misses, in words; none where it is unknown or not significantly bad."""
    if not whole.p < SIGNIFICANT_MISFIT:
        return []
    return [
        f"{name} {value:.3f} < {limit:.2f}"
        for name, value, limit in (("CFI", whole.cfi, rules.min_cfi), ("TLI", whole.tli, rules.min_tli))
        if limit is not None and value < limit
    ]


@dataclass(frozen=True, eq=False)
class PruningRound(Shown):
    """The fit of one round and what was found in it.

    Parameters
    ----------
    number
        From 1 on.
    fitted
        The fit of the items left.
    item_fit, local_dependence, global_fit
        Its diagnostics; local dependence with the bootstrap's p where a rule asked for it.
    removals
        What left after this round; none in the last.
    runaway
        What left before it could be fitted: items whose slope grew without end.
    not_available
        A rule that could not be asked, and why; empty where all could.
    guessing
        Of all items, where the 2PL has none, it is significant, and slopes looked low: these are then judged by those
        of a 3PL; 0 elsewhere.
    """

    number: int
    fitted: FittedModel
    item_fit: ItemFit
    local_dependence: LocalDependence
    global_fit: GlobalFit
    removals: tuple[Removal, ...]
    runaway: tuple[Removal, ...] = ()
    not_available: str = ""
    guessing: float = 0.0

    def items_table(self) -> pd.DataFrame:
        """One row an item: its parameters and its fit in this round, and why it left after it."""
        items = self.fitted.items
        left = {removal.item_id: removal.reason for removal in self.removals}
        parameters = {
            "round": self.number,
            "item_id": items.item_ids,
            "discrimination": items.discrimination,
            "difficulty": items.difficulty,
            "guessing": items.guessing,
            **{f"se_{name}": items.standard_errors()[name] for name in ("discrimination", "difficulty", "guessing")},
            "communality": communalities(items, self.fitted.population["sd"]),
        }
        fits = self.item_fit.table().drop(columns=["item_id", "infit", "outfit"])
        return pd.DataFrame(parameters).join(fits).assign(removed=[left.get(item, "") for item in items.item_ids])

    def pairs_table(self) -> pd.DataFrame:
        """One row a pair: its local dependence in this round."""
        table = self.local_dependence.table().drop(columns=["q3", "q3_centred"])
        table.insert(0, "round", self.number)
        return table

    def table(self) -> pd.DataFrame:
        """The same as `items_table`."""
        return self.items_table()

    def in_short(self) -> str:
        """Which round, and what left in it."""
        left = describe_removals(list(self.removals))
        return f"number {self.number}, {counted(self.fitted.items.n_items, 'item')}, {left}"


@dataclass(frozen=True, eq=False)
class Pruning(Shown):
    """The way from the items given to the items kept.

    Parameters
    ----------
    item_ids
        The items given.
    rounds
        Every fit with its diagnostics, the last on the items kept.
    removals
        Every removal, those before the first fit included (round 0).
    fit_before, fit_after
        Global fit of one ability before any removal by a rule, and of the items kept.
    rejected
        Why the scale fails as a whole; None if it is retained.
    rules
        The rules applied.
    checks
        Models with two abilities and with guessing, of all items that can be fitted; None if the rules ask for none.
    """

    item_ids: tuple[str, ...]
    rounds: tuple[PruningRound, ...]
    removals: tuple[Removal, ...]
    fit_before: GlobalFit | None
    fit_after: GlobalFit | None
    rejected: str | None
    rules: PruneRules
    checks: ScaleChecks | None = None

    @property
    def fitted(self) -> FittedModel | None:
        """The fit of the last round; None if too few items were there to fit."""
        return self.rounds[-1].fitted if self.rounds else None

    @property
    def kept(self) -> tuple[str, ...]:
        """Items kept; none if the scale is rejected."""
        if self.rejected is not None or self.fitted is None:
            return ()
        return self.fitted.items.item_ids

    @property
    def globally_good(self) -> bool:
        """Whether the items kept meet the rules' cut-offs for RMSEA, CFI and TLI."""
        after, rules = self.fit_after, self.rules
        return after is not None and bool(
            after.rmsea_lower < rules.good_rmsea and after.cfi > rules.good_cfi and after.tli > rules.good_tli
        )

    @property
    def mended(self) -> str:
        """Which removals made one ability fit a retained scale that it did not fit as given; empty where it did."""
        before = None if self.fit_before is None else misfit_as_a_whole(self.fit_before, self.rules)
        if before is None or self.rejected is not None:
            return ""
        gone = [f"{r.item_id} ({r.note})" if r.note else r.item_id for r in self.removals if r.round > 0]
        return f"{before} before {', '.join(gone)} left"

    @property
    def not_available(self) -> str:
        """A rule that could not be asked of the items kept, and why; empty where all could."""
        return self.rounds[-1].not_available if self.rounds else ""

    @property
    def guessing(self) -> float:
        """Guessing of all items that a 2PL has none of, as found in any round; 0 for none."""
        return max((one.guessing for one in self.rounds), default=0.0)

    @property
    def guessing_in_words(self) -> str:
        """What guessing did to the rules, and what to do; empty where none was found."""
        if not self.guessing:
            return ""
        return (
            f"a lower asymptote of about {self.guessing:g} fits significantly better than none, as guessing or "
            "careless answers make it; low communality was judged by the slopes of a 3PL, the rest by the 2PL asked "
            "for: compare model 3pl"
        )

    def table(self) -> pd.DataFrame:
        """One row a removed item, columns of pruning.csv."""
        columns = ["round", "item_id", "reason", "statistic", "value", "p", "p_adjusted", "note"]
        return pd.DataFrame([vars(removal) for removal in self.removals], columns=columns)

    def rounds_items(self) -> pd.DataFrame:
        """Parameters and fit of every item in every round."""
        return pd.concat([r.items_table() for r in self.rounds], ignore_index=True) if self.rounds else pd.DataFrame()

    def rounds_pairs(self) -> pd.DataFrame:
        """Local dependence of every pair in every round."""
        return pd.concat([r.pairs_table() for r in self.rounds], ignore_index=True) if self.rounds else pd.DataFrame()

    def in_short(self) -> str:
        """How many items are kept, in how many rounds, or why none is."""
        given = counted(len(self.item_ids), "item")
        if self.rejected is not None:
            return f"{given}, rejected: {self.rejected}"
        return f"{len(self.kept)} of {given} kept, {counted(len(self.rounds), 'round')}"
