"""A command of ours: what stands on its line before options are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from irtbench.cli.options import BESIDE_RESULTS, MAYBE_FOLDER


class Command(TyperCommand):
    """A command whose options that may stand without their folder (metavar ``[DIR]``) take the results' own then.

    Such an option has no folder where it is the last word, where another option follows, and where what follows is a
    file: what the command reads.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the line."""
        alone = {name for option in self.params if option.metavar == MAYBE_FOLDER for name in option.opts}
        words = []
        for place, word in enumerate(args):
            following = args[place + 1] if place + 1 < len(args) else "-"
            if word in alone and (following.startswith("-") or Path(following).is_file()):
                word = f"{word}={BESIDE_RESULTS}"
            words.append(word)
        return super().parse_args(ctx, words)
