"""``--figures``: every command that has something to draw draws it, as SVG and PNG that say what they show."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from builders.command_line import run
from builders.valid_inputs import COMMANDS_READING
from irtbench.cli.main import COMMANDS

pytestmark = pytest.mark.usefixtures("drawn_files")

#: What each command draws of the small valid inputs, at least.
DRAWN = {
    "build": {"positions", "curves", "parameters", "test_information", "wright_map", "raw_scores", "example_curve"},
    "fit": {"curves", "test_information", "wright_map", "positions"},
    "items diagnose": {"local_dependence", "person_fit", "test_information"},
    "crowd keys": {"wrong_keys", "options_1"},
    "items show": {"wright_map", "test_information"},
    "items difficulty": {"predicted_difficulty", "effects"},
    "link": {"drift"},
    "link --extend": {"drift"},
    "items bias": {"item_differences"},
    "dimensions": {"scree"},
    "score": {"positions"},
    "compare": {"accuracy_differences", "theta_differences", "ranking"},
    "predict": {"predicted_accuracy"},
    "form assemble": {"form_information"},
    "form adapt": {"paths", "errors_by_step"},
    "crowd plan": {"expected_errors"},
    "crowd screen": {"screening"},
    "crowd agree": {"agreement", "item_agreement"},
    "crowd raters": {"severities", "fair_scores"},
    "evaluate power": {"power_100"},
    "evaluate breakdown": {"breakdown"},
    "evaluate consistency": {"consistency"},
    "evaluate calibration": {"reliability"},
    "evaluate human-bound": {"crowd_filter", "human_bound"},
    "evaluate artifacts": {"artifacts"},
}  # fmt: skip
#: Nothing to draw, or the figures are there.
WITHOUT = {"convert", "doctor", "init", "crowd sample", "simulate", "report", "quickstart"}
FIRST = ("items show", "score", "evaluate power")  # the others are drawn by the same few lines
SVG = "{http://www.w3.org/2000/svg}"


def test_every_command_is_thought_of() -> None:
    assert set(DRAWN) | WITHOUT >= set(COMMANDS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=() if name in FIRST else pytest.mark.slow) for name in DRAWN]
)
def test_figures_are_svg_and_png_and_say_what_they_show(inputs: Path, tmp_path: Path, command: str) -> None:
    arguments = ["evaluate", "power", "-n", "100"] if command == "evaluate power" else COMMANDS_READING[command][0]
    words = [str(tmp_path / word) if word.startswith("out") else word for word in arguments]
    folder = tmp_path / "figures"
    assert run(*words, "--figures", folder, "--json", cwd=inputs).json
    listed = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    names = {figure["name"] for figure in listed}
    assert names >= DRAWN[command]
    assert {path.name for path in folder.iterdir()} == {"figures.json"} | {
        f"{name}.{ending}" for name in names for ending in ("svg", "png", "pdf")
    }
    for figure in listed:
        assert figure["title"]
        assert figure["caption"].endswith(".")
        assert figure["description"].endswith(".")
        drawn = ET.parse(folder / f"{figure['name']}.svg").getroot()
        title, described = (drawn.findtext(f"{SVG}{tag}") for tag in ("title", "desc"))
        assert title == figure["title"]
        assert described == f"{figure['caption']} {figure['description']}"
        assert drawn.get("role") == "img"
        png = (folder / f"{figure['name']}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert b"Description" in png
        assert (folder / f"{figure['name']}.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(("width", "inches"), [("6.9", 6.9), ("84mm", 84 / 25.4)])
def test_figures_are_as_wide_as_a_journal_asks(tmp_path: Path, width: str, inches: float) -> None:
    run(f"evaluate power -n 100 --figures {tmp_path} --figure-width", width, "-q")
    drawn = ET.parse(tmp_path / "power_100.svg").getroot()
    assert float(drawn.attrib["width"].removesuffix("pt")) == pytest.approx(72 * inches, abs=0.1)
    png = (tmp_path / "power_100.png").read_bytes()
    assert int.from_bytes(png[16:20], "big") == pytest.approx(300 * inches, abs=1)
    letters = {
        float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", (tmp_path / "power_100.svg").read_text())
    }
    assert min(letters) >= 6.6


def test_figures_of_the_last_run_make_way_and_other_files_stay(tmp_path: Path) -> None:
    folder, listed = tmp_path / "figures", [{"name": "power_200"}, {"name": "../kept"}, {"name": 3}]
    folder.mkdir()
    for file in (tmp_path / "kept.svg", folder / "notes.txt", folder / "power_200.svg", folder / "power_100.svg"):
        file.write_text("mine")
    (folder / "figures.json").write_text(json.dumps(listed))
    run("evaluate power -n 100 -q --figures", folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "figures.json", "notes.txt", "power_100.pdf", "power_100.png", "power_100.svg",
    ]  # fmt: skip
    assert (tmp_path / "kept.svg").read_text() == (folder / "notes.txt").read_text() == "mine"
    assert (folder / "power_100.svg").read_text() != "mine"
