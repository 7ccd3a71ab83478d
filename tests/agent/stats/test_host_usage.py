"""Usage of the host, read from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.agent.stats.hostusage import MachineStats, file_system


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    files = {
        "stat": "cpu  100 20 30 1000 50 5 5 7 0 0\ncpu0 1 1 1 1\nbtime 1700000000\n",
        "meminfo": "MemTotal: 1000 kB\nMemFree: 300 kB\nInactive(file): 200 kB\nAnonPages: 150 kB\nHugeTotal: 0\n",
        "vmstat": "pgfault 11\npgmajfault 2\n",
        "loadavg": "0.1 0.2 0.3 2/345 9999\n",
        "sys/kernel/pid_max": "32768\n",
        "sys/kernel/threads-max": "20000\n",
        "net/dev": "head\nhead\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 10 1 2 0 0 0 0 0 20 1 3 0 0 0 0 0\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_processor_time_leaves_out_idling_and_waiting(proc: Path) -> None:
    assert MachineStats(proc=proc).cpu() == pytest.approx(1.6)
    assert MachineStats(proc=proc).started() == 1_700_000_000


def test_memory_that_can_be_had_back_at_once_is_not_in_use(proc: Path) -> None:
    memory = MachineStats(proc=proc).memory()
    assert (memory.total, memory.usage, memory.working_set) == (1_024_000, 716_800, 512_000)
    assert (memory.available, memory.rss) == (512_000, 153_600)
    assert (memory.page_faults, memory.major_page_faults) == (11, 2)


def test_cgroups_know_better_where_they_count(proc: Path) -> None:
    assert MachineStats(lambda: 24_000, proc).memory().available == 1_000_000


def test_processes_and_links(proc: Path) -> None:
    assert MachineStats(proc=proc).processes() == (20000, 345)
    (link,) = MachineStats(proc=proc).links()
    assert (link.name, link.received, link.receive_errors, link.transmitted, link.transmit_errors) == (
        "eth0", 10, 2, 20, 3,
    )  # fmt: skip


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    stats = MachineStats()
    assert stats.cpu() > 0
    assert 0 < stats.memory().available <= stats.memory().total
    assert stats.processes()[1] > 0
    disk = file_system(tmp_path)
    assert 0 < disk.available <= disk.capacity
