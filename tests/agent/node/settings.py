"""Settings for tests of the node's side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tarmac.agent.config.agentconfig import AgentConfig, settle
from tarmac.agent.config.configreader import API_VERSION, KIND, StatedConfig, decode, stated
from tarmac.agent.config.flags import Flags
from tarmac.agent.node.hostfacts import HostFacts
from tarmac.agent.sizing.reservations import stated_reservations
from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.topology import Topology

MACHINE = HostFacts(
    topology=Topology.flat(range(4)),
    memory=8 << 30,
    swap=0,
    huge_pages=(("2Mi", 0),),
    machine_id="machine",
    system_uuid="uuid",
    boot_id="boot",
    kernel="6.1",
    os_image="Debian",
    architecture="amd64",
)


def agent_told(root: Path, file: dict[str, Any] | None = None, **flags: Any) -> StatedConfig:
    """Return the configuration that flags and file of such an agent state."""
    told: dict[str, Any] = {
        "node_name": "dfw-0",
        "kubeconfig": root / "kubeconfig",
        "root_dir": root,
        "node_labels": {},
        "feature_gates": {},
        "node_ips": ("10.0.0.7", "fd00::7"),
        **flags,
    }
    return stated(Flags(**told), decode({"apiVersion": API_VERSION, "kind": KIND, **(file or {})}))


def agent_config(root: Path, file: dict[str, Any] | None = None, **flags: Any) -> AgentConfig:
    said = agent_told(root, file, **flags)
    return settle(said, stated_reservations(said, CPUSet(range(4))))
