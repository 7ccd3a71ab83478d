"""CPU topology of the host, read from the kernel's files."""

from __future__ import annotations

from pathlib import Path

from tarmac.agent.stats.topology import online, topology
from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.topology import CpuPosition


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / "sys/devices/system" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys/devices/system" / name).write_text(f"{text}\n")
    return root


def test_sockets_cores_and_numa_nodes(tmp_path: Path) -> None:
    files = {"cpu/online": "0-7", "node/node0/cpulist": "0-1,4-5", "node/node1/cpulist": "2-3,6-7"}
    for cpu in range(8):
        files[f"cpu/cpu{cpu}/topology/physical_package_id"] = str(cpu % 4 // 2)
        files[f"cpu/cpu{cpu}/topology/thread_siblings_list"] = f"{cpu % 4},{cpu % 4 + 4}"
    found = topology(write(tmp_path, files))
    assert found.places[6] == CpuPosition(node=1, socket=1, core=2)
    assert found.members["core"][2] == {2, 6}
    assert found.members["socket"][0] == {0, 1, 4, 5}
    assert found.members["node"][1] == {2, 3, 6, 7}


def test_processors_that_are_offline_do_not_count(tmp_path: Path) -> None:
    files = {"cpu/online": "0,2-3", "cpu/cpu2/topology/thread_siblings_list": "1-2"}
    found = topology(write(tmp_path, files))
    assert found.cpus == CPUSet((0, 2, 3))
    assert found.places[2].core == 2  # its lowest sibling is offline


def test_without_topology_each_is_a_core_of_one_socket(tmp_path: Path) -> None:
    files = {"cpu/online": "0-1", "cpu/cpu1/topology/physical_package_id": "-1"}
    assert topology(write(tmp_path, files)).places == {0: CpuPosition(0, 0, 0), 1: CpuPosition(0, 0, 1)}


def test_without_any_file_they_are_counted(tmp_path: Path) -> None:
    assert len(online(tmp_path)) >= 1
