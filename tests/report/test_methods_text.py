"""The methods section that build writes: its numbers are the study's, its references those of the methods named."""

import pytest
from report_study import FINE

import irtbench
from irtbench.report.prose import PROCEDURE, REFERENCES, methods_text


@pytest.mark.parametrize("of", ["study", "plain_study"])
def test_what_is_named_is_cited_and_nothing_else(of: str, request: pytest.FixtureRequest) -> None:
    text, references = methods_text(request.getfixturevalue(of)).split("# References")
    assert PROCEDURE in references
    for word, reference in REFERENCES.items():
        assert (word in text) == (reference in references), word


def test_the_numbers_are_those_of_the_study(study: irtbench.Study) -> None:
    text, pruning = methods_text(study), study.scales[0].pruning
    removed = [removal.reason for scale in study.scales for removal in scale.pruning.removals]
    assert "Of 260 respondents, 253 passed screening (7 failed attention checks)." in text
    assert f"Of 20 items, {len(pruning.kept)} are kept: {FINE} {len(pruning.kept)} of 10." in text
    assert f"{len(removed)} item{'s' if len(removed) > 1 else ''} removed (" in text
    assert f"negative slope: {removed.count('negative_slope')}" in text
    assert f"M₂({pruning.fit_after.df}) = {pruning.fit_after.m2:.1f}" in text
    assert "from the seed 3." in text
    assert f"irtbench {irtbench.__version__}" in text
