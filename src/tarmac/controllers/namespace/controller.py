"""The deletion of namespaces, from Terminating to removal.

All content is deleted through discovery, pods first, since other content (Secrets, claims, policies) may be necessary
for them to run safely. The remaining content and the reasons are written into the namespace's conditions. Only when a
pass over every resource finds nothing is the `kubernetes` finalizer removed from the spec; the server then removes the
namespace. A namespace without finalizers is emptied too and then deleted once more; it gets no conditions, since any
write makes the server remove such a namespace.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, MethodNotAllowed, NotFound
from tarmac.base.clock import rfc3339
from tarmac.client.controller import RetryAfter
from tarmac.client.discovery import DiscoveredResource, discover
from tarmac.client.envelope import EnvelopeMetadata, metadata_of
from tarmac.client.errors import ClientError
from tarmac.client.reflector import METADATA_LIST_FORM
from tarmac.client.targets.untyped import NAMESPACES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.namespace.namespaceconditions import NamespaceFindings, conditions

FINALIZER = "kubernetes"
RETRY_SECONDS = 2.0


class NamespaceController:
    """Reconciles by namespace name."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._namespaces = context.client.resource(NAMESPACES)
        self._informer = context.informers.informer(NAMESPACES)
        self._controller = context.controller("namespace", self.reconcile)
        self._controller.watches(self._informer)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, name: str) -> RetryAfter | None:
        """Empty one terminating namespace; retry while any content is left."""
        known = self._informer.cache.item(name)
        if known is None or known.metadata.deletion_timestamp is None:
            return None
        # From the server: the finalizers are written back as a whole below, and a cached list may be outdated.
        namespace = await self._namespaces.get(name)
        finalizers: list[str] = (namespace.get("spec") or {}).get("finalizers") or []
        # The live object decides: the cache may still show a predecessor of the name.
        if "deletionTimestamp" not in namespace["metadata"] or (finalizers and FINALIZER not in finalizers):
            return None
        # Listed from the server, kind by kind: caches hold few kinds, and might lack an object that is created now.
        findings = await self._empty(name)
        if finalizers:
            namespace = await self._explain(namespace, findings)
        if not findings.empty:
            return RetryAfter(RETRY_SECONDS)
        if finalizers:
            # The update carries the version that was read: a finalizer added meanwhile makes it fail, and the pass is
            # repeated.
            namespace["spec"]["finalizers"] = [each for each in finalizers if each != FINALIZER]
            await self._namespaces.update(namespace, subresource="finalize")
        else:
            # By uid: a namespace made again under the name must stay.
            await self._namespaces.delete(name, uid=namespace["metadata"]["uid"])
        return None

    async def _empty(self, namespace: str) -> NamespaceFindings:
        found = await discover(self._client)
        findings = NamespaceFindings(undiscovered=found.failures)
        contents = [each for each in found.with_verbs("delete", "list") if each.target.namespaced]
        contents.sort(key=lambda each: (each.target.group, each.target.plural) != ("", "pods"))
        for served in contents:
            await self._empty_of(served, namespace, findings)
            # Pods first: their Secrets and claims remain until the pods are gone.
            if served.target.plural == "pods" and served.target.group == "" and findings.remaining:
                break
        return findings

    async def _empty_of(self, served: DiscoveredResource, namespace: str, findings: NamespaceFindings) -> None:
        try:
            present = await self._present(served, namespace)
            if not present:
                return
            await self._delete(served, namespace, present)
            # Listed again: objects with a finalizer or a grace period outlive their deletion.
            left = await self._present(served, namespace)
        except (NotFound, MethodNotAllowed):
            return  # no longer served
        except (ApiError, ClientError) as error:
            findings.failures.append(str(error))
            return
        if left:
            findings.remaining[f"{served.target.plural}.{served.target.group}"] = len(left)
            findings.finalizers.update(finalizer for each in left for finalizer in each.finalizers or ())

    async def _present(self, served: DiscoveredResource, namespace: str) -> list[EnvelopeMetadata]:
        resource = self._client.resource(served.target)
        page = await resource.list_raw(namespace, headers={"accept": METADATA_LIST_FORM})
        return [metadata_of(raw) for raw in page.items]

    async def _delete(self, served: DiscoveredResource, namespace: str, present: list[EnvelopeMetadata]) -> None:
        resource = self._client.resource(served.target)
        if "deletecollection" in served.verbs:
            # Objects created after this are refused, since the namespace is terminating.
            await resource.delete_collection(namespace, propagation="Background")
            return
        for each in present:
            try:
                await resource.delete(each.name, namespace, propagation="Background", uid=each.uid)
            except NotFound:
                continue

    async def _explain(self, namespace: JsonObject, findings: NamespaceFindings) -> JsonObject:
        status: dict[str, Any] = namespace.get("status") or {}
        known = status.get("conditions") or []
        wanted = conditions(findings, known, rfc3339(self._client.clock.now()))
        if wanted == known and status.get("phase") == "Terminating":
            return namespace
        patch = {
            "metadata": {"resourceVersion": namespace["metadata"]["resourceVersion"]},
            "status": {"phase": "Terminating", "conditions": wanted},
        }
        return await self._namespaces.patch(namespace["metadata"]["name"], patch, subresource="status")
