"""Configuration: the order of its sources, and errors that say where they are."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.backbones.factory import BackboneConfig
from memory.policies.pace import PaceConfig
from memory.policies.registry import POLICIES
from runners.choices import packaged_names
from runners.config import RunConfig, config_hash, config_tree, load_config, stored_config
from runners.errors import ConfigError
from runners.layers import Layer, merge, option_layer, parse_yaml
from runners.request import ConfigRequest


def load(
    *options: str,
    file: Path | None = None,
    profile: str | None = None,
    policy: str | None = None,
    backbone: str | None = None,
) -> RunConfig:
    return load_config(ConfigRequest(profile, policy, backbone, file, options))


def pace(config: RunConfig) -> PaceConfig:
    assert isinstance(config.policy.options, PaceConfig)
    return config.policy.options


def problems(
    *options: str, file: Path | None = None, policy: str | None = None, backbone: str | None = None
) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(*options, file=file, policy=policy, backbone=backbone)
    return list(caught.value.problems)


def test_the_default_is_pace_with_the_published_constants() -> None:
    config = load()
    assert config.policy.name == config.policy.variant == "pace"
    assert pace(config) == PaceConfig()
    assert config.memory.spend
    assert config.memory.overflow == "fit"


def test_the_paper_profile_has_no_extensions() -> None:
    config = load(profile="paper")
    assert config.profile == "paper"
    assert (config.memory.spend, config.memory.overflow, config.memory.recent) == (False, "stop", 2)
    assert pace(config) == PaceConfig()


@pytest.mark.parametrize(
    ("policy", "changed"),
    [
        ("pace-no-multigranularity", {"levels": ("full", "placeholder")}),
        ("pace-no-pressure", {"pressure": False}),
        ("pace-no-softmax", {"tau": 1.0}),
        ("pace-no-glimpse", {}),
    ],
)
def test_ablations_differ_in_one_thing_from_pace(policy: str, changed: dict[str, object]) -> None:
    config = load(policy=policy)
    assert config.policy.name == "pace"
    assert pace(config) == PaceConfig().model_copy(update=changed)
    assert config.memory.glimpse is (policy != "pace-no-glimpse")


def test_every_packaged_file_loads() -> None:
    for name in packaged_names("profile"):
        assert load(profile=name).profile == name
    for name in packaged_names("policy"):
        plain = name.partition("-no-")[0].removesuffix("-auto").removesuffix("-attention")
        assert load(policy=name).policy.name == plain
    for name in packaged_names("backbone"):
        assert load(backbone=name).backbone != BackboneConfig() or name == "embedded"


def test_every_policy_has_a_file() -> None:
    assert set(POLICIES) <= set(packaged_names("policy"))


def test_sources_in_order(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("policy: {tau: 0.7, lambda: 0.1}\nmemory: {recent: 4}\n")
    config = load("policy.tau=0.9", file=own, profile="paper", policy="pace-no-softmax")
    assert pace(config).tau == 0.9
    assert pace(config).lam == 0.1
    assert config.memory.recent == 4
    assert config.memory.overflow == "stop"
    assert pace(load(file=own, policy="pace-no-softmax")).tau == 0.7
    assert pace(load(policy="pace-no-softmax")).tau == 1.0


def test_who_chooses_the_policy(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("policy: react\n")
    assert load(file=own).policy.name == "react"
    assert load("policy=pace-no-pressure", file=own).policy.variant == "pace-no-pressure"
    assert load("policy.name=pace-no-pressure").policy.variant == "pace-no-pressure"
    assert load("policy=react", policy="pace").policy.name == "pace"


def test_a_policy_file_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("policy: {name: pace, tau: 0.05}\n")
    assert pace(load(policy=str(own))).tau == 0.05
    assert problems(policy=str(tmp_path / "none.yaml"))[0].endswith("No such file or directory")


def test_an_unknown_key_names_key_file_and_near_match(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("policy: {taau: 0.7}\nmemory: {recnt: 4}\nlambda: 1\n")
    found = problems(file=own)
    assert f"{own}: unknown key 'policy.taau'; did you mean 'policy.tau'?" in found
    assert f"{own}: unknown key 'memory.recnt'; did you mean 'memory.recent'?" in found
    assert f"{own}: unknown key 'lambda'; did you mean 'policy.lambda'?" in found
    assert len(found) == 3


def test_bad_values_name_the_option() -> None:
    assert problems("policy.tau=0") == ["-c policy.tau=0: policy.tau: input should be greater than 0 (got 0)"]
    assert problems("policy.levels=[full]")[0].startswith("-c policy.levels=[full]: policy.levels: levels must contain")
    assert problems("policy.tau=1", policy="react") == ["-c policy.tau=1: unknown key 'policy.tau'"]
    assert problems("dialect=latin")[0].startswith("-c dialect=latin: dialect: unknown dialect: choose from guided, ")
    (deep,) = problems("backbone.sampling.temprature=1")
    assert deep.endswith("unknown key 'backbone.sampling.temprature'; did you mean 'backbone.sampling.temperature'?")
    assert problems("memory=3")[0].startswith("-c memory=3: memory: ")


def test_bad_choices_list_what_there_is() -> None:
    assert problems(policy="pacee")[0].startswith("--policy: unknown policy 'pacee': choose from ")
    assert "; did you mean 'pace'" in problems(policy="pacee")[0]
    assert problems("profile=papr")[0].startswith("-c profile=papr: unknown profile 'papr'")
    assert problems(backbone="gpt")[0].startswith("--backbone: unknown backbone 'gpt': choose from ")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("x", "-c x: must look like key.path=value"),
        ("=1", "-c =1: must look like key.path=value"),
        ("a..b=1", "-c a..b=1: must look like key.path=value"),
        ("a=[1", "-c a=[1:1: not readable as YAML"),
    ],
)
def test_bad_options(option: str, message: str) -> None:
    assert problems(option)[0].startswith(message)


def test_bad_files(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    assert problems(file=own) == [f"--config {own}: cannot be read: No such file or directory"]
    own.write_text("- a\n")
    assert problems(file=own) == [f"{own}: must be a mapping of keys to values, not list"]
    own.write_text("memory: {recent: 1}\nmemory: {recent: 2}\n")
    assert problems(file=own) == [f"{own}:2: not readable as YAML: the key 'memory' stands twice"]
    own.write_bytes(b"\xff\xfe")
    assert problems(file=own) == [f"--config {own}: cannot be read: not UTF-8 text"]
    own.write_text("")
    assert load(file=own) == load()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 5000, "x: nested too deeply"),
        ("[" * 40 + "]" * 40, "x: nested too deeply"),
        ("memory: &m {budget: *m}", "x: nested too deeply"),
        (
            "a: &a 0\n" + "".join(f"{b}: &{b} [{f'*{a}, ' * 9}]\n" for a, b in pairwise("abcdefgh")),
            "x: more than 100,000 values",
        ),
        ("policy: {lambda: 1e400}", "x:1: not readable as YAML: a number is too large"),
        ("limits: {max_steps: " + "9" * 5000 + "}", "x:1: not readable as YAML: a number is too large"),
    ],
    ids=["deep", "nested", "endless", "bomb", "infinite", "long"],
)
def test_hostile_yaml_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_yaml(text, "x")
    assert refused.value.problems == (said,)


def test_yaml_is_read_as_written() -> None:
    text = "[off, on, no, 2024-01-01, 012, 1:30, true, null, 1.5, -3, 1e-3, '1']"
    expected = ["off", "on", "no", "2024-01-01", 12, "1:30", True, None, 1.5, -3, 0.001, "1"]
    assert parse_yaml(text, "x") == expected


def test_a_stored_configuration_comes_back_whole() -> None:
    config = load("policy.tau=0.4", profile="paper", policy="pace-no-pressure")
    text = json.dumps(config_tree(config))
    assert stored_config(json.loads(text), "session") == config
    with pytest.raises(ConfigError, match=r"session: unknown key 'memory\.gone'"):
        stored_config({**config_tree(config), "memory": {"gone": 1}}, "session")


def test_the_hash_is_of_what_matters() -> None:
    assert config_hash(load()) == config_hash(load())
    assert config_hash(load(policy="pace-no-softmax")) == config_hash(load("policy.tau=1.0"))
    assert config_hash(load()) != config_hash(load("policy.tau=0.31"))
    assert len(config_hash(load())) == 64


trees = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
mappings = st.dictionaries(st.sampled_from("abc"), trees, max_size=3)


@given(st.lists(mappings, min_size=1, max_size=4))
def test_merging_knows_the_last_writer_of_every_leaf(given_trees: list[dict[str, object]]) -> None:
    layers = [Layer(f"layer {number}", tree) for number, tree in enumerate(given_trees)]  # type: ignore[arg-type]
    merged = merge(layers)
    assert merge([*layers, Layer("again", merged.tree)]).tree == merged.tree
    for path, origin in merged.origins.items():
        value: object = merged.tree
        written: object = layers[int(origin.split()[1])].tree
        for key in path:
            assert isinstance(value, dict)
            assert isinstance(written, dict)
            value, written = value[key], written[key]
        assert value == written
        assert not isinstance(value, dict)


def test_an_option_is_a_nested_layer() -> None:
    assert option_layer("a.b.c={x: [1, off]}").tree == {"a": {"b": {"c": {"x": [1, "off"]}}}}
    assert option_layer("a=").tree == {"a": None}
