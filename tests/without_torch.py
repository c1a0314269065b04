"""Commands run in a process of their own that must not load torch or pyro, and in this one."""

import subprocess
import sys

import typer

from irtbench.cli.main import application


def run_without_torch(*arguments: object) -> str:
    """What the command prints, once it has ended well without torch and pyro."""
    program = (
        "import sys\nfrom irtbench.cli.main import main\n"
        f"sys.argv = {['irtbench', *map(str, arguments)]!r}\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "heavy = {'torch', 'pyro'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_here(*arguments: object) -> None:
    """Run the command in this process, where its errors can be seen as they are raised."""
    typer.main.get_command(application())(list(map(str, arguments)), standalone_mode=False)
