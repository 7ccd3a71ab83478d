"""An image's files as a directory, for disks that start as a copy of one and for volumes that show one.

CRI has no call for this, so containerd's own tool `ctr` is used. The mount is a read-only view of the image's layers
and is removed with the context; one that a killed agent left is found by its name and removed first. A pod gets only
images that it could run: its pull secrets apply, and its permissions in the platform's own registry.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tarmac.agent.containers.repositories import RepositoryAccess, pull_with_each
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.node.programs import run_program
from tarmac.agent.sources.volumesources import ImageRoot
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import Runtime, RuntimeFault
from tarmac.volumes.interface import SourceUnavailable

_NAMESPACE = "k8s.io"


def image_root(runtime: Runtime, access: RepositoryAccess, socket: str, ctr: str, folder: Path) -> ImageRoot:
    """Return the function that mounts an image for a pod; views are mounted below `folder`."""
    locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def root(image: str, pod: JsonObject) -> AsyncGenerator[str]:
        name = await _name(runtime, access, image, AgentPod(pod))
        target = folder / hashlib.sha256(name.encode()).hexdigest()[:16]
        async with locks.setdefault(name, asyncio.Lock()):
            # The lock covers mount, use and unmount: a second volume of the same image would unmount the files of the
            # first.
            tool = (ctr, "--address", socket, "--namespace", _NAMESPACE, "images")
            await _run(*tool, "unmount", "--rm", str(target))
            # The unmount before it removes the view of an agent that was killed while it copied.
            target.mkdir(parents=True, exist_ok=True)
            if trouble := await _run(*tool, "mount", name, str(target)):
                raise SourceUnavailable(f"the files of image {image} cannot be had: {trouble}")
            try:
                yield str(target)
            finally:
                # A cancellation here leaves the view mounted: the next use of the image unmounts it first.
                await _run(*tool, "unmount", "--rm", str(target))

    return root


async def _name(runtime: Runtime, access: RepositoryAccess, image: str, pod: AgentPod) -> str:
    """Return the image's full name, after pulling it if necessary."""
    try:
        found = await runtime.image(image)
        if found is None or await access.refusal(image, found, pod):
            found = await pull_with_each(runtime, image, await access.credentials(image, pod))
    except RuntimeFault as error:
        raise SourceUnavailable(f"image {image} cannot be had: {error}") from error
    return next(iter((*found.tags, *found.digests)), image)


async def _run(*command: str) -> str:
    """Run a command. Return its error; empty if it succeeded."""
    try:
        done = await run_program(*command)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    return done.err.decode(errors="replace").strip() or "it failed" if done.code else ""
