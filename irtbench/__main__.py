"""``python -m irtbench``: the command line, where no script was installed."""

from irtbench.cli.main import main

if __name__ == "__main__":
    main()
