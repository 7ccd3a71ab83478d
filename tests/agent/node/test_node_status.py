"""Status of the Node: its content, and the intervals of reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tarmac.agent.model.devices import DeviceAmounts
from tarmac.agent.model.gpus import GpuSandboxState
from tarmac.agent.model.machinestate import MachineState
from tarmac.agent.node.hostfacts import capacity
from tarmac.agent.node.nodestatus import NodeStatusFacts, changes, node_status
from tarmac.agent.node.sizes import NodeSizes
from tarmac.decide.allocatable.ledger import node_ledger, sized
from tarmac.decide.allocatable.reservations import Reservations, Reserved
from tarmac.runtimes.interface import Handler, Image, RuntimeStatus
from tests.agent.node.settings import MACHINE

CAPACITY = capacity(MACHINE, 100 << 30, 110, 0)
LENT = Reservations(system={"cpu": Reserved(500, "file")}, oversubscription=16000)
RUNTIME = RuntimeStatus("containerd", "1.7.24", True, True, (Handler("runc"), Handler("gvisor", own_kernel=True)))
FACTS = NodeStatusFacts(
    machine=MACHINE,
    ledger=node_ledger(sized(CAPACITY, LENT)),
    addresses=[{"type": "InternalIP", "address": "10.0.0.7"}, {"type": "Hostname", "address": "h"}],
    port=10250,
    runtime=RUNTIME,
    unready="",
    images=[Image("a", ("small:1",), ("small@sha256:1",), 10), Image("b", ("large:1",), (), 99)],
    max_images=50,
    pressures=frozenset(),
)
NOW = 1_800_000_000.0


def silent(reason: str, message: str) -> None:
    pass


def status(facts: NodeStatusFacts = FACTS, before: dict[str, Any] | None = None, now: float = NOW) -> dict[str, Any]:
    return node_status(facts, before or {}, now, silent)


def test_capacity_and_allocatable() -> None:
    found = status()
    assert found["capacity"] == {
        "cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110", "hugepages-2Mi": "0",
        "cpu oversubscription": "16",
    }  # fmt: skip
    assert found["allocatable"]["cpu"] == "19500m"


def test_a_healthy_node_in_the_words_of_kubelets() -> None:
    said = [(each["type"], each["status"], each["reason"]) for each in status()["conditions"]]
    assert said == [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
        ("Ready", "True", "KubeletReady"),
    ]


def test_pressure_and_trouble() -> None:
    facts = replace(FACTS, pressures=frozenset({"MemoryPressure"}), unready="container runtime is down")
    said = {each["type"]: (each["status"], each["message"]) for each in status(facts)["conditions"]}
    assert said["MemoryPressure"] == ("True", "kubelet has insufficient memory available")
    assert said["Ready"] == ("False", "container runtime is down")


def test_virtual_machines_are_a_condition_once_they_have_been_probed() -> None:
    missing = MachineState(False, "MachinesNotInstalled", "no qemu-system-x86_64: run `apt install tarmac-machines`")
    before = status(replace(FACTS, machines=missing))
    found = next(each for each in before["conditions"] if each["type"] == "MachinesReady")
    assert (found["status"], found["reason"], found["message"]) == ("False", missing.reason, missing.message)
    working = MachineState(True, "MachinesRun", "virtual machines run by KVM (kvm)")
    after = status(replace(FACTS, machines=working), before, NOW + 60)
    found = next(each for each in after["conditions"] if each["type"] == "MachinesReady")
    assert (found["status"], found["lastTransitionTime"]) == ("True", found["lastHeartbeatTime"])
    unknown = status(before=after)
    assert "MachinesReady" not in {each["type"] for each in unknown["conditions"]}, "a starting agent keeps it"
    assert changes(unknown, after) == {}


def test_gpus_in_sandboxes_are_a_condition_of_nodes_that_have_a_driver() -> None:
    unknown = GpuSandboxState(False, "DriverUnknown", "gVisor does not know NVIDIA's driver 1.2")
    found = [each for each in status(replace(FACTS, gpus=unknown))["conditions"] if each["type"] == "GPUsSandboxable"]
    assert [(each["status"], each["reason"], each["message"]) for each in found] == [
        ("False", "DriverUnknown", unknown.message)
    ]
    assert "GPUsSandboxable" not in {each["type"] for each in status()["conditions"]}


def test_transitions_keep_their_time_until_the_next() -> None:
    before = status()
    later = status(before=before, now=NOW + 60)
    assert later["conditions"][3]["lastTransitionTime"] == before["conditions"][3]["lastTransitionTime"]
    assert later["conditions"][3]["lastHeartbeatTime"] != before["conditions"][3]["lastHeartbeatTime"]
    broken = status(replace(FACTS, unready="x"), before, NOW + 60)
    assert broken["conditions"][3]["lastTransitionTime"] == broken["conditions"][3]["lastHeartbeatTime"]


def test_events_tell_of_transitions_only() -> None:
    told: list[str] = []
    before = node_status(FACTS, {}, NOW, lambda reason, _: told.append(reason))
    assert told == ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]
    told.clear()
    node_status(FACTS, before, NOW, lambda reason, _: told.append(reason))
    assert told == []
    node_status(replace(FACTS, unready="x"), before, NOW, lambda reason, _: told.append(reason))
    assert told == ["NodeNotReady"]


def test_a_reboot_is_told() -> None:
    told: list[str] = []
    node_status(FACTS, {"nodeInfo": {"bootID": "another"}}, NOW, lambda reason, _: told.append(reason))
    assert "Rebooted" in told


def test_images_largest_first_with_all_their_names() -> None:
    assert status()["images"] == [
        {"names": ["large:1"], "sizeBytes": 99},
        {"names": ["small@sha256:1", "small:1"], "sizeBytes": 10},
    ]
    assert len(status(replace(FACTS, max_images=1))["images"]) == 1
    assert len(status(replace(FACTS, max_images=-1))["images"]) == 2


def test_handlers_and_what_they_can_do() -> None:
    assert [each["name"] for each in status()["runtimeHandlers"]] == ["", "gvisor", "runc"]
    able = Handler("", recursive_read_only_mounts=True)
    [told] = status(replace(FACTS, runtime=replace(RUNTIME, handlers=(), default=able)))["runtimeHandlers"]
    assert told == {"name": "", "features": {"recursiveReadOnlyMounts": True, "userNamespaces": False}}


def test_features_are_told_as_far_as_the_runtime_tells_them() -> None:
    assert "features" not in status()
    for strict in (True, False):
        told = status(replace(FACTS, runtime=replace(RUNTIME, strict_groups=strict)))
        assert told["features"] == {"supplementalGroupsPolicy": strict}


def test_nothing_new_is_not_said_again() -> None:
    before = status()
    assert changes(status(before=before, now=NOW + 60), before) == {}


def test_resources_and_conditions_of_others_are_left_alone() -> None:
    before = status()
    before["capacity"]["example.com/gpu"] = "2"
    before["conditions"] = [{"type": "NetworkUnavailable", "status": "False"}, *before["conditions"]]
    assert changes(status(before=before), before) == {}


def test_only_what_changed_is_said() -> None:
    before = status()
    grown = replace(FACTS, ledger=node_ledger(sized({**CAPACITY, "pods": 200}, LENT)))
    assert changes(status(grown, before), before) == {"capacity": {"pods": "200"}, "allocatable": {"pods": "200"}}


def test_huge_pages_that_are_gone_are_taken_away() -> None:
    before = status()
    before["capacity"]["hugepages-1Gi"] = "1Gi"
    assert changes(status(before=before), before) == {"capacity": {"hugepages-1Gi": None}}


def test_devices_that_are_gone_are_taken_away_and_those_of_others_stay() -> None:
    before = status()
    for side in ("capacity", "allocatable"):
        before[side] |= {"example.com/gone": "2", "example.com/others": "3"}
    gone = frozenset({"example.com/gone", "example.com/never"})
    taken = {"example.com/gone": None}
    assert changes(status(before=before), before, gone) == {"capacity": taken, "allocatable": taken}


def test_devices_are_part_of_what_the_node_has() -> None:
    sizes = NodeSizes(
        CAPACITY,
        1000,
        Reservations(),
        devices=lambda: DeviceAmounts({"example.com/gpu": 4}, {"example.com/gpu": 3}, frozenset()),
    )
    found = status(replace(FACTS, ledger=sizes.ledger()))
    assert (found["capacity"]["example.com/gpu"], found["allocatable"]["example.com/gpu"]) == ("4", "3")
    assert sizes.enforced["cpu"] == CAPACITY["cpu"]


def test_addresses_are_replaced_as_a_whole() -> None:
    before = status()
    moved = replace(FACTS, addresses=[{"type": "InternalIP", "address": "10.0.0.8"}])
    assert changes(status(moved, before), before) == {
        "addresses": [{"$patch": "replace"}, {"type": "InternalIP", "address": "10.0.0.8"}]
    }


def test_reservations_are_told_with_their_sources() -> None:
    assert status()["reservations"] == [{"resource": "cpu", "for": "system", "amount": "500m", "source": "file"}]
    before = status()
    del before["reservations"]
    assert changes(status(before=before), before) == {"reservations": status()["reservations"]}


def test_oversubscription_and_exclusive_processors_that_are_over_are_taken_away() -> None:
    before = status()
    before["capacity"]["cpu exclusive"] = "3"
    plain = replace(FACTS, ledger=node_ledger(sized(CAPACITY, Reservations())))
    assert changes(status(plain, before), before) == {
        "capacity": {"cpu oversubscription": None, "cpu exclusive": None},
        "allocatable": {"cpu": "4"},
        "reservations": [],
    }
