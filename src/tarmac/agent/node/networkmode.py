"""Who connects pods: the agent itself, or the cluster's own plugins.

The agent makes networks from PodEndpoints, which Tarmac's own server makes of Pods; elsewhere a node may not know the
pods of other nodes, and Networks are only definitions. So when it is left to the agent (`auto`) it does so where they
are served, and when it is told to (`tarmac`) and they are not, it does not start. The answer is kept on disk, so that
an agent that starts while the server is away does as it did before.
"""

from __future__ import annotations

from tarmac.agent.config.reading import BadConfig
from tarmac.agent.config.settings import AgentConfig
from tarmac.api.status import ApiError
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.discovery import serves
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import POD_ENDPOINTS

_PAUSE = 2.0
_UNSERVED = (
    f"--network tarmac: the API server does not serve {POD_ENDPOINTS.plural}.{POD_ENDPOINTS.group}, which the agent "
    "makes networks from. Use --network cni and a network plugin there, or Tarmac's own API server."
)
_log = log("agent")


async def has_own_network(config: AgentConfig, client: Client) -> bool:
    """Whether pods are connected by us; waits for the server only if nothing was ever known. Raises BadConfig."""
    told = config.flags.network
    if told == "cni":
        return False
    kept = config.root_dir / "network"
    if told == "tarmac" and kept.exists() and kept.read_text() == "tarmac":
        return True
    while True:
        try:
            kept.write_text("tarmac" if await serves(client, POD_ENDPOINTS) else "cni")
        except (ApiError, ClientError) as error:
            if told == "tarmac":
                return True  # as told: it has nothing to make networks from until the server is back anyway
            if not kept.exists():
                _log.warning("the server does not say whether it has Networks", why=str(error))
                await client.clock.sleep(_PAUSE)
                continue
        own = kept.read_text() == "tarmac"
        if told == "tarmac" and not own:
            raise BadConfig(_UNSERVED)
        return own
