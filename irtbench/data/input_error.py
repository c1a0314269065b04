"""The one error that means: what the user brought is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, get_args

from irtbench.data.place import without_credentials

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class InputError(ValueError):
    """Wrong input or settings.

    The message is one line for the user: where (file, row, field), what is wrong, what was expected. The command
    line prints it and exits with status 2. Addresses in it are shown without user, password and query.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(without_credentials(message))


def refuse_any(reasons: Iterable[tuple[object, str]], error: type[Exception] = InputError) -> None:
    """Refuse for the first of these reasons that holds."""
    for holds, why in reasons:
        if holds:
            raise error(why)


def demand_choice(what: str, value: object, choices: Any) -> None:
    """Refuse a word that is none of a literal type's, as settings do."""
    *others, last = map(repr, get_args(choices))
    if value not in get_args(choices):
        raise InputError(f"{what}: expected {', '.join(others)} or {last} but got {value!r}")


def demand_share(what: str, value: float) -> None:
    """Refuse what does not lie between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(f"{what} must be between 0 and 1 but got {value:g}")


def refuse_first(wrong: NDArray[np.bool_], message: Callable[..., str]) -> None:
    """Raise the error of the first that is wrong, if one is: by its place, in a matrix by row and column."""
    if wrong.any():
        raise InputError(message(*(int(places[0]) for places in wrong.nonzero())))
