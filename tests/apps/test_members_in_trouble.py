"""Members of etcd on frozen hosts and full disks: `init --with-etcd` and `join --server` name the cause and continue.

Members are real processes in network namespaces; a supervisor of the test starts them as the unit does.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pytest

from tarmac.apps.host.etcdcluster import add_member, etcd_client, start_first_member
from tarmac.apps.host.etcdmember import etcd_arguments, etcd_obstacles, read_member, store_url
from tarmac.apps.host.hostlayout import Machine, SetupFailed
from tarmac.apps.host.hostservices import LOG_LINES
from tarmac.base.clock import SystemClock
from tarmac.datapath.linux.namespaces import inside
from tarmac.server.security.certificates.pki import Pki
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tests.datapath.lab import Lab
from tests.store.conftest import ETCDS, etcd_binary

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]
CLOCK = SystemClock()
SOON, LONG = 4.0, 60.0
"""Timeouts of commands that fail, and of those that succeed."""


class MemberHost:
    """A host in a network namespace; its data is in memory, with a size."""

    supervised = True

    def __init__(self, folder: Path, name: str, lab: Lab, number: int) -> None:
        self.name, self.address, self._network = name, f"198.18.0.{number}", lab.machine(number)
        self.machine = Machine(folder / "config.yaml", folder / "data", folder / "run")
        self.machine.etcd.mkdir(parents=True)
        self.frozen_from_start = False
        self.processes: list[subprocess.Popen[bytes]] = []
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(self.machine.etcd)], check=True)

    @property
    def pki(self) -> Pki:
        return Pki(self.machine.data / "pki", CLOCK)

    @property
    def url(self) -> str:
        return store_url(self.machine, [self.address], self.pki.etcd_file)

    def resize(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.machine.etcd)], check=True)

    async def start(self, part: Any) -> None:
        assert part == "etcd"
        member = read_member(self.machine)
        assert member is not None
        with self.machine.log("etcd").open("wb") as log:
            program = ["nsenter", f"--net={self._network}", str(etcd_binary(ETCDS[-1]))]
            self.processes.append(started([*program, *etcd_arguments(self.machine, member)], log))
        cmdline = Path(f"/proc/{self.processes[-1].pid}/cmdline")
        # Until then it does not look like a member; during exec the kernel returns nothing.
        while not (words := cmdline.read_bytes()) or words.startswith(b"nsenter"):
            await CLOCK.sleep(0.001)
        if self.frozen_from_start:
            self.signal(signal.SIGSTOP)

    def last_words(self, part: Any, lines: int = LOG_LINES) -> list[str]:
        return self.machine.log(part).read_text(errors="replace").splitlines()[-lines:]

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.processes[-1].pid, number)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(20)
        subprocess.run(["umount", str(self.machine.etcd)], check=True)

    async def init(self, seconds: float) -> None:
        await start_first_member(self.machine, self.pki, (self.name, self.address), self, CLOCK, seconds)

    async def join(self, first: MemberHost, seconds: float) -> None:
        if not self.pki.etcd_file.exists():
            shutil.copytree(first.machine.data / "pki", self.machine.data / "pki", dirs_exist_ok=True)
        url = store_url(self.machine, [self.address, first.address], self.pki.etcd_file)
        await add_member(self.machine, self.pki, (self.name, self.address), url, self, CLOCK, seconds)

    async def voters(self) -> dict[str, bool]:
        """Return the members that this one knows, and if each has a vote."""
        async with etcd_client(self.url, CLOCK) as client:
            return {each.name: not each.is_learner for each in await client.members()}


def started(words: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stdout=log, stderr=log)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[MemberHost, MemberHost]]:
    lab = Lab()
    with ExitStack() as stack:
        stack.callback(lab.close)
        made = [MemberHost(tmp_path / name, name, lab, number) for number, name in enumerate(("one", "two"), 1)]
        for each in made:
            stack.callback(each.close)
        stack.enter_context(inside(lab.machine(3)))  # of this thread, which runs the commands
        yield made[0], made[1]


async def test_a_first_member_that_is_frozen_is_named_and_the_same_command_continues(
    hosts: tuple[MemberHost, MemberHost],
) -> None:
    one, _ = hosts
    one.frozen_from_start = True
    with pytest.raises(SetupFailed, match="the member does not respond after 4 s"):
        await one.init(SOON)
    one.signal(signal.SIGCONT)
    await one.init(LONG)
    assert await one.voters() == {"one": True}
    assert len(one.processes) == 1, "it is not started twice"


async def test_a_first_member_without_disk_space_is_named_and_the_same_command_continues(
    hosts: tuple[MemberHost, MemberHost],
) -> None:
    one, _ = hosts
    one.resize("1m")
    await fails_with("no space left on device", lambda: one.init(SOON))
    one.processes[-1].wait(20)
    one.resize("400m")
    await one.init(LONG)
    assert await one.voters() == {"one": True}


async def test_a_join_to_a_frozen_member_changes_nothing_and_continues(hosts: tuple[MemberHost, MemberHost]) -> None:
    one, two = hosts
    await one.init(LONG)
    one.signal(signal.SIGSTOP)
    with pytest.raises(SetupFailed, match="etcd: the member was not added"):
        await two.join(one, SOON)
    assert two.processes == [], "nothing was started"
    one.signal(signal.SIGCONT)
    await two.join(one, LONG)
    assert await one.voters() == {"one": True, "two": True}


async def test_a_joining_member_that_is_frozen_costs_the_cluster_nothing(hosts: tuple[MemberHost, MemberHost]) -> None:
    one, two = hosts
    await one.init(LONG)
    two.frozen_from_start = True
    with pytest.raises(SetupFailed, match="the member two has no vote yet"):
        await two.join(one, SOON)
    assert sorted((await one.voters()).values()) == [False, True], "a learner, which the quorum does not need"
    await write(one)
    two.signal(signal.SIGCONT)
    await two.join(one, LONG)
    assert await one.voters() == {"one": True, "two": True}


async def test_a_joining_member_without_disk_space_is_named_and_the_same_command_continues(
    hosts: tuple[MemberHost, MemberHost],
) -> None:
    one, two = hosts
    await one.init(LONG)
    two.resize("1m")
    await fails_with("no space left on device", lambda: two.join(one, SOON))
    await write(one)
    two.processes[-1].wait(20)
    two.resize("400m")
    await two.join(one, LONG)
    assert await one.voters() == {"one": True, "two": True}


async def test_credentials_that_do_not_fit_on_the_disk_are_written_by_the_repeated_command(
    hosts: tuple[MemberHost, MemberHost],
) -> None:
    one, two = hosts
    await one.init(LONG)
    two.resize("4k")
    with pytest.raises(OSError, match="No space left on device"):
        await two.join(one, SOON)
    assert sorted(await one.voters()) == ["one"], "it was not added"
    two.resize("400m")
    await two.join(one, LONG)
    assert await one.voters() == {"one": True, "two": True}


async def test_a_member_that_was_removed_on_its_way_in_is_added_anew(hosts: tuple[MemberHost, MemberHost]) -> None:
    one, two = hosts
    await one.init(LONG)
    two.resize("1m")
    await fails_with("no space left on device", lambda: two.join(one, SOON))
    two.processes[-1].wait(20)
    async with etcd_client(one.url, CLOCK) as client:
        [learner] = [each for each in await client.members() if each.is_learner]
        await client.remove(learner.id)
    two.resize("400m")
    await two.join(one, LONG)
    assert await one.voters() == {"one": True, "two": True}


async def fails_with(text: str, attempt: Callable[[], Awaitable[None]]) -> None:
    """Repeat a command that fails, until it names this cause: on a busy host, the member may be late for the first."""
    seen = ""
    for _ in range(10):
        with pytest.raises(SetupFailed) as failure:
            await attempt()
        seen = str(failure.value)
        if text in seen:
            return
    raise AssertionError(seen)


async def write(host: MemberHost) -> None:
    """Write to the store by one member; fails without a quorum."""
    async with etcd_client(host.url, CLOCK) as client:
        put = pb.RequestOp(request_put=pb.PutRequest(key=b"k", value=b"v"))
        assert (await client.persistent_txn(pb.TxnRequest(success=[put]))).succeeded


def test_too_little_disk_space_is_an_obstacle_before_anything_is_created(hosts: tuple[MemberHost, MemberHost]) -> None:
    one, _ = hosts
    small = Machine(one.machine.config, one.machine.etcd / "data", one.machine.run)
    one.resize("100m")
    found = [each.text for each in etcd_obstacles(small, [one.address]) if each.check == "disk"]
    assert [each.partition(" MiB")[2] for each in found] == [
        f" are free below {small.data}; 1 GiB is needed for etcd: free space there"
    ]
