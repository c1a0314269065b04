"""The page for those who come from R mirt: its column of mirt is mirt's, and what its examples print."""

import doctest
import re
from pathlib import Path

import pandas as pd

import irtbench

PAGE = Path(irtbench.__file__).parents[1] / "docs" / "tutorial_mirt.md"
NUMBER = re.compile(r"-?\d+\.\d+")


def table() -> dict[str, list[float]]:
    """mirt's numbers by the name of the figure."""
    text = PAGE.read_text(encoding="utf-8").split("| figure | mirt call |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    return {row[0]: numbers(row[2]) for row in rows}


def numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]


def test_the_examples_of_the_page_print_the_same() -> None:
    examples = doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8"))
    printed = {number for example in examples for number in numbers(example.want)}
    assert len(table()) == 15
    for name, shown in table().items():
        assert shown, name
        assert set(shown) <= printed, name


def test_the_column_of_mirt_is_mirts(reference: Path) -> None:
    def read(name: str) -> pd.DataFrame:
        return pd.read_csv(reference / f"mirt_lsat6_{name}.csv", dtype={"pattern": str})

    def row(name: str, key: str, value: object, columns: list[str]) -> list[float]:
        found = read(name)
        return [float(x) for x in found.loc[found[key] == value, columns].iloc[0]]

    fit, global_fit = read("2pl_fit").iloc[0], read("2pl_M2").iloc[0]
    pairs = read("2pl_LD_LD").set_index("Unnamed: 0")
    expected = {
        "log-likelihood, 2PL": [fit["logLik"]],
        "AIC, BIC": [fit["AIC"], fit["BIC"]],
        "a of item 1 and its error": row("2pl_pars", "item", "Item_1", ["a", "se_a"]),
        "b of item 1 and its error": row("2pl_pars", "item", "Item_1", ["b", "se_b"]),
        "log-likelihood, Rasch": [read("rasch_fit")["logLik"][0]],
        "g of item 3, prior": row("3plprior_pars", "item", "Item_3", ["c"]),
        "EAP of 00011 and its error": row("2pl_EAP", "pattern", "00011", ["theta", "se"]),
        "MAP of 11111 and its error": row("2pl_MAP", "pattern", "11111", ["theta", "se"]),
        "ML of 00011 and its error": row("2pl_ML", "pattern", "00011", ["theta", "se"]),
        "EAP of 3 right and its error": row("2pl_EAPsum", "Sum.Scores", 3, ["F1", "SE_F1"]),
        "S-X2 of item 2, p": row("2pl_sx2", "item", "Item_2", ["S_X2", "p.S_X2"]),
        "M2, p": [global_fit["M2"], global_fit["p"]],
        "CFI, SRMSR": [global_fit["CFI"], global_fit["SRMSR"]],
        "LD-X2 of items 1 and 5, V": [pairs.loc["Item_5", "Item_1"], pairs.loc["Item_1", "Item_5"]],
    }
    shown = {name: mirt for name, mirt in table().items() if name in expected}
    assert shown == {name: [round(float(number), 3) for number in found] for name, found in expected.items()}
    reliability = pd.read_csv(reference / "next" / "02_reliability" / "lsat6_reliability.csv").set_index("stat")[
        "value"
    ]
    assert table()["marginal reliability"] == [round(float(reliability["marginal_rxx"]), 3)]
