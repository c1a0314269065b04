"""``irtbench evaluate power``: what a test set of n items can show."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
import typer

import irtbench
from irtbench import report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.options import MaybeFolder
from irtbench.cli.output import say, show_table
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix

if TYPE_CHECKING:
    from irtbench.evaluation.trial_variance import TrialVariance


@dataclass(frozen=True)
class Difference:
    """The sets, and the difference that is to be shown."""

    sizes: Annotated[
        list[int], typer.Option("--items", "-n", metavar="N", help="Items in the set; repeat for several.")
    ] = field(default_factory=lambda: [100, 500, 2_000, 10_000])
    hurt: Annotated[
        list[float], typer.Option("--hurt", help="Share of items that the better system gets worse; repeat.")
    ] = field(default_factory=lambda: [0.0, 0.01, 0.02, 0.05, 0.1])
    effect: Annotated[
        float | None, typer.Option("--effect", help="Difference in accuracy to be shown: power and size needed.")
    ] = None
    alpha: Annotated[float, typer.Option("--alpha", help="Level of the one-sided test.")] = 0.05
    wanted: Annotated[float, typer.Option("--power", help="Power that the size needed is to have.")] = 0.8

    def check(self) -> None:
        """Refuse a level that is none, and sets that are too large."""
        from irtbench.evaluation.power import LARGEST_SIZE

        if not 0 < self.alpha < 1:
            raise InputError(f"--alpha {self.alpha:g}: expected a level between 0 and 1")
        if max(self.sizes) > LARGEST_SIZE:
            raise InputError(f"--items {max(self.sizes)}: expected at most {LARGEST_SIZE}")

    def shown(self, run: Run) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The power of each set, and the size needed, by share hurt; none without an effect."""
        reached, needed = [], []
        for share in [] if self.effect is None else self.hurt:
            assert self.effect is not None
            run.progress(f"size needed with {share:g} hurt")
            said = {"effect": self.effect, "hurt": share, "alpha": self.alpha}
            for n in self.sizes:
                chance = irtbench.power(n, self.effect, share, alpha=self.alpha)
                reached.append({"n_items": n, **said, "power": chance})
            size = irtbench.evaluation.size_needed(self.effect, share, alpha=self.alpha, wanted_power=self.wanted)
            needed.append(asdict(size))
        return reached, needed


@dataclass(frozen=True)
class Guessers:
    """Systems that guess, of which the best is reported."""

    guessers: Annotated[int, typer.Option("--guessers", help="Systems of which the best is reported.")] = 10
    guess: Annotated[float, typer.Option("--guess", help="Chance of a right guess.")] = 0.5
    threshold: Annotated[float, typer.Option("--threshold", help="Accuracy that a guesser exceeds.")] = 0.55

    def luck(self, sizes: list[int]) -> list[dict[str, Any]]:
        """Chances that one, and the best of them, exceed the threshold, by the size of the set."""
        lucky = irtbench.evaluation.guessers_luck
        return [asdict(lucky(n, self.threshold, guess=self.guess, n_guessers=self.guessers)) for n in sizes]


@dataclass(frozen=True)
class MoreTrials:
    """A system whose trials of the items differ: what another trial of each buys."""

    accuracy: Annotated[
        float | None, typer.Option("--accuracy", help="A system's accuracy: what another trial of each item buys it.")
    ] = None
    agreement: Annotated[
        float | None,
        typer.Option("--agreement", help="Share of items on which two of its trials agree; goes with --accuracy."),
    ] = None
    responses: Annotated[
        Path | None,
        typer.Option("--responses", metavar="FILE", help="Responses with trials to estimate both from, instead."),
    ] = None
    bank: Annotated[
        Path | None, typer.Option("--bank", metavar="BANK", help="Both from the items of a bank of one scale, instead.")
    ] = None
    theta: Annotated[float, typer.Option("--theta", help="The system's ability, for --bank.")] = 0.0
    trials: Annotated[
        list[int], typer.Option("--trials", metavar="N", help="Trials of each item; repeat for several.")
    ] = field(default_factory=lambda: [1, 2, 5, 10])

    def components(self) -> tuple[TrialVariance, float | None] | None:
        """Variance over items and trials, and with a bank the mean information of an item; None if not asked for."""
        variance = irtbench.evaluation.TrialVariance
        ways = [
            self.accuracy is not None or self.agreement is not None,
            self.responses is not None,
            self.bank is not None,
        ]
        if sum(ways) > 1 or (self.accuracy is None) != (self.agreement is None):
            raise InputError("expected one of --accuracy with --agreement, --responses, and --bank")
        if self.accuracy is not None and self.agreement is not None:
            return variance.of_agreement(self.accuracy, self.agreement), None
        if self.responses is not None:
            given = irtbench.read_responses(self.responses, trials="count")
            return variance.of_responses(ResponseMatrix.from_long(given.frame)), None
        if self.bank is None:
            return None
        scales = irtbench.load_bank(self.bank).scales
        if len(scales) > 1:
            raise InputError(f"--bank {self.bank}: {len(scales)} scales; expected a bank of one")
        items = scales[0].items
        information = float(irtbench.information(self.theta, items).mean())
        return variance.of_probabilities(irtbench.icc(self.theta, items)[0]), information


@command("power.csv", "power.json", "trials.csv", output=MaybeFolder, draws="svg")
def power(wanted: Difference, chance: Guessers, more: MoreTrials, run: Run) -> Outcome:
    """Expected p of a difference by its size, the items hurt and the set; power; size needed; the luck of guessers.

    Writes power.csv (expected p), power.json and a figure power_N.svg for each set size N. With --accuracy and
    --agreement, --responses or --bank also trials.csv: standard errors of a system's accuracy (with a bank of theta
    too) by items and trials, and what one more of either buys.
    """
    from irtbench.evaluation.power import EFFECTS

    wanted.check()
    effects = EFFECTS if wanted.effect is None else tuple(sorted({*EFFECTS, wanted.effect}))
    table = irtbench.evaluation.expected_p_table(effects=effects, hurt=wanted.hurt, sizes=wanted.sizes)
    reached, needed = wanted.shown(run)
    luck, given, buys = chance.luck(wanted.sizes), more.components(), None
    found = {"expected_p": table, "power": reached, "size_needed": needed, "guessers": luck}
    if given is not None:
        variance, information = given
        buys = irtbench.evaluation.trial_table(
            variance, sizes=wanted.sizes, trials=more.trials, information=information
        )
        found |= {"trials": buys, "trial_variance": asdict(variance) | {"agreement": variance.agreement}}

    def tell() -> None:
        wide = table.pivot(index=["n_items", "hurt"], columns="effect", values="p").reset_index()
        wide.columns = [name if isinstance(name, str) else f"+{100 * name:g}%" for name in wide.columns]
        show_table(wide, title="Expected p by the difference in accuracy", rest=run.at("power.csv"))
        if buys is not None:
            title = "Standard errors, and what a trial or an item more buys"
            show_table(buys, title=title, rest=run.at("trials.csv"))
            say(
                f"accuracy {variance.accuracy:.3f}, two trials of an item agree with probability "
                f"{variance.agreement:.3f}; response_worth: responses to new items that one to another trial is worth"
            )
        if needed:
            show_table(pd.DataFrame(reached), title="Power", rest=run.at("power.json"))
            show_table(pd.DataFrame(needed), title="Items needed", rest=run.at("power.json"))
        title = "Chance that guessers exceed the threshold: one, and the best of all"
        show_table(pd.DataFrame(luck), title=title, rest=run.at("power.json"))

    return Outcome(
        json=found, tell=tell,
        figures=lambda: report.power_figures(table, sizes=wanted.sizes, alpha=wanted.alpha),
        files={"power.csv": table, "power.json": found, "trials.csv": buys},
    )  # fmt: skip
