"""``irtbench keys``: items whose key is probably wrong, and who chooses which option."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import typer

from irtbench.cli.options import Answers, Figures, Folder, Html, ItemColumns, Json, Quiet, Seed, Where, named
from irtbench.cli.output import output_folder, say, show_table, to_json, write_table
from irtbench.cli.presenting import figures_in, page_in
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError

FILES = ("keys.csv", "distractors.csv")
SUSPICIOUS = 0.5  # probability from which on an item is put forward


@reads_files
def keys(
    answers: Answers,
    items: Annotated[Path, typer.Option("--items", metavar="ITEMS", help="Items with their keys.")],
    output: Folder,
    prior: Annotated[
        Literal["weak", "hierarchical"] | None,
        typer.Option("--prior", help="Of the items; weak, or hierarchical with more items than respondents."),
    ] = None,
    item_column: ItemColumns = [],  # noqa: B006 - typer copies it
    where: Where = [],  # noqa: B006
    figures: Figures = None,
    html: Html = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Rank items by the probability that their key is wrong, and propose the option that the able choose.

    Writes keys.csv, the most suspicious item first, and distractors.csv, an option a row.
    """
    from irtbench.analysis.wrong_keys import wrong_keys
    from irtbench.building.removals import constant_items
    from irtbench.data.grading import GradingSettings, normalise_answers, normalised_keys
    from irtbench.data.readers.item_table import read_items
    from irtbench.data.responses import ResponseMatrix, name_first
    from irtbench.diagnostics.distractors import distractor_table
    from irtbench.estimation.fit import fit_model
    from irtbench.estimation.settings import FitSettings

    with (
        reporting(quiet=quiet) as progress,
        output_folder(output, files=FILES) as folder,
        figures_in(figures) as draw,
        page_in(html) as show,
    ):
        known = read_items(items, columns=named("--item-column", item_column), where=named("--where", where))
        given = reading.answers(answers).frame
        if where:
            given = given[given["item_id"].isin(known.item_ids)]
        grading = GradingSettings()
        right = normalised_keys(known, grading)
        without = [item for item in pd.unique(given["item_id"]) if item not in right]
        if without:
            raise InputError(f"{items}: no key for item {name_first(without)}; expected one for every item answered")
        # any answer may be the right one here: none is too strange to be an option
        given = given.assign(answer=normalise_answers(given["answer"], grading.normalise))
        correct = (given["answer"] == given["item_id"].map(right)).astype(np.float64)
        responses = ResponseMatrix.from_long(given.assign(response=correct)).answered()
        constant = {removal.item_id for removal in constant_items(responses)}
        varied = responses.select_items([item for item in responses.item_ids if item not in constant])
        few = varied.n_items > varied.n_respondents
        chosen = prior or ("hierarchical" if few else "weak")
        progress(f"fitting {varied.n_respondents} respondents x {varied.n_items} items")
        fitted = fit_model(varied, FitSettings(prior=chosen, standard_errors=False), seed=seed)
        progress("options of every item")
        found = wrong_keys(given, right, responses, fitted.items, population=fitted.quadrature, seed=seed)
        ranked = found.table()
        options = distractor_table(given, right, responses)
        write_table(ranked, folder / "keys.csv")
        write_table(options, folder / "distractors.csv")
        if draw is not None:
            from irtbench.report.check_figures import key_figures

            draw(key_figures(ranked, options))
        if show is not None:
            from irtbench.report.item_pages import keys_page

            show(
                keys_page(ranked, options, share_wrong=found.share_wrong, suspicious=SUSPICIOUS, too_few=found.too_few)
            )
    if json:
        print(
            to_json(
                {"keys": ranked, "distractors": options, "share_wrong": found.share_wrong, "too_few": found.too_few}
            )
        )
    elif not quiet:
        suspicious = len(found.suspicious)
        suspects = ranked.head(max(10, min(30, suspicious)))
        show_table(suspects, title="The most suspicious keys", rest=output / "keys.csv")
        if found.too_few:
            say(found.too_few)
        else:
            say(
                f"{suspicious} of {len(ranked)} keys look wrong (p > {SUSPICIOUS:g}): the able choose another option. "
                "An item that leads the able astray looks the same, so read it before changing its key"
            )
            for first in sorted({suspicious, 10, 100}):
                if 0 < first <= len(ranked):
                    expected = found.expected_precision(first)
                    wrong = f"{expected * first:.1f} are expected to be such ({expected:.0%})"
                    say(f"of the first {first} to check, {wrong}")
        if not fitted.converged:
            say(f"the fit of ability did not converge ({fitted.stopped_because}): take the figures as rough")
