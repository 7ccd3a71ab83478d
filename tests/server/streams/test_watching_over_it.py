"""Metrics of the whole cluster at `/metrics`, and the scrape targets, on a server with one node."""

from __future__ import annotations

import json
import re
from typing import Any

from tarmac import __version__
from tarmac.api.schema import JsonObject
from tarmac.base.clock import SystemClock, rfc3339
from tarmac.client.targets.untyped import CONFIG_MAPS, LEASES, NODES
from tarmac.client.transport import ClientRequest
from tests.server.streams.planet import Planet, add_node
from tools.cache import ROOT

PAGE = ROOT / "docs" / "reference" / "metrics.md"
DAY = 86400


async def scraped(world: Planet) -> dict[str, float]:
    reply = await world.client.transport.request(ClientRequest("GET", "/metrics"))
    lines = [line.rpartition(" ") for line in reply.body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def targets(world: Planet, what: str) -> Any:
    headers = {"host": "127.0.0.1:6443"}
    reply = await world.client.transport.request(ClientRequest("GET", f"/tarmac/v1/targets/{what}", headers=headers))
    return json.loads(reply.body)


async def test_a_server_that_is_well_says_so(world: Planet) -> None:
    found = await scraped(world)
    assert found[f'tarmac_build_info{{version="{__version__}"}}'] == 1
    assert found["tarmac_store_available"] == 1
    assert found["tarmac_leader"] == 1
    assert found["tarmac_node_tunnels"] == 1
    assert 360 * DAY < found['tarmac_certificate_expiry_seconds{name="server"}'] <= 365 * DAY
    assert found['tarmac_certificate_expiry_seconds{name="ca"}'] > 3000 * DAY
    assert found['tarmac_disk_available_bytes{name="data"}'] > 0


async def test_nodes_are_ready_or_not_and_have_tunnels_or_not(world: Planet) -> None:
    await add_node(world.client, "n2")
    found = await scraped(world)
    assert [found[f'tarmac_node_tunnel{{node="{node}"}}'] for node in ("n1", "n2")] == [1, 0]
    assert found['tarmac_node_ready{node="n2",location=""}'] == 1
    await _set_ready(world, "n2", "Unknown")
    assert (await scraped(world))['tarmac_node_ready{node="n2",location=""}'] == 0


async def _set_ready(world: Planet, name: str, status: str) -> None:
    node = await world.client.resource(NODES).get(name)
    node["status"]["conditions"] = [{"type": "Ready", "status": status}]
    await world.client.resource(NODES).update(node, subresource="status")


async def test_a_backup_has_an_age_and_none_has_no_figure(world: Planet) -> None:
    assert "tarmac_backup_age_seconds" not in await scraped(world)
    record: JsonObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tarmac-backups", "namespace": "kube-system"},
        "data": {"time": rfc3339(SystemClock().now() - 3600), "revision": "7", "digest": "x"},
    }
    made = await world.client.resource(CONFIG_MAPS).create(record)
    assert 3600 <= (await scraped(world))["tarmac_backup_age_seconds"] < 3700
    made["data"]["time"] = "yesterday"
    await world.client.resource(CONFIG_MAPS).update(made)
    assert "tarmac_backup_age_seconds" not in await scraped(world)


async def test_targets_are_the_announced_servers_else_the_one_that_was_asked(world: Planet) -> None:
    assert await targets(world, "servers") == [{"targets": ["127.0.0.1:6443"]}]
    for name, urls in (("apiserver-a", "https://192.0.2.7:6443 https://[2001:db8::7]:6443"), ("apiserver-b", "evil")):
        lease: JsonObject = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"holderIdentity": urls},
        }
        await world.client.resource(LEASES).create(lease)
    assert await targets(world, "servers") == [{"targets": ["192.0.2.7:6443", "[2001:db8::7]:6443"]}]


async def test_each_node_is_a_target_through_the_server(world: Planet) -> None:
    labels = {"__metrics_path__": "/api/v1/nodes/n1/proxy/metrics", "instance": "n1", "location": ""}
    assert await targets(world, "nodes") == [{"targets": ["127.0.0.1:6443"], "labels": labels}]
    assert (await targets(world, "pods"))["reason"] == "NotFound"


async def test_every_figure_is_on_the_page(world: Planet) -> None:
    families = {re.split(r"[{ ]", name)[0] for name in await scraped(world)}
    own = {name for name in families if name.startswith(("tarmac_", "apiserver_")) and "_seconds_" not in name}
    page = PAGE.read_text()
    assert len(own) > 10
    assert sorted(name for name in own if f"`{name}`" not in page) == []
