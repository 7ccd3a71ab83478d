"""Which pods may have which images of the platform's own registry, and what a registry is shown to pull them.

The node has no right of its own there. It pulls with the pod's pull secrets, or as the pod's service account, with a
token that is bound to the pod and good for the registry only; whoever takes a node over gets what its pods may get.

An image stays on the node when it was pulled for somebody. Before another pod is given it, the API server is asked
whether that pod's account may pull it. What counts is the repository that the pod names; one who names an image by its
digest must be able to pull it from somewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tarmac.agent.containers.credentials import credentials_for, repository
from tarmac.agent.model.pod import Pod
from tarmac.api.repositories import GROUP, PULL, REGISTRY, RESOURCE, Repository, is_own, parse_repository
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import ACCESS_REVIEWS
from tarmac.runtimes.interface import Credentials, Image, ImageRefused, Progress, Runtime
from tarmac.volumes.interface import Sources, SourceUnavailable

_TOKEN_SECONDS: Final = 600


class RepositoryAccess:
    """Asks the API server, as the node."""

    def __init__(self, client: Client, sources: Sources) -> None:
        self._reviews = client.resource(ACCESS_REVIEWS)
        self._sources = sources

    async def refusal(self, asked: str, image: Image, pod: Pod) -> str:
        """Why a pod may not have an image that is here under the name that it asks for; empty when it may.

        Raises SourceUnavailable when nobody can say.
        """
        why = ""
        for name in guarded(asked, image):
            why = await self._why_not(name, pod)
            if not why:
                return ""
        return why

    async def credentials(self, image: str, pod: Pod) -> list[Credentials | None]:
        """What to show the image's registry, one after the other; nothing at all is one of them.

        Raises ImageRefused when it is known to help nothing, and SourceUnavailable.
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

    async def _why_not(self, name: str, pod: Pod) -> str:
        place = parse_repository(name.partition("/")[2])
        if place is None:
            return f"{name} is no repository: in {REGISTRY} they are called NAMESPACE/NAME"
        if await self._may_pull(place, pod):
            return ""
        needs = f'it needs the verb {PULL} on {RESOURCE}.{GROUP} in the namespace "{place.namespace}"'
        return f'the service account "{pod.namespace}/{pod.service_account}" may not pull from {place}: {needs}'

    async def _may_pull(self, place: Repository, pod: Pod) -> bool:
        attributes = {"verb": PULL, "group": GROUP, "resource": RESOURCE} | place._asdict()
        spec: JsonObject = {**account_of(pod), "resourceAttributes": attributes}
        body = {"kind": ACCESS_REVIEWS.kind, "apiVersion": ACCESS_REVIEWS.api_version, "metadata": {}, "spec": spec}
        try:
            return bool((await self._reviews.create(body)).get("status", {}).get("allowed"))
        except (ApiError, ClientError) as error:
            raise SourceUnavailable(f"the API server cannot say who may pull from {place}: {error}") from error


def guarded(asked: str, image: Image) -> list[str]:
    """The repositories of which a pod needs one to have an image that is here; none when it is for everybody."""
    name = repository(asked)
    if is_own(name.partition("/")[0]):
        return [name]
    known = {repository(each) for each in (*image.tags, *image.digests)}
    own = {each for each in known if is_own(each.partition("/")[0])}
    return [] if name in known or own != known else sorted(own)


def account_of(pod: Pod) -> JsonObject:
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
    """Pull with each of them in turn. Raises ImageRefused and whatever the runtime does."""
    refused = ImageRefused(f"nothing to show a registry for {name}")
    for each in credentials:
        try:
            pulled = await runtime.pull(name, each, progress=progress, handler=handler)
        except ImageRefused as error:
            refused = error
            continue
        image = await runtime.image(name, handler) or await runtime.image(pulled, handler)
        if image is not None:
            return image
        refused = ImageRefused(f"image {name} vanished as soon as it was pulled")
    raise refused
