"""RBAC over the store: who may do what, by Roles, ClusterRoles and their bindings.

Roles and bindings are compiled as they change, one at a time. A decision is a lookup by (user, verb, group, resource,
subresource, namespace); its value is yes, no, or the set of object names it is limited to, so the table does not grow
with the number of objects. Any change of RBAC objects empties the table. Aggregated ClusterRoles are evaluated here
from the labels of the roles they gather, so they are right at once, whoever fills in their `rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelSelector
from tarmac.server.reader import decode
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.rules import Rule
from tarmac.server.security.users import User
from tarmac.store.interface import Event, Store

GROUP = "rbac.authorization.k8s.io"
_ROLES = f"{GROUP}/roles"
_CLUSTER_ROLES = f"{GROUP}/clusterroles"
_ROLE_BINDINGS = f"{GROUP}/rolebindings"
_CLUSTER_ROLE_BINDINGS = f"{GROUP}/clusterrolebindings"
_MOST_USERS = 10_000

Decision = bool | frozenset[str]
Kind = tuple[str, str, str, str, str]  # verb, group, resource, subresource, namespace


@dataclass(frozen=True, slots=True)
class _Role:
    name: str
    labels: dict[str, str]
    rules: tuple[Rule, ...]
    gathers: tuple[LabelSelector, ...]  # aggregationRule


@dataclass(frozen=True, slots=True)
class _Binding:
    name: str
    namespace: str  # empty: cluster-wide
    role_kind: str
    role_name: str
    subjects: tuple[tuple[str, str], ...]  # key to look up by, description


class Rbac:
    """The compiled policy. `start` loads it and follows changes until `stop`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._roles: dict[str, _Role] = {}  # "namespace/name", or "name" of a ClusterRole
        self._bindings: dict[tuple[str, str], _Binding] = {}  # by bucket and key
        self._by_subject: dict[str, dict[tuple[str, str], _Binding]] = {}
        self._effective: dict[str, tuple[Rule, ...]] = {}
        self._decisions: dict[User, dict[Kind, Decision]] = {}
        self._unsubscribe: list[Any] = []

    def start(self) -> None:
        """Load everything and follow it."""
        for bucket in (_ROLES, _CLUSTER_ROLES, _ROLE_BINDINGS, _CLUSTER_ROLE_BINDINGS):
            for entry in self._store.list(bucket).entries:
                self._put(bucket, entry.name, decode(entry))
            self._unsubscribe.append(self._store.subscribe(bucket, self._changed))

    def stop(self) -> None:
        """Follow no longer."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def allows(self, user: User, info: RequestInfo) -> bool:
        """Whether some binding lets the user do it."""
        if not info.is_resource:
            return any(rule.matches(info) for rule in self._rules_of(user, ""))
        decisions = self._decisions.get(user)
        if decisions is None:
            if len(self._decisions) >= _MOST_USERS:
                self._decisions.clear()
            decisions = self._decisions[user] = {}
        kind = (info.verb, info.group, info.resource, info.subresource, info.namespace)
        decision = decisions.get(kind)
        if decision is None:
            decision = decisions[kind] = self._decide(user, kind)
        return decision if isinstance(decision, bool) else info.name in decision

    def _decide(self, user: User, kind: Kind) -> Decision:
        verb, group, resource, subresource, namespace = kind
        names: set[str] = set()
        for rule in self._rules_of(user, namespace):
            if rule.matches_kind(verb, group, resource, subresource):
                if not rule.names:
                    return True
                names |= rule.names
        return frozenset(names) or False

    def rules_for(self, user: User, namespace: str) -> list[Rule]:
        """Every rule that applies to the user in a namespace (empty: cluster-wide ones only)."""
        return list(self._rules_of(user, namespace))

    def reason(self, user: User, info: RequestInfo) -> str:
        """Which binding allows the request, or what is wrong with bindings that could have."""
        problems: list[str] = []
        for description, binding in self._bindings_of(user, info.namespace):
            rules = self.role_rules(binding.role_kind, binding.role_name, binding.namespace)
            if rules is None:
                problems.append(_role_missing(binding))
            elif any(rule.matches(info) for rule in rules):
                return f"RBAC: allowed by {_describe(binding)} to {description}"
        if not problems:
            return ""
        return f"RBAC: {problems[0] if len(problems) == 1 else '[' + ', '.join(problems) + ']'}"

    def role_rules(self, kind: str, name: str, namespace: str) -> Sequence[Rule] | None:
        """The rules a role reference stands for; None when there is no such role."""
        key = name if kind == "ClusterRole" else f"{namespace}/{name}"
        role = self._roles.get(key)
        if role is None:
            return None
        if not role.gathers:
            return role.rules
        rules = self._effective.get(key)
        if rules is None:
            rules = self._effective[key] = tuple(self._gather(role, set()))
        return rules

    def _gather(self, role: _Role, visited: set[str]) -> Iterator[Rule]:
        visited.add(role.name)
        yield from role.rules
        for other in self._roles.values():
            chosen = other.name not in visited and any(selector.matches(other.labels) for selector in role.gathers)
            if chosen and "/" not in other.name:
                yield from self._gather(other, visited)

    def _rules_of(self, user: User, namespace: str) -> Iterator[Rule]:
        for _, binding in self._bindings_of(user, namespace):
            yield from self.role_rules(binding.role_kind, binding.role_name, binding.namespace) or ()

    def _bindings_of(self, user: User, namespace: str) -> Iterator[tuple[str, _Binding]]:
        for subject in (f"User {user.name}", *[f"Group {group}" for group in user.groups]):
            for binding in self._by_subject.get(subject, {}).values():
                if not binding.namespace or binding.namespace == namespace:
                    yield dict(binding.subjects)[subject], binding

    def _changed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "DELETED":
                self._remove(event.bucket, event.entry.name)
            else:
                self._put(event.bucket, event.entry.name, decode(event.entry))
        self._effective.clear()
        self._decisions.clear()

    def _put(self, bucket: str, name: str, obj: JsonObject) -> None:
        if bucket in (_ROLES, _CLUSTER_ROLES):
            self._roles[name] = _compile_role(name, obj)
            return
        self._remove(bucket, name)
        binding = _compile_binding(obj)
        self._bindings[bucket, name] = binding
        for subject, _ in binding.subjects:
            self._by_subject.setdefault(subject, {})[bucket, name] = binding

    def _remove(self, bucket: str, name: str) -> None:
        if bucket in (_ROLES, _CLUSTER_ROLES):
            self._roles.pop(name, None)
            return
        binding = self._bindings.pop((bucket, name), None)
        for subject, _ in binding.subjects if binding else ():
            bindings = self._by_subject[subject]
            bindings.pop((bucket, name), None)
            if not bindings:
                del self._by_subject[subject]


def _compile_role(key: str, obj: JsonObject) -> _Role:
    selectors = (obj.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    return _Role(
        name=key,
        labels=obj["metadata"].get("labels") or {},
        rules=tuple(Rule(rule) for rule in obj.get("rules") or ()),
        gathers=tuple(LabelSelector.from_object(selector) for selector in selectors),
    )


def _compile_binding(obj: JsonObject) -> _Binding:
    metadata, reference = obj["metadata"], obj["roleRef"]
    namespace = metadata.get("namespace", "")
    subjects = [_compile_subject(subject, namespace) for subject in obj.get("subjects") or ()]
    return _Binding(
        name=metadata["name"],
        namespace=namespace,
        role_kind=reference["kind"],
        role_name=reference["name"],
        subjects=tuple(dict(reversed([each for each in subjects if each is not None])).items()),
    )


def _compile_subject(subject: JsonObject, binding_namespace: str) -> tuple[str, str] | None:
    kind, name = subject["kind"], subject["name"]
    if kind in ("User", "Group"):
        return f"{kind} {name}", f'{kind} "{name}"'
    namespace = subject.get("namespace") or binding_namespace
    if kind != "ServiceAccount" or not namespace:
        return None
    return f"User system:serviceaccount:{namespace}:{name}", f'ServiceAccount "{name}/{namespace}"'


def _describe(binding: _Binding) -> str:
    role = f'{binding.role_kind} "{binding.role_name}"'
    if binding.namespace:
        return f'RoleBinding "{binding.name}/{binding.namespace}" of {role}'
    return f'ClusterRoleBinding "{binding.name}" of {role}'


def _role_missing(binding: _Binding) -> str:
    return f'{binding.role_kind.lower()}.{GROUP} "{binding.role_name}" not found'
