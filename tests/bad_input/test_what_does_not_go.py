"""Of every command: options, columns and inputs that do not go together are one line, and nothing is written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.command_line import refused
from builders.valid_inputs import write_valid_inputs

BIAS = "items bias responses.csv --groups groups.csv"
HORIZON = "items difficulty responses.csv --features features.csv --horizon"
TESTLETS = "fit responses.csv --testlets type --item-table items.csv"
GRADED = "items difficulty ratings.csv --features features.csv"
CONSISTENCY = "evaluate consistency wide.csv --items twins.csv"
BREAKDOWN = "evaluate breakdown wide.csv --items items.csv --type"
BOUND = "evaluate human-bound responses.csv"
#: What is typed, `-o out.csv` left out, and words of the line; `` ... `` is whatever is there.
REFUSED = [
    ("fit responses.csv --groups groups.csv --reference x", "groups: no respondent is in group x; expected one of one"),
    ("fit responses.csv --groups groups.csv --model rasch --prior weak", "one slope for all items; expected no prior"),
    ("fit responses.csv --groups groups.csv --anchors parameters.csv", "--groups: expected neither several abilities"),
    ("fit responses.csv --groups groups.csv --factors 2", "--groups: expected neither several abilities, testlets"),
    ("fit responses.csv --groups few.csv", "few.csv: no group of respondent ... expected one of each who answered"),
    ("fit responses.csv --reference one", "--reference: expected --groups with it"),
    ("fit responses.csv --column item_id=none", "column 'none' missing; it has: respondent_id"),
    ("fit responses.csv --column respondent_id=none --model grm", "column 'none' missing; it has: respondent_id"),
    ("doctor responses.csv --column item_id=none", "column 'none' missing; it has: respondent_id"),
    ("score bank.json responses.csv --column item_id=none", "column 'none' missing; it has: respondent_id"),
    ("fit responses.csv --model rasch --prior hierarchical", "expected none or weak"),
    ("fit responses.csv --model 1pl --prior weak --anchors parameters.csv", "go without a prior of slopes"),
    (
        "fit responses.csv --factors 2 --anchors parameters.csv",
        "prior of slopes, anchors or other population with it",
    ),
    ("fit responses.csv --factors 2 --guessing 0.2", "--factors: expected no fixed guessing, prior"),
    ("fit responses.csv --anchors responses.csv", "column 'discrimination' missing"),
    ("fit responses.csv --testlets type", "--item-table"),
    ("fit responses.csv --testlets none --item-table items.csv", "none"),
    ("fit responses.csv --item-table items.csv", "expected --testlets COLUMN"),
    ("fit responses.csv --specific-slopes equal", "expected --testlets COLUMN"),
    (f"{TESTLETS} --population estimated", "--testlets: expected no fixed guessing, factors, prior"),
    (f"{TESTLETS} --factors 2", "--testlets: expected no fixed guessing, factors, prior"),
    (f"{TESTLETS} --prior weak", "--testlets: expected no fixed guessing, factors, prior"),
    (f"{TESTLETS} --model grm --prior weak", "--testlets: expected no fixed guessing, factors, prior"),
    (f"{TESTLETS} --model nominal", "models: nominal is of one ability; expected 2pl, 3pl, 4pl, grm, gpcm"),
    (f"{TESTLETS} --guessing 0.2", "--testlets: expected no fixed guessing, factors, prior"),
    ("fit responses.csv -o out --figures", "--figures"),
    ("fit responses.csv --figures bank.json", "bank.json: is not a folder"),
    ("build study.toml --control --figures drawn", "--figures: a control has none"),
    ("items show bank.json --figures", "--figures: expected a folder for them, --figures DIR or -o DIR"),
    ("items show bank.json --figures drawn --figure-width wide", "such as 3.3in or 84mm, but got 'wide'"),
    ("items show bank.json --figures drawn --figure-width 90in", "expected 2 to 40 inches"),
    ("items show parameters.csv --item-column text=x", "expected --items ITEMS with it"),
    ("items show parameters.csv --norm empirical", "scale all has no norm sample"),
    ("items diagnose responses.csv --items parameters.csv --bootstrap 5", "at least 19 samples"),
    ("items difficulty bank.json --features features.csv --horizon length", "has items and no systems"),
    ("items difficulty bank.json --features foreign.csv", "none of its items is among those"),
    (f"{HORIZON} hours", "no column of numbers hours"),
    (f"{HORIZON} length", "length of task item1 is 0"),
    (f"{HORIZON} length --share half", "--share half"),
    (f"{HORIZON} length --share 50", "between 0 and 1"),
    ("items bias responses.csv --groups features.csv", "column 'respondent_id' missing"),
    ("items bias responses.csv --groups both.csv", "respondent r1 has both a and b"),
    ("items bias responses.csv --groups one.csv", "expected respondents of two groups"),
    ("items bias responses.csv --groups three.csv", "3 groups"),
    ("items bias responses.csv --groups few.csv", "expected at least 10"),
    (f"{BIAS} --focal z", "no respondent is in group z"),
    (f"{BIAS} --focal one --reference one", "two groups"),
    (f"{BIAS} --method mantel-haenszel --match ability", "compares respondents of equal score"),
    (f"{BIAS} --method mantel-haenszel --model 3pl", "a sum score knows no model"),
    (f"{BIAS} --method likelihood --match score", "compares the equally able"),
    (f"{BIAS} --method logistic --model 3pl", "logistic regression knows no guessing"),
    (f"{BIAS} --levels poor,fair,good", "--levels: goes with grades: --model grm or gpcm"),
    (f"{BIAS} --model grm --method mantel-haenszel", "expected likelihood or logistic"),
    ("items bias responses.csv", "expected --groups G, or --bank BANK"),
    ("items bias responses.csv --families groups.csv", "--families: goes with --bank alone"),
    ("items bias wide.csv --bank bank.json --groups groups.csv", "--groups does not go with it"),
    ("items bias wide.csv --bank bank.json --method logistic", "--method does not go with it"),
    ("items bias wide.csv --bank foreign.csv", "none of its items is among the responses"),
    ("dimensions responses.csv --samples 1", "at least 2 samples"),
    ("dimensions responses.csv --where set=x", "--items"),
    ("link bank.json", "expected either RESPONSES or --items NEW"),
    ("link bank.json responses.csv --items parameters.csv", "expected either RESPONSES or --items NEW"),
    ("link bank.json --items parameters.csv --scale some", "bank.json: no scale some; expected --scale with one of"),
    (f"{GRADED} --levels 1,2", "--levels: of grades; expected --model grm, gpcm, pcm or rsm"),
    (f"{HORIZON} length --model grm", "--horizon: of tasks that are solved or not; expected no --model grm"),
    ("dimensions responses.csv --levels 1,2", "--levels: of grades; expected --model grm or gpcm"),
    ("link bank.json --items foreign.csv", "link: 0 common items; expected at least 2 of the same item_id"),
    ("link --extend bank.json responses.csv", "extend: no item is new"),
    ("compare answers.csv", "holds answers; expected responses 1 / 0"),
    ("compare wide.csv --bank parameters.csv", "--item-error none"),
    ("fit best.json", "items that py-irt estimated, no responses"),
    ("compare single.csv", "at least two systems but got 1"),
    ("compare strange.csv --bank bank.json", "items unknown to the bank: x"),
    ("compare apart.csv", "no item"),
    ("predict bank.json wide.csv --level 95", "level must be between 0 and 1 but got 95"),
    ("predict bank.json wide.csv --learn-from absent.csv", "absent.csv: no such file"),
    ("predict bank.json strange.csv", "items unknown to the bank: x"),
    ("score bank.json strange.csv", "items unknown to the bank: x; expected its own items, or --unknown-items ignore"),
    ("score bank.json wide.csv --map 1=yes", "holds graded responses; expected answers for --map"),
    ("score bank.json answers.csv --map no=maybe", "maybe is no item's key"),
    ("score bank.json answers.csv --map no", "expected NAME=VALUE"),
    ("score bank.json wide.csv --norm-group language", "--norm-group language: expected NAME=VALUE"),
    ("score bank.json wide.csv --norms absent.csv", "absent.csv: no such file"),
    ("score bank.json wide.csv --method eap_sum --item-error delta", "not defined for eap_sum"),
    ("form adapt bank.json --replay wide.csv --simulate 3", "expected one of them"),
    ("form adapt bank.json --simulate 3 --share x", "--share x: expected VALUE=SHARE"),
    ("form adapt bank.json --simulate 3 --share w=.5 --by key", "share of w: no item has it; there is: no, yes"),
    ("form adapt bank.json --simulate 3 --scale verbs", "no scale verbs; expected --scale with one of all"),
    ("form adapt bank.json --simulate 3 --share x=.5 --by topic", "no column topic of the items"),
    ("form assemble bank.json --for accuracy --se 0.4", "for accuracy goes with length"),
    ("form assemble bank.json --length 3 --limit topic", "--limit topic: expected COLUMN=VALUE:MIN..MAX"),
    ("form assemble bank.json --length 3 --limit a=b:1.5..", "expected a whole number or a share in %"),
    ("form assemble bank.json --length 3 --limit topic=x:1", "no column topic of the items; there is: scale, key"),
    ("form assemble bank.json --length 3 --theta a", "--theta a: expected numbers"),
    ("form assemble bank.json --length 3 --scale verbs", "the bank has no such scale; it has: all"),
    ("form assemble bank.json --length 3 --ids lm-eval", "harness lm-eval: item item"),
    ("simulate --categories 3", "--categories: goes with --model grm"),
    ("simulate --model grm --guessing 0.2", "--guessing: goes with --model 2pl"),
    ("simulate --model grm --trials 3", "--trials: several of an item go with right and wrong"),
    ("simulate --bank bank.json --items 3", "--bank: --items does not go with it"),
    ("simulate --scale x", "--scale: goes with --bank"),
    ("convert absent.json", "no such file"),
    ("convert responses.csv -o out.xlsx", "expected a name that ends in .csv, .csv.gz, .parquet"),
    ("convert responses.csv --from helm", "does not look like the format helm"),
    ("convert responses.csv --columns item_id", "goes with a table for a"),
    ("convert responses.csv -o out.tex --columns item_id,c", "column 'c' missing"),
    ("convert responses.csv wide.csv -o out.tex", "made of one table but got 2 files"),
    ("doctor absent.csv", "no such file"),
    ("doctor empty.csv", "the file is empty"),
    ("items bias trials.csv --bank bank.json", "several trials of an item"),
    ("dimensions counts.csv", "several trials of a pair, counted without their order"),
    ("convert other.json", "a JSON object with a: no format that is known"),
    ("convert half.jsonl", "line 1: expected a score of 1, 0 or missing but got 0.5; name a threshold"),
    ("init answers.csv --yes -o new.toml", "no study can be built from this yet: answers without a key"),
    ("init single.csv --yes -o new.toml", "fewer than 10"),
    ("init responses.csv --yes -o study.toml", "is there already"),
    ("init responses.csv --yes -o study.csv", "ends in .toml"),
    ("init answers.csv --items items.csv --map YES=yes,Yes=yes --yes -o new.toml", "map"),
    ("init responses.csv --column label=nowhere --yes -o new.toml", "no column 'nowhere' for the label of the items"),
    ("init responses.csv --column label=respondent_id --yes -o new.toml", "column respondent_id: item item1 has both"),
    ("init responses.csv --column label=type --items items.csv --yes -o new.toml", "expected --item-column"),
    ("crowd keys answers.csv --items features.csv", "no key for item"),
    ("crowd agree answers.csv --level 2", "level must be between 0 and 1"),
    ("crowd agree answers.csv --map 7=y", "nobody answered 7, which is mapped; expected some of"),
    ("crowd agree answers.csv --map no=never", "expected some of never: map them too"),
    ("crowd raters ratings.csv --levels poor,fair", "expected one of poor, fair but got '"),
    ("crowd raters ratings.csv --column score=absent", "absent"),
    ("crowd raters ratings.csv --column answer=score", "unknown name answer"),
    ("crowd raters judged.csv", "column score: expected a number but got 'x'"),
    ("crowd raters ratings.csv --by absent", "absent"),
    ("crowd raters ratings.csv --rater-steps --model rasch", "rasch"),
    ("crowd sample corpus.csv --annotations vote*", "no column like vote*"),
    ("crowd sample corpus.csv --annotations label* --agreement 3", "expected two numbers such as 4/5"),
    ("crowd sample corpus.csv --annotations label* --agreement 3/3 --per-label 50", "expected at least 50"),
    ("crowd sample corpus.csv --text {nothing}", "has no column 'nothing'"),
    ("crowd sample corpus.csv --text {text", "expected text with columns in braces"),
    ("crowd sample features.csv --sheets mturk --text {length}", "at least two different answers"),
    ("crowd sample features.csv --sheets mturk --option a --option b", "has no text"),
    ("crowd plan --se-theta 0.3", "expected either --items N"),
    ("crowd plan --items 20", "wanted standard error of b or theta"),
    ("crowd plan --items 20 --se-theta 0.1", "all 20 items give"),
    ("crowd plan --items 20 --se-difficulty -1", "se_difficulty"),
    ("crowd screen answers.csv --items items.csv --similar 2", "--similar 2: expected a level"),
    ("crowd screen answers.csv --items items.csv --rapid missing", "has no seconds"),
    ("crowd screen answers.csv --items items.csv --min-seconds 3", "min_seconds is set but no seconds"),
    ("crowd screen answers.csv --items items.csv --attention-share 1", "no item is an attention check"),
    ("crowd screen answers.csv --items items.csv --chance-level 3", "chance_level"),
    (
        "crowd screen answers.csv --items items.csv --min-approval 0.9 --respondents groups.csv",
        "expected columns respondent_id and approval_rate",
    ),
    (f"{BREAKDOWN} sort", "column 'sort' missing"),
    (f"{BREAKDOWN} type --system z", "--system z"),
    (f"{BREAKDOWN} type --against z", "--against z"),
    (f"{BREAKDOWN} type --where type=c", "no item with type = c"),
    (f"{BREAKDOWN} type --level 95", "level"),
    (f"{BREAKDOWN} type --bank items.csv", "bank"),
    ("evaluate breakdown strange.csv --items items.csv --type type", "unknown item x"),
    (f"{CONSISTENCY} --twin-of other", "column 'other' missing"),
    (f"{CONSISTENCY} --against z", "unknown system z"),
    (f"{CONSISTENCY} --level 0", "level"),
    (f"{CONSISTENCY} --annotations absent.csv", "absent.csv"),
    (f"{BOUND} -n 4 -k 3", "expected 4 votes on every item but got other numbers on"),
    (f"{BOUND} -k 6 -n 5", "1 <= k <= n"),
    (f"{BOUND} --other-counts share --margin 0", "margin must be between 0 and 1"),
    (f"{BOUND} --other-counts share --level 1", "level must be between 0 and 1"),
    (f"{BOUND} --column response=nothing", "nothing"),
    ("evaluate artifacts choices.csv --key right", "column 'right' missing"),
    ("evaluate artifacts choices.csv --key item_id", "expected an option, its column or its letter but got 'q"),
    ("evaluate artifacts choices.csv --option option_A", "no columns of options"),
    ("evaluate artifacts choices.csv --group passage", "column 'passage' missing"),
    ("evaluate artifacts choices.csv --alpha 0", "alpha"),
    ("score bank.json systems.csv -o s.xlsx", "expected a name that ends in .csv"),
    ("score bank.json graded.csv --content answers", "no answer is the key of any item: 0, 1"),
    ("score systems.csv systems.csv", "column 'discrimination' missing"),
    ("score bank.json systems.csv -o bank.json", "is an input of this command"),
    ("score bank.json systems.csv -o ./link.json", "is an input of this command"),
    ("score bank.json systems.csv -o hard.json", "is an input of this command"),
    ("convert responses.csv -o responses.csv", "is an input of this command"),
    ("convert wide.csv responses.csv -o linked.csv", "is an input of this command"),
    ("convert . -o responses.csv", "is an input of this command"),
    ("build study.toml -o .", "items.csv: is an input of this command"),
    ("items diagnose responses.csv --items parameters.csv -o /dev/null", "is not a folder"),
    ("score bank.json systems.csv -o responses.csv/x.csv", "cannot be written"),
    ("fit responses.csv -o responses.csv/out", "cannot be written"),
    ("fit responses.csv -o responses.csv", "is not a folder"),
    ("fit responses.csv -o ''", "-o: expected a path but it is empty"),
    ("fit responses.csv -o x --card ''", "--card: expected a path but it is empty"),
    ("score bank.json systems.csv --explain items.csv", "items.csv: is not a folder"),
    ("fit responses.csv --by-item items.csv", "column 'model' missing"),
    ("fit responses.csv --by-item models.csv", "no responses to item item77"),
    ("fit responses.csv --guessing 2", "guessing"),
    ("simulate --respondents 1000000000", "expected at most 20000000 responses"),
    ("evaluate power -n 1000000000", "expected at most 1000000"),
    ("evaluate power --alpha 2", "--alpha"),
    ("evaluate power --hurt 0.6", "at most 1"),
    ("evaluate power -n 0", "at least one item"),
    ("evaluate power --effect -1", "above 0"),
    ("evaluate power --threshold 3", "threshold"),
    ("evaluate power -n 100 --figure-width 3in", "--figure-width: expected the figures too"),
    ("evaluate power --against 0", ""),
    ("evaluate power --bank bank.json --against 1", ""),
    ("evaluate power --accuracy 0.7", "expected one of --accuracy with --agreement, --responses, and --bank"),
]
TWO = "s,i,probability,label\nx,1,.5,1\nx,2,.5,0\n"
CALIBRATION = "evaluate calibration new.csv"
RUNS = f"{BOUND} --other-counts share --runs new.csv"
#: The same of a file `new.csv` that holds what is in the middle.
REFUSED_CONTENT = [
    (CALIBRATION, "probability,label\n1.5,1\n", "row 1 ... expected a probability in [0, 1] but got '1.5'"),
    (CALIBRATION, "probability,label\n,1\n", "row 1 ... column probability"),
    (CALIBRATION, "probability,label\nhigh,1\n", "'high'"),
    (CALIBRATION, "probability,label\n.5,2\n", "row 1 ... expected the label 1 or 0 but got '2'"),
    (CALIBRATION, "probability,label\n.5,\n", "row 1 ... expected the label"),
    (CALIBRATION, "p,label\n.5,1\n", "column 'probability' missing"),
    (f"{CALIBRATION} --level 2", "probability,label\n.5,1\n", "level must be between 0 and 1"),
    (f"{CALIBRATION} --paired", "probability,label\n.5,1\n", "expected --by"),
    (f"{CALIBRATION} --class a=a --class b=b", "a,b,label\n.5,.4,a\n", "sum to 0.9"),
    (f"{CALIBRATION} --class a=a --class b=b", "a,b,label\n.5,.5,c\n", "expected one of a, b but got 'c'"),
    (f"{CALIBRATION} --by s --item i", "s,i,probability,label\nx,1,.5,1\nx,1,.5,1\n", "1 is repeated"),
    (f"{CALIBRATION} --by s --item i --paired", f"{TWO}y,1,.5,1\ny,3,.5,1\n", "item 2, 3 is there for one of two"),
    (f"{CALIBRATION} --by s --item i --paired", f"{TWO}y,1,.5,1\ny,2,.5,1\n", "disagree on what happened at item 2"),
    (RUNS, "system,seed\nm,1\n", "column 'accuracy' missing"),
    (RUNS, "system,seed,accuracy\nm,1,high\n", "'high'"),
    (RUNS, "system,seed,accuracy\nm,1,\n", "it is missing"),
    (RUNS, "system,seed,accuracy\nm,1,.5\nm,1,.6\n", "row 2 ... two runs with this seed"),
    ("fit responses.csv --testlets set --item-table new.csv", "item_id,set\na,1\na,2\n", "item a has both 1 and 2"),
    ("fit responses.csv --testlets set --item-table new.csv", "item_id,set\na,\n", "no item has a testlet"),
    ("fit responses.csv --testlets set --item-table new.csv", "item_id,set\n,1\n", "item_id"),
    ("evaluate consistency new.csv --items twins.csv", "respondent_id,item_id,response\nm,item5,1\nm,item2,1\n",
     "no response to the original of item5"),
]  # fmt: skip
#: Besides the valid inputs.
MORE = {
    "empty.csv": "",
    "trials.csv": "respondent_id,item_id,trial,response\na,item1,1,1\na,item1,2,0\nb,item2,1,0\n",
    "counts.csv": "respondent_id,item_id,n_correct,n_trials\na,item1,1,2\na,item2,0,2\nb,item1,2,2\n",
    "other.json": '{"a": 1}',
    "half.jsonl": '{"subject_id": "m1", "responses": {"q1": 0.5}}\n',
    "foreign.csv": "item_id,discrimination,intercept,length\nx1,1,0,3\nx2,1,1,4\nx3,1,1,5\n",
    "graded.csv": "respondent_id,item_id,answer\n" + "".join(f"s,item{k},{k % 2}\n" for k in range(1, 9)),
    "models.csv": "item_id,model\nitem77,3pl\n",
    "few.csv": "respondent_id,group\nr1,a\nr2,b\n",
    "both.csv": "respondent_id,group\nr1,a\nr1,b\n",
    "one.csv": "respondent_id,group\nr1,a\nr2,a\n",
    "three.csv": "respondent_id,group\nr1,a\nr2,b\nr3,c\n",
    "single.csv": "respondent_id,item_id,response\na,item1,1\na,item2,0\n",
    "strange.csv": "respondent_id,item_id,response\na,x,1\nb,item1,0\n",
    "apart.csv": "respondent_id,item_id,response\na,item1,1\nb,item2,0\n",
    "best.json": '{"ability": [-1.0, 2.0], "diff": [0.0], "disc": [1.0], "irt_model": "2pl", "item_ids": {"0": "q"}}',
    "judged.csv": "respondent_id,item_id,rater_id,score\na,q1,j1,2\na,q1,j2,x\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The inputs, which are the same when all is over, with nothing beside them."""
    folder = tmp_path_factory.mktemp("inputs")
    write_valid_inputs(folder)
    for name, text in MORE.items():
        (folder / name).write_text(text)
    (folder / "link.json").symlink_to("bank.json")
    (folder / "hard.json").hardlink_to(folder / "bank.json")
    (folder / "linked.csv").hardlink_to(folder / "wide.csv")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    yield folder
    (folder / "new.csv").unlink(missing_ok=True)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def demand_refusal(folder: Path, line: str, saying: str) -> None:
    names = {path.name for path in folder.iterdir()}
    whole = " -o " in line or line.startswith("doctor") or line.endswith(("--figures", "--figure-width 3in"))
    refused(line if whole else f"{line} -o out.csv", saying=saying, cwd=folder)
    assert {path.name for path in folder.iterdir()} == names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("line", "saying"), REFUSED, ids=[line for line, _ in REFUSED])
def test_it_is_one_line_and_nothing_is_written(folder: Path, line: str, saying: str) -> None:
    demand_refusal(folder, line, saying)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("line", "content", "saying"), REFUSED_CONTENT)
def test_what_a_file_holds_is_refused_too(folder: Path, line: str, content: str, saying: str) -> None:
    (folder / "new.csv").write_text(content)
    demand_refusal(folder, line, saying)
