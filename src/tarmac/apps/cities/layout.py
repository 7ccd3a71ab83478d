"""Where a city's things are: what must survive under the data directory, sockets and namespaces under /run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tarmac.datapath.hosts import CityHost, HostUnderlay
from tarmac.runtimes.containerd import ContainerdSettings
from tarmac.runtimes.parts import NodeParts

CPUS_WANTED = 16
CERTS = "certs.d"
_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class CityLayout:
    """One city of one data directory."""

    code: str  # DFW
    host: CityHost
    data: Path
    run: Path
    cgroup: str  # above the pods' groups
    own_cgroup: str  # above those of its own processes

    @property
    def name(self) -> str:
        """The Location's name."""
        return self.host.name

    @property
    def node(self) -> str:
        """The one node of this city."""
        return f"{self.name}-0"

    @property
    def kubeconfig(self) -> Path:
        """The node's own."""
        return self.data / "kubeconfig"

    @property
    def agent(self) -> Path:
        """The agent's root directory."""
        return self.data / "agent"

    @property
    def log(self) -> Path:
        """What the agent says."""
        return self.data / "agent.log"

    def containerd(self, parts: NodeParts) -> ContainerdSettings:
        """This city's own containerd."""
        return ContainerdSettings(
            root=self.data / "containerd",
            run=self.run / "c",
            cni_bin=self.run / "cni",
            cni_conf=self.run / "cni.d",
            certs=self.data / CERTS,
            parts=parts,
            network_namespace=self.host.namespace,
            nvidia=_NVIDIA_DRIVER.exists(),
        )


def pods_cgroup(underlay: HostUnderlay) -> str:
    """Above the pods of all cities."""
    return f"/tarmac-{underlay.id}"


def own_cgroup(underlay: HostUnderlay) -> str:
    """Above the processes of all cities that are no pods. Beside the pods', so that a limit on pods is one on pods."""
    return f"/tarmac-{underlay.id}-system"


def city_of(code: str, underlay: HostUnderlay, data_dir: Path) -> CityLayout:
    """The city of this code, which the underlay has a host for."""
    host = next(host for host in underlay.cities if host.name == code.lower())
    data = data_dir / "cities" / host.name
    cgroups = [f"{above}/{host.name}" for above in (pods_cgroup(underlay), own_cgroup(underlay))]
    return CityLayout(code, host, data, underlay.run / host.name, *cgroups)


def oversubscription() -> int:
    """Processors to promise beyond those there are, so that a small machine can play several cities."""
    return max(0, CPUS_WANTED - (os.cpu_count() or 1))
