"""A node in a process of its own: it serves the logs in a folder through a tunnel until it is killed."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tarmac.agent.http.api import NodeApi
from tarmac.agent.http.auth import DenyAll
from tarmac.agent.http.tunnel import ServerTunnels
from tarmac.api.schema import JsonObject
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.serverlist import KnownServers
from tarmac.server.security.certificates.pki import Pki
from tests.agent.http.processes import ProcessRuntime
from tests.agent.http.stage import StageFigures, StagePods, dial, visits_in

PODS = "pods.json"  # the node's list of its pods


class FolderPods(StagePods):
    """Each pod has a log with its own name."""

    def log_path(self, pod: JsonObject, container: str, previous: bool = False) -> Path | None:
        return None if previous else self.logs / f"{pod['metadata']['name']}.log"


async def serve(url: str, pki: Path, node: str, folder: Path) -> None:
    clock, authority = SystemClock(), Pki(pki, SystemClock())
    pair = authority.node(node)
    ca = authority.ca_file.read_text()
    config = HttpConfig(url, ca=ca, certificate=pair.certificate.decode(), key=pair.key.decode())
    api = NodeApi(
        pods=FolderPods(folder, json.loads((folder / PODS).read_text())),
        runtime=ProcessRuntime({"main": "running"}).as_runtime(),
        connect=dial,
        node_metrics=StageFigures(),
        authorizer=DenyAll(),
        clock=clock,
        consoles=visits_in(folder / node),
        external=None,
    )
    servers = KnownServers(Client(HttpTransport(config), clock, Randomness()), lambda: url)
    await ServerTunnels(api, node, lambda: config, servers, clock, Randomness()).run()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])))
