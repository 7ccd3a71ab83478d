"""The node's identity towards the API server.

The kubeconfig names the server and, usually, a client certificate. Without one, a bootstrap kubeconfig's token is
exchanged for a certificate, and the kubeconfig is written: later starts use it like any other. A renewed certificate is
stored below the root directory and has precedence over the kubeconfig's own if it expires later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tarmac import __version__
from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.node.certificates.authorities import NodeAuthorities
from tarmac.agent.node.certificates.certificatefiles import PairFile, split_pair, write_private
from tarmac.agent.node.certificates.certificaterequests import (
    CLIENT_SIGNER,
    CertificateRefused,
    NodeCertificateSubject,
    obtain,
)
from tarmac.agent.node.certificates.cryptoprocess import CryptoError
from tarmac.agent.node.certificates.rotation import CertificateRotation, usable_until
from tarmac.agent.node.rotatingtransport import RotatingTransport
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.client.authorities import shown_authorities
from tarmac.client.client import Client
from tarmac.client.errors import BadKubeconfig
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import load, servers_extension, with_authorities, with_servers
from tarmac.client.serverlist import follow_servers
from tarmac.http.bundles import certificates_in

_USER_AGENT = f"tarmac-agent/{__version__}"
_log = log("agent")


class NodeIdentity:
    """The node's credentials and the client that uses them. `http` are the current ones, once there is a client."""

    http: HttpConfig

    def __init__(self, config: AgentConfig, clock: Clock, randomness: Randomness) -> None:
        self._config = config
        self._clock = clock
        self._randomness = randomness
        self._file = PairFile(config.root_dir / "pki", "kubelet-client", clock)
        self._subject = NodeCertificateSubject(config.node_name)
        self._rotation: CertificateRotation | None = None
        self.authorities = NodeAuthorities()
        self._hooks: list[Callable[[], None]] = []

    def ends(self) -> float | None:
        """Return the expiry of our certificate, if it is renewed here."""
        return self._rotation.ends if self._rotation else None

    async def client(self) -> Client:
        """Return the client with the node's own identity, after bootstrapping if necessary. Raises BadConfig."""
        # Before the kubeconfig is loaded: the bootstrap writes it.
        if not await self._is_known():
            await self._bootstrap()
        connection = load(str(self._config.flags.kubeconfig))
        self._named = connection.file
        self.http = await self._newest(connection.http)
        self._transport = RotatingTransport(replace(self.http, user_agent=_USER_AGENT), self._clock)
        self._client = Client(self._transport, self._clock, self._randomness)
        return self._client

    async def run(self) -> None:
        """Renew the certificate until cancelled. Returns at once if there is none, or rotation is off."""
        if not self.http.certificate or not self._config.kubelet.rotate_certificates:
            return
        self._rotation = CertificateRotation(
            self._file,
            lambda: obtain(self._client, CLIENT_SIGNER, self._subject),
            self._changed,
            self._clock,
            self._randomness,
            self.authorities.outdated,
        )
        await self._rotation.run(self.http.certificate)

    async def follow_servers(self) -> None:
        """Track every server of the cluster, also for the next start, if the kubeconfig is a file that names them."""
        if self._named is None:
            return
        await follow_servers(self._client, self.http.url, self.http.servers, self._use)

    def on_trust(self, hook: Callable[[], None]) -> None:
        """Call `hook` when the trusted authorities change."""
        self._hooks.append(hook)

    def trusts(self) -> str:
        """Return the Node's annotation text about authorities."""
        return self.authorities.words(self._rotation.issuer if self._rotation else "")

    async def follow_authorities(self) -> None:
        """Trust the authorities that the servers publish, also at the next start; not with the system's trust store."""
        if self.http.ca is None:
            return
        # The authorities of the kubeconfig first: the node announces them also while no server publishes any.
        await self._learn(self.http.ca)
        async for shown in shown_authorities(self._client):
            if shown != self.http.ca:
                # Trusted before it is announced: servers switch certificates once every node has announced the new
                # authority.
                self._trust(shown)
                await self._learn(shown)

    async def _learn(self, pem: str) -> None:
        try:
            await self.authorities.learn(pem)
        except (CryptoError, ValueError) as error:
            _log.warning("certificate authorities cannot be read", error=str(error))
        for hook in self._hooks:
            hook()

    def _trust(self, pem: str) -> None:
        _log.info("trusted certificate authorities changed", count=len(certificates_in(pem)))
        self.http = replace(self.http, ca=pem)
        self._transport.replace(replace(self.http, user_agent=_USER_AGENT))
        # Also on disk: after a restart the agent could not verify a server whose certificate has changed meanwhile.
        self._note(lambda text: with_authorities(text, self.http.url, pem))

    def _use(self, urls: list[str]) -> None:
        self.http = replace(self.http, servers=tuple(urls))
        self._transport.use(urls)
        self._note(lambda text: with_servers(text, urls))

    def _note(self, change: Callable[[str], str]) -> None:
        """Write a change to the kubeconfig for the next start, if it is a file that the agent maintains."""
        if self._named is not None:
            try:
                write_private(self._named, change(self._named.read_text()))
            # Not fatal: the running agent already uses the change, only the next start would not.
            except (OSError, BadKubeconfig) as error:
                _log.warning("kubeconfig cannot be updated", file=str(self._named), error=str(error))

    def _changed(self, certificate: str, key: str) -> None:
        _log.info("client certificate renewed")
        self.http = replace(self.http, certificate=certificate, key=key)
        self._transport.replace(replace(self.http, user_agent=_USER_AGENT))

    async def _is_known(self) -> bool:
        flags = self._config.flags
        if not flags.kubeconfig.exists():
            if flags.bootstrap_kubeconfig is None:
                raise BadConfig(
                    f"--kubeconfig: there is no {flags.kubeconfig}; write it, or give --bootstrap-kubeconfig"
                )
            return False
        http = load(str(flags.kubeconfig)).http
        if flags.bootstrap_kubeconfig is None or not http.certificate:
            return True
        ends = await usable_until(_pair(await self._newest(http)), self._subject.common_name)
        return ends > self._clock.now()

    async def _bootstrap(self) -> None:
        flags = self._config.flags
        first = load(str(flags.bootstrap_kubeconfig)).http
        client = Client(HttpTransport(first, self._clock), self._clock, self._randomness)
        # A token is bound to one key: an agent that is killed before it has the certificate retries with the same key.
        pending = self._config.root_dir / "pki" / "bootstrap.key"
        try:
            kept = pending.read_text() if pending.exists() else ""
            keep = partial(write_private, pending)
            certificate, key = await obtain(client, CLIENT_SIGNER, self._subject, kept, keep)
        except CertificateRefused as error:
            raise BadConfig(f"--bootstrap-kubeconfig: the cluster gives no certificate: {error}") from error
        finally:
            # Also when the bootstrap fails: each attempt would leave a connection with the bootstrap token open.
            await client.close()
        # The pair before the kubeconfig, which names its file: its presence ends the bootstrap.
        self._file.write(certificate, key)
        write_private(flags.kubeconfig, _kubeconfig(first, self._file.path))
        # Last: after a crash before this point the next agent retries with the same key.
        pending.unlink(missing_ok=True)
        _log.info("bootstrap complete, client certificate issued", kubeconfig=str(flags.kubeconfig))

    async def _newest(self, http: HttpConfig) -> HttpConfig:
        """Return the configuration with the certificate that expires last: the kubeconfig's, or a renewed one."""
        # A rotation writes only this file; an administrator may have written a newer pair to the kubeconfig.
        renewed = self._file.read()
        user = self._subject.common_name
        if not renewed or not http.certificate:
            return http
        if await usable_until(renewed, user) > await usable_until(_pair(http), user):
            certificate, key = split_pair(renewed)
            return replace(http, certificate=certificate, key=key)
        return http


def _pair(http: HttpConfig) -> str:
    return f"{http.certificate or ''}\n{http.key or ''}"


def _kubeconfig(server: HttpConfig, pair: Path) -> str:
    cluster: dict[str, Any] = {"server": server.url, "tls-server-name": server.server_name}
    if server.servers:
        cluster["extensions"] = servers_extension(server.servers)
    if server.ca is not None:
        import base64

        cluster["certificate-authority-data"] = base64.b64encode(server.ca.encode()).decode()
    user = {"client-certificate": str(pair), "client-key": str(pair)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default", "cluster": {name: value for name, value in cluster.items() if value}}],
        "users": [{"name": "default", "user": user}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "current-context": "default",
    }
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"
