"""The pods of one node: who they are, their workers, and what others may ask about them.

`PodManager` hears of pods from the API (`spec.nodeName` is this node), from manifests in a folder, and, while the
server is away, from the definitions it kept on disk. Each pod has one worker; events of the runtime and of probes only
wake it. What the runtime holds for no known pod is an orphan and is taken away, once the API has been heard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tarmac.agent.pods.interfaces import Connector, Handlers, PodCgroups
from tarmac.agent.pods.settings import PodSettings
from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.events import Recorder
from tarmac.client.informer import Informers
from tarmac.runtimes.interface import Runtime
from tarmac.volumes.interface import Sources, Volumes

Refusal = tuple[str, str]
"""Reason and message for a pod that may not run here."""


class PodManager:
    """Runs the pods of this node. `node` gives the Node object as last reported, `informers` must be running."""

    def __init__(
        self,
        *,
        client: Client,
        informers: Informers,
        runtime: Runtime,
        volumes: Volumes,
        sources: Sources,
        cgroups: PodCgroups,
        connect: Connector,
        node: Callable[[], JsonObject],
        handlers: Handlers,
        recorder: Recorder,
        settings: PodSettings,
    ) -> None:
        raise NotImplementedError

    async def run(self) -> None:
        """Keep pods as they should be until cancelled; running containers are left alone then."""
        raise NotImplementedError

    async def ready(self) -> None:
        """Wait until the runtime's pods are known (from it or from disk): before, absence means nothing."""
        raise NotImplementedError

    def add_admission(self, admit: Callable[[JsonObject], Refusal | None]) -> None:
        """Ask one more question of every new pod; a refusal makes it Failed with this reason and message."""
        raise NotImplementedError

    def pods(self) -> Sequence[JsonObject]:
        """Every pod bound here, with its status as of now; static pods as themselves, not as mirrors."""
        raise NotImplementedError

    def find(self, namespace: str, name: str, uid: str | None = None) -> JsonObject | None:
        """One pod with its status as of now."""
        raise NotImplementedError

    def container_id(self, pod: JsonObject, container: str, previous: bool = False) -> str | None:
        """The runtime's id of a container, or of the one before it. None: there is none yet."""
        raise NotImplementedError

    def sandbox_id(self, pod: JsonObject) -> str | None:
        """The runtime's id of the pod's sandbox, if it has one that is ready."""
        raise NotImplementedError

    def log_path(self, pod: JsonObject, container: str, previous: bool = False) -> Path | None:
        """Where a container's log is, or that of the one before it."""
        raise NotImplementedError

    def evict(self, pod: JsonObject, reason: str, message: str, grace: float | None = None) -> None:
        """End a pod for the node's sake: it becomes Failed with this reason. The object stays for its controller."""
        raise NotImplementedError

    async def drain(self, grace: float, critical_grace: float = 0.0) -> None:
        """Graceful shutdown of the node: end ordinary pods within `grace`, then critical ones; refuse new ones."""
        raise NotImplementedError

    def wake(self, uid: str | None = None) -> None:
        """Look at a pod again soon, or at all of them."""
        raise NotImplementedError
