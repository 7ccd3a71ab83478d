"""The node's own HTTP API: on a port for direct clients, and over tunnels that the node opens itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.config.configz import in_effect
from tarmac.agent.http.api import ExternalConnections, IngressCheck, NodeApi
from tarmac.agent.http.apidependencies import Connect, NodeMetrics
from tarmac.agent.http.auth import ReviewAuthorizer, ReviewCacheTimes
from tarmac.agent.http.machines.api import ConsoleServices
from tarmac.agent.http.machines.recordings import RecordingLimits, Recordings
from tarmac.agent.http.machines.sessions import MachineSessions
from tarmac.agent.http.serving import NodeListener
from tarmac.agent.http.tunnel import ServerTunnels
from tarmac.agent.node.certificates.certificatefiles import write_private
from tarmac.agent.node.identity import NodeIdentity
from tarmac.agent.node.servingcertificate import ServingCertificate
from tarmac.agent.pods.manager import PodManager
from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.client.serverlist import KnownServers
from tarmac.runtimes.interface import Runtime


class Serving:
    """Composes the node's API and its listeners."""

    def __init__(
        self,
        config: AgentConfig,
        in_effect_now: Callable[[], AgentConfig],
        client: Client,
        identity: NodeIdentity,
        pods: PodManager,
        runtime: Runtime,
        connect: Connect,
        figures: NodeMetrics,
        node: Callable[[], JsonObject],
        recorder: Recorder,
        external: ExternalConnections | None,
        ingress: IngressCheck | None,
    ) -> None:
        webhook, reviews = config.kubelet.authentication.webhook, config.kubelet.authorization.webhook
        times = ReviewCacheTimes(webhook.cache_ttl, reviews.cache_authorized_ttl, reviews.cache_unauthorized_ttl)
        limits = RecordingLimits(config.flags.recording_days, config.flags.recording_bytes)
        recordings = Recordings(config.root_dir / "recordings", client.clock, limits)
        sessions = MachineSessions(recordings, partial(_record_event, recorder))
        api = NodeApi(
            pods=pods,
            runtime=runtime,
            connect=connect,
            node_metrics=figures,
            authorizer=ReviewAuthorizer(client, config.node_name, client.clock, times),
            clock=client.clock,
            consoles=ConsoleServices(sessions, recordings, client.randomness),
            config=lambda: in_effect(in_effect_now()),
            external=external,
            ingress=ingress,
            idle_seconds=config.kubelet.streaming_connection_idle_timeout,
        )
        servers = KnownServers(client, lambda: identity.http.url)
        self._config = config
        self._identity = identity
        self._node = node
        self._api = api
        self._recordings = recordings
        self._certificate = ServingCertificate(client, config, node, identity.authorities.outdated)
        self._tunnels = ServerTunnels(
            api, config.node_name, lambda: identity.http, servers, client.clock, client.randomness
        )

    def runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the tasks to run, by name."""
        return {
            "http": self._listen,
            "serving certificate": self._certificate.run,
            "tunnels": self._tunnels.run,
            "recordings": self._recordings.run,
        }

    async def _listen(self) -> None:
        kubelet, certificate = self._config.kubelet, self._certificate
        await certificate.prepare((self._node().get("status") or {}).get("addresses") or [])
        listener = NodeListener(self._api, kubelet.address, kubelet.port, self._client_authority())
        certificate.on_change(lambda: listener.renew(certificate.certificate, certificate.key))
        self._identity.on_trust(lambda: self._trust(listener))
        await listener.run(certificate.certificate, certificate.key)

    def _trust(self, listener: NodeListener) -> None:
        """Accept clients of the new authorities from now on."""
        self._client_authority()
        listener.renew(self._certificate.certificate, self._certificate.key)

    def _client_authority(self) -> Path | None:
        """Return the CA file for client certificates: the configured one, else the server's."""
        if named := self._config.kubelet.authentication.x509.client_ca_file:
            return Path(named)
        if self._identity.http.ca is None:
            return None
        path = self._config.root_dir / "pki" / "server-authority.crt"
        write_private(path, self._identity.http.ca)
        return path


def _record_event(recorder: Recorder, pod: JsonObject, reason: str, message: str) -> None:
    """Emit an event of the pod's Instance: users know the console by that name."""
    metadata = pod["metadata"]
    for each in metadata.get("ownerReferences") or ():
        if each.get("kind") == "Instance":
            place = (each["name"], metadata["namespace"], each["uid"])
            recorder.event(InvolvedObject(each["apiVersion"], "Instance", *place), "Normal", reason, message)
