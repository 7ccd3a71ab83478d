"""Creates the default roles and bindings at start, and repairs incomplete ones.

As in Kubernetes: missing rules, subjects, labels and annotations are added and nothing is removed, so an
administrator's additions stay; an object annotated `rbac.authorization.kubernetes.io/autoupdate: "false"` is left
unchanged; a binding to a wrong role is replaced. The one exception: rights that an earlier version granted by mistake
(`policy.REVOKED`) are removed. Several servers may do this concurrently: the second one finds the work done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from tarmac.api.identities import NAMESPACE
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.server.reader import decode
from tarmac.server.security.authorization.controllerpolicy import controller_roles
from tarmac.server.security.authorization.policy import (
    AGGREGATED,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    REVOKED,
    aggregation_label,
)
from tarmac.server.security.authorization.rbac import GROUP
from tarmac.server.security.authorization.rulecoverage import missing_rights
from tarmac.server.security.authorization.rules import PolicyRule
from tarmac.server.security.authorization.stockcontrollers import STOCK_BINDINGS, STOCK_NAMESPACE_BINDINGS, STOCK_ROLES
from tarmac.store.interface import Exists, Missing, RevisionConflict, Store

_AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_BOOTSTRAPPING = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ROLES = f"{GROUP}/clusterroles"
_BINDINGS = f"{GROUP}/clusterrolebindings"
_NAMESPACE_BINDINGS = f"{GROUP}/rolebindings"
_encode = msgspec.json.Encoder().encode
_log = log("rbac")


async def ensure_defaults(store: Store, clock: Clock, randomness: Randomness) -> None:
    """Create or repair every default role and binding. Call after the store has started and before serving."""
    await asyncio.gather(*[_ensure_one(store, bucket, obj, clock, randomness) for bucket, obj in _wanted()])


async def _ensure_one(store: Store, bucket: str, wanted: JsonObject, clock: Clock, randomness: Randomness) -> None:
    with suppress(Exists, Missing, RevisionConflict):  # a different server was faster, with the same defaults
        await _ensure(store, bucket, wanted, clock, randomness)


async def _ensure(store: Store, bucket: str, wanted: JsonObject, clock: Clock, randomness: Randomness) -> None:
    name: str = wanted["metadata"]["name"]
    key = f"{NAMESPACE}/{name}" if bucket == _NAMESPACE_BINDINGS else name
    entry = store.head(bucket, key)
    if entry is not None:
        current = decode(entry)
        if (current["metadata"].get("annotations") or {}).get(_AUTOUPDATE) == "false":
            if _revoke(current):
                _log.warning("default role grants revoked rights and autoupdate is off", role=name)
            return
        if current.get("roleRef") == wanted.get("roleRef"):
            if _repair(current, wanted):
                current["metadata"].pop("resourceVersion", None)
                await store.update(bucket, key, _encode(_finished(current, wanted["kind"])), entry.revision)
            return
        await store.delete(bucket, key, entry.revision)
    wanted["metadata"] |= {"uid": randomness.uuid(), "creationTimestamp": rfc3339(clock.now())}
    await store.create(bucket, key, _encode(wanted))


def _repair(current: JsonObject, wanted: JsonObject) -> bool:
    """Remove revoked rights and add missing parts, in place. Return True if anything changed."""
    changed = _revoke(current)
    for field in ("labels", "annotations"):
        have: dict[str, str] = current["metadata"].setdefault(field, {})
        lacking = {key: value for key, value in wanted["metadata"][field].items() if key not in have}
        have.update(lacking)
        changed |= bool(lacking)
    for field, lacking in (
        ("rules", _missing_rules(current, wanted)),
        ("subjects", _missing_subjects(current, wanted)),
    ):
        if lacking:
            current[field] = [*(current.get(field) or ()), *lacking]
            changed = True
    if "aggregationRule" in wanted and "aggregationRule" not in current:
        current["aggregationRule"] = wanted["aggregationRule"]
        changed = True
    return changed


def _revoke(current: JsonObject) -> bool:
    """Remove revoked resources from every rule that names them, in place. Return True if any rule did."""
    revoked = REVOKED.get(current["metadata"]["name"])
    if revoked is None:
        return False
    group, resources = revoked[0], set(revoked[1].split())
    rules: list[JsonObject] = current.get("rules") or []
    found = [rule for rule in rules if group in _texts(rule, "apiGroups") and resources & {*_texts(rule, "resources")}]
    for rule in found:
        rule["resources"] = [each for each in rule["resources"] if each not in resources]
    if found:
        current["rules"] = [rule for rule in rules if rule.get("resources") or rule.get("nonResourceURLs")]
    return bool(found)


def _texts(rule: JsonObject, field: str) -> list[str]:
    return rule.get(field) or []


def _missing_rules(current: JsonObject, wanted: JsonObject) -> list[Any]:
    owned = [PolicyRule(rule) for rule in current.get("rules") or ()]
    return [rule for rule in wanted.get("rules") or () if missing_rights(owned, [PolicyRule(rule)])]


def _missing_subjects(current: JsonObject, wanted: JsonObject) -> list[Any]:
    owned = current.get("subjects") or ()
    return [subject for subject in wanted.get("subjects") or () if subject not in owned]


def _wanted() -> Iterator[tuple[str, JsonObject]]:
    for name, rules in (CLUSTER_ROLES | STOCK_ROLES).items():
        yield _ROLES, _role(name, rules, _labels_of(name))
    for name, parent in AGGREGATED.items():
        selector = {"matchLabels": {aggregation_label(name): "true"}}
        labels = {aggregation_label(parent): "true"} if parent else {}
        role = _role(name, list(_gathered(name)), labels)
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
        yield _ROLES, _finished(role, "ClusterRole")
    for name, rules, account in controller_roles():
        yield _ROLES, _role(name, rules, {})
        yield _BINDINGS, _binding(name, name, [f"ServiceAccount {NAMESPACE}/{account}"])
    for name, (role_name, subjects) in (CLUSTER_ROLE_BINDINGS | STOCK_BINDINGS).items():
        yield _BINDINGS, _binding(name, role_name, subjects)
    for name, (role_name, subjects) in STOCK_NAMESPACE_BINDINGS.items():
        binding = _binding(name, role_name, subjects)
        binding["metadata"]["namespace"] = NAMESPACE
        yield _NAMESPACE_BINDINGS, _finished(binding, "RoleBinding")


def _labels_of(name: str) -> dict[str, str]:
    target = name.removeprefix("system:aggregate-to-")
    return {aggregation_label(target): "true"} if target in AGGREGATED else {}


def _gathered(name: str) -> Iterator[Any]:
    """Yield the rules of an aggregated role, as its `rules` field shows them."""
    yield from CLUSTER_ROLES[f"system:aggregate-to-{name}"]
    for child, parent in AGGREGATED.items():
        if parent == name:
            yield from _gathered(child)


def _role(name: str, rules: list[Any], labels: dict[str, str]) -> JsonObject:
    return _finished({"metadata": _metadata(name, labels), "rules": rules}, "ClusterRole")


def _binding(name: str, role: str, subjects: list[str]) -> JsonObject:
    binding: JsonObject = {
        "metadata": _metadata(name, {}),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
    }
    if subjects:
        binding["subjects"] = [_subject(subject) for subject in subjects]
    return _finished(binding, "ClusterRoleBinding")


def _subject(text: str) -> JsonObject:
    kind, _, name = text.partition(" ")
    if kind != "ServiceAccount":
        return {"kind": kind, "apiGroup": GROUP, "name": name}
    namespace, _, name = name.partition("/")
    return {"kind": kind, "name": name, "namespace": namespace}


def _metadata(name: str, labels: dict[str, str]) -> JsonObject:
    return {"name": name, "labels": {**_BOOTSTRAPPING, **labels}, "annotations": {_AUTOUPDATE: "true"}}


def _finished(obj: JsonObject, kind: str) -> JsonObject:
    """Move the kind to the end: the server relies on that in stored objects."""
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    return {**obj, "kind": kind, "apiVersion": f"{GROUP}/v1"}
