"""``irtbench power``: what a test set of n items can show."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from irtbench.cli.options import Json, Quiet, Seed
from irtbench.cli.output import output_folder, show_table, to_json, write_json, write_table
from irtbench.cli.progress import reporting
from irtbench.data.input_error import InputError


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
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Expected p of a difference by its size, the items hurt and the set; power; size needed; the luck of guessers.

    Writes power.csv (expected p), power.json and a figure power_N.svg for each set size N.
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
    if output is not None:
        from irtbench.report.figure_file import write_figure
        from irtbench.report.power_plots import draw_expected_p

        with output_folder(output) as folder:
            write_table(table, folder / "power.csv")
            write_json(found, folder / "power.json")
            for n in sizes:
                write_figure(folder / f"power_{n}.svg", partial(draw_expected_p, table=table, n_items=n, alpha=alpha))
    if json:
        print(to_json(found))
    elif not quiet:
        import pandas as pd

        wide = table.pivot(index=["n_items", "hurt"], columns="effect", values="p").reset_index()
        wide.columns = [name if isinstance(name, str) else f"+{100 * name:g}%" for name in wide.columns]
        show_table(wide, title="Expected p by the difference in accuracy")
        if needed:
            show_table(pd.DataFrame(reached), title="Power")
            show_table(pd.DataFrame(needed), title="Items needed")
        show_table(pd.DataFrame(luck), title="Chance that guessers exceed the threshold: one, and the best of all")
