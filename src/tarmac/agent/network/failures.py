"""Networks that could not be made, each by itself: when it is tried again, and what of it the kernel refused.

A network whose rules were refused is closed meanwhile: nothing passes, so that rules which somebody has taken back are
not left in force. It is tried as it should be when it has changed, or when its time has come, less and less often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tarmac.api.networking.names import API_VERSION
from tarmac.api.networking.network import Network
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.client.backoff import Backoff
from tarmac.client.events import InvolvedObject, Recorder
from tarmac.datapath.interface import NetworkState
from tarmac.decide.reach.policies import DENIED

REASON = "NetworkClosed"
SHOWN = 3

_log = log("network")


@dataclass(slots=True)
class _Trouble:
    backoff: Backoff
    refused: NetworkState | None = None
    retry_at: float = 0.0


class Troubles:
    """What failed, by network; the node itself has the name `interface.HOST`."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._known: dict[str, _Trouble] = {}

    @property
    def next_at(self) -> float | None:
        """When something is to be tried again."""
        return min((trouble.retry_at for trouble in self._known.values()), default=None)

    def stand_in(self, network: NetworkState) -> NetworkState:
        """What to make of a network now: itself, or itself closed while the very same has been refused."""
        trouble = self._known.get(network.name)
        if trouble is None or trouble.refused is None or trouble.retry_at <= self._clock.monotonic():
            return network
        if trouble.refused != network:
            trouble.backoff.reset()
            return network
        return closed(network)

    def settle(self, made: Iterable[NetworkState], failures: Mapping[str, Exception]) -> bool:
        """Take note of what became of networks, as they were tried; whether one of them has to be closed now."""
        tried = {network.name: network for network in made}
        for name in self._known.keys() - failures.keys():
            trouble = self._known[name]
            # A network that was closed meanwhile, and only that, goes on being in trouble.
            if trouble.refused is None or name not in tried or tried[name] != closed(trouble.refused):
                del self._known[name]
        refused = False
        for name, failure in failures.items():
            refused |= self._note(name, failure, tried.get(name))
        return refused

    def _note(self, name: str, failure: Exception, tried: NetworkState | None) -> bool:
        _log.error("a network could not be made", network=name, error=repr(failure))
        trouble = self._known.setdefault(name, _Trouble(Backoff(self._randomness, 0.2, 30.0)))
        trouble.retry_at = self._clock.monotonic() + trouble.backoff.next()
        if isinstance(failure, OSError) or tried is None or tried == closed(tried):
            return False
        trouble.refused = tried
        return True


def closed(network: NetworkState) -> NetworkState:
    """A network in which nobody may talk."""
    return replace(network, rules=dict.fromkeys(network.rules, DENIED), services=(), host_ports=())


class Complaints:
    """Tells people by Events why networks are closed, wholly or in part, once for each reason."""

    def __init__(self, recorder: Recorder, networks: Mapping[str, Network]) -> None:
        self._recorder = recorder
        self._networks = networks
        self._told: dict[str, tuple[str, ...]] = {}

    def about(self, refusals: Mapping[str, Sequence[str]]) -> None:
        """What is closed now, and why."""
        now = {name: tuple(why) for name, why in refusals.items()}
        for name, why in now.items():
            if self._told.get(name) != why and name in self._networks:
                own = self._networks[name].metadata
                more = f" and {len(why) - SHOWN} more" if len(why) > SHOWN else ""
                message = f"Closed on this node, since it is too large for one Network: {'; '.join(why[:SHOWN])}{more}."
                about = InvolvedObject(API_VERSION, "Network", own.name, own.namespace, own.uid)
                self._recorder.event(about, "Warning", REASON, message)
        self._told = now
