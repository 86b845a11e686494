"""The one place where environment variables are read.

A secret is read once, wrapped so that it cannot be printed by accident, and (by the command line) taken out of the
process environment, so that no child process and no traceback of a library can show it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from memory.store.address import Address, is_address

ALIASES: Mapping[str, str] = {
    "OPENAI_API_BASE": "OPENAI_BASE_URL",
    "SERPER_KEY_ID": "SERPER_API_KEY",
    "JINA_API_KEYS": "JINA_API_KEY",
    "BRAVE_SEARCH_API_KEY": "BRAVE_API_KEY",
    "SEARXNG_BASE_URL": "SEARXNG_URL",
    "SEARXNG_API_BASE": "SEARXNG_URL",
}
"""Other names of the same thing; the name on the right wins when both are set."""
SETTINGS: tuple[str, ...] = (
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "ANTHROPIC_BASE_URL",
    "SEARXNG_URL",
    "SEARXNG_BASE_URL",
    "SEARXNG_API_BASE",
    "SERPER_BASE_URL",
    "TAVILY_BASE_URL",
    "BRAVE_BASE_URL",
    "EXA_BASE_URL",
    "JINA_BASE_URL",
    "SANDBOX_FUSION_ENDPOINT",
    "E2B_API_URL",
    "E2B_SANDBOX_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "NO_COLOR",
)
KEYS: tuple[str, ...] = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
    "SERPER_API_KEY",
    "TAVILY_API_KEY",
    "BRAVE_API_KEY",
    "EXA_API_KEY",
    "JINA_API_KEY",
    "E2B_API_KEY",
)
"""Keys that `doctor` reports on; any other variable that looks like a secret is read as well."""
HOME = "LONGSTRIDE_HOME"
STORE = "LONGSTRIDE_STORE"
"""Address of the database in which new sessions begin, and old ones are looked for after those on the disk."""
HARMLESS: tuple[str, ...] = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
"""What programs that are started for a run see of our environment."""
T = TypeVar("T")
_SECRET = re.compile(r"(_KEYS?|_KEY_ID|_TOKEN|_SECRET|_PASSWORD)$")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


class Secret:
    """A value that shows as ``***`` wherever it is printed, formatted or logged."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "***"


@dataclass(frozen=True, slots=True)
class Environment:
    """What the process environment and ``.env`` say. ``home``: where sessions and caches live."""

    home: Path
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, Secret] = field(default_factory=dict)
    """Everything else, for programs that are given a variable by its name."""

    def secret(self, name: str) -> str | None:
        """A key by any of its names, revealed; None when unset or empty. Of several keys, the first."""
        found = self.secrets.get(ALIASES.get(name, name))
        return found.reveal() if found else None

    def setting(self, name: str) -> str | None:
        """An address or a switch by any of its names; None when unset or empty."""
        return self.settings.get(ALIASES.get(name, name))

    def given(self, name: str) -> str | None:
        """Any variable at all, revealed; None when unset or empty."""
        other = self.others.get(name)
        return self.secret(name) or self.setting(name) or (other.reveal() if other else None)

    def variables(self) -> dict[str, str]:
        """Everything by its proper name, secrets revealed: for the factory that makes a client, and nothing else."""
        return {
            HOME: str(self.home),
            **self.settings,
            **{name: secret.reveal() for name, secret in self.secrets.items()},
        }


def read_environment(variables: Mapping[str, str] | None = None, folder: Path | None = None) -> Environment:
    """Read ``variables`` (the process environment by default) over ``.env`` of ``folder`` (the working folder).

    A variable that is set, even to nothing, wins over the file; empty values count as unset.
    """
    own = os.environ if variables is None else variables
    merged = {**_dotenv((folder or Path.cwd()) / ".env"), **own}
    values = {name: value.strip() for name, value in merged.items() if value.strip()}
    secrets = {name: Secret(_first(name, value)) for name, value in values.items() if _SECRET.search(name)}
    settings = {name: values[name] for name in SETTINGS if name in values}
    secrets |= _store_passwords(values)
    others = {name: Secret(value) for name, value in values.items() if not {name} & (secrets.keys() | settings.keys())}
    return Environment(_home(values.get(HOME)), _with_aliases(secrets), _with_aliases(settings), others)


def _store_passwords(values: Mapping[str, str]) -> dict[str, Secret]:
    """Passwords of databases, to be cut out of what is said; the driver reads its own variable by itself."""
    found = {"PGPASSWORD": values["PGPASSWORD"]} if "PGPASSWORD" in values else {}
    if is_address(values.get(STORE, "")):
        passwords = Address(values[STORE].partition("#")[0]).passwords
        found |= {f"{STORE}_{place}_PASSWORD": password for place, password in enumerate(passwords)}
    return {name: Secret(password) for name, password in found.items()}


def forget_secrets(variables: MutableMapping[str, str] | None = None) -> tuple[str, ...]:
    """Remove everything that looks like a secret from the process environment; returns the names.

    For the command line, after `read_environment`; a host that embeds us keeps its own environment.
    """
    own = os.environ if variables is None else variables
    names = tuple(name for name in own if _SECRET.search(name) or name == STORE)
    for name in names:
        del own[name]
    return names


def looks_secret(name: str) -> bool:
    """Whether a variable of this name is taken for a secret."""
    return _SECRET.search(name) is not None


def harmless(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a program that is started for a run, before anything is added to it."""
    own = os.environ if variables is None else variables
    return {name: own[name] for name in HARMLESS if name in own}


def _with_aliases(values: Mapping[str, T]) -> dict[str, T]:
    """Every value under its proper name; the proper name's own value wins."""
    return {ALIASES[name]: value for name, value in values.items() if name in ALIASES} | {
        name: value for name, value in values.items() if name not in ALIASES
    }


def _first(name: str, value: str) -> str:
    return re.split(r"[,\s]+", value)[0] if name.endswith("_KEYS") else value


def _home(value: str | None) -> Path:
    if value:
        return Path(value).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("longstride", appauthor=False)


def _dotenv(path: Path) -> dict[str, str]:
    """``NAME=value`` lines; ``export``, quotes and trailing comments understood; other lines belong to other tools."""
    try:
        text = path.read_text("utf-8-sig", "replace")
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match:
            found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(value: str) -> str:
    quoted = re.match(r"""(['"])(.*?)\1\s*(?:#.*)?$""", value)
    return quoted[2] if quoted else re.split(r"\s+#|^#", value, maxsplit=1)[0].strip()
