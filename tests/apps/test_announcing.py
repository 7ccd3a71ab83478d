"""Several servers of one store: each is an endpoint of `default/kubernetes` exactly while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tarmac import __version__
from tarmac.api.status import NotFound
from tarmac.apps import serverleases as announcing
from tarmac.apps.control_plane import local_transport
from tarmac.apps.serverleases import DURATION, INTERVAL, Announcement, announced, reached_at
from tarmac.base.clock import ManualClock
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected
from tarmac.client.targets.untyped import ENDPOINT_SLICES, ENDPOINTS, LEASES
from tests.client.backends import ADMIN, our_server

NOT_MIRRORED = {"endpointslice.kubernetes.io/skip-mirror": "true"}
ONE, TWO = "192.0.2.1", "192.0.2.2"


class Store:
    """One store, and the servers that announce themselves in it."""

    def __init__(self, connect: Callable[[ManualClock | None], Client]) -> None:
        self.connect = connect
        self.client = connect(None)
        self.clock = ManualClock()

    def server(self, *hosts: str, port: int = 6443, clock: ManualClock | None = None) -> Announcement:
        return Announcement(self.connect(clock or self.clock), hosts, port)

    async def slices(self) -> dict[str, list[str]]:
        """Return `address:port` by slice."""
        listed = await self.client.resource(ENDPOINT_SLICES).list(
            "default", labels="kubernetes.io/service-name=kubernetes"
        )
        return {each["metadata"]["name"]: sorted(_in_slice(each)) for each in listed.items}

    async def endpoints(self) -> list[str]:
        found = await self.client.resource(ENDPOINTS).get("kubernetes", "default")
        return sorted(
            f"{address['ip']}:{port['port']}"
            for subset in found["subsets"]
            for address in subset["addresses"]
            for port in subset["ports"]
        )

    async def leases(self) -> list[str]:
        listed = await self.client.resource(LEASES).list("kube-system")
        return [each["spec"]["holderIdentity"] for each in listed.items]


def _in_slice(part: Any) -> list[str]:
    (port,) = part["ports"]
    return [f"{address}:{port['port']}" for each in part["endpoints"] for address in each["addresses"]]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with our_server(tmp_path) as running:
        yield Store(lambda clock: Client(local_transport(running.server, ADMIN), clock))


async def test_servers_add_themselves(store: Store) -> None:
    for host in (ONE, TWO):
        await store.server(host).announce()
    both = [f"{ONE}:6443", f"{TWO}:6443"]
    assert await store.slices() == {"kubernetes": both}
    assert await store.endpoints() == both
    listed = await store.client.resource(LEASES).list("kube-system")
    assert {each["metadata"]["annotations"]["tarmac.dev/version"] for each in listed.items} == {__version__}


async def test_a_server_that_says_nothing_more_is_left_out_and_forgotten(store: Store) -> None:
    one, two = store.server(ONE), store.server(TWO)
    await two.announce()
    for _ in range(int(DURATION / INTERVAL)):
        await one.announce()
        assert await store.endpoints() == [f"{ONE}:6443", f"{TWO}:6443"]
        store.clock.advance(INTERVAL)
    await one.announce()
    assert await store.endpoints() == [f"{ONE}:6443"]
    assert await store.leases() == [f"https://{ONE}:6443"]
    await two.announce()
    assert await store.endpoints() == [f"{ONE}:6443", f"{TWO}:6443"], "it was only away for a moment"


async def test_a_server_that_announces_nothing_forgets_the_others_all_the_same(store: Store) -> None:
    await store.server(TWO).announce()
    alone = store.server()
    for _ in range(int(DURATION / INTERVAL)):
        await alone.announce()
        store.clock.advance(INTERVAL)
    await alone.announce()
    assert await store.leases() == []
    assert await store.endpoints() == [f"{TWO}:6443"], "the last known address"


async def test_expiry_ignores_the_clocks_of_servers(store: Store) -> None:
    late = ManualClock(store.clock.now() - 86400)
    one, two = store.server(ONE), store.server(TWO, clock=late)
    for _ in range(10):
        await one.announce()
        await two.announce()
        store.clock.advance(INTERVAL)
        late.advance(INTERVAL)
        assert await store.endpoints() == [f"{ONE}:6443", f"{TWO}:6443"]


async def test_a_server_that_stops_withdraws_but_the_last_ones_addresses_stay(store: Store) -> None:
    one, two = store.server(ONE), store.server(TWO)
    await one.announce()
    await two.announce()
    await one.withdraw()
    assert await store.slices() == {"kubernetes": [f"{TWO}:6443"]}
    await two.withdraw()
    await two.withdraw()
    assert await store.slices() == {"kubernetes": [f"{TWO}:6443"]}
    assert await store.leases() == []


async def test_families_and_ports_have_slices_of_their_own(store: Store) -> None:
    await store.server(ONE, "2001:db8::1").announce()
    other = store.server(TWO, "2001:db8::2", port=7443)
    await other.announce()
    assert await store.slices() == {
        "kubernetes": [f"{ONE}:6443"],
        "kubernetes-ipv6": ["2001:db8::1:6443"],
        "kubernetes-ipv4-7443": [f"{TWO}:7443"],
        "kubernetes-ipv6-7443": ["2001:db8::2:7443"],
    }
    assert await store.endpoints() == ["192.0.2.1:6443", "192.0.2.2:7443", "2001:db8::1:6443", "2001:db8::2:7443"]
    await other.withdraw()
    assert list(await store.slices()) == ["kubernetes", "kubernetes-ipv6"]


async def test_correct_endpoints_stay_and_changed_ones_are_restored(store: Store) -> None:
    one = store.server(ONE)
    await one.announce()
    slices, endpoints = store.client.resource(ENDPOINT_SLICES), store.client.resource(ENDPOINTS)
    before = await slices.get("kubernetes", "default")
    await one.announce()
    assert await slices.get("kubernetes", "default") == before
    await slices.delete("kubernetes", "default")
    await endpoints.delete("kubernetes", "default")
    own = {"addressType": "IPv4", "endpoints": [{"addresses": [TWO]}], "ports": []}
    labels = {"kubernetes.io/service-name": "kubernetes"}
    metadata = {"name": "by-hand", "namespace": "default", "labels": labels}
    await slices.create(
        {"apiVersion": ENDPOINT_SLICES.api_version, "kind": ENDPOINT_SLICES.kind, "metadata": metadata, **own}
    )
    await one.announce()
    assert (await endpoints.get("kubernetes", "default"))["metadata"]["labels"] == NOT_MIRRORED
    await endpoints.patch("kubernetes", {"metadata": {"labels": None}}, "default")
    await one.announce()
    assert (await endpoints.get("kubernetes", "default"))["metadata"]["labels"] == NOT_MIRRORED
    assert (await slices.get("by-hand", "default"))["endpoints"], "slices of other writers stay"


async def test_a_server_that_nobody_else_can_reach_announces_nothing(store: Store) -> None:
    server = store.server(*reached_at(["127.0.0.1", "::1", "localhost"]))
    await server.announce()
    await server.withdraw()
    assert (await store.slices(), await store.leases()) == ({}, [])
    with pytest.raises(NotFound):
        await store.endpoints()


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([TWO, "127.0.0.1", TWO], [TWO]),
        (["0.0.0.0"], [ONE]),
        (["::"], ["2001:db8::1"]),
        ([""], [ONE, "2001:db8::1"]),
    ],
)
def test_a_server_that_listens_everywhere_is_where_its_machine_goes_out(
    monkeypatch: pytest.MonkeyPatch, hosts: list[str], expected: list[str]
) -> None:
    monkeypatch.setattr(announcing, "outgoing", lambda: [ONE, "2001:db8::1"])
    assert reached_at(hosts) == expected


async def test_a_word_that_is_not_heard_is_said_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    announce, failures, heard = Announcement.announce, [Disconnected("cut")], asyncio.Event()

    async def unsteady(self: Announcement) -> None:
        if failures:
            raise failures.pop()
        await announce(self)
        heard.set()

    async with announced(store.connect(store.clock), [ONE], 6443):
        (lease,) = (await store.client.resource(LEASES).list("kube-system")).items
        await store.client.resource(LEASES).delete(lease["metadata"]["name"], "kube-system")
        monkeypatch.setattr(Announcement, "announce", unsteady)
        async with asyncio.timeout(10):
            while not heard.is_set():
                await asyncio.sleep(0.001)
                store.clock.advance(INTERVAL)
        assert await store.leases() == [f"https://{ONE}:6443"]
    assert await store.leases() == []
