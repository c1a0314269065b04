"""A command of ours: what stands on its line before options are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, get_args

from typer import BadParameter
from typer.core import TyperCommand

from irtbench.cli.options import BESIDE_RESULTS, MAYBE_FOLDER


class Command(TyperCommand):
    """A command whose options that may stand without their folder (metavar ``[DIR]``) take the results' own then.

    Such an option has no folder where it is the last word, where another option follows, and where what follows is a
    file: what the command reads.
    An empty path, as of a variable that is not set, is refused: it would be the working folder.
    """

    paths: ClassVar[frozenset[str]] = frozenset()  # names of its parameters that are one

    @classmethod
    def of(cls, function: Callable[..., Any]) -> type[Command]:
        """The class of the command that this function is."""
        hints = {name: get_args(given.annotation)[:1] for name, given in inspect.signature(function).parameters.items()}
        paths = [name for name, (*hint,) in hints.items() if any(Path in (one, *get_args(one)) for one in hint)]
        return type(cls.__name__, (cls,), {"paths": frozenset(paths)})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the line."""
        paths = {name for option in self.params if option.name in self.paths for name in option.opts}
        for place, word in enumerate(args):
            before = args[place - 1] if place else ""
            name, equals, value = word.partition("=")
            of_option = before if before.startswith("-") else ""
            if (not word and (of_option in paths or not of_option)) or (equals and not value and name in paths):
                named = of_option or (name if equals else "") or "an argument"
                raise BadParameter(f"{named}: expected a path but it is empty (a variable that is not set?)")
        alone = {name for option in self.params if option.metavar == MAYBE_FOLDER for name in option.opts}
        words = []
        for place, word in enumerate(args):
            following = args[place + 1] if place + 1 < len(args) else "-"
            if word in alone and (following.startswith("-") or Path(following).is_file()):
                word = f"{word}={BESIDE_RESULTS}"
            words.append(word)
        return super().parse_args(ctx, words)
