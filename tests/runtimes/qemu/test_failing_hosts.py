"""A full or broken disk and a silent QEMU are faults of the runtime, which the agent reports and retries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.runtimes.interface import RuntimeRefused
from tarmac.runtimes.qemu import accelerator, machineregistry, process
from tarmac.runtimes.qemu.records import MachineFolders, MachineRecord
from tests.runtimes.machine import QemuMachine, Running

pytestmark = [pytest.mark.root]


def break_writes(folder: Path, name: str) -> Path:
    """Make writes of a record fail: a directory takes the place of its temporary file."""
    draft = folder / f".{name}.new"
    draft.mkdir()
    return draft


async def started(qemu: QemuMachine) -> tuple[Running, MachineRecord]:
    running = await qemu.run(qemu.waits())
    return running, qemu.qemu.machines.known(running.id)


async def test_a_machine_whose_monitor_never_answers_is_killed_and_its_start_refused(
    qemu: QemuMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machineregistry, "ANSWER_TIMEOUT", 1.0)
    monkeypatch.setattr(MachineFolders, "socket", lambda self, record, name: Path("/run/no-such-monitor"))
    sandbox = qemu.sandbox()
    sandbox_id = await qemu.runtime.run_sandbox(sandbox, "vm")
    made = await qemu.runtime.create_container(sandbox_id, qemu.waits(), sandbox)
    with pytest.raises(RuntimeRefused, match="monitor has not answered for 1 s"):
        await qemu.runtime.start_container(made)
    found = await qemu.runtime.container(made)
    assert (found.state, found.reason) == ("exited", "StartError")
    assert not qemu.node.processes(), "the next attempt opens the same disks"
    await qemu.runtime.remove_sandbox(sandbox_id)


async def test_a_machine_runs_and_ends_while_its_records_cannot_be_written(qemu: QemuMachine) -> None:
    sandbox = qemu.sandbox()
    sandbox_id = await qemu.runtime.run_sandbox(sandbox, "vm")
    made = await qemu.runtime.create_container(sandbox_id, qemu.waits(), sandbox)
    record = qemu.qemu.machines.known(made)
    break_writes(qemu.node.folders.attempt(record), "machine.json")
    break_writes(qemu.node.folders.sandbox(sandbox_id), "sandbox.json")
    await qemu.runtime.start_container(made)
    assert (await qemu.runtime.container(made)).state == "running"
    await qemu.runtime.stop_sandbox(sandbox_id)
    assert (await qemu.runtime.container(made)).state == "exited"
    assert not (await qemu.runtime.sandbox(sandbox_id)).ready
    await qemu.runtime.remove_sandbox(sandbox_id)


async def test_a_refused_start_is_told_while_its_record_cannot_be_written(qemu: QemuMachine) -> None:
    sandbox = qemu.sandbox()
    sandbox_id = await qemu.runtime.run_sandbox(sandbox, "vm")
    made = await qemu.runtime.create_container(sandbox_id, qemu.cannot_start(), sandbox)
    break_writes(qemu.node.folders.attempt(qemu.qemu.machines.known(made)), "machine.json")
    with pytest.raises(RuntimeRefused, match="no/such/disk"):
        await qemu.runtime.start_container(made)
    assert (await qemu.runtime.container(made)).state == "exited"
    await qemu.runtime.remove_sandbox(sandbox_id)


async def test_an_agent_starts_on_a_disk_that_takes_no_record(qemu: QemuMachine) -> None:
    running, record = await started(qemu)
    await qemu.qemu.close()
    sandbox = qemu.qemu._sandboxes.known(record.sandbox_id)
    found = process.find(qemu.node.folders.attempt(record), sandbox.uid, record.uuid)
    assert found is not None
    found.kill()
    await found.gone()
    found.close()
    break_writes(qemu.node.folders.attempt(record), "machine.json")
    later = await qemu.restart()
    assert (await later.container(running.id)).state == "exited"


async def test_a_record_that_cannot_be_deleted_refuses_the_removal_and_a_retry_completes_it(qemu: QemuMachine) -> None:
    running, record = await started(qemu)
    files = [
        qemu.node.folders.attempt(record) / "machine.json",
        qemu.node.folders.sandbox(running.sandbox_id) / "sandbox.json",
    ]
    for file in files:
        file.unlink()
        file.mkdir()
        with pytest.raises(RuntimeRefused, match="cannot be deleted"):
            await qemu.runtime.remove_sandbox(running.sandbox_id)
        assert len(await qemu.runtime.sandboxes(running.pod.pod.uid)) == 1, "it is still listed, and removed again"
        file.rmdir()
    await qemu.runtime.remove_sandbox(running.sandbox_id)
    assert not await qemu.runtime.sandboxes(running.pod.pod.uid)
    assert not qemu.node.folders.sandbox(running.sandbox_id).exists()


async def test_a_process_that_cannot_be_spawned_is_a_refused_start(qemu: QemuMachine) -> None:
    sandbox = qemu.sandbox()
    sandbox_id = await qemu.runtime.run_sandbox(sandbox, "vm")
    made = await qemu.runtime.create_container(sandbox_id, qemu.waits(), sandbox)
    said = qemu.node.folders.output_log(qemu.qemu.machines.known(made))
    said.mkdir(parents=True)
    with pytest.raises(RuntimeRefused, match=said.name):
        await qemu.runtime.start_container(made)
    await qemu.runtime.remove_sandbox(sandbox_id)


async def test_a_probe_whose_result_cannot_be_stored_is_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeRefused, match="cannot be probed"):
        await accelerator.probe(tmp_path / "file" / "accelerator.json", None)
