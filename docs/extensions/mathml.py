"""Formulas as MathML, which browsers draw by themselves: docutils translates them, and no script is loaded."""

from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx


def mathml(formula: str, *, displayed: bool) -> str:
    """A formula in LaTeX as an element ``math``."""
    return "".join(latex2mathml.tex2mathml(formula, as_block=displayed))


def visit_math(translator: Any, node: nodes.math) -> None:
    """Write a formula in a line."""
    translator.body.append(mathml(node.astext(), displayed=False))
    raise nodes.SkipNode


def visit_displayed_math(translator: Any, node: nodes.math_block) -> None:
    """Write a formula that stands by itself."""
    translator.body.append(f'<div class="formula">{mathml(node.astext(), displayed=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make it known to Sphinx as the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displayed_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
