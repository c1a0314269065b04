"""The report: its numbers are those of the study, its text is safe, and every outcome of a study can be shown."""

import base64
import hashlib
import inspect
import json
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from report_study import FINE, N_CARELESS, SCRIPT, SPLIT, SYSTEM, drawn, render_report
from study_parts import table_of

import irtbench
from irtbench.building.prune_rules import Reason as PruningReason
from irtbench.data.grading import NormalisationRule
from irtbench.estimation.marginal.observed_information import NormalMoments
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.status import Status, Stop
from irtbench.report import formatting, item_details, paper_tables, prose, scale_figures
from irtbench.report.formatting import Cell, count, decimal, either, p_value, percent
from irtbench.report.item_details import SCORE_COLUMNS, pruning_table, scores_table, summary
from irtbench.report.page import item_anchor
from irtbench.study.results import FittedToAll

NOT_FOR_READERS = r"\b(nan|NaN|None|inf)\b"


@pytest.fixture(scope="module")
def page(study):
    with drawn():
        return Page(render_report(study))


class Page(HTMLParser):
    """What a reader gets: text, tables by the beginning of their caption, images; fails on tags that do not match."""

    def __init__(self, source):
        super().__init__()
        self.source, self.open_tags, self.text, self.tags = source, list[str](), "", list[tuple[str, dict[str, Any]]]()
        self.tables, self.captions, self.rows, self.scripts = {}, [], [], list[tuple[str | None, str]]()
        self.feed(source)
        self.close()
        assert not self.open_tags
        self.images = [attributes for tag, attributes in self.tags if tag == "img"]

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("meta", "img", "br", "link"):
            return
        self.open_tags.append(tag)
        if tag == "figcaption":
            self.captions.append("")
        elif tag == "table":
            self.rows = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag, f"</{tag}> closes nothing"
        if tag == "table":
            self.tables[self.captions[-1]] = self.rows

    def handle_data(self, data):
        if "style" in self.open_tags:
            return
        if "script" in self.open_tags:
            self.scripts.append((self.tags[-1][1].get("type"), data))
            return
        self.text += data
        if "figcaption" in self.open_tags:
            self.captions[-1] += data
        elif {"td", "th"} & set(self.open_tags):
            self.rows[-1][-1] += data

    def table(self, words):
        """The table whose caption has these words, as a list of dicts."""
        (rows,) = [rows for caption, rows in self.tables.items() if words in caption]
        return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def shown(value, digits):
    """The number as the page must show it, written here independently."""
    return f"{value:.{digits}f}".replace("-", "−")


def test_page_is_whole_and_refers_to_nothing_outside(page):
    assert page.source.startswith("<!DOCTYPE html>")
    assert not re.search(r"https?://", page.source)
    assert {tag for tag, _ in page.tags}.isdisjoint({"link", "iframe", "object", "embed", "base", "form"})
    referring = [value for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href")]
    assert all(value.startswith(("data:image/svg+xml;base64,", "#")) for value in referring)
    for image in page.images:
        drawing = base64.b64decode(image["src"].split(",")[1]).decode()
        assert not re.search(r"(href|src|url)\W{1,3}https?:", drawing)
        assert "<dc:date>" not in drawing
        assert image["alt"]
    # only our own style and script may run
    (policy,) = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    (code,) = [text for kind, text in page.scripts if kind is None]
    style = re.search(r"<style>(.*?)</style>", page.source, re.DOTALL)[1]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, code)]
    assert f"style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.search(NOT_FOR_READERS, page.text)
    attributes = {name for _, attributes in page.tags for name in attributes}
    assert not {name for name in attributes if name.startswith("on")} | ({"style"} & attributes)
    assert [kind for kind, _ in page.scripts] == ["application/json", None]


def test_the_block_of_numbers_is_plain_json_that_ends_nothing(study, page):
    (block,) = [text for kind, text in page.scripts if kind == "application/json"]
    assert not set("<>&'") & set(block)
    items = json.loads(block)["items"]
    assert items.keys() == {item_anchor(item) for scale in study.scales for item in scale.responses.item_ids}
    kept = study.scales[0].scale.items
    for j, item in enumerate(kept.item_ids):
        found = items[item_anchor(item)]
        of_item = (kept.discrimination[j], kept.difficulty[j], kept.guessing[j])
        assert found["curve"] == pytest.approx(of_item, rel=1e-3)
        shares = np.array(found["groups"])
        assert (np.diff(shares[:, 0]) >= 0).all()
        right = study.scales[0].responses.proportion_correct()[study.scales[0].responses.item_ids.index(item)]
        assert shares[:, 1].mean() / 1000 == pytest.approx(right, abs=0.01)
        assert (shares[:, 2] <= shares[:, 1]).all()
        assert (shares[:, 1] <= shares[:, 3]).all()
        options = {option: number for option, _, number, *_ in found["options"]}
        assert sum(options.values()) == 253
        assert [option for option, is_key, *_ in found["options"] if is_key] == ["yes"]
    assert "options" not in items["item-s0"]  # of a scale that is rejected


def test_every_item_has_a_row_with_its_address(study, page):
    rows = {row["Item"]: row for row in page.table("All items given")}
    addresses = [a["id"] for tag, a in page.tags if tag == "tr" and "id" in a]
    assert addresses == [item_anchor(item) for item in rows]
    assert "item-f0~3c~26~3e" in addresses
    first = rows["f0<&>"]
    assert (first["Text"], first["Key"]) == (SCRIPT, "yes")
    assert first["Answers of the lower, middle and upper third"].startswith("yes (key) ")
    groups = first["Right by group of ability, low to high"]
    assert re.fullmatch(r"(\d+, ){9}\d+%", groups)
    assert rows["f9<&>"]["Reason"] == "negative slope"
    targets = [a["href"][1:] for tag, a in page.tags if tag == "a"]
    assert targets.count("item-f9~3c~26~3e") == 2  # from what was removed, and of the row itself


def test_of_many_items_the_doubtful_ones_have_a_row(study, monkeypatch):
    removed = {removal.item_id for scale in study.scales for removal in scale.pruning.removals}
    monkeypatch.setattr(item_details, "MOST_ITEMS", len(removed) + 3)
    read = Page(render_report(study))
    rows = [
        row["Item"] for row in read.table(f"Of 20 items given {len(removed) + 3}: those removed, those named above")
    ]
    assert removed < set(rows)
    linked = {a["href"] for tag, a in read.tags if tag == "a"}
    anchors = {attributes["id"] for tag, attributes in read.tags if "id" in attributes}
    assert {href[1:] for href in linked} <= anchors
    (block,) = [text for kind, text in read.scripts if kind == "application/json"]
    assert json.loads(block)["items"].keys() <= {item_anchor(item) for item in rows}
    assert "items.csv has all items kept, pruning.csv all removed." in read.text


def test_text_of_users_is_escaped(study, page):
    assert SCRIPT not in page.source
    assert SCRIPT in page.text
    title, paragraph, note = "A study of <b>bold</b> claims", "Second <i>paragraph</i>.", "A note <u>on</u> it."
    for text in (title, paragraph, note, FINE, "f0<&>", SYSTEM):
        assert escape(text, quote=False) in page.source.replace("&#39;", "'")
        assert text in page.text
    # and the summary says what happened
    kept = len(study.scales[0].pruning.kept)
    assert f"Of 260 respondents, 253 passed screening ({N_CARELESS} failed attention checks)." in page.text
    assert f"1 of 2 scales retained, with {kept} of 20 items" in page.text
    assert f"1 of 2 scales rejected: split ({study.scales[1].pruning.rejected})." in page.text
    assert f"agreement beyond chance among them is {study.agreement.fleiss_kappa:.3f} (Fleiss’ kappa)" in page.text
    n_fits = sum(len(scale.pruning.rounds) for scale in study.scales)
    assert f"All {n_fits} fits converged." in page.text
    assert "1 system is scored" in page.text


def test_tables_hold_the_numbers_of_the_study(study, page):
    items = study.scales[0].scale.items
    fine, split = page.table("ranges of difficulty")
    assert (fine["Items given"], fine["Items kept"]) == ("10", str(items.n_items))
    assert fine["Least\N{NO-BREAK SPACE}b"] == shown(items.difficulty.min(), 3)
    assert fine["Greatest\N{NO-BREAK SPACE}b"] == shown(items.difficulty.max(), 3)
    assert fine["Greatest\N{NO-BREAK SPACE}a"] == shown(items.discrimination.max(), 3)
    assert (split["Items kept"], split["Least\N{NO-BREAK SPACE}b"]) == ("0", "–")
    assert split["Outcome"] == f"rejected: {study.scales[1].pruning.rejected}"

    (score,) = study.system_scores.to_dict("records")
    (row,) = page.table("Systems on each scale")
    assert row["System"] == SYSTEM
    assert row["Ability θ [interval]"] == (
        f"{shown(score['theta'], 2)} [{shown(score['theta_lower'], 2)}, {shown(score['theta_upper'], 2)}]"
    )
    assert row["Percentile [interval]"].startswith(shown(score["percentile"], 1))
    assert row["Accuracy"] == f"{100 * score['accuracy']:.1f}%"

    removed = {row["Item"]: row for row in page.table("Rounds of pruning, in order")}
    slope = next(removal.value for removal in study.scales[0].pruning.removals if removal.item_id == "f9<&>")
    assert removed["f9<&>"]["Reason"] == "negative slope"
    assert removed["f9<&>"]["Statistic"] == f"discrimination a = {shown(slope, 3)}"


def test_a_system_is_compared_with_people_of_its_ability(study, page):
    # right on the six easiest of nine items, wrong on the others: as people answer, and no surprise
    (score,) = study.system_scores.to_dict("records")
    fit = shown(score["person_fit"], 2)
    assert f"Its answers look like a person’s of its ability on {FINE} (lz* {fit})." in page.text
    assert not any("surprises" in caption for caption in page.tables)
    levels = study.system_explanation.difficulty.to_dict("records")
    rows = page.table(f"Accuracy of {SYSTEM} on the items of each scale")
    assert len(rows) == len(levels)
    for row, level in zip(rows, levels, strict=True):
        assert row["Right"] == f"{100 * level['observed']:.1f}%"
        assert row["People of its ability [interval]"] == (
            f"{100 * level['expected']:.1f}% [{100 * level['expected_lower']:.1f}%, "
            f"{100 * level['expected_upper']:.1f}%]"
        )
        assert row["Items"] == str(level["n_items"])


def with_systems(study, values, names):
    """The study with other systems on the items of its one scale."""
    systems = irtbench.ResponseMatrix(values, names, study.bank.scales[0].items.item_ids)
    scores, explained = irtbench.score_responses(study.bank, systems), irtbench.explain_all(study.bank, systems)
    return replace(study, system_scores=scores, system_explanation=explained)


def test_surprises_of_a_system_are_named_with_their_text(study):
    # the same system, but wrong on the easiest items and right on the hardest
    items = study.bank.scales[0].items
    order = np.argsort(items.difficulty)
    values = np.ones((2, order.size))
    values[0, order[:2]] = 0
    values[1, order[-2:]] = 0
    changed = with_systems(study, values, (SYSTEM, "other"))
    read = Page(render_report(changed))
    surprises = changed.system_explanation.surprises()
    own = surprises[surprises["respondent_id"] == SYSTEM]
    rows = read.table(f"Items on which {SYSTEM} surprises")
    easiest = {items.item_ids[j] for j in order[:2]}
    assert {row["Item"] for row in rows if row["The system"] == "missed, people are right"} == easiest
    assert [row["Item"] for row in rows] == own["item_id"].tolist()
    assert rows[0]["People of its ability"] == f"{100 * own['expected'].iloc[0]:.1f}%"
    assert {row["Item"]: row["Text"] for row in rows}["f0<&>"] == SCRIPT
    assert SCRIPT not in read.source
    assert f"Its answers do not look like a person’s of its ability on {FINE} (lz* −" in read.text
    level = changed.system_explanation.difficulty.iloc[0]
    assert level["z"] < -1.96
    assert f"Unlike people of its ability it has 0 of {level['n_items']} items right where" in read.text


@pytest.mark.slow
def test_of_many_systems_those_least_like_people_are_explained(study):
    items = study.bank.scales[0].items
    values = np.ones((20, items.n_items))
    values[:, 3] = 0
    values[7:12, np.argsort(items.difficulty)[:3]] = 0  # misses what is easy
    changed = with_systems(study, values, tuple(f"s{i}" for i in range(20)))
    explained = prose.explained_systems(changed.system_scores)
    assert len(explained) == prose.MOST_SYSTEMS
    assert {f"s{i}" for i in range(7, 12)} <= set(explained)
    assert "Shown are the 12 systems whose answers are least like a person’s." in Page(render_report(changed)).text


def test_rejected_scale_shows_rounds_and_parameters(study, page):
    fitted = study.scales[1].pruning.rounds[-1].fitted
    rows = {row["Item"]: row for row in page.table("All items given") if row["Scale"] == SPLIT}
    assert len(rows) == 10
    error = fitted.items.standard_errors()["discrimination"][0]
    wanted = f"{shown(fitted.items.discrimination[0], 2)} ({error:.2f})"
    assert rows["s0"]["Discrimination\N{NO-BREAK SPACE}a (SE)"] == wanted
    assert rows["s0"]["Outcome"] == "scale rejected"
    (fit,) = [row for row in page.table("Every fit") if row["Scale"] == SPLIT]
    assert fit["Log-likelihood"] == f"{fitted.log_likelihood:,.2f}".replace("-", "−")


def test_published_figures_are_compared_with_ours(study, page):
    rows = {(row["Scale"], row["Quantity"]): row for row in page.table("This study compared with")}
    assert rows["all", "Items given"] == {
        "Scale": "all", "Quantity": "Items given", "This study": "20", "Published": "21", "Difference": "−1",
    }  # fmt: skip
    kappa = study.agreement.fleiss_kappa
    assert rows["all", "Fleiss’ κ"]["Difference"] == shown(kappa - 0.25, 3)
    least = study.scales[0].scale.items.difficulty.min()
    assert rows[FINE, "Least b"]["Difference"] == shown(least + 1.5, 3)
    # a rejected scale has no ranges: neither a figure nor a difference
    assert (rows[SPLIT, "Least a"]["This study"], rows[SPLIT, "Least a"]["Difference"]) == ("–", "–")


def test_study_without_a_scale_systems_or_answers_is_reported(plain_study):
    assert plain_study.bank is None
    read = Page(render_report(plain_study))
    assert not re.search(NOT_FOR_READERS, read.text)
    assert "No scale is retained." in read.text
    assert plain_study.scales[0].pruning.rejected in read.text
    captions = " ".join(read.tables)
    assert "Agreement" not in captions
    assert "Systems" not in captions
    assert "Every fit" in captions
    # curves of the example, of the scale, its scatter plot, and the worst and best item; no information, no abilities
    assert len(read.images) == 5


@pytest.mark.slow
def test_respondents_are_shown_where_there_are_no_systems_and_the_card_of_the_bank(study, page):
    assert "Data card" not in page.text
    card = irtbench.DataCard(title="A <b>scale</b>", license="CC-BY-4.0", citation="See there")
    read = Page(render_report(replace(study, system_scores=None, bank=replace(study.bank, card=card))))
    rows = read.table("lowest, the middle and the highest ability")
    theta = study.respondent_scores["theta"]
    assert rows[0]["Ability θ [interval]"].startswith(shown(theta.min(), 2))
    assert rows[-1]["Ability θ [interval]"].startswith(shown(theta.max(), 2))
    assert [(row["About"], row["What its maker says"]) for row in read.table("What the maker of the bank")] == [
        ("Title", "A <b>scale</b>"), ("License", "CC-BY-4.0"), ("Citation", "See there"),
    ]  # fmt: skip


def drawings(page):
    return [base64.b64decode(image["src"].split(",")[1]).decode() for image in page.images]


@pytest.mark.slow
def test_abilities_of_a_rasch_model_are_in_logits(study, page):
    unit = "standard deviations of the population"
    assert f"Abilities and difficulties are in {unit}, 0 at its mean." in page.text
    assert any(f"ability θ ({unit})" in drawing for drawing in drawings(page))
    scale = study.scales[0]
    rounds = [
        replace(r, fitted=replace(r.fitted, settings=FitSettings(kind="rasch"), moments=NormalMoments(0, 1.4, 0, 0.1)))
        for r in scale.pruning.rounds
    ]
    rasch = replace(
        study,
        scales=(replace(scale, pruning=replace(scale.pruning, rounds=tuple(rounds))),),
        settings=replace(study.settings, model=FitSettings(kind="rasch")),
    )
    with drawn():
        read = Page(render_report(rasch))
    assert unit not in read.text
    assert f"in logits; mean and standard deviation of the population are 0.00 and 1.40 on {FINE}." in read.text
    assert "The Rasch model, P(correct | θ) = 1 / (1 + exp(−(θ − b)))" in read.text
    assert not any(unit in drawing for drawing in drawings(read))
    assert any("ability θ (logits)" in drawing for drawing in drawings(read))


@pytest.mark.slow
def test_scale_too_small_to_fit_is_reported(study):
    pruning = replace(
        study.scales[1].pruning, rounds=(), fit_before=None, fit_after=None, rejected="fewer than 3 items are left"
    )
    small = replace(study, scales=(study.scales[0], replace(study.scales[1], pruning=pruning)))
    read = Page(render_report(small))
    assert "1 of 2 scales rejected: split (fewer than 3 items are left)." in read.text
    (row,) = [row for row in read.table("All items given") if row["Item"] == "s0"]
    assert (row["Responses"], row["Difficulty\N{NO-BREAK SPACE}b (SE)"]) == ("253", "–")
    alone = replace(small, scales=small.scales[1:], bank=None, respondent_scores=None, system_scores=None)
    assert "Nothing was fitted." in Page(render_report(alone)).text


def test_a_fit_that_did_not_converge_is_at_the_top(study, page):
    assert "did not converge" not in page.text.split("Every fit")[0]
    scale = study.scales[0]
    last, number = scale.pruning.rounds[-1], len(scale.pruning.rounds)
    status = Status(Stop.STEP_LIMIT, 500, gradient=0.1)
    stopped = replace(last.fitted, items=replace(last.fitted.items, covariance=None), status=status)
    rounds = (*scale.pruning.rounds[:-1], replace(last, fitted=stopped))
    broken = replace(scale, pruning=replace(scale.pruning, rounds=rounds))
    why = str(broken.pruning.fitted.status)
    assert why.startswith("no convergence in 500 steps: largest gradient 1.0e-01 standard errors")
    read = Page(render_report(replace(study, scales=(broken, study.scales[1]))))
    assert read.text.count(f"1 did not converge ({FINE}, round {number})") == 2  # at the top, and with the fits
    assert f"Scale {FINE}: the last fit did not converge: {why}." in read.text
    assert read.table("ranges of difficulty")[0]["Outcome"] == f"not converged: {why}"
    assert read.table("Every fit")[number - 1]["Converged"] == "no"
    assert not re.search(r"\bnan\b", read.text)
    # where the rounds are of a sample and converged, it is the fit to all that matters
    seen = scale.responses
    of_all = FittedToAll(seen.item_ids, seen.n_by_item, seen.n_correct_by_item, 10, stopped)
    read = Page(render_report(replace(study, scales=(replace(scale, of_all=of_all), study.scales[1]))))
    assert f"1 did not converge ({FINE}, all respondents)" in read.text
    row = read.table("Every fit")[number]
    assert (row["Round"], row["Converged"]) == ("all respondents", "no")


def test_poor_global_fit_is_cautioned(study):
    def cautions(**changes):
        scale = study.scales[0]
        after = replace(scale.pruning.fit_after, **changes)
        return prose.cautions((replace(scale, pruning=replace(scale.pruning, fit_after=after)),))

    (poor,) = [caution for caution in cautions(cfi=0.91) if "do not meet the cut-offs" in caution]
    assert "CFI 0.910" in poor
    assert not any("do not meet the cut-offs" in caution for caution in prose.cautions(study.scales))
    nan = np.nan
    (unknown,) = cautions(m2=nan, rmsea_lower=nan, cfi=nan, tli=nan, respondents_used="1 of 253")
    assert unknown.startswith(f"Scale {FINE}: global fit is not known")
    assert "1 of 253" in unknown


def test_kappas_of_labels_and_of_answers(study):
    table = table_of(paper_tables.kappa_table, study).set_index("label")
    # the labels of this study are no answers, so the three answers have rows of their own
    assert table.index.tolist() == ["all", FINE, SPLIT, "answer: no", "answer: perhaps", "answer: yes"]
    assert table.loc["answer: yes", "category_kappa"] == study.agreement.category_kappa[2]
    assert table.loc[SPLIT, "fleiss_kappa"] == study.agreement_by_label[SPLIT].fleiss_kappa
    named = replace(study, agreement_by_label={"yes": study.agreement_by_label[FINE]})
    table = table_of(paper_tables.kappa_table, named).set_index("label")
    assert table.index.tolist() == ["all", "yes", "answer: no", "answer: perhaps"]
    assert table.loc["yes", "category_kappa"] == study.agreement.category_kappa[2]
    unlabelled = replace(study, agreement_by_label={"all": study.agreement})
    assert table_of(paper_tables.kappa_table, unlabelled)["label"].tolist()[:2] == ["all", "answer: no"]


def test_responses_of_an_item_are_its_trials_in_the_table_and_in_items_csv(tmp_path: Path) -> None:
    items = irtbench.ItemParameters.from_difficulty([1.5] * 5, np.linspace(-1, 1, 5))
    rng = np.random.default_rng(1)
    answers = irtbench.simulate_responses(rng.normal(size=60), items, rng=rng, trials=3).to_long()
    answers.to_csv(tmp_path / "answers.csv", index=False)
    told = '[data]\nanswers = "answers.csv"\ncontent = "responses"\n[scales]\nby = "none"\n[pruning]\npreset = "none"\n'
    (tmp_path / "study.toml").write_text(told, encoding="utf-8")
    study = irtbench.run_study(irtbench.read_study(tmp_path / "study.toml"))
    assert set(paper_tables.item_status_table(study.scales, study.items)["n_responses"]) == {180}
    assert set(irtbench.report.items_table(study.scales)["n_responses"]) == {180}


def test_item_status_takes_parameters_from_the_last_fit_an_item_was_in(study):
    status = table_of(paper_tables.item_status_table, study).set_index("item_id")
    assert len(status) == 20
    pruning, rejected = study.scales[0].pruning, len(study.scales[1].pruning.removals)
    assert status["outcome"].value_counts().to_dict() == {
        "scale rejected": 10 - rejected, "kept": len(pruning.kept), "removed": 10 - len(pruning.kept) + rejected,
    }  # fmt: skip
    for removal in pruning.removals:
        fitted = pruning.rounds[removal.round - 1].fitted.items.select([removal.item_id])
        assert status.loc[removal.item_id, "discrimination"] == fitted.discrimination[0]
    kept = study.scales[0].scale.items
    np.testing.assert_array_equal(status.loc[list(kept.item_ids), "difficulty"], kept.difficulty)
    np.testing.assert_array_equal(status["n_responses"], 253)
    assert status["guessing"].isna().all()  # a 2PL has none


def test_files_tables(study, plain_study):
    found = summary(study)
    assert found["n_items_kept"] == len(study.scales[0].pruning.kept)
    assert found["scales"][0]["global_fit_after"]["cfi"] == study.scales[0].pruning.fit_after.cfi
    assert found["scales"][1]["rejected"] == study.scales[1].pruning.rejected
    assert "difficulty" not in found["scales"][1]
    removed = [removal.item_id for scale in study.scales for removal in scale.pruning.removals]
    assert pruning_table(study.scales)["item_id"].tolist() == removed
    scores = scores_table(study.system_scores, study.respondent_scores)
    assert scores["role"].tolist() == ["system"] + ["respondent"] * 253
    empty = scores_table(plain_study.system_scores, plain_study.respondent_scores)
    assert empty.empty
    assert empty.columns.tolist() == scores.columns.tolist() == [*SCORE_COLUMNS, "role"]


def test_formatting_at_its_edges():
    assert [p_value(p) for p in (0.001, 0.00099999, np.nan)] == [".001", "<.001", "–"]
    assert [decimal(x) for x in (-0.0049, -12345.678, np.inf)] == ["0.00", "−12,345.68", "∞"]
    assert (count(np.int64(1000)), count(None)) == ("1,000", "–")
    assert (percent(1 / 3), percent(np.nan)) == ("33.3%", "–")
    assert (either(np.int64(3)), either(3.0)) == ("3", "3.000")


def test_written_table_joins_estimates_with_their_uncertainty():
    nan = np.nan
    table = pd.DataFrame(
        [("x", -0.5, -1.0, 0.25, 1.234, 0.1, nan), (None, nan, nan, nan, 2.0, nan, nan)],
        columns=["item_id", "theta", "theta_lower", "theta_upper", "difficulty", "se_difficulty", "percentile"],
    )
    written = formatting.write_table(table)  # of percentiles nothing is known: no column
    assert [cell.text for cell in written.headings] == [
        "Item", "Ability θ [interval]", "Difficulty\N{NO-BREAK SPACE}b (SE)"
    ]  # fmt: skip
    assert [[cell.text for cell in row] for row in written.rows] == [
        ["x", "−0.50 [−1.00, 0.25]", "1.23 (0.10)"],
        ["", "–", "2.00 (–)"],
    ]
    assert written.headings[0] == Cell("Item", "words")


def test_every_column_of_every_table_has_a_heading(study):
    functions = dict(inspect.getmembers(paper_tables, inspect.isfunction))
    own = [function for function in functions.values() if function.__module__ == paper_tables.__name__]
    tables = [table_of(function, study) for function in own if function.__name__.endswith("_table")]
    assert len(tables) == 16
    tables += paper_tables.tables_of_dimensions(study.dimensions).values() if study.dimensions else []
    system = study.system_scores["respondent_id"].iloc[0]
    tables.append(prose.difficulty_table(study.system_explanation, system))
    tables.append(prose.surprises_table(study.system_explanation, study.items, system))
    names = {name for table in tables for name in table.columns if not re.search("^se_|_lower$|_upper$", name)}
    assert names <= formatting.COLUMNS.keys()
    # and every code its words; a dependent item is described by its partner, not by a fixed word
    assert formatting.REASONS.keys() == set(get_args(PruningReason)) - {"local_dependence"}
    assert formatting.NORMALISATIONS.keys() == set(get_args(NormalisationRule))


def test_curves_are_drawn_as_the_model_says():
    kept = irtbench.ItemParameters.from_difficulty([1.0, 2.0], [0.0, -1.0])
    removed = irtbench.ItemParameters.from_difficulty([-0.5], [1.0])
    ax = scale_figures.draw_curves(Figure().subplots(), kept, [removed], others_are="removed")
    assert [line.get_linestyle() for line in ax.lines] == ["-", "-", ":"]
    theta, probability = ax.lines[2].get_data()
    np.testing.assert_allclose(probability, irtbench.icc(theta, removed)[:, 0], atol=1e-15)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["kept (2)", "removed (1)"]


def test_right_axis_of_the_information_is_its_standard_error():
    items = irtbench.ItemParameters.from_difficulty(np.full(20, 1.5), np.linspace(-2, 2, 20))
    ax = scale_figures.draw_information(Figure().subplots(), {r"$\frac$": items, "_other": items})
    theta, total = ax.lines[0].get_data()
    np.testing.assert_allclose(total, irtbench.information(theta, items).sum(axis=1), atol=1e-12)
    (right,) = [other for other in ax.figure.axes if other is not ax]
    assert right.get_ylim() == ax.get_ylim()
    for place, label in zip(right.get_yticks(), right.get_yticklabels(), strict=True):
        assert float(label.get_text()) == pytest.approx(1 / np.sqrt(place), rel=1e-12)
    # a name is neither mathematics, which would fail here, nor with its underscore a hidden label
    ax.figure.draw_without_rendering()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [r"$\frac$ (20 items)", "_other (20 items)"]
