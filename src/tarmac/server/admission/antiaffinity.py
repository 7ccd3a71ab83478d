"""CrossNamespaceAntiAffinity: required anti-affinity against Pods of other namespaces requires rights there.

Required anti-affinity works in both directions: while a Pod with it runs, no Pod that it selects is scheduled into its
topology domain. With `namespaceSelector: {}` and a region as the domain, one Pod would stop the scheduling of all
tenants there. So its author must be allowed to create Pods in the selected namespaces. Kubernetes allows it to
everyone. Anti-affinity within the own namespace, preferred anti-affinity and affinity concern no other namespace.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelSelector
from tarmac.server.admission.chain import Attributes
from tarmac.server.admission.pods import PodCreation, pod_of
from tarmac.server.admission.refusal import refuse
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorize import Authorizer

_NAME_LABEL = "kubernetes.io/metadata.name"
_EVERYWHERE = ""
_TERMS = ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


class CrossNamespaceAntiAffinity(PodCreation):
    """Checks new Pods; the terms of a Pod are immutable."""

    name = "CrossNamespaceAntiAffinity"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attributes: Attributes) -> None:
        terms = objects(pod_of(attributes)["spec"], *_TERMS)
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


def _namespaces(term: JsonObject) -> Iterator[str]:
    yield from term.get("namespaces") or ()
    if term.get("namespaceSelector") is not None:
        selector = LabelSelector.from_object(mapping(term, "namespaceSelector"))
        yield selector.exact(_NAME_LABEL) or _EVERYWHERE
