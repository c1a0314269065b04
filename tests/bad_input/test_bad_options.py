"""What is wrong on the command line itself: one line, status 2, nothing on standard output."""

import pytest

from builders.commands_here import Ended, run_main
from irtbench.cli.main import COMMANDS


def refused(ended: Ended, place: str) -> str:
    """The one line that was said, which begins with the command it is about."""
    assert ended.status == 2, ended
    assert len(ended.err.splitlines()) == 1, ended.err
    assert ended.err.startswith(f"{place}: ")
    assert ended.out == ""
    return ended.err


#: An option with a value, where there is no -o.
VALUED = {"evaluate power": "-n", "doctor": "--items"}
COMPLETE = ("crowd plan", "evaluate power", "simulate", "quickstart")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_is_none_or_has_no_value_and_what_is_missing_are_named(command: str) -> None:
    place, option = f"irtbench {command}", VALUED.get(command, "-o")
    assert "--no-such-option" in refused(run_main(*command.split(), "--no-such-option"), place)
    assert f"'{option}' requires an argument" in refused(run_main(*command.split(), option), place)
    if command not in COMPLETE:
        assert "Missing argument" in refused(run_main(*command.split()), place)


@pytest.mark.parametrize(
    ("line", "saying"),
    [
        ("fit x -o o --modle 2pl", "--modle"),
        ("fit x -o o --model 5pl", "Invalid value for '--model': '5pl' is not one of 'rasch', '1pl', '2pl', '3pl'"),
        ("fit x -o o --seed -1", "Invalid value for '--seed'"),
        ("fit x -o o --seed one", "Invalid value for '--seed'"),
        ("fit x -o o --quiet=yes", "'--quiet' does not take a value"),
        ("fit x", "Missing option '--output'"),
        ("score bank responses third", "third"),
        ("score bank responses --level \x1b[31mhigh", "Invalid value for '--level'"),
    ],
)
def test_options_are_checked_in_words(line: str, saying: str) -> None:
    command = line.split()[0]
    said = refused(run_main(*line.split()), f"irtbench {command}")
    assert saying in said
    assert "\x1b" not in said
    assert said.rstrip().endswith(f"(irtbench {command} --help shows what there is)")


@pytest.mark.parametrize(
    ("typed", "saying"),
    [
        ("fti", "no command 'fti'; did you mean fit?"),
        ("human_bound", "did you mean evaluate human-bound?"),
        ("evaluate human_bound", "no command 'evaluate human_bound'; did you mean evaluate human-bound?"),
        ("scores", "did you mean score or crowd screen or compare?"),
        ("qqq", "expected one of quickstart, convert, doctor, init, crowd"),
        ("", "no command ''; expected one of quickstart"),
    ],
)
def test_a_misspelt_command_is_told_from_the_one_that_was_meant(typed: str, saying: str) -> None:
    assert saying in refused(run_main(*(typed.split() or [""]), "x.csv", "-o", "out"), "irtbench")


def test_options_before_the_command_are_checked_and_without_one_the_help_is_shown() -> None:
    assert "--quiet" in refused(run_main("--quiet", "fit"), "irtbench")
    ended = run_main()
    assert (ended.status, ended.err) == (0, "")
    assert "evaluate" in ended.out
