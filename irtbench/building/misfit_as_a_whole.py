"""Whether a scale fails as a whole: one ability does not fit its items."""

from __future__ import annotations

from irtbench.building.prune_rules import PruneRules
from irtbench.building.scale_checks import ScaleChecks
from irtbench.diagnostics.global_fit import GlobalFit

SIGNIFICANT_MISFIT = 0.05  # p of M2 below which a scale may be rejected as a whole


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
        return f"{verdict}; of two abilities it cannot be said: {two.reason}"
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
