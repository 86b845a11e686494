"""The command from its files to its report: rows, differences, exit codes, the same whatever the number of workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runners.cli.app import main
from runners.errors import ConfigError, UsageFault
from runners.replay.variants import VariantRequest, make_plan

FILLER = "The old bridges were counted, and nothing else was found there that anyone cared to write down. " * 6


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs whose last action takes an id from the first observation, and one fact from the fourth."""
    rows = []
    for number in range(3):
        steps = [{"action": "search", "args": {"q": "more"}, "observation": f"{FILLER} page {at}"} for at in range(8)]
        steps[0]["observation"] = f"Order AB{number}77X. {FILLER}"
        steps[3]["observation"] = f"Paid 4{number}91 crowns. {FILLER}"
        steps.append({"action": "pay", "args": {"order": f"AB{number}77X", "sum": f"4{number}91"}, "observation": "ok"})
        rows.append({"id": f"r{number}", "task": "Pay the order.", "steps": steps})
    path = tmp_path / "shop.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def replay(runs: Path, out: Path, *options: str) -> dict[str, list[dict[str, object]]]:
    code = main(["replay", str(runs), "-c", "encoder.kind=hashing", "--json", str(out), *options])
    assert code == 0
    report: dict[str, list[dict[str, object]]] = json.loads(out.read_text())
    return report


def test_rows_of_a_replay(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = replay(
        runs, tmp_path / "o.json", "--policy", "last-k,react", "--budget", "200,100000", "--cached", "--workers", "1"
    )
    recalls = [row for row in report["rows"] if row["measure"] == "next_step_recall"]
    assert {row["measure"] for row in report["rows"]} == {"next_step_recall", "context_tokens"}
    rows = {(r["policy"], r["budget"], r["stratum"]): r for r in recalls}
    assert rows["react", 100_000, "all"]["value"] == 1.0
    assert rows["last-k", 200, "all"]["value"] == 0.0
    row = rows["react", 100_000, "6-10"]
    assert (row["n"], row["measure"], row["family"], row["longevity"]) == (3, "next_step_recall", "shop", None)
    assert 0.3 < row["cached_share"] < 1  # type: ignore[operator]
    assert row["cost"] > 0  # type: ignore[operator]
    assert rows["react", 200, "all"]["longevity"] is not None
    differences = {
        (d["policy"], d["budget"], d["stratum"]): d for d in report["differences"] if d["measure"] == "next_step_recall"
    }
    found = differences["react", 100_000, "all"]
    assert (found["against"], found["value"], found["n"]) == ("last-k", 0.0, 3)
    assert len(report["sessions"]) == 3
    assert all(s["cosine_spread"] > 0 for s in report["sessions"])  # type: ignore[operator]
    assert "next_step_recall" in capsys.readouterr().out


def test_workers_and_a_warm_cache_change_nothing(runs: Path, tmp_path: Path) -> None:
    options = ("--policy", "pace,top-k", "--budget", "300", "--lambda", "0,1")
    one = replay(runs, tmp_path / "a.json", *options, "--workers", "1")
    two = replay(runs, tmp_path / "b.json", *options, "--workers", "2")
    chained = replay(runs, tmp_path / "c.json", *options, "--workers", "2", "--chain")
    assert one == two
    assert chained["recordings"] == 1
    assert {row["n"] for row in chained["rows"] if row["measure"] == "next_step_recall"} == {3}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "pase"], "did you mean 'pace'"),
        (["--budget", "0"], "must be positive"),
        (["--budget", "1,x"], "not a list of numbers"),
        (["-c", "policy.tua=1"], "did you mean 'tau'"),
        (["--layout", "spiral"], "memory.layout"),
        (["--price-of", "nothing", "--cached"], "--price-of nothing"),
    ],
)
def test_bad_input_is_said_in_a_line(
    runs: Path, tmp_path: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o.json"
    assert main(["replay", str(runs), "--json", str(out), *options]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_broken_runs_are_counted_when_asked(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with runs.open("a") as file:
        file.write('{"id": "bad", "steps": [{"action": 3}]}\n')
    assert main(["replay", str(runs), "--json", str(tmp_path / "o.json")]) == 2
    assert "shop.jsonl:4: steps.0.action" in capsys.readouterr().err
    report = replay(runs, tmp_path / "o.json", "--skip-broken", "--workers", "1")
    assert report["recordings"] == 3
    assert "shop.jsonl:4" in report["skipped"][0]  # type: ignore[operator]


def test_no_file_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay"]) == 2
    assert "name at least one FILE" in capsys.readouterr().err


def test_options_go_to_the_policies_that_have_them() -> None:
    plan = make_plan(VariantRequest(["pace", "last-k"], [100], lambdas=(0.0, 1.0), options=("policy.tau=0.5",)))
    assert [(v.label, v.lam, v.options.get("tau")) for v in plan.variants] == [
        ("pace", 0.0, 0.5),
        ("pace", 1.0, 0.5),
        ("last-k", None, None),
    ]
    with pytest.raises(ConfigError, match="none of these policies has it"):
        make_plan(VariantRequest(["last-k"], [100], options=("policy.tau=0.5",)))
    with pytest.raises(UsageFault):
        make_plan(VariantRequest([], [100]))
