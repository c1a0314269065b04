"""Libraries that a command will need, loaded beside what it reads first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread

WORTHWHILE = 4_000_000  # bytes: a smaller file is read before a library is found
ESTIMATION = "irtbench.estimation.fit"


@contextmanager
def loading_beside(file: Path, *modules: str) -> Iterator[None]:
    """Load modules in a thread while the body reads a large file; see `loading`."""
    if not file.is_file() or file.stat().st_size < WORTHWHILE:
        yield
        return
    with loading(*modules):
        yield


@contextmanager
def loading(*modules: str) -> Iterator[None]:
    """Load modules in a thread beside the body; they are there, or have failed, at its end.

    A module that cannot be imported is imported again where it is needed, and fails there.
    """

    def load() -> None:
        with suppress(ImportError):
            for module in modules:
                import_module(module)

    thread = Thread(target=load)
    thread.start()
    try:
        yield
    finally:
        thread.join()
