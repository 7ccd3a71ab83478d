"""A datapath killed at any step is adopted by the next process, and rules changed by other programs are restored."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tarmac.datapath.interface import HostPort, NetworkState, Remote
from tarmac.datapath.linux import LinuxDatapath, namespaces
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.nftables import Nftables
from tarmac.decide.reach.policyrules import Allowance, Rules, ServiceFrontend
from tests.datapath.test_datapath_contract import A6, B6, NET, PLAIN, RANGES, A, B, two_pods
from tests.datapath.worlds import RealWorld, nic, of_both, one_network

pytestmark = [pytest.mark.root]

FULL = NetworkState(
    NET,
    4097,
    1460,
    RANGES,
    (Remote("198.18.0.2", ("10.128.16.0/20", "fd20:1:0:1::/64")),),
    {A: Rules(ingress=(Allowance(peers=("10.0.0.0/8",), excluded=("10.9.0.0/16",)),)), B6: Rules(egress=())},
    (
        ServiceFrontend("10.96.0.9", "TCP", 80, ((A, 80), (B, 80)), affinity=60),
        ServiceFrontend("fd00:96::9", "TCP", 80, ((B6, 80),)),
        ServiceFrontend("10.96.0.10", "UDP", 53, ()),
    ),
    pods={A: "uid-a", B6: "uid-b"},
    host_ports=(HostPort("TCP", 8080, (A, 80)), HostPort("UDP", 8053, (B6, 53), "fd99::1")),
    from_node=("10.96.0.9", "fd00:96::9"),
)
TABLES = (
    ("inet", "tarmac-policy"),
    ("inet", "tarmac-services"),
    ("inet", "tarmac-egress"),
    ("inet", "tarmac-antispoof"),
    ("arp", "tarmac-antispoof"),
)


class Killed(BaseException):
    """Stands for the end of the process."""


class Steps:
    """Counts changes of the kernel, and ends the process before one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        self.last: int | None = None
        for owner, name in ((Netlink, "_batch"), (Nftables, "_run"), (namespaces, "_call"), (fcntl, "ioctl")):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            if "setns" not in arguments:  # leaving a namespace changes nothing
                self.taken += 1
                if self.last is not None and self.taken > self.last:
                    raise Killed
            return call(*arguments)

        return counted


@of_both
async def test_death_at_every_step_of_a_pods_life_leaves_nothing(
    real: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, run_dir = real.lab.machine(1), real.lab.folder / "run-1"
    real.lab.machine(2)
    untouched = real.everything(1)
    real.lab.namespace("pod-a")
    steps = Steps(monkeypatch)
    # Steps before the first machine are the same as for pods, and tested with them.
    deaths = await _steps_of_applying(steps, LinuxDatapath(run_dir, str(host))) if real.machines else 0

    async def life(node: LinuxDatapath) -> None:
        await node.apply(one_network(FULL))
        await _attach(node, real)
        await node.detach("a")
        await node.remove_all()

    while True:
        steps.taken, steps.last = 0, deaths
        node = LinuxDatapath(run_dir, str(host))
        try:
            await life(node)
            break
        except Killed:
            deaths += 1
        finally:
            steps.last = None
            await node.close()
        await _takes_up(LinuxDatapath(run_dir, str(host)), real)
        assert real.everything(1) == untouched, f"killed before step {deaths}"
    assert deaths > 25
    assert real.everything(1) == untouched


async def _steps_of_applying(steps: Steps, node: LinuxDatapath) -> int:
    await node.apply(one_network(FULL))
    taken = steps.taken
    await node.remove_all()
    await node.close()
    return taken


async def _attach(node: LinuxDatapath, real: RealWorld) -> None:
    interfaces = [nic(NET, f"{A}/20", f"{A6}/64")]
    if not real.machines:
        await node.attach("a", str(real.namespace("a")), interfaces)
        return
    await node.attach_taps("a", interfaces)
    (await node.open_tap("a", 0)).close()


async def _takes_up(node: LinuxDatapath, real: RealWorld) -> None:
    """Assert that the next process can use the state that it finds, and can remove it."""
    try:
        await node.apply(one_network(FULL))
        await _attach(node, real)
        assert len([index for index in range(40) if node.sandbox_of(NET, index) == "a"]) == 1
        await node.sweep(set())
        await node.remove_all()
    finally:
        await node.close()


async def test_another_process_knows_the_pods(real: RealWorld) -> None:
    await two_pods(real)
    successor = await real.restart(1)
    await successor.apply(one_network(PLAIN))
    assert await real.reaches("a", B) == "b"
    assert {successor.sandbox_of(NET, index) for index in range(20)} == {"a", "b", "", None}
    assert await successor.sweep({"a"}) == ["b"]


@pytest.mark.parametrize(
    "stray", ["link add p0123456789ab00 type veth peer name stray", "tuntap add p0123456789ab00 mode tap"]
)
async def test_links_whose_maker_was_killed_at_once_are_swept(real: RealWorld, stray: str) -> None:
    await two_pods(real)
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    real.lab.command(router, f"ip {stray}")
    successor = await real.restart(1)
    assert await successor.sweep({"a", "b"}) == ["p0123456789ab00"]
    assert "p0123456789ab00" not in real.lab.command(router, "ip link")
    assert await real.reaches("a", B) == "b"


async def test_links_of_a_detached_pod_carry_nothing_and_are_cleared(real: RealWorld) -> None:
    await two_pods(real)
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    await real.node(1).detach("b")
    assert real.node(1).sandboxes() == {"a"}
    assert await real.reaches("b", A, hope=False) is None
    assert await real.node(1).sweep({"a"}) == []
    assert real.lab.command(router, "ip -o link show type veth").count("state") == 2, "its uplink and a's link"
    await real.attach_again(1, "b", [nic(NET, f"{B}/20", f"{B6}/64")])
    assert await real.reaches("b", A) == "a"


async def test_the_kernel_shows_what_was_written(real: RealWorld) -> None:
    await two_pods(real, FULL)
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    nftables = real.lab.inside(router, Nftables)
    shown = {table: real.lab.inside(router, lambda table=table: nftables.fingerprint(*table)) for table in TABLES}
    nothing = nftables.fingerprint("inet", "nothing")
    nftables.close()
    assert len({nothing, *shown.values()}) == 1 + len(TABLES)
    other = real.lab.namespace("other")
    text = real.lab.command(router, "nft -s list ruleset")
    (real.lab.folder / "rules").write_text(text)
    real.lab.command(other, f"nft -f {real.lab.folder / 'rules'}")
    (real.lab.folder / "rules").unlink()
    nftables = real.lab.inside(other, Nftables)
    assert {table: nftables.fingerprint(*table) for table in TABLES} == shown
    nftables.close()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("meddling", ["delete table {0} {1}", "add rule {0} {1} {2} drop", "flush chain {0} {1} {2}"])
async def test_rules_that_were_meddled_with_come_back(real: RealWorld, table: tuple[str, str], meddling: str) -> None:
    await two_pods(real, FULL)
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    before = real.lab.command(router, "nft -s list ruleset")
    chain = {"tarmac-policy": "forward", "tarmac-services": "translate-prerouting", "tarmac-egress": "mask"}.get(
        table[1], "check"
    )
    real.lab.command(router, "nft " + meddling.format(*table, chain))
    assert real.lab.command(router, "nft -s list ruleset") != before
    await real.node(1).apply(one_network(FULL))
    assert _sorted(real.lab.command(router, "nft -s list ruleset")) == _sorted(before)


async def test_elements_and_routes_that_were_removed_come_back(real: RealWorld) -> None:
    await two_pods(real, FULL)
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    before = real.lab.everything(router)
    real.lab.command(router, f"nft delete element inet tarmac-policy in4 {{ {A} }}")
    real.lab.command(router, "ip route delete 10.128.16.0/20")
    real.lab.command(router, "ip neighbour flush dev tunnel nud permanent")
    await real.node(1).apply(one_network(FULL))
    assert _sorted(real.lab.everything(router)) == _sorted(before)


async def test_whom_the_rules_are_about_is_taken_up_and_comes_back(real: RealWorld) -> None:
    alike = [nic(NET, f"{A}/20"), nic(NET, f"{B6}/64")]
    await two_pods(real, FULL)
    assert await real.node(1).has_rules_about("uid-a", [alike[0]])
    assert not await real.node(1).has_rules_about("uid-a", alike), "the other address belongs to another pod"
    successor = await real.restart(1)
    assert await successor.has_rules_about("uid-b", [alike[1]])
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    real.lab.command(router, f"nft delete element inet tarmac-pods pods4 {{ {A} }}")
    real.lab.command(router, "nft add element inet tarmac-pods pods4 { 10.128.0.99 }")
    assert not await successor.has_rules_about("uid-a", [alike[0]])
    changed = replace(FULL, pods={A: "uid-a", B6: "uid-c"})
    await successor.apply(one_network(changed))
    assert await successor.has_rules_about("uid-a", [alike[0]])
    assert not await successor.has_rules_about("uid-b", [alike[1]])
    await successor.apply(one_network(replace(FULL, pods={})), verify=False)
    assert "elements" not in real.lab.command(router, "nft list table inet tarmac-pods")


async def test_applying_what_is_so_already_changes_nothing(real: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await two_pods(real, FULL)
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    handles = real.lab.command(router, "nft -a list ruleset")
    await real.node(1).apply(one_network(FULL))
    assert real.lab.command(router, "nft -a list ruleset") == handles


def _sorted(text: str) -> list[str]:
    return sorted(text.splitlines())
