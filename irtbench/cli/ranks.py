"""Commands that torchrun has started in several processes at once: they join, and one speaks for all."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.estimation.distributed.ranks import Ranks

STARTED = "TORCHELASTIC_RUN_ID"  # which torchrun sets
KNOWN_TO = ("fit", "build", "score")

#: This process among those that torchrun has started; None where it has started none.
ranks_of_run: ContextVar[Ranks | None] = ContextVar("ranks_of_run", default=None)


@contextmanager
def processes_of_run(asked: Sequence[str]) -> Iterator[None]:
    """Join the processes of the run while the block runs, if torchrun has started any.

    Parameters
    ----------
    asked
        The command.

    Raises
    ------
    InputError
        If the command does not go with several processes.
    """
    if STARTED not in os.environ:
        yield
        return
    from irtbench.estimation.distributed.ranks import joined

    signal.signal(signal.SIGTERM, end_quietly)
    with joined() as ranks:
        if asked and asked[0] not in KNOWN_TO:
            raise InputError(
                f"{asked[0]}: is run by one process; torchrun goes with {', '.join(KNOWN_TO)} of a large table"
            )
        before = ranks_of_run.set(ranks)
        try:
            yield
        except BaseException:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends already
            raise
        finally:
            ranks_of_run.reset(before)


def end_quietly(number: int, frame: FrameType | None) -> NoReturn:
    """End as torchrun asks its processes to when one of them has failed, which has said why."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)
