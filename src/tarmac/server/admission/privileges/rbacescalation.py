"""RBACEscalation: no user grants more than they have, for Roles, ClusterRoles and their bindings.

Writing a role requires every permission in it, or the verb `escalate` on it. Binding a role requires every permission
in it, or the verb `bind` on it. An aggregation rule can gather any rule, so it requires all permissions.

It also limits the rules and bindings per namespace, because each uncached decision scans them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import forbidden, not_found
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import MASTERS, Authorizer
from tarmac.server.security.authorization.rbac import GROUP, MAX_RULES_IN_NAMESPACE, weight
from tarmac.server.security.authorization.rulecoverage import TooComplex, missing_rights
from tarmac.server.security.authorization.rules import PolicyRule

_EVERYTHING = [
    PolicyRule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
    PolicyRule({"verbs": ["*"], "nonResourceURLs": ["*"]}),
]
_ROLES = ("roles", "clusterroles")
_COLLECTOR_FIELDS = ("finalizers", "ownerReferences", "managedFields", "resourceVersion")


class RbacEscalation(AdmissionPlugin):
    """Rejects grants of permissions that the user lacks."""

    name = "RBACEscalation"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        """Return True for writes of the four kinds."""
        return resource.group == GROUP and operation in ("CREATE", "UPDATE")

    def validate(self, attributes: Attributes) -> None:
        """Compare the granted permissions with the user's."""
        obj = attributes.obj
        if obj is not None and attributes.resource.namespaced:
            self._check_room(attributes, obj)
        # The garbage collector removes finalizers and owners of roles whose permissions it does not have.
        if obj is None or MASTERS in attributes.user.groups or _is_collecting(obj, attributes.old):
            return
        if attributes.resource.plural in _ROLES:
            self._check_role(attributes, obj)
        else:
            self._check_binding(attributes, obj["roleRef"])

    def _check_room(self, attributes: Attributes, obj: JsonObject) -> None:
        more = _weight(obj) - (_weight(attributes.old) if attributes.old is not None else 0)
        if more > 0 and more > self._authorizer.rbac.room_in(attributes.namespace):
            why = f"a namespace may have {MAX_RULES_IN_NAMESPACE} RoleBindings and rules of Roles"
            raise _refused(attributes, f"{why}, and {attributes.namespace} would have more")

    def _check_role(self, attributes: Attributes, role: JsonObject) -> None:
        plural = attributes.resource.plural
        # As in Kubernetes' check, a create has no name.
        name = attributes.name if attributes.operation == "UPDATE" else ""
        if self._may(attributes, "escalate", plural, name):
            return
        self._check_rights(attributes, [PolicyRule(rule) for rule in role.get("rules") or ()])
        if _gathers(role) or _gathers(attributes.old):
            namespace_rules = self._authorizer.rules_for(attributes.user, attributes.namespace)
            if missing_rights(namespace_rules, _EVERYTHING):
                raise _refused(attributes, "must have cluster-admin privileges to use the aggregationRule")

    def _check_binding(self, attributes: Attributes, reference: JsonObject) -> None:
        kind, name = reference["kind"], reference["name"]
        plural = "clusterroles" if kind == "ClusterRole" else "roles"
        if self._may(attributes, "bind", plural, name):
            return
        rules = self._authorizer.rbac.role_rules(kind, name, attributes.namespace)
        if rules is None:
            raise not_found(GROUP, attributes.resource.plural, name)  # for the role, worded as in Kubernetes
        self._check_rights(attributes, rules)

    def _check_rights(self, attributes: Attributes, granted: Iterable[PolicyRule]) -> None:
        user = attributes.user
        owned = self._authorizer.rules_for(user, attributes.namespace)
        try:
            missing = missing_rights(owned, granted)
        # The comparison of rules can grow exponentially, and clients write both sides: `missing_rights` gives up in
        # time.
        except TooComplex:
            why = "the rules are too many and too different to be compared with those you have: grant fewer at once"
            raise _refused(attributes, why) from None
        if missing:
            groups = " ".join(f'"{group}"' for group in user.groups)
            listed = "\n".join(missing)
            text = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:'
            raise _refused(attributes, f"{text}\n{listed}")

    def _may(self, attributes: Attributes, verb: str, plural: str, name: str) -> bool:
        info = RequestInfo(verb, "", True, GROUP, "*", plural, "", attributes.namespace, name)
        return self._authorizer.refuses(attributes.user, info) is None


def _refused(attributes: Attributes, why: str) -> Exception:
    name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name", "")
    return forbidden(GROUP, attributes.resource.plural, name, why)


def _weight(obj: JsonObject) -> int:
    return weight(obj.get("rules") or ())


def _gathers(role: JsonObject | None) -> bool:
    return bool(role and (role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _is_collecting(new: JsonObject, old: JsonObject | None) -> bool:
    """Return True if an update changes only fields that garbage collection writes, which grants nothing."""
    return old is not None and _without_collector_fields(new) == _without_collector_fields(old)


def _without_collector_fields(obj: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _COLLECTOR_FIELDS}
    return {**obj, "metadata": metadata}
