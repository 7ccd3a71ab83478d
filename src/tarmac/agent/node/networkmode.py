"""Who connects pods: the agent itself, or the cluster's own plugins.

When it is left to the agent (`auto`) the server decides: whoever serves Networks wants them made real. The answer is
kept on disk, so that an agent that starts while the server is away does as it did before.
"""

from __future__ import annotations

from pathlib import Path

from tarmac.agent.config.settings import NetworkMode
from tarmac.api.networking.names import API_VERSION
from tarmac.api.status import ApiError, NotFound
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError

_PAUSE = 2.0
_log = log("agent")


async def network_mode(client: Client, told: NetworkMode, root: Path) -> NetworkMode:
    """`tarmac` or `cni`; waits for the server only if nothing was ever known."""
    if told != "auto":
        return told
    kept = root / "network"
    while True:
        try:
            found = await _served(client)
        except (ApiError, ClientError) as error:
            if kept.exists():
                return "tarmac" if kept.read_text() == "tarmac" else "cni"
            _log.warning("the server does not say whether it has Networks", why=str(error))
            await client.clock.sleep(_PAUSE)
            continue
        kept.write_text(found)
        return found


async def _served(client: Client) -> NetworkMode:
    try:
        await client.get_json(f"/apis/{API_VERSION}")
    except NotFound:
        return "cni"
    return "tarmac"
