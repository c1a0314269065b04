"""Which score or question is taken where a file has several: the one there is, or the one the user named."""

from __future__ import annotations

from collections.abc import Sequence

from irtbench.data.input_error import InputError
from irtbench.data.readers.observations import Wanted
from irtbench.data.responses import name_first


def choose_metric(names: Sequence[str], settings: Wanted, place: str, *, word: str = "score") -> str:
    """The score or question to take: the one there is, or the one that the user named.

    Raises
    ------
    InputError
        If there is none, or there are several and the user named none of them.
    """
    if settings.metrics:
        chosen = next((name for name in settings.metrics if name in names), None)
        if chosen is not None:
            return chosen
        wanted = " or ".join(f"'{name}'" for name in settings.metrics)
        raise InputError(f"{place}: no {word} {wanted}; expected one of {name_first(names, most=12)}")
    if len(names) == 1:
        return names[0]
    if not names:
        raise InputError(f"{place}: no {word} found; expected at least one")
    shown = name_first([f"'{name}'" for name in names], most=12)
    raise InputError(f"{place}: several {word}s: {shown}; choose one (--metric '{names[0]}', or metric=)")


class MetricChoice:
    """The one score of a file: chosen at its first record, and the same at all others.

    Parameters
    ----------
    settings
        What the user named.
    """

    def __init__(self, settings: Wanted) -> None:
        self._settings = settings
        self._chosen: str | None = None

    def of(self, names: Sequence[str], place: str) -> str | None:
        """The score to take of these; None if the user named one, the file has it, and this record has not.

        Raises
        ------
        InputError
            As ``choose_metric``, and if a record has another score than those before, and the user named none.
        """
        if self._chosen is None:
            self._chosen = choose_metric(names, self._settings, place)
        elif not self._settings.metrics and list(names) != [self._chosen]:
            return choose_metric(list(dict.fromkeys([self._chosen, *names])), self._settings, place)
        return self._chosen if self._chosen in names else None
