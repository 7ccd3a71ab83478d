"""StockControllerRestriction: the controllers of kube-controller-manager create only what users have described.

They may create Pods in every namespace, and use every class, since the rights of a template's author were checked. So
an attacker with their credentials could run anything anywhere, unless each object that they create has a controller of
the kind that makes it, and that object's template. They change metadata of Pods and templates, never a spec.

A ControllerRevision is such a template: a StatefulSet's controller creates Pods from it, Tarmac's a WorkloadDeployment.
So users need the right to write ControllerRevisions in all namespaces, which the controllers have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tarmac.api.checks import mapping, objects
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.controllers.templatedpods import differing_fields
from tarmac.server.admission.pods.podplugin import BUCKET as PODS
from tarmac.server.admission.pods.podtemplates import POD_TEMPLATES, template_spec
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.authorization.stockcontrollers import STOCK_USERS

_REVISIONS: Final = "apps/controllerrevisions"
_STATEFUL_SETS: Final = "apps/statefulsets"
# bucket -> kinds of the controllers of its objects, as owner references name them
_MAKERS: Final[dict[str, dict[tuple[str, str], str]]] = {
    PODS: {
        ("apps", "DaemonSet"): "apps/daemonsets",
        ("apps", "ReplicaSet"): "apps/replicasets",
        ("apps", "StatefulSet"): _STATEFUL_SETS,
        ("batch", "Job"): "batch/jobs",
        ("", "ReplicationController"): "core/replicationcontrollers",
    },
    "apps/replicasets": {("apps", "Deployment"): "apps/deployments"},
    "batch/jobs": {("batch", "CronJob"): "batch/cronjobs"},
    _REVISIONS: {("apps", "DaemonSet"): "apps/daemonsets", ("apps", "StatefulSet"): _STATEFUL_SETS},
}


class StockControllerRestriction(AdmissionPlugin):
    """Applies to the service accounts of stock controllers, and to all writers of ControllerRevisions."""

    name = "StockControllerRestriction"

    def __init__(self, reader: Reader, authorizer: Authorizer) -> None:
        self._reader = reader
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        held = resource.bucket in (PODS, _REVISIONS, *POD_TEMPLATES)
        return held and subresource == "" and operation in ("CREATE", "UPDATE")

    def admit(self, attributes: Attributes) -> None:
        # Before other plugins change the object: it is compared with a template that none of them has seen.
        is_revision = attributes.resource.bucket == _REVISIONS
        if attributes.user.name not in STOCK_USERS:
            if is_revision:
                self._check_author(attributes)
        elif attributes.operation == "CREATE":
            self._check_made(attributes)
        elif not is_revision:  # the data of a ControllerRevision is immutable
            _check_unchanged(attributes)

    def _check_author(self, attributes: Attributes) -> None:
        # An update may be a patch: garbage collection patches owner references and may not update.
        verbs = ("create",) if attributes.operation == "CREATE" else ("update", "patch")
        if not any(self._may(attributes, verb) for verb in verbs):
            right = f'the right "{verbs[0]}" on controllerrevisions in all namespaces'
            raise refuse(attributes, f"controllers create Pods from it: it takes {right}; change the owner's template")

    def _may(self, attributes: Attributes, verb: str) -> bool:
        resource = attributes.resource
        wanted = RequestInfo(verb, "", True, resource.group, resource.version, resource.plural, "", "", attributes.name)
        return self._authorizer.refuses(attributes.user, wanted) is None

    def _check_made(self, attributes: Attributes) -> None:
        bucket, owner = self._maker(attributes)
        spec = _spec_of(attributes.resource.bucket, attributes.obj)
        found = [
            differing_fields(spec, template, _claims(bucket, owner, attributes))
            for template in self._templates(attributes, bucket, owner)
        ]
        if all(found):
            raise _refusal(
                attributes, f"{found[0][0]} is not as in the template of {bucket} {owner['metadata']['name']}"
            )

    def _maker(self, attributes: Attributes) -> tuple[str, JsonObject]:
        """Return the bucket and the object of the controller of a new object. Raises Forbidden without one."""
        makers = _MAKERS.get(attributes.resource.bucket, {})
        for reference in objects(attributes.obj, "metadata", "ownerReferences"):
            group = reference.get("apiVersion", "").rpartition("/")[0]
            bucket = makers.get((group, reference.get("kind", "")))
            if not reference.get("controller") or bucket is None:
                continue
            owner = self._reader.get(bucket, f"{attributes.namespace}/{reference.get('name', '')}")
            # With the uid: an owner that was deleted and created anew may have a template by another author.
            if owner is not None and owner["metadata"]["uid"] == reference.get("uid"):
                return bucket, owner
        raise _refusal(attributes, "metadata.ownerReferences names no controller of this namespace that makes it")

    def _templates(self, attributes: Attributes, bucket: str, owner: JsonObject) -> Iterator[JsonObject]:
        yield template_spec(bucket, owner)
        if bucket != _STATEFUL_SETS or attributes.resource.bucket != PODS:
            return
        # During a rollout, Pods of the earlier revision are created again from its ControllerRevision.
        name = mapping(attributes.obj, "metadata", "labels").get("controller-revision-hash", "")
        revision = self._reader.get(_REVISIONS, f"{attributes.namespace}/{name}")
        owners = {each.get("uid") for each in objects(revision, "metadata", "ownerReferences")}
        if owner["metadata"]["uid"] in owners:
            yield _revision_spec(revision)


def _spec_of(bucket: str, obj: JsonObject | None) -> JsonObject:
    if bucket == PODS:
        return mapping(obj, "spec")
    return template_spec(bucket, obj) if bucket in POD_TEMPLATES else _revision_spec(obj)


def _revision_spec(revision: JsonObject | None) -> JsonObject:
    """Return the pod spec in a ControllerRevision; a dict that is no pod spec if its data has any other form.

    The controller reads the data as a patch of its StatefulSet, in which every other field would count as well.
    """
    found: Any = (revision or {}).get("data")
    for key, beside in (("spec", ()), ("template", ()), ("spec", ("metadata", "$patch"))):
        if not isinstance(found, dict) or found.keys() - {key, *beside}:
            return {"data": found}
        found = found.get(key)
    return found if isinstance(found, dict) else {"data": found}


def _claims(bucket: str, owner: JsonObject, attributes: Attributes) -> list[tuple[str, str]]:
    """Return the names of the volumes that a StatefulSet's Pod has for its claims, and those of the claims."""
    if bucket != _STATEFUL_SETS:
        return []
    pod = mapping(attributes.obj, "metadata").get("name", "")
    templates = objects(owner, "spec", "volumeClaimTemplates")
    return [(name, f"{name}-{pod}") for each in templates if (name := mapping(each, "metadata").get("name"))]


def _check_unchanged(attributes: Attributes) -> None:
    bucket = attributes.resource.bucket
    differing = differing_fields(_spec_of(bucket, attributes.obj), _spec_of(bucket, attributes.old))
    if differing:
        raise _refusal(attributes, f"it changes {differing[0]}")


def _refusal(attributes: Attributes, why: str) -> Forbidden:
    name = attributes.user.name.rpartition(":")[2]
    return refuse(attributes, f"{name} creates and keeps Pods only as users described them, and {why}")
