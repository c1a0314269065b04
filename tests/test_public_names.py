"""The dozen public names are there, and loading the package loads no torch."""

import subprocess
import sys

import pytest

import irtbench


@pytest.mark.parametrize("name", irtbench.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(irtbench, name).__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fit_modle'"):
        _ = irtbench.fit_modle


def test_the_package_itself_is_light() -> None:
    program = "import sys, irtbench; irtbench.load_bank; assert not {'torch', 'pyro'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
