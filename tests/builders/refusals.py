"""Calls in Python that are refused."""

from collections.abc import Callable
from typing import Any

import pytest

from irtbench import InputError


def refuses(saying: str, call: Callable[..., object], *given: Any, **named: Any) -> None:
    """The call ends with an `InputError` of one line that says this, a regular expression."""
    with pytest.raises(InputError, match=saying) as refused:
        call(*given, **named)
    assert "\n" not in str(refused.value)
