"""The image and the containers in ``deploy``: read as Docker reads them, and held to what the command line takes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pytest
import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field

from memory.store.address import parse_address
from runners.cli.app import make_app
from runners.environment import HOME, STORE
from runners.service.settings import TOKEN
from tests.test_layout import ROOT

DEPLOY = ROOT / "deploy"
VARIABLE = re.compile(r"\$\{(\w+)")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Build(Strict):
    context: str
    dockerfile: str


class Healthcheck(Strict):
    test: list[str] = Field(min_length=2)
    interval: str = Field(pattern=r"^\d+s$")
    timeout: str = Field(pattern=r"^\d+s$")
    retries: int = Field(ge=1)
    start_period: str = Field("0s", pattern=r"^\d+s$")


class Condition(Strict):
    condition: Literal["service_healthy"]


class Service(Strict):
    """The part of the compose specification that we use."""

    image: str = Field(pattern=r"^[\w./-]+:[\w.-]+$")
    build: Build | None = None
    restart: Literal["unless-stopped"]
    entrypoint: list[str] = []
    command: list[str] = []
    environment: dict[str, str] = {}
    volumes: list[str] = []
    networks: list[str]
    ports: list[str] = []
    depends_on: dict[str, Condition] = {}
    healthcheck: Healthcheck | None = None
    shm_size: str = Field("64mb", pattern=r"^\d+(mb|gb)$")
    security_opt: list[str] = []
    cap_drop: list[str] = []


class Network(Strict):
    internal: bool = False


class Compose(Strict):
    name: str
    services: dict[str, Service]
    networks: dict[str, Network]
    volumes: dict[str, None]


@pytest.fixture(scope="module")
def compose() -> Compose:
    tree = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text("utf-8"))
    networks = {name: value or {} for name, value in tree.pop("networks").items()}
    return Compose(**{key: value for key, value in tree.items() if not key.startswith("x-")}, networks=networks)


def test_what_services_name_is_there(compose: Compose) -> None:
    assert set(compose.services) == {"postgres", "service", "head", "worker"}
    used: set[str] = set()
    for service in compose.services.values():
        assert set(service.networks) <= set(compose.networks)
        for name in service.depends_on:
            assert compose.services[name].healthcheck is not None, f"nobody can tell when {name} is ready"
        used |= {volume.partition(":")[0] for volume in service.volumes if not volume.startswith("/")}
        for port in service.ports:
            assert port.startswith("127.0.0.1:"), "a port is open to loopback only"
        if service.build is not None:
            assert service.cap_drop == ["ALL"]
            assert service.security_opt == ["no-new-privileges:true"]
            assert (DEPLOY / service.build.context / service.build.dockerfile).is_file()
    assert used == set(compose.volumes)


def test_what_has_to_be_secret_is_asked_for_and_nowhere_written(compose: Compose) -> None:
    example = dict(
        line.split("=", 1) for line in (DEPLOY / ".env.example").read_text().splitlines() if line and line[0] != "#"
    )
    assert set(example.values()) == {""}
    values = [value for service in compose.services.values() for value in service.environment.values()]
    assert set(example) == {name for value in values for name in VARIABLE.findall(value)}
    for service in compose.services.values():
        for name, value in service.environment.items():
            if re.search(r"PASSWORD$|TOKEN$", name):
                assert re.fullmatch(r"\$\{\w+:\?.+\}", value), f"{name}: compose has to refuse to start without it"


def test_the_commands_of_services_are_ours(compose: Compose) -> None:
    """Options exist, and the addresses that services call each other by are those that they listen at."""
    serve = compose.services["service"]
    options = {name for p in commands()["serve"].params for name in p.opts}
    assert serve.command[0] == "serve"
    assert {part for part in serve.command if part.startswith("--")} <= options
    assert {TOKEN} <= set(serve.environment)
    host, port = serve.command[serve.command.index("--host") + 1], serve.command[serve.command.index("--port") + 1]
    assert (host, serve.ports) == ("0.0.0.0", [f"127.0.0.1:{port}:{port}"])
    assert serve.healthcheck is not None
    assert f"127.0.0.1:{port}/healthz" in serve.healthcheck.test[-1]
    head, worker = compose.services["head"], compose.services["worker"]
    assert f"--port={worker.command[1].rpartition(':')[2]}" in head.command
    assert worker.command[1].startswith("--address=head:")
    assert worker.environment.items() <= head.environment.items()
    database = compose.services["postgres"].environment
    for user in (head, serve):
        address = parse_address(user.environment[STORE])
        assert (address.url, address.session) == (
            f"postgresql://{database['POSTGRES_USER']}@postgres:5432/{database['POSTGRES_DB']}",
            "",
        )
        assert user.environment["PGPASSWORD"] == database["POSTGRES_PASSWORD"]
        assert "postgres" in user.depends_on
        assert "inside" in user.networks
    assert "shared:/shared" in head.volumes
    assert "shared:/shared" in worker.volumes
    home = environment_of(instructions())[HOME]
    for name in ("service", "head", "worker"):
        assert [v for v in compose.services[name].volumes if v.endswith(home)], f"{name} keeps its caches in its layer"


def commands() -> Mapping[str, Any]:
    """The command line's commands by name."""
    group: Any = typer.main.get_command(make_app())
    return dict(group.commands)


def test_commands_of_the_readme_are_ours() -> None:
    text = (DEPLOY / "README.md").read_text("utf-8").replace("\\\n", " ")
    told = re.findall(r"exec (?:-e \w+ )?head longstride (\w+)(?: (\w+))?([^\n`]*)", text)
    assert {(command, sub) for command, sub, _ in told} >= {
        ("bench", "run"),
        ("bench", "report"),
        ("sessions", "list"),
        ("doctor", ""),
    }
    for command, sub, rest in told:
        found = commands()[command]
        options = {name for p in (found.commands[sub] if sub else found).params for name in p.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as (instruction, arguments)."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def environment_of(steps: list[tuple[str, str]]) -> dict[str, str]:
    return dict(pair.split("=", 1) for name, rest in steps if name == "ENV" for pair in rest.split())


def arguments(steps: list[tuple[str, str]], wanted: str) -> Iterator[str]:
    return (rest for name, rest in steps if name == wanted)


def test_the_image_is_made_with_care() -> None:
    steps = instructions()
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in steps} <= known
    for image in arguments(steps, "FROM"):
        assert re.fullmatch(r"python:3\.\d+-[\w-]+( AS \w+)?", image), "a tag that says which Python"
    for run in arguments(steps, "RUN"):
        if "apt-get install" in run:
            assert "--no-install-recommends" in run
            assert "rm -rf /var/lib/apt/lists/*" in run
            packages = run.partition("--no-install-recommends")[2].partition("&&")[0].split()
            assert all("=" in package for package in packages)
        if re.search(r"\bpip (install|wheel)\b", run):
            assert "--no-cache-dir" in run
    users = list(arguments(steps, "USER"))
    assert users
    assert users[-1] not in ("root", "0")
    for form in ("ENTRYPOINT", "CMD"):
        (given,) = arguments(steps, form)
        assert isinstance(json.loads(given), list), f"{form} in the form that takes no shell"


def test_the_image_has_what_the_wheel_is_made_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    steps = instructions()
    copied = {part for rest in arguments(steps, "COPY") for part in rest.split()[:-1]}
    assert all((ROOT / part).exists() for part in copied)
    needed = {*project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"], project["project"]["readme"]}
    assert needed | {"LICENSE", "pyproject.toml"} <= copied
    (extras,) = re.findall(r"longstride\[([\w,]+)\]", " ".join(arguments(steps, "RUN")))
    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])


def test_docker_reads_it_too() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    named = [line.rstrip("=") for line in (DEPLOY / ".env.example").read_text().splitlines() if line.endswith("=")]
    told = subprocess.run(
        [docker, "compose", "-f", str(DEPLOY / "docker-compose.yml"), "config", "--quiet"],
        env={**os.environ, **dict.fromkeys(named, "sixteen-characters")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
