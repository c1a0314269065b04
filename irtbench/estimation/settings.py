"""How a model is fitted: what a study file, the command line and Python callers choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from irtbench.data.checked_settings import Range, Settings, WrongSetting, with_keywords
from irtbench.data.input_error import InputError, refuse_any
from irtbench.models.priors import GuessingPrior, PriorName, Priors

ItemModel = Literal["2pl", "3pl"]
ModelKind = Literal["rasch", "1pl", "2pl", "3pl", "4pl"]
PosteriorKind = Literal["normal", "lowrank"]
#: Where to compute; ``auto`` is a GPU where there is one.
Device = Literal["auto", "cpu", "cuda"]
#: Of the sums over respondents; parameters are float64 always.
Precision = Literal["float64", "float32"]
Asymptote = Annotated[float, Range(at_least=0, below=1)]

FEWEST_RESPONDENTS = 10  # from whom items are estimated
SAMPLE_TOLERANCE = 1e-3  # standard errors
USUAL_UPPER = GuessingPrior("beta", 19.0, 1.0)  # of an upper asymptote: a mean of .95, the weight of 20 answers
#: Words of the command line for fields of another name.
WORDS = {"model": "kind", "options": "n_options"}
MOST_NODES = 2_001  # of a grid: finer ones are placed where they are needed


@dataclass(frozen=True)
class FitSettings(Settings):
    """How a model is fitted.

    Parameters
    ----------
    kind
        ``2pl``, or ``3pl`` with an estimated guessing parameter for each item; ``1pl`` with one slope for all items;
        ``rasch``, the same model with slopes of 1 and the population's standard deviation estimated in their place;
        ``4pl``, with an upper asymptote too (Barton & Lord, 1981): the few responses of the ablest to an easy item bear
        on it, so that it has a prior always, as guessing then has.
    guessing
        Not with ``3pl``: a lower asymptote fixed for all items, such as 1 / options.
    by_item
        Where an item differs from `kind`: ``2pl``, ``3pl``, or a number at which its guessing is fixed. Items that the
        data lack are passed over.
    prior
        ``none`` for marginal maximum likelihood, ``weak`` for the priors of `Priors.named`, ``hierarchical`` for one
        learnt from the items (few respondents, sparse data); None chooses ``none`` for the 2PL and ``weak`` for the
        3PL.
    n_options
        Number of answers to choose from, for the weak prior of guessing.
    prior_guessing
        A prior of guessing in place of the one that `prior` brings: ``normal:MEAN,SD`` of logit c, or
        ``beta:ALPHA,BETA`` of c. With prior ``none`` it is the only one.
    prior_upper
        A prior of the upper asymptote u of a 4pl, in the same words; None for Beta(19, 1), of mean .95 and the weight
        of 20 responses.
    prior_slope
        A prior ``normal:MEAN,SD`` of the slope a in place of the one that `prior` brings.
    prior_intercept
        The same of the intercept d.
    prior_items
        Mean and standard deviation of a normal prior of the difficulty b of single items, in place of one of their
        intercepts, as `explain_difficulty` predicts them; on the scale of the anchors, where there are any, as
        `prior_slope` then is. Items that the data lack are passed over.
    population
        ``normal``, or a density ``estimated`` with the items, of mean 0 and standard deviation 1: a mixture of as many
        normal ones as BIC asks for.
    optimiser
        ``fisher_scoring`` of the Delta guide, accelerated (10 or 20 steps), or ``adam`` on Pyro's ELBO (hundreds).
    tolerance
        Converged when no item's gradient exceeds this many of its standard errors.
    max_steps
        Stop, unconverged, after this many steps of Fisher scoring (a hundred times as many of Adam).
    n_nodes
        Size of the grid over which ability is integrated out.
    standard_errors
        Whether to compute the observed information and invert it; only a fit that converged has any.
    posterior
        ``normal`` or ``lowrank``: fit a variational posterior of the items, whose means and covariances then stand for
        the mode and the observed information; None for these.
    dtype
        Floating point numbers of the integration; parameters are float64 always.
    device
        Where the sums over respondents and items are computed; ``auto`` takes a GPU if there is one.
    """

    kind: ModelKind = "2pl"
    guessing: Asymptote = 0.0
    by_item: Mapping[str, ItemModel | Asymptote] = field(default_factory=dict)
    prior: PriorName | None = None
    n_options: Annotated[int, Range(at_least=2)] = 4
    prior_guessing: str | None = None
    prior_upper: str | None = None
    prior_slope: str | None = None
    prior_intercept: str | None = None
    prior_items: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    population: Literal["normal", "estimated"] = "normal"
    optimiser: Literal["fisher_scoring", "adam"] = "fisher_scoring"
    tolerance: Annotated[float, Range(above=0, at_most=0.1)] = 1e-5
    max_steps: Annotated[int, Range(at_least=1)] = 500
    n_nodes: Annotated[int, Range(at_least=11, at_most=MOST_NODES)] = 61
    standard_errors: bool = True
    posterior: PosteriorKind | None = None
    dtype: Precision = "float64"
    device: Device = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for item, (_, deviation) in self.prior_items.items():
            if deviation <= 0:
                raise InputError(
                    f"FitSettings: prior_items: item {item}: expected mean and standard deviation, the second above 0, "
                    f"but got {deviation:g}"
                )
        refuse_any((holds, f"FitSettings: {why}") for holds, why in self._refusals())

    def _refusals(self) -> tuple[tuple[bool, str], ...]:
        """What does not go together, and why."""
        hierarchical, kind, one_slope = self.prior == "hierarchical", self.kind, self.has_common_slope
        adam, estimated = self.optimiser == "adam", self.population == "estimated"
        posterior, four, guesses = self.posterior is not None, self.kind == "4pl", self.estimates_guessing
        unguarded = self.priors.guessing is None
        not_with_4pl = "does not go with a 4pl; expected kind 2pl or 3pl, or none of it"
        learnt = "prior hierarchical is learnt from the items; expected no"
        no_prior_items = "prior_items go with prior none or weak and no posterior; they do not with"
        return (
            (one_slope and any(isinstance(choice, str) for choice in self.by_item.values()),
             f"by_item: a {kind} has one slope for all items; expected fixed guessing"),
            (one_slope and hierarchical, f"prior hierarchical is one of slopes; with {kind} expected none or weak"),
            (kind == "3pl" and self.guessing > 0,
             "guessing is estimated by a 3pl; a fixed value goes with kind 2pl"),
            (adam and hierarchical, "adam learns no prior; prior hierarchical goes with optimiser fisher_scoring"),
            (estimated and hierarchical, "an estimated population goes with prior none or weak"),
            (estimated and adam, "an estimated population goes with optimiser fisher_scoring"),
            (self.prior_guessing is not None and not guesses,
             "prior_guessing goes with guessing that is estimated; expected kind 3pl"),
            (self.prior_upper is not None and not four,
             "prior_upper is of an upper asymptote; expected kind 4pl (--model 4pl)"),
            (four and hierarchical, f"prior hierarchical {not_with_4pl}"),
            (four and posterior and self.priors.slope is None,
             f"a posterior without a prior of slopes {not_with_4pl}"),
            (four and self.guessing > 0, f"guessing {not_with_4pl}"),
            (four and unguarded, "guessing of a 4pl has a prior; with prior none expected one of its own "
             "(prior_guessing, --prior-guessing normal:-1.5,0.5)"),
            (hierarchical and self.prior_slope is not None, f"{learnt} prior_slope"),
            (hierarchical and self.prior_intercept is not None, f"{learnt} prior_intercept"),
            (self.prior_slope is not None and kind == "rasch",
             "prior_slope: slopes of a rasch model are 1; expected another kind"),
            (bool(self.prior_items) and hierarchical, f"{no_prior_items} prior hierarchical"),
            (bool(self.prior_items) and posterior, f"{no_prior_items} a posterior"),
            (posterior and guesses and unguarded,
             "guessing without a prior has an improper posterior; expected prior weak"),
            (posterior and not self.standard_errors,
             "a posterior brings standard errors; expected standard_errors true"),
        )  # fmt: skip

    @property
    def has_upper_asymptotes(self) -> bool:
        """Whether curves have an upper asymptote that is estimated."""
        return self.kind == "4pl"

    @property
    def has_common_slope(self) -> bool:
        """Whether all items have one slope: Rasch and 1PL."""
        return self.kind in ("rasch", "1pl")

    @property
    def estimates_guessing(self) -> bool:
        """Whether any item has a lower asymptote that is estimated."""
        return self.kind in ("3pl", "4pl") or "3pl" in self.by_item.values()

    @property
    def priors(self) -> Priors:
        """The prior densities that these settings stand for."""
        name: PriorName = self.prior or ("weak" if self.estimates_guessing else "none")
        priors = Priors.named(name, n_options=self.n_options, guessing_estimated=self.estimates_guessing)
        usual = {"upper": USUAL_UPPER} if self.kind == "4pl" else {}
        texts = {of: getattr(self, f"prior_{of}") for of in ("guessing", "upper", "slope", "intercept")}
        own: dict[str, Any] = {of: own_prior(of, text) for of, text in texts.items() if text is not None}
        return replace(priors, **usual | own, difficulty=self.prior_items)

    def bounds(self, item: str) -> bool:
        """Whether the item has a finite mode even where all got it right, or all wrong."""
        priors, slopes_known = self.priors, self.kind == "rasch"
        return priors.bounds_difficulty or (item in self.prior_items and (slopes_known or priors.slope is not None))

    def for_samples(self) -> FitSettings:
        """The same for responses drawn in a bootstrap: no standard errors, and a thousandth of one is close enough."""
        close_enough = max(self.tolerance, SAMPLE_TOLERANCE)
        return replace(self, standard_errors=False, posterior=None, tolerance=close_enough)

    def guessing_of(self, item_ids: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Whether each item's guessing is estimated, and the value it is fixed at if not; shapes (n_items,)."""
        otherwise: ItemModel | float = "3pl" if self.kind == "3pl" else self.guessing
        choices = [self.by_item.get(item, otherwise) for item in item_ids]
        free = np.array([choice == "3pl" for choice in choices])
        return free, np.array([0.0 if isinstance(choice, str) else float(choice) for choice in choices])


class FitKeywordsOfAnyModel(TypedDict, total=False):
    """`FitSettings` as keywords, but for the model."""

    guessing: Asymptote
    by_item: Mapping[str, ItemModel | Asymptote]
    prior: PriorName | None
    n_options: int
    prior_guessing: str | None
    prior_upper: str | None
    prior_slope: str | None
    prior_intercept: str | None
    prior_items: Mapping[str, tuple[float, float]]
    population: Literal["normal", "estimated"]
    optimiser: Literal["fisher_scoring", "adam"]
    tolerance: float
    max_steps: int
    n_nodes: int
    standard_errors: bool
    posterior: PosteriorKind | None
    dtype: Precision
    device: Device
    options: int


class FitKeywords(FitKeywordsOfAnyModel, total=False):
    """`FitSettings` as keywords, by the names of fields and of the command line's options."""

    kind: ModelKind
    model: ModelKind


def own_prior(of: str, text: str) -> GuessingPrior | tuple[float, float]:
    """The density that ``prior_guessing``, ``prior_upper``, ``prior_slope`` or ``prior_intercept`` stands for.

    Of an asymptote as `GuessingPrior` has it; mean and standard deviation of a slope or an intercept.
    """
    normal_alone, expected = of in ("slope", "intercept"), "expected normal:MEAN,SD with SD above 0"
    try:
        prior = GuessingPrior.read(text)
        if not normal_alone or prior.density == "normal":
            return (prior.first, prior.second) if normal_alone else prior
    except ValueError as error:
        if not normal_alone:
            expected = str(error)
    if of == "upper":
        expected = expected.replace("logit c", "logit u").replace("of c", "of u")
    raise WrongSetting("FitSettings", f"prior_{of}", f"{expected} but got {text!r}")


def fit_settings(settings: FitSettings | None, keywords: Mapping[str, Any]) -> FitSettings:
    """Settings with what keywords say in their place, by the names of fields or of the command line's options.

    Raises
    ------
    InputError
        If a keyword is unknown or a value wrong.
    """
    return with_keywords(settings or FitSettings(), keywords, words=WORDS)
