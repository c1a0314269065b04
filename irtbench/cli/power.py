"""``irtbench power``: what a test set of n items can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from irtbench.cli.options import Figures, Json, Quiet, Seed
from irtbench.cli.output import say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in, maybe_folder
from irtbench.cli.progress import reporting
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    import pandas as pd

    from irtbench.evaluation.trial_variance import TrialVariance
    from irtbench.models.item_parameters import ItemParameters


def power(
    sizes: Annotated[
        list[int], typer.Option("--items", "-n", metavar="N", help="Items in the set; repeat for several.")
    ] = [100, 500, 2_000, 10_000],  # noqa: B006 - typer copies it
    hurt: Annotated[
        list[float], typer.Option("--hurt", help="Share of items that the better system gets worse; repeat.")
    ] = [0.0, 0.01, 0.02, 0.05, 0.1],  # noqa: B006
    effect: Annotated[
        float | None, typer.Option("--effect", help="Difference in accuracy to be shown: power and size needed.")
    ] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="Level of the one-sided test.")] = 0.05,
    wanted: Annotated[float, typer.Option("--power", help="Power that the size needed is to have.")] = 0.8,
    guessers: Annotated[int, typer.Option("--guessers", help="Systems of which the best is reported.")] = 10,
    guess: Annotated[float, typer.Option("--guess", help="Chance of a right guess.")] = 0.5,
    threshold: Annotated[float, typer.Option("--threshold", help="Accuracy that a guesser exceeds.")] = 0.55,
    accuracy: Annotated[
        float | None, typer.Option("--accuracy", help="A system's accuracy: what another trial of each item buys it.")
    ] = None,
    agreement: Annotated[
        float | None,
        typer.Option("--agreement", help="Share of items on which two of its trials agree; goes with --accuracy."),
    ] = None,
    responses: Annotated[
        Path | None,
        typer.Option("--responses", metavar="FILE", help="Responses with trials to estimate both from, instead."),
    ] = None,
    bank: Annotated[
        Path | None, typer.Option("--bank", metavar="BANK", help="Both from the items of a bank of one scale, instead.")
    ] = None,
    theta: Annotated[float, typer.Option("--theta", help="The system's ability, for --bank.")] = 0.0,
    against: Annotated[
        float | None, typer.Option("--against", metavar="THETA", help="With --bank: a less able one to be told apart.")
    ] = None,
    trials: Annotated[
        list[int], typer.Option("--trials", metavar="N", help="Trials of each item; repeat for several.")
    ] = [1, 2, 5, 10],  # noqa: B006
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = None,
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Expected p of a difference by its size, the items hurt and the set; power; size needed; the luck of guessers.

    Writes power.csv (expected p), power.json and a figure power_N.svg for each set size N. With --accuracy and
    --agreement, --responses or --bank also trials.csv: standard errors of a system's accuracy (with a bank of theta
    too) by items and trials, and what one more of either buys; with --against what sets of such items, right and wrong
    or graded, show of the difference of two systems in the share of the points.
    """
    from irtbench.evaluation.power import EFFECTS, LARGEST_SIZE, expected_p_table, guessers_luck, size_needed
    from irtbench.evaluation.power import power as power_of

    if not 0 < alpha < 1:
        raise InputError(f"--alpha {alpha:g}: expected a level between 0 and 1")
    if max(sizes) > LARGEST_SIZE:
        raise InputError(f"--items {max(sizes)}: expected at most {LARGEST_SIZE}")
    with reporting(quiet=quiet) as progress:
        effects = EFFECTS if effect is None else tuple(sorted({*EFFECTS, effect}))
        table = expected_p_table(effects=effects, hurt=hurt, sizes=sizes)
        luck = [asdict(guessers_luck(n, threshold, guess=guess, n_guessers=guessers)) for n in sizes]
        reached, needed = [], []
        if effect is not None:
            for share in hurt:
                progress(f"size needed with {share:g} hurt")
                for n in sizes:
                    chance = power_of(n, effect, share, alpha=alpha)
                    reached.append({"n_items": n, "effect": effect, "hurt": share, "alpha": alpha, "power": chance})
                needed.append(asdict(size_needed(effect, share, alpha=alpha, wanted_power=wanted)))
    found = {"expected_p": table, "power": reached, "size_needed": needed, "guessers": luck}
    buys = None
    apart = None
    if against is not None:
        apart = systems_apart(bank, theta, against, sizes, alpha, wanted)
        found |= {"systems_apart": apart}
    if given := components(accuracy, agreement, responses, bank, theta):
        from irtbench.evaluation.trial_variance import trial_table

        variance, information = given
        buys = trial_table(variance, sizes=sizes, trials=trials, information=information)
        found |= {"trials": buys, "trial_variance": asdict(variance) | {"agreement": variance.agreement}}
    with maybe_folder(output) as folder, figures_in(figures, unasked=folder) as draw:
        if folder is not None:
            write_table(table, folder / "power.csv")
            write_json(found, folder / "power.json")
            if buys is not None:
                write_table(buys, folder / "trials.csv")
        if draw is not None:
            from irtbench.report.evaluation_figures import power_figures

            draw(power_figures(table, sizes=sizes, alpha=alpha))
    if json:
        print(to_json(found))
    elif not quiet:
        import pandas as pd

        wide = table.pivot(index=["n_items", "hurt"], columns="effect", values="p").reset_index()
        wide.columns = [name if isinstance(name, str) else f"+{100 * name:g}%" for name in wide.columns]
        show_table(wide, title="Expected p by the difference in accuracy", rest=(output, "power.csv"))
        if buys is not None:
            title = "Standard errors, and what a trial or an item more buys"
            show_table(buys, title=title, rest=(output, "trials.csv"))
            graded = bank is not None and items_of(bank).categories is not None
            agree = "" if graded else f"two trials of an item agree with probability {variance.agreement:.3f}; "
            say(
                f"accuracy {variance.accuracy:.3f}, {agree}response_worth: responses to new items that one to another "
                "trial is worth"
            )
        in_json = (output, "power.json")
        if apart is not None:
            show_table(apart, title=f"Ability {theta:g} against {against:g}, share of the points", rest=in_json)
        if needed:
            show_table(pd.DataFrame(reached), title="Power", rest=in_json)
            show_table(pd.DataFrame(needed), title="Items needed", rest=in_json)
        title = "Chance that guessers exceed the threshold: one, and the best of all"
        show_table(pd.DataFrame(luck), title=title, rest=in_json)


def components(
    accuracy: float | None, agreement: float | None, responses: Path | None, bank: Path | None, theta: float
) -> tuple[TrialVariance, float | None] | None:
    """Variance over items and trials, and with a bank the mean information of an item; None if neither is asked for."""
    from irtbench.evaluation.trial_variance import TrialVariance

    ways = [accuracy is not None or agreement is not None, responses is not None, bank is not None]
    if sum(ways) > 1 or (accuracy is None) != (agreement is None):
        raise InputError("expected one of --accuracy with --agreement, --responses, and --bank")
    if accuracy is not None and agreement is not None:
        return TrialVariance.of_agreement(accuracy, agreement), None
    if responses is not None:
        from irtbench.data.readers.recognise import read_responses
        from irtbench.data.responses import ResponseMatrix

        return TrialVariance.of_responses(
            ResponseMatrix.from_long(read_responses(responses, trials="count").frame)
        ), None
    if bank is not None:
        from irtbench.models.curves import information, share_moments

        items = items_of(bank)
        mean, within = share_moments(theta, items)
        return TrialVariance.of_shares(mean[0], within[0]), float(information(theta, items).mean())
    return None


def items_of(bank: Path) -> ItemParameters:
    """The items of a bank of one scale."""
    from irtbench.bank.bank import load_bank

    scales = load_bank(bank, categories=True).scales
    if len(scales) > 1:
        raise InputError(f"--bank {bank}: {len(scales)} scales; expected a bank of one")
    return scales[0].items


def systems_apart(
    bank: Path | None, theta: float, against: float, sizes: Sequence[int], alpha: float, wanted: float
) -> pd.DataFrame:
    """What sets of items like a bank's show of the difference of two systems, a row a size."""
    import pandas as pd

    from irtbench.evaluation.power import score_power
    from irtbench.models.curves import share_moments

    if bank is None:
        raise InputError("--against: goes with --bank")
    if not theta > against:
        raise InputError(f"--against {against:g}: expected an ability below --theta {theta:g}")
    mean, within = share_moments([theta, against], items_of(bank))
    apart = mean[0] - mean[1]
    deviation = float((apart.var() + within.sum(axis=0).mean()) ** 0.5)
    rows = [vars(score_power(n, float(apart.mean()), deviation, alpha=alpha, wanted_power=wanted)) for n in sizes]
    return pd.DataFrame(rows)
