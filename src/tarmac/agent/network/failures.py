"""Failed networks, each by itself: retry times, and the states that the kernel rejected.

A network with rejected rules is closed meanwhile: nothing passes, so that withdrawn rules do not stay in force. It is
retried when it has changed, or after a backoff.
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
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.datapath.interface import NetworkState
from tarmac.decide.reach.policies import DENIED

REASON = "NetworkClosed"
SHOWN = 3

_log = log("network")


@dataclass(slots=True)
class _FailedNetwork:
    backoff: Backoff
    refused: NetworkState | None = None
    retry_at: float = 0.0


class NetworkFailures:
    """Failures by network; the node itself has the name `interface.HOST`."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._known: dict[str, _FailedNetwork] = {}

    @property
    def next_at(self) -> float | None:
        """The time of the next retry, or None."""
        return min((failed.retry_at for failed in self._known.values()), default=None)

    def substitute(self, network: NetworkState) -> NetworkState:
        """Return the state to apply for a network now: itself, or closed while exactly this state was rejected."""
        failed = self._known.get(network.name)
        if failed is None or failed.refused is None or failed.retry_at <= self._clock.monotonic():
            return network
        # A changed network is tried at once: its change may be the correction.
        if failed.refused != network:
            failed.backoff.reset()
            return network
        return closed(network)

    def record(self, made: Iterable[NetworkState], failures: Mapping[str, Exception]) -> bool:
        """Record the results of an attempt. Return True if a network must be closed now."""
        tried = {network.name: network for network in made}
        for name in self._known.keys() - failures.keys():
            failed = self._known[name]
            # A network that was only applied in its closed form stays failed.
            if failed.refused is None or name not in tried or tried[name] != closed(failed.refused):
                del self._known[name]
        refused = False
        for name, failure in failures.items():
            refused |= self._note(name, failure, tried.get(name))
        return refused

    def _note(self, name: str, failure: Exception, tried: NetworkState | None) -> bool:
        _log.error("network cannot be applied", network=name, error=repr(failure))
        failed = self._known.setdefault(name, _FailedNetwork(Backoff(self._randomness, 0.2, 30.0)))
        # Also for a network that was closed already: it is retried in its full form when this time comes.
        failed.retry_at = self._clock.monotonic() + failed.backoff.next()
        # Not the fault of the rules: the network keeps its last state in force, which is safer than none.
        if isinstance(failure, OSError) or tried is None or tried == closed(tried):
            return False
        failed.refused = tried
        return True


def closed(network: NetworkState) -> NetworkState:
    """Return the network with all traffic denied."""
    return replace(network, rules=dict.fromkeys(network.rules, DENIED), services=(), host_ports=())


class FailureEvents:
    """Emits Events with the reason why networks are closed, wholly or in part, once for each reason."""

    def __init__(self, recorder: Recorder, networks: Mapping[str, Network]) -> None:
        self._recorder = recorder
        self._networks = networks
        self._reported: dict[str, tuple[str, ...]] = {}

    def about(self, refusals: Mapping[str, Sequence[str]]) -> None:
        """Emit Events for new or changed reasons."""
        now = {name: tuple(why) for name, why in refusals.items()}
        for name, why in now.items():
            if self._reported.get(name) != why and name in self._networks:
                own = self._networks[name].metadata
                more = f" and {len(why) - SHOWN} more" if len(why) > SHOWN else ""
                message = f"Closed on this node, since it is too large for one Network: {'; '.join(why[:SHOWN])}{more}."
                about = InvolvedObject(API_VERSION, "Network", own.name, own.namespace, own.uid)
                self._recorder.event(about, "Warning", REASON, message)
        self._reported = now
