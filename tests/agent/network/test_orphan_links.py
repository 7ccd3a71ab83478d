"""Links without a sandbox are removed, except those that are still being created."""

from __future__ import annotations

from tarmac.agent.network.orphanlinks import OrphanLinkSweeper
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.base.clock import ManualClock
from tarmac.datapath.fake import FakeDatapath

NIC = AttachedInterface(name="eth0", network="a/b")


async def test_a_link_without_a_sandbox_is_removed_in_the_second_sweep() -> None:
    datapath, live = FakeDatapath(), {"runs"}

    async def living() -> set[str]:
        return live

    sweeper = OrphanLinkSweeper(datapath, living, ManualClock())
    for sandbox_id in ("runs", "dead"):
        await datapath.attach(sandbox_id, "/nowhere", [NIC])
    await sweeper.sweep()
    assert datapath.sandboxes() == {"runs", "dead"}
    await datapath.attach("being-made", "/nowhere", [NIC])
    await sweeper.sweep()
    assert datapath.sandboxes() == {"runs", "being-made"}
    live.add("being-made")
    live.remove("runs")
    await sweeper.sweep()
    await sweeper.sweep()
    assert datapath.sandboxes() == {"being-made"}


async def test_one_that_comes_between_two_looks_stays() -> None:
    datapath = FakeDatapath()

    async def living() -> set[str]:
        await datapath.attach("late", "/nowhere", [NIC])
        return set()

    sweeper = OrphanLinkSweeper(datapath, living, ManualClock())
    await sweeper.sweep()
    assert datapath.sandboxes() == {"late"}
