"""The relay as a runtime runs it, and the agent's responses."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.network.attaching import InterfaceAttacher, RulesNotApplied
from tarmac.agent.network.cni.cnifiles import remove_files, write_files
from tarmac.agent.network.cni.server import CniServer
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.datapath.fake import FakeDatapath
from tarmac.datapath.interface import Attached

FRONT = AttachedInterface(
    name="front",
    network="shop/default",
    mac="02:00:00:00:00:01",
    addresses=["10.128.0.5/20", "fd20::5/64"],
    gateways=["10.128.0.1", "fd20::1"],
)
BACK = AttachedInterface(name="eth1", network="shop/back", mac="02:00:00:00:00:02", addresses=["172.20.0.5/24"])


def pod(annotation: str | None) -> JsonObject:
    annotations = {} if annotation is None else {ANNOTATION_INTERFACES: annotation}
    return {"metadata": {"namespace": "shop", "name": "web", "uid": "u-1", "annotations": annotations}, "spec": {}}


class Agent:
    """The agent's side, with a datapath in memory."""

    def __init__(self, folder: Path) -> None:
        self.datapath = FakeDatapath()
        self.pod = pod(encode_interfaces([FRONT, BACK]))
        self.wait_until_applied: list[tuple[str, Sequence[AttachedInterface]]] = []
        self.uncovered = ""
        self.bin, self.conf, self.socket = folder / "bin", folder / "net.d", folder / "cni.sock"
        self.server = CniServer(self.socket, InterfaceAttacher(self.datapath, self._find, self._covered))
        write_files(self.bin, self.conf, self.socket)

    def _find(self, namespace: str, name: str, uid: str) -> JsonObject | None:
        metadata = self.pod["metadata"]
        return (
            self.pod if (namespace, name, uid) == (metadata["namespace"], metadata["name"], metadata["uid"]) else None
        )

    async def _covered(self, pod: str, interfaces: Sequence[AttachedInterface]) -> None:
        self.wait_until_applied.append((pod, interfaces))
        if self.uncovered:
            raise RulesNotApplied(self.uncovered)

    async def relay(self, command: str, plugin: str = "tarmac", **more: str) -> tuple[int, Any]:
        """Run the relay as libcni does; return its exit code and output."""
        arguments = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u-1"
        environment = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": "sandbox-1",
            "CNI_NETNS": "/run/netns/x",
            "CNI_IFNAME": "eth0",
            "CNI_ARGS": arguments,
            "CNI_PATH": str(self.bin),
            "PATH": os.environ["PATH"],
            **more,
        }
        process = await asyncio.create_subprocess_exec(
            self.bin / plugin,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        config = (self.conf / "10-tarmac.conflist").read_bytes()
        said, complained = await process.communicate(config)
        assert complained == b""
        assert process.returncode is not None
        return process.returncode, json.loads(said) if said else None


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


@pytest.fixture
async def answering(agent: Agent) -> AsyncIterator[Agent]:
    """Serve the relay's requests."""
    task = asyncio.create_task(agent.server.run())
    while not agent.socket.exists():
        await asyncio.sleep(0.001)
    yield agent
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_pod_gets_the_interfaces_that_the_agent_knows_of(answering: Agent) -> None:
    code, said = await answering.relay("ADD")
    assert code == 0
    assert answering.datapath.attached == {"sandbox-1": (FRONT, BACK)}
    assert answering.wait_until_applied == [("u-1", [FRONT, BACK])], "its rules apply before it starts"
    assert said["interfaces"][0] == {"name": "eth0", "mac": FRONT.mac, "sandbox": "/run/netns/x"}
    assert said["ips"] == [
        {"address": "10.128.0.5/20", "interface": 0, "gateway": "10.128.0.1"},
        {"address": "fd20::5/64", "interface": 0, "gateway": "fd20::1"},
        {"address": "172.20.0.5/24", "interface": 1},
    ]


async def test_a_pod_that_goes_takes_its_interfaces_along_however_often_it_is_said(answering: Agent) -> None:
    await answering.relay("ADD")
    assert await answering.relay("CHECK") == (0, None)
    assert await answering.relay("DEL") == (0, None)
    assert await answering.relay("DEL") == (0, None)
    assert answering.datapath.attached == {}
    code, said = await answering.relay("CHECK")
    assert (code, said["code"]) == (1, 100)


@pytest.mark.parametrize(
    ("annotation", "arguments", "code", "words"),
    [
        (None, {}, 11, "has been given no interfaces yet"),
        ("[{]", {}, 4, "cannot be read"),
        ("[]", {"CNI_ARGS": "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u-2"}, 7, "is not of this node"),
        ("[]", {"CNI_ARGS": ""}, 7, "is not of this node"),
        ("[]", {"CNI_NETNS": ""}, 4, "CNI_NETNS is missing"),
        ("[]", {"CNI_CONTAINERID": ""}, 4, "CNI_CONTAINERID is missing"),
    ],
)
async def test_a_pod_that_cannot_be_attached_is_told_why(
    answering: Agent, annotation: str | None, arguments: dict[str, str], code: int, words: str
) -> None:
    answering.pod = pod(annotation)
    exit_code, said = await answering.relay("ADD", **arguments)
    assert (exit_code, said["code"]) == (1, code)
    assert words in said["msg"]
    assert answering.datapath.attached == {}


async def test_a_pod_that_is_to_have_no_interfaces_has_its_loopback(answering: Agent) -> None:
    answering.pod = pod("[]")
    code, said = await answering.relay("ADD")
    assert (code, said["ips"]) == (0, [{"address": "127.0.0.1/8", "interface": 0}])
    assert said["interfaces"][0]["name"] == "eth0"


async def test_a_pod_whose_rules_are_not_in_force_is_not_attached(answering: Agent) -> None:
    answering.uncovered = "nobody has said anything about this pod"
    code, said = await answering.relay("ADD")
    assert (code, said["code"], said["msg"]) == (1, 11, answering.uncovered)
    assert answering.datapath.attached == {}


async def test_a_partial_attachment_is_removed(answering: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    attach = FakeDatapath.attach

    async def failing(self: FakeDatapath, *arguments: Any) -> Attached:
        await attach(self, *arguments)
        raise OSError("no buffers")

    monkeypatch.setattr(FakeDatapath, "attach", failing)
    code, said = await answering.relay("ADD")
    assert (code, said["msg"]) == (1, "OSError: no buffers")
    assert answering.datapath.attached == {}


async def test_without_an_agent_pods_cannot_come_but_can_go(agent: Agent) -> None:
    code, said = await agent.relay("ADD")
    assert (code, said["code"]) == (1, 11)
    assert "does not answer" in said["msg"]
    assert await agent.relay("DEL") == (0, None)
    assert (await agent.relay("VERSION"))[1]["supportedVersions"] == ["0.3.0", "0.3.1", "0.4.0", "1.0.0"]


async def test_a_socket_that_a_killed_agent_left_is_taken_over(agent: Agent) -> None:
    for _ in range(2):
        task = asyncio.create_task(agent.server.run())
        while (await agent.relay("CHECK"))[1]["code"] == 11:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert agent.socket.stat().st_mode & 0o777 == 0o600


async def test_the_loopback_that_containerd_asks_for_beside_is_there_already(agent: Agent) -> None:
    code, said = await agent.relay("ADD", plugin="loopback")
    assert (code, said["interfaces"]) == (0, [{"name": "lo", "sandbox": ""}])
    assert await agent.relay("DEL", plugin="loopback") == (0, None)


def test_files_are_written_once_and_leave_nothing(tmp_path: Path) -> None:
    bin_dir, conf_dir = tmp_path / "bin", tmp_path / "conf"
    write_files(bin_dir, conf_dir, tmp_path / "cni.sock")
    before = {path: path.stat().st_ino for folder in (bin_dir, conf_dir) for path in folder.iterdir()}
    assert {path.name for path in before} == {"tarmac", "loopback", "10-tarmac.conflist"}
    write_files(bin_dir, conf_dir, tmp_path / "cni.sock")
    assert {path: path.stat().st_ino for path in before} == before
    remove_files(bin_dir, conf_dir)
    assert [*bin_dir.iterdir(), *conf_dir.iterdir()] == []
