"""Who connects pods: the agent itself, or the cluster's own plugins.

When it is left to the agent (`auto`) the server decides: whoever serves Networks wants them made real. The answer is
kept on disk, so that an agent that starts while the server is away does as it did before.
"""

from __future__ import annotations

from tarmac.agent.config.settings import AgentConfig
from tarmac.api.networking.names import API_VERSION
from tarmac.api.status import ApiError, NotFound
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError

_PAUSE = 2.0
_log = log("agent")


async def has_own_network(config: AgentConfig, client: Client) -> bool:
    """Whether pods are connected by us; waits for the server only if nothing was ever known."""
    if config.flags.network != "auto":
        return config.flags.network == "tarmac"
    kept = config.root_dir / "network"
    while True:
        try:
            kept.write_text("tarmac" if await _has_networks(client) else "cni")
        except (ApiError, ClientError) as error:
            if not kept.exists():
                _log.warning("the server does not say whether it has Networks", why=str(error))
                await client.clock.sleep(_PAUSE)
                continue
        return kept.read_text() == "tarmac"


async def _has_networks(client: Client) -> bool:
    try:
        await client.get_json(f"/apis/{API_VERSION}")
    except NotFound:
        return False
    return True
