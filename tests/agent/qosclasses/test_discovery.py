"""Offered QoS classes, discovered from the runtime, its files, the agent's files and the kernel."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.config.kubelet import KubeletClassResources, OfferedClass, OfferedClassType
from tarmac.agent.qosclasses.blockiofile import BadClassFile, BlockioFile
from tarmac.agent.qosclasses.classdiscovery import ClassDiscovery
from tarmac.agent.qosclasses.resctrl import Resctrl
from tarmac.agent.qosclasses.runtimefiles import RuntimeFiles, peer, runtime_files
from tarmac.decide.qosclasses.blockio import BlockioParameters
from tarmac.runtimes.interface import RuntimeStatus
from tests.agent.qosclasses.imaginary import FILE, Kernel

RDT_FILE = "partitions: {p: {classes: {gold: {}, silver: {}}}, q: {classes: {system/default: {}, lead: {}}}}\n"


def status(name: str = "containerd", **more: Any) -> RuntimeStatus:
    return RuntimeStatus(name, "1.7.24", ready=True, network_ready=True, handlers=(), **more)


def discovery(types: dict[str, OfferedClassType] | None = None, **more: Any) -> ClassDiscovery:
    settings: dict[str, Any] = {"block_io": Kernel(), "unified": False, "files": lambda _: RuntimeFiles()}
    settings |= {"resctrl": lambda: None, **more}
    return ClassDiscovery(KubeletClassResources(types=types or {}), **settings)


@pytest.fixture
def resctrl(tmp_path: Path) -> Callable[[], Resctrl]:
    """A FAKE tree: no machine of this project has the hardware."""
    top = tmp_path / "resctrl"
    for name in ("gold", "lead", "info", "mon_groups", "mon_data", "half"):
        (top / name).mkdir(parents=True)
        if name != "half":
            (top / name / "tasks").touch()
    (top / "tasks").touch()
    return lambda: Resctrl(top)


def test_nothing_is_known_before_the_runtime_has_answered(tmp_path: Path) -> None:
    found = discovery()
    found.refresh(None)
    assert found.catalogue is None


def test_our_own_file_with_only_what_is_to_be_offered(tmp_path: Path) -> None:
    file = tmp_path / "classes.yaml"
    file.write_text(FILE)
    found = discovery({"blockio": OfferedClassType(str(file), {"slow": OfferedClass(4), "other": OfferedClass()})})
    found.refresh(status())
    assert found.catalogue is not None
    offered = found.catalogue.types["blockio"]
    assert (offered.owner, offered.classes, offered.immutable) == ("agent", {"slow": 4}, False)


def test_our_own_file_needs_a_way_to_limit_before_the_first_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "classes.yaml"
    file.write_text(FILE)
    types = {"blockio": OfferedClassType(str(file))}
    found = discovery(types)
    found.refresh(status("cri-o"))
    assert found.catalogue is not None
    assert not found.catalogue.types
    assert "limits before the first process need containerd" in capsys.readouterr().err
    found = discovery(types, unified=True)
    found.refresh(status("cri-o"))
    assert found.catalogue is not None
    assert found.catalogue.types["blockio"].owner == "agent"


def test_a_class_that_another_runtime_cannot_be_told_of_is_not_offered(tmp_path: Path) -> None:
    file = tmp_path / "classes.yaml"
    file.write_text("Classes: {all: [{Weight: 20}], one: [{Devices: [/dev/null, /dev/loop0], Weight: 20}]}\n")
    found = discovery({"blockio": OfferedClassType(str(file))}, unified=True)
    for name, classes in (
        ("cri-o", {"all"}),
        ("containerd", {"all", "one"} if Path("/dev/loop0").exists() else {"all"}),
    ):
        found.refresh(status(name))
        assert found.catalogue is not None
        assert set(found.catalogue.types["blockio"].classes) == classes


def test_a_file_that_makes_no_sense_refuses_the_start(tmp_path: Path) -> None:
    file = tmp_path / "classes.yaml"
    for text in ("Classes: {slow: [{Weight: 3}]}", "Classes: [", "- x"):
        file.write_text(text)
        with pytest.raises(BadClassFile, match=r"classes\.yaml: "):
            discovery({"blockio": OfferedClassType(str(file))})
    with pytest.raises(BadClassFile, match="No such file"):
        discovery({"blockio": OfferedClassType(str(tmp_path / "none.yaml"))})


def test_the_runtimes_file_without_the_classes_that_make_no_sense(tmp_path: Path) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text("Classes: {slow: [{Weight: 20}], bad: [{Weight: 3}], empty: [{Devices: [/dev/none*], Weight: 20}]}")
    found = discovery(files=lambda _: RuntimeFiles(blockio=str(file)))
    found.refresh(status())
    assert found.catalogue is not None
    offered = found.catalogue.types["blockio"]
    assert (offered.owner, dict(offered.classes), offered.immutable) == ("runtime", {"slow": None}, True)


def test_rdt_of_the_kernel_is_the_agents_to_assign(resctrl: Callable[[], Resctrl]) -> None:
    found = discovery(resctrl=resctrl)
    found.refresh(status())
    assert found.catalogue is not None
    offered = found.catalogue.types["rdt"]
    assert (offered.owner, dict(offered.classes), offered.immutable) == ("agent", {"gold": None, "lead": None}, False)


def test_rdt_of_the_runtimes_file_only_as_far_as_groups_exist(resctrl: Callable[[], Resctrl], tmp_path: Path) -> None:
    file = tmp_path / "rdt.yaml"
    file.write_text(RDT_FILE)
    found = discovery(resctrl=resctrl, files=lambda _: RuntimeFiles(rdt=str(file)))
    found.refresh(status())
    assert found.catalogue is not None
    offered = found.catalogue.types["rdt"]
    assert (offered.owner, dict(offered.classes), offered.immutable) == ("runtime", {"gold": None, "lead": None}, True)


def test_without_resctrl_rdt_is_not_offered_and_the_log_says_why_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = discovery()
    for _ in range(3):
        found.refresh(status())
    assert found.catalogue is not None
    assert not found.catalogue.types
    assert capsys.readouterr().err.count("resctrl is not mounted") == 1


def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    file = tmp_path / "classes.yaml"
    file.write_text("Classes: {slow: [{Devices: [/dev/x], ThrottleReadBps: 5}]}")
    disks = [(8, 0)]
    found = BlockioFile(file, disks=lambda _: disks)
    found.refresh()
    assert found.classes() == {"slow": BlockioParameters(throttles={"ReadBps": {(8, 0): 5}})}
    disks.append((8, 16))  # a hot-plugged disk
    assert found.classes() == {"slow": BlockioParameters(throttles={"ReadBps": {(8, 0): 5, (8, 16): 5}})}
    os.utime(file, ns=(1, 1))
    file.chmod(0o000)
    if os.geteuid():
        with pytest.raises(BadClassFile):
            found.refresh()


def test_the_process_behind_a_socket_leads_to_its_class_files(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    main, more = tmp_path / "conf" / "config.toml", tmp_path / "conf" / "more.toml"
    main.write_text(
        'version = 2\nimports = ["more*.toml", "config.toml"]\n'
        '[plugins."io.containerd.service.v1.tasks-service"]\nrdt_config_file = "/r.yaml"\nblockio_config_file = "/x"\n'
    )
    more.write_text('[plugins."io.containerd.service.v1.tasks-service"]\nblockio_config_file = "/b.yaml"\n')
    path = tmp_path / "c.sock"
    program = (
        "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\n"
        "print(flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(path), "--config", "conf/config.toml"]
    listening = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert listening.stdout is not None
        listening.stdout.readline()
        assert peer(str(path)) == listening.pid
        found = runtime_files("containerd", "1.7.24~ds1", str(path))
        assert found == RuntimeFiles(blockio="/b.yaml", rdt="/r.yaml")
        assert runtime_files("containerd", "1.6.20", str(path)) == RuntimeFiles(rdt="/r.yaml"), "1.6 lacks blockio"
    finally:
        listening.kill()
        listening.communicate()
    assert peer(str(path)) == 0
    assert runtime_files("containerd", "1.7.24", str(path)) == RuntimeFiles()


def test_cri_o_names_its_files_in_its_own_way(tmp_path: Path) -> None:
    folder = tmp_path / "crio.conf.d"
    folder.mkdir()
    (tmp_path / "crio.conf").write_text(
        '[crio.runtime]\nblockio_config_file = "/b.yaml"\nrdt_config_file = "/r.yaml"\n'
    )
    (folder / "10-more.conf").write_text('[crio.runtime]\nrdt_config_file = "/other.yaml"\n')
    proc = tmp_path / "proc"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "c.sock"))
        listening.listen()
        own = proc / str(os.getpid())
        own.mkdir(parents=True)
        words = ["crio", f"--config={tmp_path}/crio.conf", "-d", str(folder)]
        (own / "cmdline").write_bytes("\0".join(words).encode())
        (own / "cwd").symlink_to("/")
        found = runtime_files("cri-o", "1.31.0", str(tmp_path / "c.sock"), proc)
        assert found == RuntimeFiles(blockio="/b.yaml", rdt="/other.yaml")
