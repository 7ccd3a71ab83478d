"""The format of a scenario file, and reading one.

A scenario names cities and their nodes, then steps. Each step does one thing: it applies, patches or deletes an object,
breaks or mends something, lets time pass, waits until something is so, or insists that something is so. Objects are
written `kind/name`, of the namespace `default` unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from tarmac.api.schema import JsonObject
from tarmac.base.duration import parse_duration
from tarmac.sim.nodes.configuration import BadNodeConfig, SimNodeConfig, model_of

_WISHES: Final = ("condition", "field", "gone")


class ScenarioError(ValueError):
    """The file cannot be played as it stands."""


class _Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """A part of a scenario; a field that does not exist is an error, not a silence."""


class Until(_Strict):
    """Something that must come true in time: a condition, a field's value, or that the object is gone."""

    object: str
    condition: str = ""
    field: str = ""  # such as status.readyReplicas
    equals: Any = None
    gone: bool = False
    within: str = "10m"


class Patch(_Strict):
    """A merge patch."""

    object: str
    merge: JsonObject


class Dial(_Strict):
    """A pod dials an ExternalService, and which address the outside sees; an empty one: it is refused."""

    source: str = msgspec.field(name="from")  # a Pod
    to: str  # an ExternalService
    seen: str = ""
    within: str = "10s"


class Jump(_Strict):
    """A wall clock that is set."""

    clock: str
    by: str


class Step(_Strict):
    """One thing that happens. Exactly one field is set."""

    say: str = ""
    apply: JsonObject | str | None = None  # a manifest, or the path of one beside the scenario
    patch: Patch | None = None
    delete: str = ""
    wait: str = ""
    until: Until | None = None
    expect: Until | None = None
    kill: str = ""  # a node
    boot: str = ""
    cut: str = ""  # a city
    connect: str = ""
    crash: str = ""  # a process of controllers
    start: str = ""
    jump: Jump | None = None
    dial: Dial | None = None
    load: dict[str, float] | None = None  # requests per second by city

    @property
    def action(self) -> str:
        """The name of the field that is set."""
        return next(name for name in self.__struct_fields__ if getattr(self, name))


class Scenario(_Strict):
    """A planet and its story."""

    name: str
    steps: list[Step]
    cities: dict[str, int]  # nodes in each
    controllers: int = 1  # processes; one leads
    gateways: list[str] = []  # nodes that carry addresses of external services
    seed: int = 1
    faults: bool = False  # a poor network all along
    node_config: SimNodeConfig | None = None  # sizes and classes of all nodes


def read(path: Path) -> Scenario:
    """The scenario in a file. Raises ScenarioError with a text for its author, OSError."""
    try:
        scenario = msgspec.convert(yaml.safe_load(path.read_text()), Scenario)
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8: {error}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}: not YAML: {error}") from error
    except msgspec.ValidationError as error:
        raise ScenarioError(f"{path}: {error}") from error
    try:
        model_of(scenario.node_config or SimNodeConfig())
    except BadNodeConfig as error:
        raise ScenarioError(f"{path}: nodeConfig: {error}") from error
    for number, step in enumerate(scenario.steps, 1):
        given = _given(step, step.__struct_fields__)
        if len(given) != 1:
            raise ScenarioError(f"{path}: step {number} must do exactly one thing, not {', '.join(given) or 'nothing'}")
        _check_wish(step, f"{path}: step {number}")
    return scenario


def _given(part: _Strict, names: Iterable[str]) -> list[str]:
    return [name for name in names if getattr(part, name)]


def _check_wish(step: Step, where: str) -> None:
    """A wish that says nothing would always be granted."""
    wanted = step.until or step.expect
    if wanted is not None and len(given := _given(wanted, _WISHES)) != 1:
        said = ", ".join(given) or "nothing"
        raise ScenarioError(f"{where}: {step.action} must say one of {', '.join(_WISHES)}, not {said}")


def seconds(text: str) -> float:
    """A duration such as 1m30s. Raises ScenarioError."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ScenarioError(str(error)) from error


def manifests(given: JsonObject | str, folder: Path) -> list[JsonObject]:
    """The objects of an `apply`. Raises ScenarioError, OSError."""
    if not isinstance(given, str):
        return [given]
    try:
        found = [each for each in yaml.safe_load_all((folder / given).read_text()) if each]
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{given}: not UTF-8: {error}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{given}: not YAML: {error}") from error
    if not all(isinstance(each, dict) for each in found):
        raise ScenarioError(f"{given}: holds something that is no object")
    return found
