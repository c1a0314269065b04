"""The figures of a study's page, which are drawings of `scale_figures` and `check_figures`; how to read a curve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes

from irtbench.data.items import ItemTable
from irtbench.diagnostics.empirical_curve import empirical_curve
from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.report.check_figures import draw_fit
from irtbench.report.drawing import ABILITY_LABEL, HEIGHT, Drawing, on_axes
from irtbench.report.formatting import decimal, p_value, plural
from irtbench.report.forms import BLUE, DASHED, GREY, ORANGE, VECTORS, Series, curve_plot
from irtbench.report.paper_tables import fit_extremes, item_status_table, remaining_parameters, removed_parameters
from irtbench.report.prose import unit_of_ability
from irtbench.report.scale_figures import (
    ABILITIES,
    draw_curves,
    draw_information,
    draw_parameters,
    numbered,
    probability_axes,
)
from irtbench.scoring.ability import eap
from irtbench.study.results import ScaleStudy


def draw_curve_example(ax: Axes) -> Axes:
    """The item characteristic curve with a = 1, b = 0, c = .25, its parameters marked: Figure 1 of the paper."""
    item = ItemParameters.from_difficulty([1.0], [0.0], [0.25])
    middle, slope = float(icc(0.0, item)[0, 0]), 0.1875  # of the tangent at b: P' = a (1 - c) / 4
    dotted, tangent = {"color": GREY, "linestyle": ":"}, {"color": ORANGE, "linestyle": "-"}
    lines = [
        Series("", ABILITIES, icc(ABILITIES, item)[:, 0], look={"color": BLUE}),
        Series("", [0, 0, -4], [0, middle, middle], look=dotted),
        Series("", [-4, 4], [0.25, 0.25], look=DASHED),
        Series("", [-1.4, 1.4], [middle - 1.4 * slope, middle + 1.4 * slope], look=tangent),
        Series("", [0], [middle], look={"color": ORANGE, "marker": "o", "markersize": 6}),
    ]
    probability_axes(curve_plot(ax, lines, x=ABILITY_LABEL, y="probability correct"))
    for text, tip, place in (
        ("discrimination a = 1:\nsteepness here", (0.1, middle - 0.01), (0.75, 0.45)),
        ("difficulty b = 0", (0, 0), (0.75, 0.06)),
        ("guessing c = 0.25:\nlowest probability", (-3.4, 0.25), (-3.8, 0.06)),
    ):
        ax.annotate(text, tip, place, arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 0.8})
    return ax


def example_panels() -> list[Drawing]:
    """How to read an item characteristic curve."""
    description = "An S-shaped curve that rises from 0.25 through 0.625 at ability 0 towards 1."
    return [on_axes("example_curve", draw_curve_example, description=description)]


def fit_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Estimated against actual curves of the worst and the best fitting item in the first fits."""
    by_name = {scale.name: scale for scale in scales}
    panels = []
    for which, row in fit_extremes(scales).iterrows():
        scale, item = by_name[row["scale"]], row["item_id"]
        fitted = scale.pruning.rounds[0].fitted
        data = scale.responses.select_items(fitted.items.item_ids).answered()
        theta = eap(data, fitted.items, quadrature=fitted.quadrature).theta
        heading = (
            f"{str(which).capitalize()} fit: {item} ({scale.name}), S-X² {decimal(row['s_x2'])}, df {row['df']}, "
            f"p {p_value(row['p'])}, adjusted {p_value(row['p_adjusted'])}"
        )
        said = f"Estimated and actual curve of item {item} of {scale.name}."
        draw = partial(draw_fit, curve=empirical_curve(data, fitted.items, item, theta))
        panels.append(on_axes(f"{which}_fit", draw, heading=heading, description=said, unit=unit_of_ability(scales)))
    return panels


def _vectors(scales: Sequence[ScaleStudy]) -> int:
    """Lines and dots of a panel, where all scales have one."""
    return min(VECTORS, max(60, 3 * VECTORS // max(len(scales), 1)))


def curve_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Item characteristic curves of each scale on which anything was fitted."""
    fitted = [scale for scale in scales if scale.pruning.rounds]
    panels = []
    for k, scale in enumerate(fitted):
        kept, others, word = remaining_parameters(scale), removed_parameters(scale.pruning), "removed"
        if scale.pruning.rejected is not None:
            kept, others, word = kept.select([]), (*others, kept), "scale rejected"
        said = f"Item characteristic curves of {scale.name}: {plural(kept.n_items, 'item')} kept."
        draw = partial(draw_curves, kept=kept, others=others, others_are=word)
        panels.append(
            on_axes(
                numbered("curves", k, len(fitted)), draw, heading=scale.name, description=said,
                unit=unit_of_ability(scales), vectors=_vectors(scales),
            )
        )  # fmt: skip
    return panels


def parameter_panels(scales: Sequence[ScaleStudy], items: ItemTable) -> list[Drawing]:
    """Discrimination against difficulty of each scale on which anything was fitted."""
    status = item_status_table(scales, items)
    fitted = [scale.name for scale in scales if scale.pruning.rounds]
    return [
        on_axes(
            numbered("parameters", k, len(fitted)),
            partial(draw_parameters, status=status[status["scale"] == name], axes_for=status), heading=name,
            description=f"Difficulty and discrimination of the items of {name}.", vectors=_vectors(scales),
        )
        for k, name in enumerate(fitted)
    ]  # fmt: skip


def information_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Test information of all scales retained, in one panel; none if no scale is."""
    retained = {scale.name: scale.scale.items for scale in scales if scale.scale is not None}
    drawing = on_axes(
        "test_information", partial(draw_information, scales=retained),
        description=f"Test information of {', '.join(retained)} along ability.",
        height=HEIGHT + 0.2 * (len(retained) // 2), unit=unit_of_ability(scales),
    )  # fmt: skip
    return [drawing] if retained else []
