"""Paths of a city: persistent files under the data directory, sockets and namespaces under /run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tarmac.apps.gpudriver import passes_gpus
from tarmac.datapath.hosts import CityHost, HostUnderlay
from tarmac.runtimes.containerd import ContainerdSettings
from tarmac.runtimes.parts import NodeParts

CPUS_WANTED = 16
CERTS = "certs.d"


@dataclass(frozen=True, slots=True)
class CityLayout:
    """One city of one data directory."""

    code: str  # DFW
    host: CityHost
    data: Path
    run: Path
    cgroup: str  # parent of the pods' groups
    own_cgroup: str  # parent of the groups of its own processes

    @property
    def name(self) -> str:
        """The Location's name."""
        return self.host.name

    @property
    def node(self) -> str:
        """The only node of this city."""
        return f"{self.name}-0"

    @property
    def kubeconfig(self) -> Path:
        """The node's kubeconfig."""
        return self.data / "kubeconfig"

    @property
    def agent(self) -> Path:
        """The agent's root directory."""
        return self.data / "agent"

    @property
    def log(self) -> Path:
        """The agent's log."""
        return self.data / "agent.log"

    def containerd(self, parts: NodeParts) -> ContainerdSettings:
        """Return the settings of this city's containerd."""
        return ContainerdSettings(
            root=self.data / "containerd",
            run=self.run / "c",
            cni_bin=self.run / "cni",
            cni_conf=self.run / "cni.d",
            certs=self.data / CERTS,
            parts=parts,
            network_namespace=self.host.namespace,
            nvidia=passes_gpus(parts),
        )


def pods_cgroup(underlay: HostUnderlay) -> str:
    """Return the parent group of the pods of all cities."""
    return f"/tarmac-{underlay.id}"


def own_cgroup(underlay: HostUnderlay) -> str:
    """Return the parent group of all other city processes: a sibling, so that a limit on pods affects only pods."""
    return f"/tarmac-{underlay.id}-system"


def city_of(code: str, underlay: HostUnderlay, data_dir: Path) -> CityLayout:
    """Return the city of this code; the underlay must have its host."""
    host = next(host for host in underlay.cities if host.name == code.lower())
    data = data_dir / "cities" / host.name
    cgroups = [f"{above}/{host.name}" for above in (pods_cgroup(underlay), own_cgroup(underlay))]
    return CityLayout(code, host, data, underlay.run / host.name, *cgroups)


def oversubscription() -> int:
    """Return the number of CPUs to promise beyond the existing ones, so that a small host can run several cities."""
    return max(0, CPUS_WANTED - (os.cpu_count() or 1))
