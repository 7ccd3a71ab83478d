"""Compares pod specs with the template that they were made from.

kube-controller-manager decodes a template into Go's types and encodes it again, which drops empty values, and each
controller adds a few fields of its own. Defaults of Pods differ from those of templates. So both sides are reduced to
the fields that decide what runs, with which rights; the rest (amounts, node affinity, tolerations, host names) is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tarmac.api.checks import mapping
from tarmac.api.schema import JsonObject

# A DaemonSet's controller adds node affinity and tolerations, a StatefulSet's the names; LimitRanges the amounts.
_FREE: Final = frozenset({"affinity", "hostname", "resources", "subdomain", "tolerations"})
_CONTAINERS: Final = ("containers", "initContainers")
_COMPLETION_INDEX: Final = "JOB_COMPLETION_INDEX"
# Go leaves these out when they are false or 0; of other fields, such as runAsUser, 0 and absent differ.
_OMITTED_WHEN_EMPTY: Final = frozenset(
    {"hostIPC", "hostNetwork", "hostPID", "hostPort", "initialDelaySeconds", "readOnly", "stdin", "stdinOnce", "tty"}
)
# An empty selector selects everything, an absent one nothing.
_EMPTY_DIFFERS: Final = frozenset({"labelSelector", "namespaceSelector"})


def differing_fields(spec: JsonObject, template: JsonObject, claims: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Return the fields of a pod spec that its template does not have like this. `claims`: volume and claim names."""
    volumes = {name: {"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in claims}
    made, wanted = _reduced(spec, volumes), _reduced(template, dict.fromkeys(volumes))
    return sorted(key for key in made.keys() | wanted.keys() if made.get(key) != wanted.get(key))


def _reduced(spec: JsonObject, claims: dict[str, Any]) -> JsonObject:
    """Return what decides about a pod. Volumes of `claims` are left out; those with a value must equal it."""
    reduced = {key: value for key, value in spec.items() if key not in _FREE}
    affinity = mapping(spec, "affinity")
    reduced["affinity"] = {key: value for key, value in affinity.items() if key != "nodeAffinity"}
    if reduced.get("enableServiceLinks") is True:  # a default of Pods alone
        del reduced["enableServiceLinks"]
    for field in _CONTAINERS:
        containers: list[JsonObject] = spec.get(field) or []
        reduced[field] = [_reduced_container(each, bool(spec.get("hostNetwork"))) for each in containers]
    volumes: list[JsonObject] = spec.get("volumes") or []
    reduced["volumes"] = [each for each in map(_normal, volumes) if not _is_of_a_claim(each, claims)]
    return _normal(reduced)


def _is_of_a_claim(volume: JsonObject, claims: dict[str, Any]) -> bool:
    name = volume.get("name")
    return name in claims and claims[name] in (None, volume)


def _reduced_container(container: JsonObject, host_network: bool) -> JsonObject:
    reduced = {key: value for key, value in container.items() if key != "resources"}
    variables: list[JsonObject] = container.get("env") or []
    reduced["env"] = [each for each in variables if each.get("name") != _COMPLETION_INDEX]
    if host_network:  # Pods get the ports of their containers as ports of the host
        ports: list[JsonObject] = container.get("ports") or []
        reduced["ports"] = [{key: value for key, value in port.items() if key != "hostPort"} for port in ports]
    return reduced


def _normal(value: Any, key: str = "") -> Any:
    """Return a value without the empty parts that Go leaves out."""
    if isinstance(value, dict):
        parts = {name: _normal(each, name) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        return {name: each for name, each in parts.items() if not _is_empty(name, each)}
    if isinstance(value, list):
        return [_normal(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _is_empty(key: str, value: Any) -> bool:
    if value is None or value in ("", []):
        return True
    if value == {}:
        return key not in _EMPTY_DIFFERS
    return not value and key in _OMITTED_WHEN_EMPTY
