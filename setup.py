"""What pyproject.toml cannot say: a wheel holds a copy of data/crowd_study, for `irtbench quickstart`."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithCrowdStudy(build_py):
    """The package, and the simulated study in it; an editable install reads that of the checkout."""

    def run(self) -> None:
        """Copy the package's files, and the study's."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "irtbench" / "study" / "crowd_study"
            shutil.copytree("data/crowd_study", target, dirs_exist_ok=True)


setup(cmdclass={"build_py": WithCrowdStudy})
