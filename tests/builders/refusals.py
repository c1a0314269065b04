"""What a function refuses, in one line."""

from collections.abc import Callable
from typing import Any

import pytest

from irtbench.data.input_error import InputError


def is_refused(saying: str, function: Callable[..., object], *given: Any, **options: Any) -> None:
    """Called so it ends with an `InputError` of one line, in which ``saying`` is found as a regular expression."""
    with pytest.raises(InputError, match=saying) as error:
        function(*given, **options)
    said = str(error.value)
    del error  # with its traceback, and the files that are open in it
    assert "\n" not in said
