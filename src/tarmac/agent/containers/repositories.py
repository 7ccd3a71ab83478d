"""Access of pods to images of the platform's own registry, and the credentials for pulling them.

The node has no rights of its own in the registry. It pulls with the pod's pull secrets, or as the pod's service
account, with a token that is bound to the pod and valid only for the registry. An attacker on a node gets only the
images that its pods may pull.

A pulled image stays on the node. Before a different pod uses it, the API server reviews if that pod's account may pull
it. The review is about the repository named by the pod; a pod that names an image by digest must be able to pull it
from at least one repository.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tarmac.agent.containers.credentials import credentials_for, repository
from tarmac.agent.model.pod import AgentPod
from tarmac.api.compute.machineimage import registry_repository
from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.partial import image_sources
from tarmac.api.repositories import GROUP, PULL, REGISTRY, RESOURCE, Repository, is_own, parse_repository
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import ACCESS_REVIEWS
from tarmac.runtimes.interface import Credentials, Image, ImageRefused, Progress, Runtime
from tarmac.volumes.interface import ObjectSources, SourceUnavailable

_TOKEN_SECONDS: Final = 600


class RepositoryAccess:
    """Creates access reviews at the API server with the node's credentials."""

    def __init__(self, client: Client, sources: ObjectSources) -> None:
        self._reviews = client.resource(ACCESS_REVIEWS)
        self._sources = sources

    async def refusal(self, asked: str, image: Image, pod: AgentPod) -> str:
        """Return the reason why a pod may not use a present image under the requested name; empty if it may.

        Raises SourceUnavailable if the API server cannot be asked.
        """
        why = ""
        for name in guarded(asked, image):
            why = await self._why_not(name, pod)
            if not why:
                return ""
        return why

    async def credentials(self, image: str, pod: AgentPod) -> list[Credentials | None]:
        """Return the credentials to try in order; None stands for an anonymous pull.

        Raises ImageRefused if no credentials can succeed, and SourceUnavailable.
        """
        found: list[Credentials | None] = [*await credentials_for(image, pod, self._sources)]
        name = repository(image)
        if not is_own(name.partition("/")[0]):
            return found or [None]
        if why := await self._why_not(name, pod):
            if not found:
                raise ImageRefused(why)
            return found
        token, _ = await self._sources.token(pod.raw, REGISTRY, _TOKEN_SECONDS)
        return [*found, Credentials(pod.service_account, token)]

    async def for_machine(self, image: str, pod: AgentPod) -> Credentials | None:
        """Return the credentials for a machine image that was uploaded; None for one that comes from elsewhere.

        Raises ImageRefused if the pod's account may not pull it, and SourceUnavailable.
        """
        place = uploaded_to(image, pod.raw)
        if place is None:
            return None
        if why := await self._why_not(f"{REGISTRY}/{place}", pod):
            raise ImageRefused(why)
        token, _ = await self._sources.token(pod.raw, REGISTRY, _TOKEN_SECONDS)
        return Credentials(pod.service_account, token)

    async def _why_not(self, name: str, pod: AgentPod) -> str:
        place = parse_repository(name.partition("/")[2])
        if place is None:
            return f"{name} is no repository: in {REGISTRY} they are called NAMESPACE/NAME"
        if await self._may_pull(place, pod):
            return ""
        needs = f'it needs the verb {PULL} on {RESOURCE}.{GROUP} in the namespace "{place.namespace}"'
        return f'the service account "{pod.namespace}/{pod.service_account}" may not pull from {place}: {needs}'

    async def _may_pull(self, place: Repository, pod: AgentPod) -> bool:
        attributes = {"verb": PULL, "group": GROUP, "resource": RESOURCE} | place._asdict()
        spec: JsonObject = {**account_of(pod), "resourceAttributes": attributes}
        body = {"kind": ACCESS_REVIEWS.kind, "apiVersion": ACCESS_REVIEWS.api_version, "metadata": {}, "spec": spec}
        try:
            return bool((await self._reviews.create(body)).get("status", {}).get("allowed"))
        except (ApiError, ClientError) as error:
            raise SourceUnavailable(f"the API server cannot say who may pull from {place}: {error}") from error


def uploaded_to(image: str, pod: JsonObject) -> Repository | None:
    """Return the repository of a machine image, as the pod's annotation names it; None if it was not uploaded."""
    annotation = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_MACHINE_IMAGES, "{}")
    try:
        spec = image_sources(annotation).get(image)
    except msgspec.MsgspecError:
        return None  # the driver reports it
    return registry_repository(spec.source.url) if spec is not None and spec.source is not None else None


def guarded(asked: str, image: Image) -> list[str]:
    """Return the repositories of a present image; the pod must be able to pull from one. Empty: unrestricted."""
    name = repository(asked)
    if is_own(name.partition("/")[0]):
        return [name]
    known = {repository(each) for each in (*image.tags, *image.digests)}
    own = {each for each in known if is_own(each.partition("/")[0])}
    return [] if name in known or own != known else sorted(own)


def account_of(pod: AgentPod) -> JsonObject:
    """The pod's service account as an access review names it."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{pod.namespace}", "system:authenticated"]
    return {"user": f"system:serviceaccount:{pod.namespace}:{pod.service_account}", "groups": groups}


async def pull_with_each(
    runtime: Runtime,
    name: str,
    credentials: Sequence[Credentials | None],
    progress: Progress | None = None,
    handler: str = "",
) -> Image:
    """Pull with each of the credentials in turn. Raises ImageRefused and RuntimeFault."""
    refused = ImageRefused(f"nothing to show a registry for {name}")
    for each in credentials:
        try:
            pulled = await runtime.pull(name, each, progress=progress, handler=handler)
        # Tried with the next: a registry need not tell wrong credentials from a missing image.
        except ImageRefused as error:
            refused = error
            continue
        image = await runtime.image(name, handler) or await runtime.image(pulled, handler)
        if image is not None:
            return image
        refused = ImageRefused(f"image {name} vanished as soon as it was pulled")
    raise refused
