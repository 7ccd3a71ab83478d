"""A container's process: its environment, files, rights and neighbours, with both kinds of kernel."""

from __future__ import annotations

import asyncio
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.runtimes.interface import LinuxSecurity, Mount, Resources, RuntimeUsage
from tests.runtimes.machine import RealMachine, Running
from tests.runtimes.test_containers import ended
from tests.support.containerd import no_network

_BARE = no_network()


async def test_environment_arguments_and_folder_are_as_told(real_machine: RealMachine) -> None:
    config = replace(
        real_machine.waits(),
        command=("sh", "-c", 'echo "$0 $GREETING from $PWD"; sleep 3600'),
        args=("polite",),
        working_dir="/tmp",
        envs=(("GREETING", "grüß dich"),),
    )
    running = await real_machine.run(config)
    assert "stdout F polite grüß dich from /tmp" in await running.log("polite")


async def test_a_pod_has_its_own_name_resolver_and_addresses(real_machine: RealMachine) -> None:
    network = {"security": LinuxSecurity(), "dns_servers": ("192.0.2.53",), "dns_searches": ("a.test", "b.test")}
    config = replace(real_machine.waits(), security=LinuxSecurity())
    running = await real_machine.run(config, hostname="my-host", **network)
    assert await running.says("hostname") == "my-host"
    resolver = await running.says("cat", "/etc/resolv.conf")
    assert "nameserver 192.0.2.53" in resolver
    assert "search a.test b.test" in resolver
    four, six = (await real_machine.runtime.sandbox(running.sandbox_id)).addresses
    addresses = await running.says("ip", "-o", "addr", "show", "eth0")
    assert four in addresses
    assert six in addresses


@pytest.mark.root
async def test_a_kernel_of_its_own_is_not_the_hosts(own_kernel: RealMachine) -> None:
    running = await own_kernel.run(own_kernel.waits())
    assert await running.says("uname", "-r") != platform.release()
    assert "gVisor" in await running.says("dmesg")


@pytest.mark.root
async def test_a_shared_kernel_is_the_hosts(shared_kernel: RealMachine) -> None:
    running = await shared_kernel.run(shared_kernel.waits())
    assert await running.says("uname", "-r") == platform.release()


async def test_containers_of_a_pod_share_their_network_and_kernel(real_machine: RealMachine) -> None:
    serves = "nc -l -p 8080 -e echo here; sleep 3600"
    served = replace(real_machine.waits("server"), command=("sh", "-c", serves), security=LinuxSecurity())
    server = await real_machine.run(served, security=LinuxSecurity())
    config = replace(real_machine.waits("client"), security=LinuxSecurity())
    client = await real_machine.run_in(server.sandbox_id, server.pod, config)
    asked = "for i in 1 2 3 4 5 6 7 8 9; do nc 127.0.0.1 8080 && break; sleep 0.2; done"
    assert await client.says("sh", "-c", asked) == "here"
    boot = "/proc/sys/kernel/random/boot_id"
    if real_machine.handler == "runc":
        assert await client.says("cat", boot) == await server.says("cat", boot)
    else:
        assert await client.says("dmesg") == await server.says("dmesg")
    assert "8080" not in await client.says("ps")


@pytest.mark.root
async def test_processes_are_shared_when_the_pod_asks_for_it(shared_kernel: RealMachine) -> None:
    security = replace(_BARE, share_processes=True)
    first = await shared_kernel.run(replace(shared_kernel.waits(), security=security), security=security)
    second = await shared_kernel.run_in(
        first.sandbox_id, first.pod, replace(shared_kernel.waits("second"), security=security)
    )
    assert "/pause" in await second.says("ps")


@pytest.mark.root
async def test_a_debugger_sees_the_processes_of_its_target(shared_kernel: RealMachine) -> None:
    target = await shared_kernel.run(shared_kernel.waits())
    security = replace(_BARE, target_container=target.id)
    debugger = await shared_kernel.run_in(
        target.sandbox_id, target.pod, replace(shared_kernel.waits("debugger"), security=security)
    )
    await target.log("hello")
    await debugger.log("hello")
    assert await debugger.says("cat", "/proc/1/comm") == await target.says("cat", "/proc/1/comm")
    sleeping = [line for line in (await debugger.says("ps")).splitlines() if line.endswith(" root     sleep 3600")]
    assert len(sleeping) == 2


async def test_mounts_are_there_with_their_mode(real_machine: RealMachine, tmp_path: Path) -> None:
    for name in ("open", "closed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"in {name}")
    mounts = (
        Mount("/open", str(tmp_path / "open")),
        Mount("/closed", str(tmp_path / "closed"), read_only=True),
        Mount("/single", str(tmp_path / "open" / "file")),
    )
    running = await real_machine.run(replace(real_machine.waits(), mounts=mounts))
    assert await running.says("cat", "/open/file", "/closed/file", "/single") == "in openin closedin open"
    await running.says("touch", "/open/new")
    assert (tmp_path / "open" / "new").exists()
    refused = await real_machine.runtime.exec(running.id, ["touch", "/closed/new"], 10)
    assert refused.exit_code != 0
    assert b"Read-only file system" in refused.stderr


async def test_a_process_is_who_it_should_be(real_machine: RealMachine) -> None:
    security = replace(_BARE, user=1234, group=2345, supplemental_groups=(3456,))
    running = await real_machine.run(replace(real_machine.waits(), security=security))
    assert await running.says("id", "-u") == "1234"
    assert set((await running.says("id", "-G")).split()) == {"2345", "3456"}


async def test_a_read_only_root_is_read_only(real_machine: RealMachine) -> None:
    security = replace(_BARE, read_only_root=True)
    running = await real_machine.run(replace(real_machine.waits(), security=security))
    refused = await real_machine.runtime.exec(running.id, ["touch", "/etc/new"], 10)
    assert b"Read-only file system" in refused.stderr


async def test_capabilities_are_dropped_and_no_privilege_is_gained(real_machine: RealMachine) -> None:
    security = replace(_BARE, drop_capabilities=("ALL",), add_capabilities=("NET_BIND_SERVICE",))
    security = replace(security, no_new_privileges=True, seccomp="RuntimeDefault")
    running = await real_machine.run(replace(real_machine.waits(), security=security))
    status = dict(line.split(":", 1) for line in (await running.says("cat", "/proc/self/status")).splitlines())
    assert int(status["CapEff"], 16) == 1 << 10
    if real_machine.handler == "runc":
        assert status["NoNewPrivs"].strip() == "1"
        assert status["Seccomp"].strip() == "2"


@pytest.mark.root
async def test_masked_paths_show_nothing_and_read_only_ones_take_nothing(shared_kernel: RealMachine) -> None:
    security = replace(_BARE, masked_paths=("/proc/timer_list",), read_only_paths=("/proc/sys",))
    running = await shared_kernel.run(replace(shared_kernel.waits(), security=security))
    assert await running.says("cat", "/proc/timer_list") == ""
    write = ["sh", "-c", "echo 1 > /proc/sys/vm/swappiness"]
    assert b"Read-only" in (await shared_kernel.runtime.exec(running.id, write, 10)).stderr


@pytest.mark.root
async def test_limits_reach_the_cgroup_and_follow_changes(shared_kernel: RealMachine) -> None:
    limits = Resources(cpu_period=100_000, cpu_quota=50_000, cpu_shares=256, memory_limit=64 << 20)
    running = await shared_kernel.run(replace(shared_kernel.waits(), resources=limits))
    memory = _cgroup_file(running, "memory", "memory.limit_in_bytes", "memory.max")
    assert memory.read_text().strip() == str(64 << 20)
    await shared_kernel.runtime.update_container(running.id, replace(limits, memory_limit=96 << 20))
    assert memory.read_text().strip() == str(96 << 20)


@pytest.mark.root
async def test_a_container_over_its_memory_is_killed_and_says_so(shared_kernel: RealMachine) -> None:
    greedy = replace(shared_kernel.waits(), command=("tail", "/dev/zero"), resources=Resources(memory_limit=16 << 20))
    exited = await ended(await shared_kernel.run(greedy))
    assert (exited.exit_code, exited.reason) == (137, "OOMKilled")


async def test_usage_is_what_was_used(real_machine: RealMachine) -> None:
    works = "dd if=/dev/zero of=/tmp/x bs=1M count=8 2>/dev/null; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    running = await real_machine.run(
        replace(real_machine.waits(), command=("sh", "-c", f"{works}; touch /tmp/done; sleep 3600"))
    )
    async with asyncio.timeout(30):
        while (await real_machine.runtime.exec(running.id, ["test", "-e", "/tmp/done"], 5)).exit_code:
            await asyncio.sleep(0.1)
    written = 8 << 20 if real_machine.handler == "runc" else 1
    async with asyncio.timeout(30):  # containerd measures folders every ten seconds, perhaps before the file was there
        while (usage := await _usage(real_machine, running.id)).disk < written:
            await asyncio.sleep(0.5)
    assert usage.cpu > 0.01
    assert usage.memory_working_set > 100_000
    sandbox = next(each for each in await real_machine.runtime.sandbox_usage() if each.id == running.sandbox_id)
    assert sandbox.cpu > 0.01
    assert sandbox.memory_working_set > 100_000


async def _usage(machine: RealMachine, id: str) -> RuntimeUsage:
    return next(each for each in await machine.runtime.container_usage() if each.id == id)


def _cgroup_file(running: Running, controller: str, v1: str, v2: str) -> Path:
    group = f"{running.pod.cgroup_parent.lstrip('/')}/{running.id}"
    old = Path("/sys/fs/cgroup") / controller / group / v1
    return old if old.exists() else Path("/sys/fs/cgroup") / group / v2
