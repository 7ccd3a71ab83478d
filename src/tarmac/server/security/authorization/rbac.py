"""RBAC over the store: evaluates Roles, ClusterRoles and their bindings.

Roles and bindings are compiled incrementally as they change. A decision is a lookup by (user, verb, group, resource,
subresource, namespace). Its value is yes, no, or the set of object names it is limited to, so the table does not grow
with the number of objects. A change of a Role or RoleBinding clears the decisions of its namespace only, so a tenant
that keeps changing its roles does not slow down other namespaces; a change of a ClusterRole or ClusterRoleBinding
clears all decisions. Aggregated ClusterRoles are evaluated here from the labels of the roles they select, so they are
correct immediately, regardless of the controller that fills in their `rules`.

A cache miss examines every rule bound in the namespace. That stays cheap because admission limits a namespace to
`MAX_RULES_IN_NAMESPACE` rules and bindings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelMatcher
from tarmac.server.reader import decode
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.rules import PolicyRule
from tarmac.server.security.users import User
from tarmac.store.interface import Event, Store

GROUP = "rbac.authorization.k8s.io"
_ROLES = f"{GROUP}/roles"
_CLUSTER_ROLES = f"{GROUP}/clusterroles"
_ROLE_BINDINGS = f"{GROUP}/rolebindings"
_CLUSTER_ROLE_BINDINGS = f"{GROUP}/clusterrolebindings"
_MAX_DECISIONS = 200_000  # bounded: requests may name arbitrary namespaces, users and kinds
MAX_RULES_IN_NAMESPACE = 5000  # rules of Roles and RoleBindings, together

Decision = bool | frozenset[str]
Kind = tuple[str, str, str, str]  # verb, group, resource, subresource


@dataclass(frozen=True, slots=True)
class _Role:
    name: str
    labels: dict[str, str]
    rules: tuple[PolicyRule, ...]
    gathers: tuple[LabelMatcher, ...]  # aggregationRule


@dataclass(frozen=True, slots=True)
class _Binding:
    name: str
    namespace: str  # empty: cluster-wide
    role_kind: str
    role_name: str
    subjects: dict[str, str]  # key to look up by, and description


class Rbac:
    """The compiled policy. `start` loads it and subscribes to changes until `stop`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._roles: dict[str, _Role] = {}  # by "namespace/name"
        self._cluster_roles: dict[str, _Role] = {}
        self._bindings: dict[tuple[str, str], _Binding] = {}  # by bucket and key
        # by subject and namespace (empty: cluster-wide)
        self._bound: dict[tuple[str, str], dict[tuple[str, str], _Binding]] = {}
        self._effective: dict[str, tuple[PolicyRule, ...]] = {}
        self._decisions: dict[str, dict[User, dict[Kind, Decision]]] = {}  # by namespace
        self._remembered = 0  # decisions added since the table was last emptied by the limit
        self._in_namespace: dict[str, int] = {}  # rules and bindings
        self._unsubscribe: list[Any] = []

    def start(self) -> None:
        """Load all roles and bindings, and subscribe to changes."""
        # Runs without await, so no change is missed between listing and subscribing.
        for bucket in (_ROLES, _CLUSTER_ROLES, _ROLE_BINDINGS, _CLUSTER_ROLE_BINDINGS):
            for entry in self._store.list(bucket).entries:
                self._put(bucket, entry.name, decode(entry))
            self._unsubscribe.append(self._store.subscribe(bucket, self._changed))

    def stop(self) -> None:
        """Unsubscribe from changes."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def allows(self, user: User, info: RequestInfo) -> bool:
        """Return True if some binding allows the request."""
        if not info.is_resource:
            return any(rule.matches(info) for rule in self._rules_of(user, ""))
        kind = (info.verb, info.group, info.resource, info.subresource)
        users = self._decisions.get(info.namespace)
        decisions = None if users is None else users.get(user)
        decision = None if decisions is None else decisions.get(kind)
        if decision is None:
            decision = self._decide(user, kind, info.namespace)
            self._remember(user, info.namespace, kind, decision)
        return decision if isinstance(decision, bool) else info.name in decision

    def _remember(self, user: User, namespace: str, kind: Kind, decision: Decision) -> None:
        # Clients choose namespaces and kinds freely: without the bound, a scan by one of them would fill the memory.
        if self._remembered >= _MAX_DECISIONS:
            self._decisions.clear()
            self._remembered = 0
        self._remembered += 1
        self._decisions.setdefault(namespace, {}).setdefault(user, {})[kind] = decision

    def _decide(self, user: User, kind: Kind, namespace: str) -> Decision:
        names: set[str] = set()
        for rule in self._rules_of(user, namespace):
            if rule.matches_kind(*kind):
                if not rule.names:
                    return True
                names |= rule.names
        return frozenset(names) or False

    def rules_for(self, user: User, namespace: str) -> list[PolicyRule]:
        """Return every rule that applies to the user in a namespace (empty: cluster-wide rules only)."""
        return list(self._rules_of(user, namespace))

    def reason(self, user: User, info: RequestInfo) -> str:
        """Name the binding that allows the request, or the bindings with a missing role."""
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

    def role_rules(self, kind: str, name: str, namespace: str) -> Sequence[PolicyRule] | None:
        """Return the rules of a referenced role, or None if it does not exist."""
        role = self._cluster_roles.get(name) if kind == "ClusterRole" else self._roles.get(f"{namespace}/{name}")
        if role is None:
            return None
        if not role.gathers:
            return role.rules
        rules = self._effective.get(name)
        if rules is None:
            rules = self._effective[name] = tuple(self._gather(role, set()))
        return rules

    def room_in(self, namespace: str) -> int:
        """Return the number of rules and bindings that may still be added to a namespace."""
        return MAX_RULES_IN_NAMESPACE - self._in_namespace.get(namespace, 0)

    def _gather(self, role: _Role, visited: set[str]) -> Iterator[PolicyRule]:
        # Two aggregated roles may select each other: without this they would gather for ever.
        visited.add(role.name)
        yield from role.rules
        if not role.gathers:
            return
        for other in self._cluster_roles.values():
            if other.name not in visited and any(selector.matches(other.labels) for selector in role.gathers):
                yield from self._gather(other, visited)

    def _rules_of(self, user: User, namespace: str) -> Iterator[PolicyRule]:
        seen: set[tuple[str, str, str]] = set()  # examine a role once even if it is bound several times
        for _, binding in self._bindings_of(user, namespace):
            role = (binding.role_kind, binding.role_name, binding.namespace)
            if role not in seen:
                seen.add(role)
                yield from self.role_rules(*role) or ()

    def _bindings_of(self, user: User, namespace: str) -> Iterator[tuple[str, _Binding]]:
        for subject in (f"User {user.name}", *[f"Group {group}" for group in user.groups]):
            for place in ("", namespace) if namespace else ("",):
                for binding in self._bound.get((subject, place), {}).values():
                    yield binding.subjects[subject], binding

    def _changed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "DELETED":
                self._remove(event.bucket, event.entry.name)
            else:
                self._put(event.bucket, event.entry.name, decode(event.entry))
            if event.bucket in (_ROLES, _ROLE_BINDINGS):
                self._decisions.pop(event.entry.name.partition("/")[0], None)
            else:
                # Aggregated roles depend on labels of every ClusterRole, so no change of one leaves a gathered set
                # certain.
                self._effective.clear()
                self._decisions.clear()

    def _put(self, bucket: str, name: str, obj: JsonObject) -> None:
        self._remove(bucket, name)
        if bucket == _CLUSTER_ROLES:
            self._cluster_roles[name] = _compile_role(name, obj)
        elif bucket == _ROLES:
            role = self._roles[name] = _compile_role(name, obj)
            self._count(name, weight(role.rules))
        else:
            self._bind(bucket, name, _compile_binding(obj))

    def _bind(self, bucket: str, name: str, binding: _Binding) -> None:
        self._bindings[bucket, name] = binding
        for subject in binding.subjects:
            self._bound.setdefault((subject, binding.namespace), {})[bucket, name] = binding
        self._count(name, 1)

    def _remove(self, bucket: str, name: str) -> None:
        if bucket == _CLUSTER_ROLES:
            self._cluster_roles.pop(name, None)
        elif bucket == _ROLES:
            role = self._roles.pop(name, None)
            self._count(name, -weight(role.rules) if role else 0)
        elif (binding := self._bindings.pop((bucket, name), None)) is not None:
            for subject in binding.subjects:
                bound = self._bound[subject, binding.namespace]
                del bound[bucket, name]
                if not bound:
                    del self._bound[subject, binding.namespace]
            self._count(name, -1)

    def _count(self, name: str, more: int) -> None:
        """Update the count of a namespace. An entry that reaches zero is removed."""
        namespace, slash, _ = name.partition("/")
        if slash:
            self._in_namespace[namespace] = self._in_namespace.get(namespace, 0) + more
            if not self._in_namespace[namespace]:
                del self._in_namespace[namespace]


def weight(rules: Sequence[Any]) -> int:
    """Return a Role's share of `MAX_RULES_IN_NAMESPACE`: its number of rules, at least one."""
    return max(1, len(rules))


def _compile_role(key: str, obj: JsonObject) -> _Role:
    selectors = (obj.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    return _Role(
        name=key,
        labels=obj["metadata"].get("labels") or {},
        rules=tuple(PolicyRule(rule) for rule in obj.get("rules") or ()),
        gathers=tuple(LabelMatcher.from_object(selector) for selector in selectors),
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
        subjects=dict(reversed([each for each in subjects if each is not None])),
    )


def _compile_subject(subject: JsonObject, binding_namespace: str) -> tuple[str, str] | None:
    kind, name = subject["kind"], subject["name"]
    if kind in ("User", "Group"):
        return f"{kind} {name}", f'{kind} "{name}"'
    namespace = subject.get("namespace") or binding_namespace
    # A ClusterRoleBinding's account has no implied namespace: it matches nothing, as in Kubernetes.
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
