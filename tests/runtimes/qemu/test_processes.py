"""A machine's process outlives its agent, has no access to the host, and is adopted by the next agent."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.runtimes.interface import NO_EXEC, Resources, RuntimeContainer, RuntimeFault, RuntimeRefused
from tarmac.runtimes.qemu import process
from tarmac.runtimes.qemu.records import MachineRecord
from tests.runtimes.machine import QemuMachine, Running

pytestmark = [pytest.mark.root]


async def started(qemu: QemuMachine) -> tuple[Running, MachineRecord]:
    running = await qemu.run(qemu.waits())
    return running, qemu.qemu.machines.known(running.id)


def facts(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def test_the_process_is_nobody_else_and_may_nothing(qemu: QemuMachine) -> None:
    running, record = await started(qemu)
    status = facts(record.pid)
    assert int(status["PPid"]) == 1
    assert len(set(status["Uid"].split())) == 1
    assert 0x70000000 <= int(status["Uid"].split()[0]) < 0x71000000
    assert status["Groups"] == ""
    assert {status[each] for each in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    groups = Path(f"/proc/{record.pid}/cgroup").read_text()
    assert running.pod.cgroup_parent in groups


async def test_the_process_sees_no_file_of_the_host_beyond_usr_and_no_network(qemu: QemuMachine) -> None:
    _, record = await started(qemu)
    root = Path(f"/proc/{record.pid}/root")
    assert set(os.listdir(root)) == {"bin", "dev", "lib", "lib64", "proc", "run", "sbin", "usr"}
    assert set(os.listdir(root / "dev")) <= {"null", "urandom", "kvm"}
    assert set(os.listdir(root / "run")) == {"qmp.sock", "serial.in", "serial.out", "serial.raw", "vnc.sock"}
    assert "ro" in next(
        line.split()[3].split(",")
        for line in Path(f"/proc/{record.pid}/mounts").read_text().splitlines()
        if line.split()[1] == "/usr"
    )
    devices = Path(f"/proc/{record.pid}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]
    for kind in ("net", "ipc", "uts", "mnt"):
        assert os.readlink(f"/proc/{record.pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    words = Path(f"/proc/{record.pid}/cmdline").read_text()
    assert str(qemu.node.folder) not in words


async def test_two_machines_run_as_two_users(qemu: QemuMachine) -> None:
    (_, one), (_, two) = await started(qemu), await started(qemu)
    assert facts(one.pid)["Uid"] != facts(two.pid)["Uid"]


async def test_an_agent_that_starts_takes_over_what_runs(qemu: QemuMachine) -> None:
    running, record = await started(qemu)
    await running.log("hello")
    before = await running.now()
    later = await qemu.restart()
    found = await later.container(running.id)
    assert (found.state, found.started_at) == ("running", before.started_at)
    assert later.machines.known(running.id).pid == record.pid
    await later.stop_container(running.id, 5)
    ended = await later.container(running.id)
    assert (ended.exit_code, ended.reason) == (0, "Completed")
    assert Path(ended.log_path).read_text().count("hello") == 1
    assert not qemu.node.processes()


async def test_an_agent_killed_before_it_wrote_the_process_down_finds_it(qemu: QemuMachine) -> None:
    running, record = await started(qemu)
    await qemu.qemu.close()
    record.pid, record.start_time, record.started_at = 0, 0, 0.0
    qemu.node.folders.keep_machine(record)
    later = await qemu.restart()
    assert (await later.container(running.id)).state == "running"
    with pytest.raises(RuntimeRefused, match="state"):
        await later.start_container(running.id)
    assert len(qemu.node.processes()) == 1


async def test_a_machine_that_ended_while_no_agent_was_there_is_found_ended(qemu: QemuMachine) -> None:
    running, record = await started(qemu)
    await qemu.qemu.close()
    found = process.find(qemu.node.folders.attempt(record), int(facts(record.pid)["Uid"].split()[0]), record.uuid)
    assert found is not None
    found.kill()
    await found.gone()
    found.close()
    later = await qemu.restart()
    assert ((await later.container(running.id)).state, later.machines.known(running.id).reason) == (
        "exited",
        "MachineFailed",
    )


async def test_while_a_process_is_there_no_other_gets_its_disks(qemu: QemuMachine) -> None:
    """The rule also holds when all records of the process are lost."""
    _, record = await started(qemu)
    assert process.is_there(qemu.node.folders.attempt(record))
    sandbox = qemu.qemu._sandboxes.known(record.sandbox_id)
    launcher = qemu.qemu.machines._launcher
    assert qemu.qemu.probe_result is not None
    with pytest.raises(RuntimeRefused, match="process already"):
        await launcher.launch(record, sandbox, qemu.qemu.probe_result)


@pytest.mark.parametrize("wrong", ["user", "uuid", "start time"])
async def test_a_process_that_is_somebody_else_is_not_taken(qemu: QemuMachine, wrong: str) -> None:
    _, record = await started(qemu)
    folder, user = qemu.node.folders.attempt(record), int(facts(record.pid)["Uid"].split()[0])
    uuid = "00000000-0000-4000-8000-000000000000" if wrong == "uuid" else record.uuid
    began = record.start_time + 1 if wrong == "start time" else record.start_time
    assert process.find(folder, user + 1 if wrong == "user" else user, uuid, began) is None


async def test_a_machine_refuses_commands_and_says_what_to_use(qemu: QemuMachine) -> None:
    running, _ = await started(qemu)
    with pytest.raises(RuntimeRefused, match="no exec") as refusal:
        await qemu.runtime.exec(running.id, ["true"], 5)
    assert str(refusal.value) == NO_EXEC


async def test_a_killed_process_is_a_machine_that_failed(qemu: QemuMachine) -> None:
    running, record = await started(qemu)
    os.kill(record.pid, signal.SIGKILL)
    ended = await over(running)
    assert (ended.exit_code, ended.reason) == (255, "MachineFailed")


async def test_a_machine_that_its_cgroup_has_no_room_for_ran_out_of_memory(qemu: QemuMachine) -> None:
    config = qemu.node.machine("waits")
    running = await qemu.run(replace(config, resources=replace(config.resources, oom_score_adj=1000)))
    hog = await asyncio.create_subprocess_exec(
        "sh", "-c", 'for e in "$@"; do echo $$ > "$e"; done; exec tail /dev/zero', "hog",
        *map(str, qemu.node.hierarchy.entrances(running.pod.cgroup_parent)),
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    await hog.wait()
    ended = await over(running)
    assert (ended.exit_code, ended.reason) == (137, "OOMKilled")


async def test_a_machine_whose_limit_rises_gets_processors_while_it_runs(qemu: QemuMachine) -> None:
    running, _ = await started(qemu)
    supervisor = qemu.qemu.machines.supervisor(running.id)

    async def limited_to(millicores: int) -> int:
        await qemu.runtime.update_container(running.id, Resources(cpu_period=100_000, cpu_quota=100 * millicores))
        return len(await supervisor.execute("query-cpus-fast"))

    assert [await limited_to(each) for each in (500, 2500, 2500)] == [1, 3, 3]
    assert await limited_to(1000) == 3, "none is removed: QEMU does not survive that"
    assert await limited_to(9000) == 4, "there is room for four times the initial number"
    assert (await running.now()).state == "running"


async def test_a_new_agent_adds_the_processors_that_a_killed_one_did_not(qemu: QemuMachine) -> None:
    running, _ = await started(qemu)
    limits = Resources(cpu_period=100_000, cpu_quota=200_000)
    await qemu.runtime.update_container(running.id, limits)
    later = await qemu.restart()
    async with asyncio.timeout(10):
        await later.machines.supervisor(running.id).greeted.wait()
    await later.update_container(running.id, replace(limits, cpu_quota=300_000))
    assert len(await later.machines.supervisor(running.id).execute("query-cpus-fast")) == 3


async def test_disk_traffic_is_counted(qemu: QemuMachine) -> None:
    running, _ = await started(qemu)
    await running.log("hello")  # so its first sector was read
    await qemu.restart()  # which polls at once
    supervisor = qemu.qemu.machines.supervisor(running.id)
    async with asyncio.timeout(10):
        while not supervisor.traffic:
            await asyncio.sleep(0.02)
    assert supervisor.traffic["boot"].read >= 512
    assert supervisor.traffic["boot"].written == 0
    shown = {name: (labels, value) for name, _, labels, value in qemu.qemu.metrics(0)}
    labels = {"namespace": "default", "pod": running.pod.pod.name, "disk": "boot"}
    assert shown["tarmac_machine_disk_read_bytes_total"] == (labels, supervisor.traffic["boot"].read)


async def test_a_monitor_of_another_machine_is_rejected(qemu: QemuMachine) -> None:
    running, record = await started(qemu)
    await qemu.qemu.close()
    record.labels["io.kubernetes.pod.name"] = "somebody-else"
    qemu.node.folders.keep_machine(record)
    supervisor = (await qemu.restart()).machines.supervisor(running.id)
    await asyncio.sleep(0.5)
    assert not supervisor.greeted.is_set()
    with pytest.raises(RuntimeFault):
        await supervisor.execute("query-status")


async def test_removing_a_sandbox_leaves_nothing_of_it(qemu: QemuMachine) -> None:
    running, record = await started(qemu)
    await qemu.runtime.stop_sandbox(running.sandbox_id)
    await qemu.runtime.remove_sandbox(running.sandbox_id)
    assert not qemu.node.processes()
    assert not list(qemu.node.folders.run.iterdir())
    assert not list(qemu.node.folders.logs.iterdir())
    assert str(qemu.node.folders.attempt(record)) not in Path("/proc/self/mountinfo").read_text()


async def test_a_folder_that_was_begun_and_never_written_down_is_swept(qemu: QemuMachine) -> None:
    stray = qemu.node.folders.run / "vm-0123456789abcdef" / "0"
    stray.mkdir(parents=True)
    await (await qemu.node.runtime()).close()
    assert not stray.parent.exists()


async def over(running: Running) -> RuntimeContainer:
    async with asyncio.timeout(20):
        while (now := await running.now()).state != "exited":
            await asyncio.sleep(0.02)
    return now
