"""The parts of a study by the names under which functions of the report ask for them."""

import inspect
from collections.abc import Callable
from typing import Any

import pandas as pd

from irtbench.study.results import Study


def table_of(function: Callable[..., pd.DataFrame], study: Study) -> pd.DataFrame:
    parts: dict[str, Any] = {
        "agreement": study.agreement,
        "by_label": study.agreement_by_label,
        "dimensions": study.dimensions,
        "found": study.group_percentiles,
        "items": study.items,
        "overall": study.agreement,
        "provenance": study.provenance,
        "published": study.settings.published,
        "rules": study.settings.grading.normalise,
        "scales": study.scales,
        "scores": study.respondent_scores if "respondents" in function.__name__ else study.system_scores,
        "outcomes": study.outcomes,
        "screening": study.screening,
    }
    return function(**{name: parts[name] for name in inspect.signature(function).parameters})
