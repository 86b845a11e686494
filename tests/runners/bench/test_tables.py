"""WideSearch: cells, columns, keys, rows; its defects upstream, and what happens here instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.backbones.scripted import ScriptedBackbone
from agent.errors import Unavailable
from runners.bench.datasets.registry import benchmark, load
from runners.bench.table_judge import grade_table
from runners.bench.tasks import Answered
from runners.errors import UsageFault
from runners.scoring import cells
from runners.scoring.judge import Judge
from runners.scoring.tables import Pipeline, Table, TableSpec, read_table, score_table
from tests.runners.bench import made

SPEC = TableSpec(
    Table(
        ("town", "built", "height", "site"),
        (
            ("Alvik", "1 May 1851", "30", "https://alvik.example/a"),
            ("Borgund", "1862-03-09", "25.5", "https://borgund.example/b"),
        ),
    ),
    ("town",),
    {
        "town": Pipeline(("norm_str",), ("exact_match",)),
        "built": Pipeline((), ("date_near",)),
        "height": Pipeline(("extract_number",), ("number_near",), 0.1),
        "site": Pipeline((), ("url_match",)),
    },
)
GOOD = """Here it is:
```markdown
| Town | Built | Height | Site |
|---|---|---|---|
| **Alvik** | 20 May 1851 | 31 | https://alvik.example/other |
| borgund | 9 March 1862 | 25.50 | see https://borgund.example |
```
"""


def test_a_right_table() -> None:
    assert set(score_table(SPEC, GOOD).values()) == {1.0}


@pytest.mark.parametrize(
    ("change", "row", "item"),
    [
        (("31 |", "36 |"), 0.5, 7 / 8),  # 20 % off
        (("20 May 1851", "2 July 1851"), 0.5, 7 / 8),  # 62 days off
        (("alvik.example/other", "else.example/"), 0.5, 7 / 8),
        (("**Alvik**", "Dunmoor"), 0.5, 0.5),
        (("| borgund | 9 March 1862 | 25.50 | see https://borgund.example |\n", ""), 2 / 3, 2 / 3),
        (("| Site |", "| Page |"), 0, 0),  # not the required columns
    ],
)
def test_wrong_cells_are_caught(change: tuple[str, str], row: float, item: float) -> None:
    found = score_table(SPEC, GOOD.replace(*change))
    assert found["row_f1"] == pytest.approx(row)
    assert found["item_f1"] == pytest.approx(item)
    assert found["success"] == 0


@pytest.mark.parametrize("answer", ["", "no table here", "| a | b |", "```markdown\n| a |\n| 1 | 2 | 3 |\n```"])
def test_no_table(answer: str) -> None:
    assert set(score_table(SPEC, answer).values()) == {0.0}


def test_two_dates_that_are_none() -> None:
    """Upstream two texts that are no dates match, whatever they say; both figures are told."""
    gold = Table(("town", "built"), (("Alvik", "unknown"),))
    spec = TableSpec(gold, ("town",), {"built": Pipeline((), ("date_near",))})
    found = score_table(spec, "| town | built |\n|---|---|\n| Alvik | whenever it was |\n")
    assert (found["item_f1"], found["item_f1_upstream"]) == (0.5, 1.0)
    same = score_table(spec, "| town | built |\n|---|---|\n| Alvik | Unknown |\n")
    assert (same["item_f1"], same["item_f1_upstream"]) == (1.0, 1.0)


def test_a_key_counts_once() -> None:
    """Upstream drops duplicates before it normalises, so that two spellings of one key can both be right."""
    answer = "| town | built | height | site |\n|---|---|---|---|\n" + "".join(
        f"| {name} | 1851-05-01 | 30 | https://alvik.example |\n" for name in ("Alvik", "ALVIK", "* alvik *")
    )
    found = score_table(SPEC, answer)
    assert (found["row_precision"], found["row_recall"]) == (1.0, 0.5)


@pytest.mark.parametrize(
    ("metric", "ours", "gold", "criterion", "match"),
    [
        ("exact_match", "Oslo", "oslo", None, True),
        ("exact_match", "Oslo ", "oslo", None, False),
        ("in_match", "Oslo", "Oslo, Norway", None, True),
        ("in_match", "", "Oslo", None, False),
        ("in_match", "nan", "Finance and Nantes", None, False),  # an empty cell
        ("in_match", "nan", "nan", None, True),
        ("in_match", "Bergen", "Oslo", None, False),
        ("number_near", "105", "100", 0.05, True),
        ("number_near", "106", "100", 0.05, False),
        ("number_near", "50%", "0.5", 0.0, True),
        ("number_near", "NULL", "NULL", 0.1, True),
        ("number_near", "NULL", "3", 0.1, False),
        ("number_near", "nan", "nan", 0.1, True),
        ("number_near", "nan", "3", 0.1, False),
        ("url_match", "https://a.example/x", "http://a.example/y", None, True),
        ("url_match", "https://a.example https://b.example", "https://a.example", None, False),
        ("url_match", "none", "n/a", None, False),
        ("url_match", "https://[broken", "https://a.example", None, False),
        ("date_near", "May 2020", "2020-05-20", None, True),
        ("date_near", "2020年5月1日", "1 June 2020", None, True),
        ("date_near", "2020-05-01", "2020-06-02", None, False),
        ("date_near", "soon", "2020-06-02", None, False),
        # upstream these depend on the day on which they are compared
        ("date_near", "2020", "2020-01-20", None, True),
        ("date_near", "2020", "2020-11-20", None, False),
        ("date_near", "1990s", "1980s", None, False),
        ("date_near", "yesterday", "today", None, False),
        ("date_near", "nan", "August", None, False),  # an empty cell
        ("date_near", "nan", "nan", None, True),
        ("llm_judge", "The Sea*", "thesea", None, True),
    ],
)
def test_cells(metric: str, ours: str, gold: str, criterion: object, match: bool) -> None:
    assert cells.matches(metric, ours, gold, criterion) is match


def test_preprocessing() -> None:
    assert cells.extract_number("about 1,234.5 km (30%)") == "1234.5"
    assert cells.extract_number("-7%") == "-7%"
    assert cells.extract_number("none") == "NULL"
    assert cells.norm_str(" The *Sea* ") == "thesea"
    assert cells.norm_date("5 May 2020") == "2020-05-05"
    assert cells.norm_date("soon") == "soon"
    assert cells.typed(["5", ""], ["5.0", "x"]) == (["5.0", "nan"], ["5.0", "x"])
    assert cells.typed(["007", "+5"], ["7", "5"]) == (["7", "5"], ["7", "5"])
    assert cells.typed(["007", "x"], ["7", "5"]) == (["007", "x"], ["7", "5"])
    assert cells.typed(["9" * 5000], ["9" * 5000])[0] == ["9" * 5000]
    assert cells.typed(["5", "7"], ["5.0", "7.25"]) == (["5.0", "7.0"], ["5.0", "7.25"])
    assert cells.typed(["N/A"], ["-"]) == (["nan"], ["-"])


def test_reading_tables() -> None:
    table = read_table("text | with a pipe\n\n| A b | C |\n|:--|--:|\n| x \\| y | 1 |\n| z |\n\nafter")
    assert table == Table(("ab", "c"), (("x | y", "1"), ("z", "")))


JUDGED = TableSpec(
    Table(("town", "fame"), (("Alvik", "its lighthouse"), ("Borgund", "its church"))),
    ("town",),
    {"town": Pipeline(), "fame": Pipeline((), ("llm_judge",), "the same sight")},
)
TOLD = "| Place | Fame |\n|---|---|\n| Alvik town | the light |\n| Borgund | its harbour |\n"


async def test_a_judge_aligns_names_and_keys_and_compares_cells() -> None:
    judge = Judge(
        ScriptedBackbone(
            [
                '```json\n{"place": "town"}\n```',
                'Let me see.\n```json\n{"Alvik town": "Alvik"}\n```',
                '```json\n{"idx_0": 1, "idx_1": 0}\n```',
            ]
        )
    )
    grade = await grade_table(judge, JUDGED, TOLD)
    assert grade.failures == []
    assert grade.measures["row_f1"] == 0.5
    assert grade.measures["item_f1"] == 0.75


async def test_a_dead_judge_leaves_a_floor_and_says_so() -> None:
    grade = await grade_table(Judge(ScriptedBackbone([Unavailable("gone")])), JUDGED, TOLD)
    assert grade.failures == ["Unavailable: gone"]
    assert grade.measures["item_f1"] == 0
    silent = await grade_table(
        Judge(ScriptedBackbone(["well", "```json\n[1]\n```"])), JUDGED, TOLD.replace("Place", "Town")
    )
    assert silent.failures


@pytest.mark.parametrize("said", ['{"idx_0": 1}', '{"idx_0": 1, "idx_1": "maybe"}', '{"idx_0": 1, "idx_1": null}'])
async def test_a_cell_without_a_verdict_is_ungraded(said: str) -> None:
    judge = Judge(ScriptedBackbone([f"```json\n{said}\n```"]))
    grade = await grade_table(judge, JUDGED, TOLD.replace("Place", "Town").replace("Alvik town", "Alvik"))
    assert grade.failures == ["no verdict on 1 of 2 cells"]
    assert grade.measures["item_f1"] == 0.75


def widesearch(folder: Path, **evaluation: Any) -> Path:
    (folder / "widesearch_gold").mkdir(parents=True)
    (folder / "widesearch_gold" / "ws-1.csv").write_text("Town,Year Built\nAlvik,1851\nBorgund,\n", "utf-8")
    given = {
        "required": ["town", "yearbuilt"],
        "unique_columns": ["town"],
        "eval_pipeline": {
            "town": {"preprocess": ["norm_str"], "metric": ["exact_match"]},
            "yearbuilt": {"preprocess": ["extract_number"], "metric": ["number_near"], "criterion": 0.0},
        },
        **evaluation,
    }
    row = {"instance_id": "ws-1", "query": "List the lighthouses.", "language": "en", "evaluation": given}
    made.write_lines(folder / "widesearch.jsonl", [row])
    return folder


def test_the_loader(tmp_path: Path) -> None:
    which = benchmark("widesearch")
    (task,) = load(which, widesearch(tmp_path), {}).tasks
    assert task.table is not None
    assert task.table.gold.columns == ("town", "yearbuilt")
    answer = "| Town | Year Built |\n|---|---|\n| Alvik | 1851 [c3] |\n| Borgund | |\n"
    assert which.score(task, Answered(answer))["success"] == 1
    assert which.score(task, Answered(answer.replace("1851", "1852")))["item_f1"] == 0.75


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        ({"required": ["town", "height"]}, "the required columns height are missing"),
        ({"unique_columns": ["harbour"]}, "unique column 'harbour' is not a required one"),
        ({"eval_pipeline": {"town": {"metric": ["magic"]}}}, "column 'town': unknown magic"),
        ({"required": []}, "evaluation"),
    ],
)
def test_specifications_that_cannot_be_used(tmp_path: Path, evaluation: dict[str, object], said: str) -> None:
    with pytest.raises(UsageFault, match=said):
        load(benchmark("widesearch"), widesearch(tmp_path, **evaluation), {})


def test_a_gold_table_that_is_missing(tmp_path: Path) -> None:
    folder = widesearch(tmp_path)
    (folder / "widesearch_gold" / "ws-1.csv").unlink()
    with pytest.raises(UsageFault, match=r"ws-1\.csv"):
        load(benchmark("widesearch"), folder, {})
