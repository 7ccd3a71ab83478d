"""Dependencies shared by all pod workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.containers.configs import ContainerConfigs
from tarmac.agent.containers.hooks import Hooks
from tarmac.agent.containers.imagepulls import ImagePuller
from tarmac.agent.containers.paths import PodPaths
from tarmac.agent.environment.variables import PodEnvironment
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.podclasses import PodClasses
from tarmac.agent.model.poddependencies import PodCgroups
from tarmac.agent.model.podsettings import PodSettings
from tarmac.agent.pods.checkpoints import PodCheckpoints
from tarmac.agent.probes.checks import Checks
from tarmac.agent.status.podstatus import in_order
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.client.eventrecorder import Recorder
from tarmac.runtimes.interface import Runtime, RuntimeSandbox
from tarmac.volumes.interface import Volumes


@dataclass(frozen=True, slots=True)
class PodDependencies:
    """Shared by all workers of a node."""

    runtime: Runtime
    volumes: Volumes
    cgroups: PodCgroups
    allocator: Allocator
    classes: PodClasses
    images: ImagePuller
    configs: ContainerConfigs
    hooks: Hooks
    checks: Checks
    recorder: Recorder
    clock: Clock
    randomness: Randomness
    settings: PodSettings
    paths: PodPaths
    checkpoints: PodCheckpoints
    node: Callable[[], JsonObject]
    services: Callable[[], Iterable[JsonObject]]
    runtime_name: Callable[[], str]
    """The scheme of container ids in statuses: `containerd`."""
    handler: Callable[[AgentPod], str]
    """The runtime handler of a pod's RuntimeClass. Raises ConfigMissing."""

    def host_addresses(self) -> list[str]:
        """InternalIP addresses of the node, at most one of each family."""
        listed = (self.node().get("status") or {}).get("addresses") or ()
        return [each["address"] for each in listed if each["type"] == "InternalIP"][:2]

    def surroundings(self, sandbox: RuntimeSandbox, pod: AgentPod) -> PodEnvironment:
        """Addresses, allocatable resources and Services, for the environment of a new container."""
        hosts = self.host_addresses()
        return PodEnvironment(
            hosts if pod.host_network else in_order(sandbox.addresses, hosts),
            hosts,
            (self.node().get("status") or {}).get("allocatable") or {},
            self.services(),
        )
