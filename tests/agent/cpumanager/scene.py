"""Pods and machines for tests of processors."""

from __future__ import annotations

from pathlib import Path

from tarmac.agent.cpumanager.manager import CPUManager, NodeCpus
from tarmac.agent.cpumanager.statefile import StateFile
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.topology import Topology
from tests.decide.cpus.pods import pod as spec_of

CPUS = 4


def manager(root: Path, strict: bool = False, cpus: int = CPUS, reserved: str = "0") -> CPUManager:
    """Return the manager of a machine with a flat topology; it reads the state file in the folder."""
    machine = NodeCpus(Topology.flat(range(cpus)), CPUSet.parse(reserved), strict)
    file = StateFile(root)
    return CPUManager(machine, file, file.read(machine.topology.cpus, machine.reserved))


def pod(uid: str, *containers: JsonObject, **fields: object) -> AgentPod:
    """Return a pod with these containers."""
    spec = spec_of(*containers, **fields)  # type: ignore[arg-type]
    return AgentPod({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec})
