"""Decides if pods are connected by the agent itself, or by the cluster's own CNI plugins.

The agent builds networks from PodEndpoints, which Tarmac's own server derives from Pods; elsewhere a node may not know
the pods of other nodes, and Networks are only definitions. So in mode `auto` the agent connects pods if the server has
PodEndpoints, and in mode `tarmac` it does not start without them. The answer is kept on disk, so that an agent that
starts while the server is unreachable behaves as before.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.config.configreader import BadConfig
from tarmac.api.status import ApiError
from tarmac.base.log import log
from tarmac.base.statefiles import read_state, replace_state
from tarmac.client.client import Client
from tarmac.client.discovery import serves
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import POD_ENDPOINTS

_PAUSE = 2.0
_MAX_ANSWER = 16
_UNSERVED = (
    f"--network tarmac: the API server does not serve {POD_ENDPOINTS.plural}.{POD_ENDPOINTS.group}, which the agent "
    "makes networks from. Use --network cni and a network plugin there, or Tarmac's own API server."
)
_log = log("agent")


async def has_own_network(config: AgentConfig, client: Client) -> bool:
    """Return True if the agent connects pods.

    Waits for the server only if there is no earlier answer. Raises BadConfig.
    """
    mode = config.flags.network
    if mode == "cni":
        return False
    kept = config.root_dir / "network"
    if mode == "tarmac" and _answer(kept) == "tarmac":
        return True
    while True:
        try:
            # Replaced, not written: a kill in between must not leave an empty answer, which passed for "cni".
            replace_state(kept, b"tarmac" if await serves(client, POD_ENDPOINTS) else b"cni")
        except (ApiError, ClientError) as error:
            if mode == "tarmac":
                return True  # as configured: without the server it has no input for networks anyway
            if not _answer(kept):
                _log.warning("cannot determine if the server has PodEndpoints, will retry", why=str(error))
                await client.clock.sleep(_PAUSE)
                continue
        own = _answer(kept) == "tarmac"
        if mode == "tarmac" and not own:
            raise BadConfig(_UNSERVED)
        return own


def _answer(kept: Path) -> str:
    """Return the answer of an earlier start; empty without one, and for a file that an earlier version left empty."""
    with suppress(FileNotFoundError):
        return read_state(kept, _MAX_ANSWER).decode("ascii", "replace")
    return ""
