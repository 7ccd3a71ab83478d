"""CrossNamespaceAntiAffinity: required anti-affinity against Pods of other namespaces requires rights there.

Required anti-affinity works in both directions: while a Pod with it runs, no Pod that it selects is scheduled into its
topology domain. With `namespaceSelector: {}` and a region as the domain, one Pod would stop the scheduling of all
tenants there. So its author must be allowed to create Pods in the selected namespaces. Kubernetes allows it to
everyone. Stock controllers may create Pods everywhere, so the author of a template is checked, when its terms change.
Anti-affinity within the own namespace, preferred anti-affinity and affinity concern no other namespace.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.checks import mapping, objects
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelMatcher
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET as PODS
from tarmac.server.admission.pods.podplugin import pod_of
from tarmac.server.admission.pods.podtemplates import POD_TEMPLATES, template_spec
from tarmac.server.admission.refusal import refuse
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer

_NAME_LABEL = "kubernetes.io/metadata.name"
_EVERYWHERE = ""
_TERMS = ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


class CrossNamespaceAntiAffinity(AdmissionPlugin):
    """Checks new Pods, whose terms are immutable, and templates on every write."""

    name = "CrossNamespaceAntiAffinity"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        if resource.bucket == PODS:
            return subresource == "" and operation == "CREATE"
        return resource.bucket in POD_TEMPLATES and operation in ("CREATE", "UPDATE")

    def validate(self, attributes: Attributes) -> None:
        terms = _changed_terms(attributes)
        others = {each for term in terms for each in _namespaces(term)} - {attributes.namespace}
        if not others or self._may_create(attributes, _EVERYWHERE):
            return
        for namespace in sorted(others):
            if not self._may_create(attributes, namespace):
                where = f"in namespace {namespace}" if namespace else "in all namespaces"
                raise refuse(
                    attributes,
                    f"spec.{'.'.join(_TERMS)}: it keeps Pods of other namespaces away, which takes the right to create "
                    f"Pods {where}; select the own namespace only, by leaving out namespaces and namespaceSelector",
                )

    def _may_create(self, attributes: Attributes, namespace: str) -> bool:
        wanted = RequestInfo("create", "", True, "", "v1", "pods", "", namespace, "")
        return self._authorizer.refuses(attributes.user, wanted) is None


def _changed_terms(attributes: Attributes) -> list[JsonObject]:
    bucket = attributes.resource.bucket
    if bucket == PODS:
        return objects(pod_of(attributes)["spec"], *_TERMS)
    before, terms = (objects(template_spec(bucket, each), *_TERMS) for each in (attributes.old, attributes.obj))
    return [] if terms == before else terms


def _namespaces(term: JsonObject) -> Iterator[str]:
    yield from term.get("namespaces") or ()
    if term.get("namespaceSelector") is not None:
        selector = LabelMatcher.from_object(mapping(term, "namespaceSelector"))
        yield selector.exact(_NAME_LABEL) or _EVERYWHERE
