"""``irtbench quickstart``: the simulated crowd study that comes with the package, built and scored."""

from __future__ import annotations

from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from irtbench.cli.build import built
from irtbench.cli.build_study import StudyToBuild
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.result_files import OF_STUDY, output_folder
from irtbench.data.input_error import InputError

STUDY, SYSTEMS = "study", "systems"  # folders of the copy
SCORED_NEXT = "average.csv"  # of the systems


@command(*OF_STUDY, output=None, figures=None, seed=None)
def quickstart(
    run: Run,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")] = Path(
        "quickstart"
    ),
) -> Outcome:
    """Build a simulated crowd study (1,000 workers, 90 items, three labels), and score three example systems.

    Writes what `irtbench build` writes, and the study itself into the folder `study` there: study.toml, the answers,
    the items and the systems, as a pattern for your own. README.md in it says what is planted in the data.
    """
    import irtbench.study.run  # noqa: F401 - where a library is missing nothing is written
    from irtbench.config import read_study

    with as_file(shipped_study()) as shipped:
        copied = output / STUDY
        copy_files(shipped, copied)
        copy_files(shipped / SYSTEMS, copied / SYSTEMS)
    return built(StudyToBuild(read_study(copied / "study.toml")), output, run, copied / SYSTEMS / SCORED_NEXT)


def shipped_study() -> Traversable:
    """The study's files: in the installed package, or in data/ of a checkout."""
    package = files("irtbench")
    packaged = package / "study" / "crowd_study"
    return packaged if packaged.is_dir() else Path(str(package)).parent / "data" / "crowd_study"


def copy_files(source: Path, target: Path) -> None:
    """Copy the files of a folder into another one.

    Raises
    ------
    InputError
        If one of their names is that of another file there, which stays as it is.
    """
    contents = {file.name: file.read_bytes() for file in sorted(source.iterdir()) if file.is_file()}
    there = {name: target / name for name in contents if (target / name).exists()}
    for name, file in there.items():
        if not file.is_file() or file.read_bytes() != contents[name]:
            raise InputError(f"output {file}: is there already and no file of this study; expected another folder (-o)")
    if len(there) < len(contents):
        with output_folder(target) as folder:
            for name, content in contents.items():
                (folder / name).write_bytes(content)
