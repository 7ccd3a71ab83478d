"""The file that lists the providers in order: a SizingProviderConfig, in YAML or JSON, parsed strictly.

All errors of the file are reported at once, with their paths. A provider's environment may contain secrets, so values
are never shown.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.sizing.trust import Untrusted, trusted
from tarmac.api.status import TooLarge

FLAG: Final = "--sizing-provider-config"
API_VERSION: Final = "kubelet.config.k8s.io/v1alpha1"
KIND: Final = "SizingProviderConfig"
EXEC_VERSION: Final = "sizingprovider.kubelet.k8s.io/v1alpha1"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)
_MAX_SHOWN: Final = 100
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SizingProvider:
    """A program to run. `env` is added to the agent's environment."""

    name: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(frozen=True, slots=True)
class SizingProviderConfig:
    """The file's content. `digest`: the SHA-256 of the file, which identifies its version."""

    providers: tuple[SizingProvider, ...]
    digest: str


def read_config(path: Path, user: int) -> SizingProviderConfig:
    """Read and validate the file. Raises BadConfig with all errors."""
    try:
        body = _content(trusted(path, user))
        return SizingProviderConfig(decode(body), hashlib.sha256(body).hexdigest())
    except Untrusted as error:
        raise BadConfig(f"{FLAG}: {error}") from error
    except BadConfig as error:
        raise BadConfig(f"{FLAG}: {path}: {error}") from error


def decode(body: bytes) -> tuple[SizingProvider, ...]:
    """Return the providers of a file. Raises BadConfig."""
    document, findings = _parsed(body)
    findings += _findings(document)
    if findings:
        raise BadConfig("; ".join(findings))
    return tuple(_provider(each) for each in document["providers"])


def quoted(value: Any) -> str:
    """Return a user's value on one line, truncated."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _content(path: Path) -> bytes:
    try:
        # O_NONBLOCK: opening a pipe must not wait for a writer
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise BadConfig("is not a regular file")
            body = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise BadConfig(error.strerror or str(error)) from error
    if len(body) > _MAX_BYTES:
        raise BadConfig(f"is larger than {_MAX_BYTES} bytes")
    return body


def _parsed(body: bytes) -> tuple[Any, list[str]]:
    # imported here: an agent without providers saves a megabyte of parsers
    from tarmac.api.decode.jsontext import Malformed
    from tarmac.api.decode.yamltext import parse_yaml

    try:
        found = parse_yaml(body)
    except Malformed as error:
        raise BadConfig(f"is neither YAML nor JSON: {error}") from error
    except TooLarge as error:
        raise BadConfig("holds more values than a list of providers can have") from error
    findings = list(found.repeated)
    if not body.lstrip().startswith(b"{") and _documents(body) > 1:
        findings.append("holds more than one document; write one")
    return found.value, findings


def _documents(body: bytes) -> int:
    import yaml

    try:
        return sum(isinstance(event, yaml.DocumentStartEvent) for event in yaml.parse(body, yaml.CSafeLoader))
    except yaml.YAMLError:
        return 2  # the first is well-formed: there is more after it


def _findings(document: Any) -> Iterator[str]:
    if not isinstance(document, dict):
        yield "expected a mapping with apiVersion, kind and providers"
        return
    yield from _unknown("", document, ("apiVersion", "kind", "providers"))
    yield from _exactly("apiVersion", document.get("apiVersion"), API_VERSION)
    yield from _exactly("kind", document.get("kind"), KIND)
    providers = document.get("providers")
    if not isinstance(providers, list) or not providers:
        yield "providers: expected a list with at least one provider"
        return
    names: set[str] = set()
    for index, provider in enumerate(providers):
        path = f"providers[{index}]"
        yield from _provider_findings(path, provider)
        name = provider.get("name") if isinstance(provider, dict) else None
        if isinstance(name, str) and name in names:
            yield f"{path}.name: {quoted(name)} is there twice; each provider is named once"
        names |= {name} if isinstance(name, str) else set()


def _provider_findings(path: str, provider: Any) -> Iterator[str]:
    if not isinstance(provider, dict):
        yield f"{path}: expected a mapping with name, apiVersion, args and env"
        return
    yield from _unknown(f"{path}.", provider, ("name", "apiVersion", "args", "env"))
    name = provider.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield (
            f"{path}.name: expected the name of a file in --sizing-provider-bin-dir: 1 to 255 letters, digits, "
            f"'.', '_' and '-', beginning with a letter or digit; found {quoted(name)}"
        )
    yield from _exactly(f"{path}.apiVersion", provider.get("apiVersion"), EXEC_VERSION)
    args = provider.get("args")
    if args is not None and not (isinstance(args, list) and all(map(_passable, args))):
        yield f"{path}.args: expected a list of texts; write numbers and true in quotes"
    yield from _environment_findings(f"{path}.env", provider.get("env"))


def _environment_findings(path: str, env: Any) -> Iterator[str]:
    if env is None:
        return
    if not isinstance(env, list):
        yield f"{path}: expected a list of name and value"
        return
    for index, variable in enumerate(env):
        here = f"{path}[{index}]"
        if not isinstance(variable, dict):
            yield f"{here}: expected a mapping with name and value"
            continue
        yield from _unknown(f"{here}.", variable, ("name", "value"))
        name = variable.get("name")
        if not _passable(name) or not name or "=" in name:
            yield f"{here}.name: expected a text that is not empty and has no '=' and no NUL"
        if not _passable(variable.get("value", "")):
            yield f"{here}.value: expected a text without NUL; write numbers and true in quotes"


def _passable(value: Any) -> bool:
    """Return True for a text without NUL, which can be passed to a program."""
    return isinstance(value, str) and "\0" not in value


def _unknown(path: str, found: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[str]:
    for name in found:
        if name not in known:
            yield f"{path}{name}: there is no such field; there are {', '.join(known)}"


def _exactly(path: str, found: Any, expected: str) -> Iterator[str]:
    if found != expected:
        yield f"{path}: expected {expected}, found {'nothing' if found is None else quoted(found)}"


def _provider(found: Mapping[str, Any]) -> SizingProvider:
    # of duplicate names the last wins
    env = {each["name"]: each.get("value", "") for each in found.get("env") or ()}
    return SizingProvider(found["name"], found["apiVersion"], tuple(found.get("args") or ()), env)
