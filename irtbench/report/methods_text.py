"""The methods section of a paper, in Markdown: what was asked, screened, fitted, removed and why, with references."""

from __future__ import annotations

from collections import Counter

from irtbench.report import prose
from irtbench.report.formatting import REASONS, listing, plural
from irtbench.report.wording import words
from irtbench.study.results import Study

#: A reference is given where its word is in the text.
REFERENCES = {
    "logistic model": "Birnbaum, A. (1968). Some latent trait models and their use in inferring an examinee's ability. "
    "In F. M. Lord & M. R. Novick, *Statistical Theories of Mental Test Scores*. Addison-Wesley.",
    "integrated out": "Bock, R. D., & Aitkin, M. (1981). Marginal maximum likelihood estimation of item parameters: "
    "Application of an EM algorithm. *Psychometrika*, 46, 443-459.",
    "LD-X²": "Chen, W.-H., & Thissen, D. (1997). Local dependence indexes for item pairs using item response theory. "
    "*Journal of Educational and Behavioral Statistics*, 22, 265-289.",
    "Fleiss": "Fleiss, J. L. (1971). Measuring nominal scale agreement among many raters. *Psychological Bulletin*, "
    "76, 378-382.",
    "Holm": "Holm, S. (1979). A simple sequentially rejective multiple test procedure. *Scandinavian Journal of "
    "Statistics*, 6, 65-70.",
    "M₂": "Maydeu-Olivares, A., & Joe, H. (2006). Limited information goodness-of-fit testing in multidimensional "
    "contingency tables. *Psychometrika*, 71, 713-732.",
    "S-X²": "Orlando, M., & Thissen, D. (2000). Likelihood-based item-fit indices for dichotomous item response theory "
    "models. *Applied Psychological Measurement*, 24, 50-64.",
    "lz*": "Snijders, T. A. B. (2001). Asymptotic null distribution of person fit statistics with estimated person "
    "parameter. *Psychometrika*, 66, 331-342.",
}
PROCEDURE = (
    "Lalor, J. P., Wu, H., & Yu, H. (2016). Building an evaluation scale using item response theory. *EMNLP 2016*."
)


def methods_text(study: Study) -> str:
    """What was done and what came of it, as paragraphs to be edited, and the references of the methods named."""
    rejected = [scale for scale in study.scales if scale.pruning.rejected is not None]
    found = [
        prose.screened(study.outcomes),
        prose.agreed(study.agreement),
        prose.items_kept(study.scales),
        *(f"The scale {scale.name} is rejected as a whole: {scale.pruning.rejected}." for scale in rejected),
        prose.converged(study.scales),
        prose.scored(study.system_scores),
        removed_by_rule(study),
    ]
    versions = [f"{name} {version}" for name, version in study.provenance.get("versions", {}).items()]
    scales = [
        words(
            "scale_for_paper", name=scale.name, items=scale.scale.items, n=scale.n_respondents,
            fit=scale.pruning.fit_after, analysis=scale.analysis,
        )
        for scale in study.scales
        if scale.scale is not None
    ]  # fmt: skip
    text = "\n\n".join(
        [
            "# Method",
            "The items were calibrated by the procedure of Lalor, Wu and Yu (2016).",
            *prose.method(study.settings),
            f"The analysis was done with {listing(versions)}; random numbers began from the seed "
            f"{study.provenance.get('seed')}.",
            "# Results",
            " ".join(filter(None, found)),
            *scales,
            *(f"{words[0].upper()}{words[1:]}." for words in study.exclusions_by_ability),
        ]
    )
    cited = sorted([PROCEDURE, *(reference for word, reference in REFERENCES.items() if word in text)])
    return "\n\n".join([text, "# References", *cited]) + "\n"


def removed_by_rule(study: Study) -> str:
    """How many items each rule removed."""
    removals = [removal for scale in study.scales for removal in scale.pruning.removals]
    if not removals:
        return "No item was removed."
    n = Counter(REASONS.get(removal.reason, "depends on another item") for removal in removals)
    each = "; ".join(f"{reason}: {k}" for reason, k in n.items())
    return f"{plural(len(removals), 'item')} removed ({each})."
