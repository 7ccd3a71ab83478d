"""Format and parser of scenario files.

A scenario lists cities with their nodes, then steps. Each step does one thing: it applies, patches or deletes an
object, injects or repairs a fault, lets time pass, waits for an expectation, or asserts one. Objects are written
`kind/name`, in the namespace `default` unless stated otherwise.
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
from tarmac.sim.nodes.model import NodeModel

_WISHES: Final = ("condition", "field", "gone")


class ScenarioError(ValueError):
    """The file cannot be played as it is."""


class _Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """A part of a scenario; an unknown field is an error."""


class Until(_Strict):
    """An expectation with a timeout: a condition, a field's value, or the object's absence."""

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
    """A pod dials an ExternalService; `seen` is the expected source address outside, empty: it is refused."""

    source: str = msgspec.field(name="from")  # a Pod
    to: str  # an ExternalService
    seen: str = ""
    within: str = "10s"


class OutsideCall(_Strict):
    """A client outside, near a city, calls a Service or Workload; `answered` is the answering city; empty: none."""

    source: str = msgspec.field(name="from")  # near-<city>
    to: str  # a Service or a Workload
    answered: str = ""
    within: str = "10s"


class Jump(_Strict):
    """A jump of a wall clock."""

    clock: str
    by: str


class ScenarioStep(_Strict):
    """One step. Exactly one field is set."""

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
    crash: str = ""  # a controller process
    start: str = ""
    jump: Jump | None = None
    dial: Dial | None = None
    call: OutsideCall | None = None
    load: dict[str, float] | None = None  # requests per second by city

    @property
    def action(self) -> str:
        """The name of the field that is set."""
        return next(name for name in self.__struct_fields__ if getattr(self, name))


class Scenario(_Strict):
    """A simulated cluster and its steps."""

    name: str
    steps: list[ScenarioStep]
    cities: dict[str, int]  # number of nodes in each
    controllers: int = 1  # processes; one leads
    gateways: list[str] = []  # nodes that carry addresses of external services, and announce public ones
    seed: int = 1
    faults: bool = False  # connection faults during the whole scenario
    node_config: SimNodeConfig | None = None  # sizes, classes and devices of all nodes
    city_node_config: dict[str, SimNodeConfig] = {}  # the same of the nodes of single cities, in place of it

    def models(self) -> dict[str, NodeModel]:
        """Return the models of nodes by location, without those of usual nodes. Raises BadNodeConfig."""
        configs = dict.fromkeys(self.cities, self.node_config) | self.city_node_config
        return {city.lower(): model_of(config) for city, config in configs.items() if config is not None}


def read(path: Path) -> Scenario:
    """Read a scenario file. Raises ScenarioError with a text for its author, OSError."""
    try:
        scenario = msgspec.convert(yaml.safe_load(path.read_text()), Scenario)
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8: {error}") from error
    except msgspec.ValidationError as error:
        raise ScenarioError(f"{path}: {error}") from error
    except (RecursionError, ValueError, yaml.YAMLError) as error:  # ValueError: a day such as 2026-99-99
        raise ScenarioError(f"{path}: not YAML: {error}") from error
    try:
        scenario.models()
    except BadNodeConfig as error:
        raise ScenarioError(f"{path}: nodeConfig: {error}") from error
    if strange := sorted(scenario.city_node_config.keys() - scenario.cities.keys()):
        raise ScenarioError(f"{path}: cityNodeConfig: {strange[0]} is none of cities: {', '.join(scenario.cities)}")
    for number, step in enumerate(scenario.steps, 1):
        given = _given(step, step.__struct_fields__)
        if len(given) != 1:
            raise ScenarioError(f"{path}: step {number} must do exactly one thing, not {', '.join(given) or 'nothing'}")
        _check_wish(step, f"{path}: step {number}")
    return scenario


def _given(part: _Strict, names: Iterable[str]) -> list[str]:
    return [name for name in names if getattr(part, name)]


def _check_wish(step: ScenarioStep, where: str) -> None:
    """Reject an expectation that states nothing: it would always hold."""
    wanted = step.until or step.expect
    if wanted is not None and len(given := _given(wanted, _WISHES)) != 1:
        stated = ", ".join(given) or "nothing"
        raise ScenarioError(f"{where}: {step.action} must say one of {', '.join(_WISHES)}, not {stated}")


def seconds(text: str) -> float:
    """Parse a duration such as 1m30s. Raises ScenarioError."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ScenarioError(str(error)) from error


def manifests(given: JsonObject | str, folder: Path) -> list[JsonObject]:
    """Return the objects of an `apply`. Raises ScenarioError, OSError."""
    if not isinstance(given, str):
        return [given]
    try:
        found = [each for each in yaml.safe_load_all((folder / given).read_text()) if each]
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{given}: not UTF-8: {error}") from error
    except (RecursionError, ValueError, yaml.YAMLError) as error:
        raise ScenarioError(f"{given}: not YAML: {error}") from error
    if not all(isinstance(each, dict) for each in found):
        raise ScenarioError(f"{given}: holds something that is no object")
    return found
