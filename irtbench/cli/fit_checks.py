"""What ``irtbench fit`` is asked for, and which of its options go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from irtbench.cli.options import item_priors
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix

if TYPE_CHECKING:
    from irtbench.bank.data_card import DataCard
    from irtbench.bank.scale import Scale
    from irtbench.cli.testlets import TestletOptions
    from irtbench.data.stored_responses import AnyResponses
    from irtbench.estimation.settings import FitSettings


@dataclass(frozen=True, kw_only=True)
class AskedFit:
    """What is to be fitted; of one ability and one group unless something else is asked for.

    Parameters
    ----------
    settings
        Model and prior of the items, and density of ability.
    prior_items
        File of priors of the difficulty of single items.
    anchors
        Bank, or table, of items whose parameters are known.
    factors, pattern
        Number of abilities, and file that says on which of them an item has a slope.
    testlets
        The testlets, each with an ability of its own.
    groups, reference
        File with the group of each respondent, and the group whose ability is N(0, 1).
    card
        File with what the bank says of itself.
    dispersion
        Whether trials scatter more than binomial, by one dispersion or by item.
    """

    settings: FitSettings
    prior_items: Path | None
    anchors: Path | None
    factors: int
    pattern: Path | None
    testlets: TestletOptions | None
    groups: Path | None
    reference: str | None
    card: Path | None
    dispersion: Literal["scale", "item"] | None = None

    @property
    def several_abilities(self) -> bool:
        """Whether items have slopes on several abilities, other than those of testlets."""
        return self.factors > 1 or self.pattern is not None

    @property
    def needs_memory(self) -> str:
        """The first of what needs all responses in memory; empty if there is none."""
        needs = {
            "several abilities": self.several_abilities,
            "--testlets": self.testlets is not None,
            "--groups": self.groups is not None,
            "--dispersion": self.dispersion is not None,
            "--posterior": self.settings.posterior is not None,
            "--prior hierarchical": self.settings.prior == "hierarchical",
        }
        return next((name for name, asked in needs.items() if asked), "")

    def with_item_priors(self, item_ids: Sequence[str]) -> Self:
        """The same with the priors that ``--prior-items`` has of these items.

        Raises
        ------
        InputError
            As `item_priors`.
        """
        return replace(self, settings=replace(self.settings, prior_items=item_priors(self.prior_items, item_ids)))

    def with_prior_for(self, given: AnyResponses) -> tuple[Self, str]:
        """The same with the prior that suits so many respondents and items, and why; as it is where others decide."""
        settings = self.settings
        own = (settings.prior_slope, settings.prior_intercept, settings.prior_guessing, self.prior_items, self.anchors)
        decided = (
            any(part is not None for part in (*own, self.testlets, self.groups, self.dispersion))
            or self.several_abilities
        )
        plain = settings.kind in ("2pl", "3pl") and settings.population == "normal"
        if decided or not plain:
            return self, ""
        from irtbench.study.effort import prior_for

        prior, why = prior_for(given)
        if prior == "hierarchical" and not isinstance(given, ResponseMatrix):  # which is learnt from all in memory
            prior = "none" if given.n_items > given.n_respondents else "weak"
        if prior == "none":
            return self, ""
        return replace(self, settings=replace(settings, prior=prior)), why


def read_what_is_known(asked: AskedFit) -> tuple[Scale | None, DataCard | None]:
    """The anchors and the card of the bank, once all that is asked for goes together.

    Raises
    ------
    InputError
        Naming the first option that does not go with another, or as the readers of these files.
    """
    from irtbench.bank.known_items import read_bank
    from irtbench.cli.link_options import chosen_scale

    anchors = None if asked.anchors is None else chosen_scale(read_bank(asked.anchors), None, asked.anchors)
    card = None
    if asked.card is not None:
        from irtbench.config import read_card

        if asked.several_abilities or asked.testlets is not None:
            raise InputError("--card: several abilities have no bank that it could go into")
        card = read_card(asked.card)
    demand_one_kind(asked)
    return anchors, card


def demand_one_kind(asked: AskedFit) -> None:
    """Refuse more than one of several abilities, testlets and groups, and options that these do not know.

    Raises
    ------
    InputError
        Naming the option and what it goes with.
    """
    several = asked.several_abilities
    testlets, groups = asked.testlets is not None, asked.groups is not None
    not_plain = asked.anchors is not None or not is_plain(asked.settings)
    if several and not_plain:
        raise InputError(
            "--factors: several abilities go with the 2pl without guessing, prior, anchors or estimated population"
        )
    if asked.reference is not None and not groups:
        raise InputError("--reference: expected --groups with it")
    if asked.prior_items is not None and (several or testlets):
        raise InputError("--prior-items: go with rasch, 1pl, 2pl or 3pl, without factors or testlets")
    if groups and (several or testlets or asked.anchors is not None):
        raise InputError("--groups: expected neither several abilities, testlets nor anchors with it")
    if asked.dispersion is not None and (several or not_plain or groups or testlets or asked.card is not None):
        raise InputError("--dispersion: goes with the 2pl without factors, groups, testlets, prior, anchors or card")
    if testlets and (several or not_plain):
        raise InputError(
            "--testlets: goes with the 2pl without factors, guessing, prior, anchors, estimated population"
        )


def is_plain(settings: FitSettings) -> bool:
    """Whether the settings are those of a 2PL by maximum likelihood, wherever it is computed."""
    from irtbench.estimation.settings import FitSettings

    return settings == FitSettings(device=settings.device)
