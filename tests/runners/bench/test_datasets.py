"""Loaders: what they read, what they refuse; decryption in memory."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from runners.bench.cipher import decrypt, encrypt, seal, sha_key, unseal
from runners.bench.datasets.files import distinct
from runners.bench.datasets.registry import benchmark, load
from runners.bench.places import safe
from runners.bench.secrecy import _BLOCK, expect_no_leak, scan
from runners.bench.tasks import Answered, Dataset
from runners.errors import UsageFault
from tests.runners.bench import made


def opened(name: str, path: Path, **options: str) -> Dataset:
    return load(benchmark(name), path, options)


@pytest.mark.parametrize(
    ("name", "path", "options", "count"),
    [
        ("browsecomp-zh", "bench/browsecomp-zh", {}, 289),
        ("xbench-deepsearch", "bench/xbench", {}, 100),
        ("xbench-deepsearch", "bench/xbench", {"version": "2505"}, 100),
    ],
)
def test_published_files_decrypt_in_memory(
    data_dir: Path, tmp_path: Path, name: str, path: str, options: dict[str, str], count: int
) -> None:
    """Every row opens under its canary: UTF-8 with Chinese in it, no word of it in any message or file."""
    dataset = opened(name, data_dir / path, **options)
    assert len(dataset.tasks) == count
    assert all(any("\u4e00" <= char <= "\u9fff" for char in task.question) for task in dataset.tasks)
    assert all(task.gold.strip() for task in dataset.tasks)
    assert len({task.id for task in dataset.tasks}) == count
    (tmp_path / "results.jsonl").write_text(json.dumps([seal(task.prompt, task.password) for task in dataset.tasks]))
    assert scan([tmp_path], dataset.tasks) == []
    (tmp_path / "planted.txt").write_text("x" * 100 + dataset.tasks[-1].question)
    with pytest.raises(UsageFault, match=r"planted\.txt"):
        expect_no_leak([tmp_path], dataset.tasks)


@pytest.mark.parametrize("form", ["utf-8", "utf-16-le", "json", "address", "query", "piece"])
def test_the_scan_finds_a_question_however_it_stands(tmp_path: Path, form: str) -> None:
    dataset = opened("browsecomp", made.browsecomp(tmp_path / "data" / "browse.csv"))
    question = dataset.tasks[0].question
    assert scan([tmp_path], dataset.tasks) == []
    data = {
        "utf-8": question.encode(),
        "utf-16-le": question.encode("utf-16-le"),
        "json": json.dumps({"q": question}).encode(),
        "address": b"http://find/" + quote(question, safe="").encode(),
        "query": b"http://find/?q=" + quote_plus(question).encode(),
        "piece": b"\x00\xff" + question[11:60].encode() + b"\x00",
    }[form]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "some.bin").write_bytes(data)
    (leak,) = scan([tmp_path], dataset.tasks)
    assert (leak.path.name, leak.task, leak.what) == ("some.bin", "0", "question")


@pytest.mark.parametrize("at", [-40, -2, -1, 0, 1])
def test_the_scan_finds_a_question_across_its_blocks(tmp_path: Path, at: int) -> None:
    dataset = opened("browsecomp", made.browsecomp(tmp_path / "data" / "browse.csv"))
    data = bytearray(_BLOCK + 1000)
    said = dataset.tasks[1].question.encode()
    data[_BLOCK + at : _BLOCK + at + len(said)] = said
    (tmp_path / "large.bin").write_bytes(data)
    assert [leak.task for leak in scan([tmp_path / "large.bin"], dataset.tasks)] == ["1"]


def test_ciphers() -> None:
    text = "Straße 北京 \U0001f600"
    assert decrypt(encrypt(text, sha_key("canary")), sha_key("canary")) == text
    sealed = seal(text, "canary")
    assert sealed.isascii()
    assert unseal(sealed, "canary") == text
    assert seal("", "canary") == ""
    assert unseal("plain", "canary") == "plain"
    with pytest.raises(ValueError, match="not encrypted with this canary"):
        unseal(sealed, "another canary")


def test_a_row_that_was_published_in_plaintext_is_refused_without_a_word_of_it(tmp_path: Path) -> None:
    path = made.browsecomp(tmp_path / "b.csv")
    path.write_text("problem,answer,problem_topic,canary\nWho kept the secret light?,nobody,Art,c\n")
    with pytest.raises(UsageFault) as caught:
        opened("browsecomp", path)
    assert "row 1: problem: not encrypted with this canary" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_gaia(tmp_path: Path) -> None:
    dataset = opened("gaia", made.gaia(tmp_path))
    assert [task.id for task in dataset.tasks] == ["t-1", "t-2", "t-3"]  # the dummy row is left out
    first, second, hidden = dataset.tasks
    assert first.strata == ("level 1", "with file")
    assert [Path(name).name for name in first.files] == ["prices.csv"]
    assert second.golds == ("Alvik, Borgund",)
    assert hidden.golds == ()
    assert "FINAL ANSWER:" in first.prompt
    assert [task.id for task in opened("gaia", tmp_path, text_only="true").tasks] == ["t-2", "t-3"]
    assert [task.id for task in opened("gaia", tmp_path, level="1,3").tasks] == ["t-1", "t-3"]
    (tmp_path / "ids.txt").write_text("t-2\n")
    assert [task.id for task in opened("gaia", tmp_path, subset=str(tmp_path / "ids.txt")).tasks] == ["t-2"]


def test_gaia_scores_the_final_line_without_citations(tmp_path: Path) -> None:
    gaia, (first, second, _) = benchmark("gaia"), opened("gaia", made.gaia(tmp_path)).tasks
    assert gaia.score(first, Answered("The lamp [c2] costs 30.\nFINAL ANSWER: $30 [c2]"))["quasi_exact"] == 1
    assert gaia.score(first, Answered("30 [c1]"))["quasi_exact"] == 1
    assert gaia.score(first, Answered("FINAL ANSWER: 31"))["quasi_exact"] == 0
    assert gaia.score(second, Answered("**FINAL ANSWER:** Alvik, Borgund"))["quasi_exact"] == 1
    assert gaia.score(second, Answered("FINAL ANSWER: Borgund, Alvik"))["quasi_exact"] == 0


def test_gaia_as_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="NO EXTRA: pyarrow is not installed")
    pyarrow = pytest.importorskip("pyarrow", reason="NO EXTRA: pyarrow is not installed")
    folder = made.gaia(tmp_path)
    rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text().splitlines()]
    for row in rows:
        row["Level"], row["Annotator Metadata"] = str(row["Level"]), None
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "metadata.parquet")
    plain = opened("gaia", folder)
    (folder / "metadata.jsonl").unlink()
    assert opened("gaia", folder).tasks == plain.tasks


def test_missing_attachments_are_named_with_what_to_do(tmp_path: Path) -> None:
    folder = made.gaia(tmp_path)
    (folder / "prices.csv").unlink()
    with pytest.raises(UsageFault, match=r"1 attachments are missing, the first is .*prices\.csv") as caught:
        opened("gaia", folder)
    assert "text_only=true" in caught.value.hint
    assert len(opened("gaia", folder, text_only="true").tasks) == 2


def test_an_attachment_outside_the_folder_is_refused(tmp_path: Path) -> None:
    row = {"task_id": "a", "Question": "q", "Level": 1, "Final answer": "x", "file_name": "../../etc/passwd"}
    made.write_lines(tmp_path / "metadata.jsonl", [row])
    with pytest.raises(UsageFault, match="must be the name of a file beside the table"):
        opened("gaia", tmp_path)


@pytest.mark.parametrize("name", ["..", "a\0b", "x" * 300, ["a.csv"], "/etc/passwd"])
def test_file_names_that_are_none(tmp_path: Path, name: object) -> None:
    row = {"task_id": "a", "Question": "q", "Level": 1, "Final answer": "x", "file_name": name}
    made.write_lines(tmp_path / "metadata.jsonl", [row])
    with pytest.raises(UsageFault, match=r"row 1: file_name|attachments are missing"):
        opened("gaia", tmp_path)


def test_an_attachment_in_the_cache_of_a_hub_keeps_its_name(tmp_path: Path) -> None:
    """There, contents are named by their hash, and linked to from a folder for each revision."""
    folder, blobs = made.gaia(tmp_path / "snapshots"), tmp_path / "blobs"
    blobs.mkdir()
    for at, name in enumerate(("prices.csv", "metadata.jsonl")):
        (folder / name).rename(blobs / f"0abc{at}")
        (folder / name).symlink_to(Path("..") / "blobs" / f"0abc{at}")
    assert opened("gaia", folder).tasks[0].files == (str(folder / "prices.csv"),)


def test_an_attachment_that_is_a_link_out_of_the_data_is_refused(tmp_path: Path) -> None:
    folder = made.gaia(tmp_path / "data")
    (tmp_path / "secret.csv").write_text("x")
    (folder / "prices.csv").unlink()
    (folder / "prices.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(UsageFault, match=r"row 2: prices\.csv is a link to .*secret\.csv, outside of the data"):
        opened("gaia", folder)


def test_two_files_that_could_be_meant_are_named(tmp_path: Path) -> None:
    made.gaia(tmp_path / "test")
    made.gaia(tmp_path / "validation")
    with pytest.raises(UsageFault, match=r"2 files could be meant: test/metadata\.jsonl, validation/metadata\.jsonl"):
        opened("gaia", tmp_path)
    assert len(opened("gaia", tmp_path / "validation").tasks) == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"q1"', "null", "row 2: id is empty"),
        ('"q1"', '["x"]', "row 2: id is no text"),
        ('"q1"', '"\\ud800"', "row 2: id holds half a character"),
        ('"Borgund Andersen"', "null", "row 2: answer is empty"),
        ('["p1"]', "null", "row 2: aliases and supporting_pages must be lists"),
    ],
)
def test_cells_that_are_no_text(tmp_path: Path, old: str, new: str, said: str) -> None:
    folder = made.multihop(tmp_path)
    text = (folder / "questions.jsonl").read_text()
    assert old in text
    (folder / "questions.jsonl").write_text(text.replace(old, new))
    with pytest.raises(UsageFault, match=said):
        opened("multihop", folder)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-8", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    """A byte order mark and CRLF are read over; UTF-16 is named."""
    folder = made.multihop(tmp_path)
    text = (folder / "questions.jsonl").read_text().replace("\n", "\r\n")
    (folder / "questions.jsonl").write_bytes(text.encode(encoding))
    if encoding == "utf-16":
        with pytest.raises(UsageFault, match=r"questions\.jsonl:1: not UTF-8"):
            opened("multihop", folder)
    else:
        assert len(opened("multihop", folder).tasks) == 4


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("gaia", {"text_only": "yes"}, "-o text_only=yes: true or false is expected"),
        ("gaia", {"level": "4"}, "-o level=4: the data has 1, 2, 3"),
        ("gaia", {"subset": "ids.txt"}, r"1 of its ids are not in the data, the first is t-9"),
        ("multihop", {"set": "hotpot"}, "-o set=hotpot: the data has made, other"),
    ],
)
def test_options_that_ask_for_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, str], said: str
) -> None:
    """Ignored, they would run other questions than those that were asked for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ids.txt").write_text("t-1 t-9")
    folder = {"gaia": made.gaia, "multihop": made.multihop}[name](tmp_path / "data")
    with pytest.raises(UsageFault, match=said):
        opened(name, folder, **options)
    assert len(opened("gaia", made.gaia(tmp_path / "more"), level="1, 3", text_only="FALSE").tasks) == 2


def test_names_of_folders_are_never_shared() -> None:
    names = ["a", "_a", "a/b", "a b", "..", "", "x" * 120, "x" * 121, "x" * 122, "研究" * 30 + "一", "研究" * 30 + "二"]
    made_of = [safe(name) for name in names]
    assert len(set(made_of)) == len(names)
    assert max(map(len, made_of)) <= 121
    assert all(name.isascii() and "/" not in name and name not in ("", ".", "..") for name in made_of)


def test_a_hundred_thousand_rows_with_one_id_twice_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="the id 7 stands twice"):
        distinct([*map(str, range(100_000)), "7"], tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "text", "said"),
    [
        ("browsecomp", "b.csv", "problem,answer,canary\nx,y,c,more\n", "row 1: more cells than columns"),
        (
            "webwalkerqa",
            "w.jsonl",
            '{"question": "q", "answer": "a", "root_url": "u", "info": "{"}',
            "row 1: info: not JSON",
        ),
        ("gaia", "metadata.jsonl", '{"task_id": "a", "question": "?"}\n', "wrong columns: Question, Level"),
        ("gaia", "metadata.jsonl", "", "no rows"),
        ("gaia", "metadata.jsonl", "{oops\n", "metadata.jsonl:1: not JSON"),
        ("browsecomp", "b.csv", "problem,answer\nx,y\n", "wrong columns: canary missing; there are problem, answer"),
        ("browsecomp-zh", "b.xlsx", "no spreadsheet", "not a spreadsheet"),
        ("webwalkerqa", "w.json", "{}", "not a list of objects"),
        ("xbench-deepsearch", "other.txt", "", "none of DeepSearch-2510.csv"),
    ],
)
def test_files_that_are_not_the_benchmark(tmp_path: Path, name: str, file: str, text: str, said: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(UsageFault, match=said):
        opened(name, tmp_path)


def test_no_such_data(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="no such file or folder"):
        opened("gaia", tmp_path / "nowhere")


def test_a_task_that_stands_twice(tmp_path: Path) -> None:
    folder = made.multihop(tmp_path)
    lines = (folder / "questions.jsonl").read_text().splitlines()
    (folder / "questions.jsonl").write_text("\n".join([*lines, lines[1]]) + "\n")
    with pytest.raises(UsageFault, match="the id q1 stands twice"):
        opened("multihop", folder)


def test_the_hash_follows_everything_that_was_read(tmp_path: Path) -> None:
    folder = made.gaia(tmp_path)
    before = opened("gaia", folder).hash
    (folder / "prices.csv").write_text("item,price\nrope,13\n")
    assert opened("gaia", folder).hash != before


def test_webwalker(tmp_path: Path) -> None:
    rows = [
        {
            "question": "Who chairs the spring meeting?",
            "answer": "Ada Borg",
            "root_url": "https://meeting.example/",
            "info": {"type": "multi_source", "difficulty_level": "hard", "lang": "en"},
        }
    ]
    made.write_lines(tmp_path / "webwalker.jsonl", rows)
    (task,) = opened("webwalkerqa", tmp_path).tasks
    assert "https://meeting.example/" in task.prompt
    assert "https://meeting.example/" not in opened("webwalkerqa", tmp_path, root_url="false").tasks[0].prompt
    assert task.strata == ("type multi_source", "difficulty_level hard", "lang en")
    score = benchmark("webwalkerqa").score
    assert score(task, Answered("She does.\nFINAL ANSWER: Ada Borg"))["exact_match"] == 1


def test_multihop_scores_the_phrase_without_citations(tmp_path: Path) -> None:
    task = opened("multihop", made.multihop(tmp_path)).tasks[0]
    score = benchmark("multihop").score
    assert score(task, Answered("Alvik Andersen [c2]\nbecause"))["exact_match"] == 1
    assert score(task, Answered("Andersen [c2]"))["exact_match"] == 0
    assert score(task, Answered(""))["f1"] == 0


def test_xbench_by_rule_first() -> None:
    from runners.bench.tasks import Task

    xbench = benchmark("xbench-deepsearch")
    task = Task("1", "问", "问", ("北京",))
    assert xbench.judge is not None
    assert xbench.judge.decides(task, "因为……\n最终答案: 北京") == 1
    assert xbench.judge.decides(task, "最终答案：上海") is None
    assert xbench.score(task, Answered("最终答案: 不是北京"))["exact_match"] == 0
