"""fit-profile: known coefficients are found again, families are held out, files are proved by their hash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memory.scoring.learned import FEATURES, Coefficients, features
from runners import fitting
from runners.cli.app import main
from runners.config import config_tree, load_config, stored_config
from runners.errors import ConfigError, UsageFault
from runners.fitting import Example, fit, fit_gate, fit_model, logistic, ranking
from runners.request import ConfigRequest
from runners.scorers import scorer_names, scorer_tree, scorer_yaml
from tests.memory.scoring.scorers import RICH, SAID, model, scorer

TRUE = {"cosine": 1.0, "lexical": 0.5, "age": -0.6, "tokens": 0.4}


def contexts(name: str, family: str, count: int, seed: int, *, peak: float = 1.5, size: int = 60) -> Iterator[Example]:
    """Contexts whose needs follow `TRUE`."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        rows = features(rng.normal(0.3, 0.1, size), rng.gamma(1.0, 2.0, size), rng.integers(50, 3000, size) * 1.0)
        logits = -3.5 + sum(weight * rows[:, FEATURES.index(key)] for key, weight in TRUE.items())
        needed = rng.random(size) < 1 / (1 + np.exp(-logits))
        yield Example(family, f"{family}-{number}", name, rows, needed, peak + rng.normal(0, 0.3))  # type: ignore[arg-type]


def test_logistic_finds_known_coefficients() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(20_000, 3))
    needed = (rng.random(20_000) < 1 / (1 + np.exp(-(-1 + rows @ [2.0, -1.0, 0.0])))).astype(float)
    assert logistic(rows, needed, np.ones(20_000), 1e-8) == pytest.approx([-1, 2, -1, 0], abs=0.08)


def test_a_known_model_is_found_again() -> None:
    found = fit_model([*contexts("step", "a", 400, 1), *contexts("step", "b", 400, 2)])
    for name, weight in TRUE.items():
        assert found.weights[name] == pytest.approx(weight, abs=0.2), name
    rest = [example for example in contexts("step", "c", 100, 3) if example.needed.any()]
    truth = model(**TRUE)
    ours, best = (float(np.mean([ranking(e, m) for e in rest])) for m in (found, truth))
    assert ours > best - 0.01 > 0.75


def test_separable_data_end_in_finite_coefficients() -> None:
    rows = np.column_stack([np.linspace(-1, 1, 40)] * len(FEATURES))
    found = fit_model([Example("a", "a", "step", rows, rows[:, 0] > 0, 1.0)])
    assert np.isfinite([found.intercept, *found.weights.values()]).all()


def test_the_gate_lies_between_what_it_separates() -> None:
    calm = list(contexts("step", "a", 50, 1, peak=1.5))
    asked = list(contexts("lookup", "b", 20, 2, peak=6.0))
    gate = fit_gate([*calm, *asked])
    assert 2.5 < gate.midpoint < 5 and gate.slope > 0
    with pytest.raises(UsageFault, match="stand out less"):
        fit_gate([*contexts("step", "a", 50, 1, peak=6.0), *contexts("lookup", "b", 20, 2, peak=1.0)])


def test_families_are_judged_by_a_fit_that_has_not_seen_them() -> None:
    examples = [
        *contexts("step", "a", 60, 1),
        *contexts("step", "b", 60, 2),
        *contexts("lookup", "planted", 60, 3, peak=6.0),
    ]
    found = fit(examples)
    rows = {(row.model, row.family): row for row in found.held_out}
    assert set(rows) == {("step", "a"), ("step", "b"), ("lookup", "planted")}
    assert rows["step", "a"].against == "b" and rows["lookup", "planted"].against == "other units of it"
    assert all(row.ranking > row.alone for row in found.held_out)
    assert found.coefficients.turn == found.coefficients.lookup
    assert fit(examples).coefficients == found.coefficients
    assert fit(examples[1:]).coefficients.fitted_on != found.coefficients.fitted_on


def test_what_cannot_be_fitted_is_said() -> None:
    with pytest.raises(UsageFault, match="recorded runs hold nothing"):
        fit(list(contexts("lookup", "a", 5, 1)))
    with pytest.raises(UsageFault, match="--multihop or --longmemeval"):
        fit(list(contexts("step", "a", 5, 1)))


def test_folds_follow_names_alone() -> None:
    assert {fitting.fold_of(f"u{n}") for n in range(60)} == set(range(fitting.FOLDS))


def test_the_packaged_scorer_loads_and_its_hash_holds() -> None:
    for name in scorer_names():
        Coefficients.model_validate(scorer_tree(name, "test"))
    config = load_config(ConfigRequest(policy="mosaic"))
    tree = config_tree(config)
    assert isinstance(tree["policy"], dict) and isinstance(tree["policy"]["coefficients"], dict)
    assert stored_config(json.loads(json.dumps(tree)), "a session") == config


def test_a_file_gives_its_scorer_again_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    given = scorer(step=RICH, lookup=SAID, turn=model(-1e-05, age=0.25))
    path = tmp_path / "mine.yaml"
    path.write_text(scorer_yaml(given, ["by hand"]), "utf-8")
    assert Coefficients.model_validate(scorer_tree(str(path), "test")) == given
    option = f"policy.coefficients={path}"
    loaded = load_config(ConfigRequest(policy="mosaic", options=(option,)))
    assert Coefficients.model_validate(loaded.policy.options.model_dump()["coefficients"]) == given
    path.write_text(path.read_text("utf-8").replace("0.25", "0.26"), "utf-8")
    with pytest.raises(ConfigError, match="the hash of the coefficients is"):
        load_config(ConfigRequest(policy="mosaic", options=(option,)))


@pytest.mark.parametrize(("name", "said"), [("defalt", "did you mean 'default'"), ("none.yaml", "cannot be read")])
def test_unknown_scorers_are_named(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(ConfigRequest(policy="mosaic", options=(f"policy.coefficients={name}",)))


def _write_runs(folder: Path) -> Path:
    """Runs of one family: an identifier stands in a long first result and is used at the end."""
    folder.mkdir(parents=True)
    rows = []
    for number in range(12):
        code = f"QX{number:03d}Z"
        first = f"The order {code} was found. " + "It was packed and sent on. " * 30
        steps = [{"thought": "", "action": "find", "args": "{}", "observation": first}]
        steps += [{"thought": "", "action": "wait", "args": "{}", "observation": "nothing yet"}] * (4 + number % 3)
        steps += [{"thought": "", "action": "cancel", "args": json.dumps({"order": code}), "observation": "done"}]
        rows.append({"id": f"r{number}", "task": "cancel the order", "system": "", "steps": steps})
    path = folder / "trajectories.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def _write_dialogues(folder: Path) -> Path:
    """LongMemEval's form: one turn of thirty holds what is asked for."""
    folder.mkdir(parents=True)
    questions, sessions = [], []
    for number in range(6):
        turns = [
            {"role": "user", "content": f"Today we talked about topic {turn} and its details."} for turn in range(30)
        ]
        turns[number * 3] = {
            "role": "user",
            "content": f"My cat Mittens{number} weighs {number + 3} kilos.",
            "has_answer": True,
        }  # type: ignore[dict-item]
        sessions.append({"ref": f"s{number}", "turns": turns})
        row = {
            "question_id": f"q{number}",
            "question_type": "single",
            "question": f"How heavy is my cat Mittens{number}?",
        }
        questions.append(row | {"answer": f"{number + 3}", "haystack_refs": [f"s{number}"], "haystack_dates": ["2026"]})
    for name, rows in (("s_questions", questions), ("s_sessions", sessions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def test_from_recorded_runs_to_a_scorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSTRIDE_HOME", str(tmp_path / "home"))
    runs, dialogues = _write_runs(tmp_path / "orders"), _write_dialogues(tmp_path / "memory")
    for out in ("one.yaml", "two.yaml"):
        command = ["fit-profile", str(runs), "--longmemeval", str(dialogues), "--out", str(tmp_path / out)]
        assert main([*command, "--json", str(tmp_path / "fit.json"), "-c", "encoder.kind=hashing"]) == 0
    assert (tmp_path / "one.yaml").read_bytes() == (tmp_path / "two.yaml").read_bytes()
    found = Coefficients.model_validate(scorer_tree(str(tmp_path / "one.yaml"), "test"))
    assert found.step.weights["tokens"] > 0 and found.turn.weights["cosine"] > 0
    report = json.loads((tmp_path / "fit.json").read_text("utf-8"))
    assert {row["family"] for row in report["held_out"]} == {"orders", "longmemeval"}
    assert report["coefficients"]["hash"] == found.hash


def test_fit_profile_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit-profile", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "out.yaml")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert not (tmp_path / "out.yaml").exists()
