"""Plugins register on a socket in a folder that only root may access; errors are in kubelet's words."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.devices.folder import FolderInUse, check_folder, prepare_folder
from tarmac.http.grpc import GrpcError
from tarmac.http.grpcserver import MAX_REQUEST
from tests.agent.devices.plugin import RESOURCE, DevicePlugin, asked, register, running
from tests.agent.devices.stage import a_node, until


async def test_a_plugin_registers_and_the_node_has_its_devices() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)):
        await node.has(2)
        assert node.events == [("Normal", "DevicePluginRegistered", f"gpu.sock stands for {RESOURCE}")]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            {"version": "v1alpha1"},
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
        ),
        ({"resource": "cpu"}, 'the ResourceName "cpu" is invalid'),
        ({"resource": "kubernetes.io/gpu"}, 'the ResourceName "kubernetes.io/gpu" is invalid'),
        ({"resource": "example.com/" + "x" * 64}, f'the ResourceName "example.com/{"x" * 64}" is invalid'),
        ({"endpoint": "../other.sock"}, "failed to dial device plugin: endpoint '../other.sock' is not the name"),
        ({"endpoint": "/etc/passwd"}, "failed to dial device plugin: endpoint '/etc/passwd' is not the name"),
        ({"endpoint": ""}, "failed to dial device plugin: endpoint '' is not the name"),
        ({"endpoint": "kubelet.sock"}, "failed to dial device plugin: endpoint 'kubelet.sock' is not the name"),
        ({"endpoint": "link.sock"}, "link.sock is not a socket"),
        ({"endpoint": "file"}, "file is not a socket"),
        ({"endpoint": "nothing.sock"}, "nothing.sock: No such file or directory"),
        ({"endpoint": "deaf.sock"}, "failed to dial device plugin: "),
    ],
)
async def test_a_registration_that_makes_no_sense_is_refused(other: dict[str, str], words: str) -> None:
    async with a_node() as node, node.agent():
        (node.folder / "file").touch()
        with socket.socket(socket.AF_UNIX) as outside, socket.socket(socket.AF_UNIX) as deaf:
            outside.bind(str(node.root / "outside.sock"))
            deaf.bind(str(node.folder / "deaf.sock"))
            (node.folder / "link.sock").symlink_to(node.root / "outside.sock")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await register(node.folder, asked(**other))
        assert words in (refused.value.details() or "")
        assert refused.value.code() == grpc.StatusCode.UNKNOWN
        assert node.devices.amounts().capacity == {}


async def test_the_newer_of_two_plugins_wins_and_the_older_is_hung_up_on() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as old:
        await node.has(2)
        new = DevicePlugin(node.folder, socket="new.sock")
        new.devices = {"n0": "Healthy"}
        async with running(new):
            await node.has(1)
            old.set({"g0": "Healthy", "g1": "Healthy", "g2": "Healthy"})
            await asyncio.sleep(0.3)
            await node.has(1)
            await old.stop()
            await asyncio.sleep(0.1)
            assert node.devices.amounts().allocatable == {RESOURCE: 1}
        await node.has(0, 1)


async def test_another_method_is_not_known() -> None:
    async with a_node() as node, node.agent():
        async with grpc.aio.insecure_channel(f"unix://{node.folder / 'kubelet.sock'}") as channel:
            call: Any = channel.unary_unary("/v1beta1.Registration/Other")  # pyright: ignore[reportCallIssue]
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(b"")
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_noise_and_questions_without_end_break_off_and_nobody_else_is_hurt() -> None:
    async with a_node() as node, node.agent():
        path = str(node.folder / "kubelet.sock")
        for noise in (b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(noise)
            async with asyncio.timeout(5):
                while await reader.read(1024):
                    pass
            writer.close()
        request = asked(version="x" * (MAX_REQUEST + 1))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await register(node.folder, request)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        async with running(DevicePlugin(node.folder)):
            await node.has(2)


async def test_a_plugin_that_registers_slowly_holds_up_no_other() -> None:
    async with a_node() as node, node.agent():
        slow, quick = DevicePlugin(node.folder, "example.com/slow", "slow.sock"), DevicePlugin(node.folder)
        slow.held["GetDevicePluginOptions"] = asyncio.Event()
        await slow.start()
        try:
            waiting = asyncio.create_task(slow.register())
            await until(lambda: slow.calls)
            async with running(quick):
                await node.has(2)
                assert not waiting.done()
                slow.held["GetDevicePluginOptions"].set()
                await waiting
                await node.has(2, resource="example.com/slow")
        finally:
            await slow.stop()


async def test_many_registrations_at_once_end_with_one_plugin() -> None:
    async with a_node() as node, node.agent():
        plugin = DevicePlugin(node.folder)
        async with running(plugin):
            came = await asyncio.gather(*(plugin.register() for _ in range(20)), return_exceptions=True)
            codes = {each.code() for each in came if isinstance(each, grpc.aio.AioRpcError)}
            assert codes <= {grpc.StatusCode.RESOURCE_EXHAUSTED}
            await node.has(2)
            await until(lambda: plugin.listeners == 1)
        await node.has(0, 2)


async def test_few_may_wait_for_their_registration_at_once() -> None:
    async with a_node() as node, node.agent():
        plugin = DevicePlugin(node.folder)
        plugin.held["GetDevicePluginOptions"] = asyncio.Event()
        await plugin.start()
        waiting = [
            asyncio.create_task(node.registration.answer("v1beta1.Registration/Register", asked().SerializeToString()))
            for _ in range(16)
        ]
        await until(lambda: plugin.calls)
        with pytest.raises(GrpcError, match="16 registrations wait already"):
            await node.registration.answer("v1beta1.Registration/Register", asked().SerializeToString())
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        await plugin.stop()


async def test_the_folder_is_made_for_its_owner_alone() -> None:
    async with a_node() as node, node.agent():
        assert stat.S_IMODE(node.folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((node.folder / "kubelet.sock").stat().st_mode) == 0o600


def test_rights_of_others_are_taken_away_and_old_sockets_removed(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "keep").touch()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left.sock"))
    prepare_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert [each.name for each in tmp_path.iterdir()] == ["keep"]


def test_a_folder_that_another_agent_serves_is_left_alone(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "kubelet.sock"))
        other.listen(0)
        with pytest.raises(FolderInUse, match="another agent answers at"):
            prepare_folder(tmp_path)
        assert (tmp_path / "kubelet.sock").exists()
    prepare_folder(tmp_path)
    assert not (tmp_path / "kubelet.sock").exists()


def test_a_folder_that_cannot_be_used_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/tmp")
    refusals = {
        Path("relative"): "--device-plugin-dir: bad socketPath, must be an absolute path: relative/kubelet.sock",
        Path("/") / ("x" * 100): "is longer than the 107 bytes that a socket's path may have",
        tmp_path / "file": "is not a directory",
        tmp_path / "link": "is not a directory",
    }
    for folder, words in refusals.items():
        with pytest.raises(BadConfig, match=words):
            check_folder(folder)
    check_folder(tmp_path / "new")
    if os.geteuid() == 0:
        (tmp_path / "theirs").mkdir()
        os.chown(tmp_path / "theirs", 4242, 4242)
        with pytest.raises(BadConfig, match="belongs to user 4242, it must belong to user 0"):
            check_folder(tmp_path / "theirs")
