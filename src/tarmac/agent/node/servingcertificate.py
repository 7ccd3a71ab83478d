"""The certificate of the node's own HTTP API: signed by the cluster if possible, else self-signed.

A self-signed pair exists from the start, so the API never waits. With `serverTLSBootstrap`, a signed certificate is
requested for the addresses of the Node object, and replaces it; it is requested anew when these change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.node.certificates.certificatefiles import PairFile, split_pair
from tarmac.agent.node.certificates.certificaterequests import SERVING_SIGNER, NodeCertificateSubject, obtain
from tarmac.agent.node.certificates.cryptoprocess import CryptoRequest, run_crypto
from tarmac.agent.node.certificates.rotation import CertificateRotation, usable_until
from tarmac.api.schema import JsonObject
from tarmac.base.log import log
from tarmac.base.tasks import background
from tarmac.client.client import Client

_YEAR = 365 * 24 * 3600.0
_CHECK_INTERVAL = 30.0
_log = log("agent")


class ServingCertificate:
    """`certificate` and `key` are the files to serve with now; `on_change` hooks are called for new ones."""

    def __init__(
        self,
        client: Client,
        config: AgentConfig,
        node: Callable[[], JsonObject | None],
        outdated: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`outdated` as in `CertificateRotation`."""
        self._outdated = outdated
        self._client = client
        self._clock = client.clock
        self._config = config
        self._node = node
        self._signed = PairFile(config.root_dir / "pki", "kubelet-server", self._clock)
        self._own = PairFile(config.root_dir / "pki", "kubelet-self-signed", self._clock)
        self._hooks: list[Callable[[], None]] = []
        self._files = (Path(config.kubelet.tls_cert_file), Path(config.kubelet.tls_private_key_file))

    @property
    def certificate(self) -> Path:
        """The certificate chain to serve."""
        return self._files[0]

    @property
    def key(self) -> Path:
        """The private key of that certificate."""
        return self._files[1]

    def on_change(self, hook: Callable[[], None]) -> None:
        """Call `hook` when there is a new pair."""
        self._hooks.append(hook)

    async def prepare(self, addresses: list[JsonObject]) -> None:
        """Select the pair to serve with: the configured one, one signed earlier, or a self-signed one."""
        if self._config.kubelet.tls_cert_file:
            return
        subject = _subject(self._config.node_name, addresses)
        now, names = self._clock.now(), {*subject.names, *subject.addresses}
        if await usable_until(self._signed.read(), subject.common_name, names) > now:
            self._use(self._signed)
            return
        if await usable_until(self._own.read(), subject.common_name, names) <= now:
            order = CryptoRequest(
                "self-signed", subject.common_name, "", subject.names, subject.addresses, now - 3600, now + _YEAR
            )
            crafted = await run_crypto(order)
            self._own.write(crafted.certificate, crafted.key)
        self._use(self._own)

    async def run(self) -> None:
        """Request a signed certificate and renew it, until cancelled."""
        if self._config.kubelet.tls_cert_file or not self._config.kubelet.server_tls_bootstrap:
            return
        current = split_pair(self._signed.read())[0] if self._files[0] == self._signed.path else ""
        while True:
            subject = await self._known_subject()
            async with background(self._rotation(subject).run(current), "rotation of the serving certificate") as work:
                # Leaving the block cancels the rotation: an old one would replace the pair with one for the old
                # addresses.
                await self._until_moved(subject, work)
            # The node has other addresses: the certificate lacks them, and is requested anew at once.
            current = ""

    def _rotation(self, subject: NodeCertificateSubject) -> CertificateRotation:
        return CertificateRotation(
            self._signed,
            lambda: obtain(self._client, SERVING_SIGNER, subject),
            lambda _certificate, _key: self._changed(),
            self._clock,
            self._client.randomness,
            self._outdated,
        )

    async def _known_subject(self) -> NodeCertificateSubject:
        while True:
            node = self._node()
            if node is not None and (addresses := (node.get("status") or {}).get("addresses")):
                return _subject(self._config.node_name, addresses)
            await self._clock.sleep(1.0)

    async def _until_moved(self, subject: NodeCertificateSubject, work: asyncio.Future[None]) -> None:
        while not work.done() and await self._known_subject() == subject:
            await self._clock.sleep(_CHECK_INTERVAL)

    def _changed(self) -> None:
        _log.info("serving certificate signed by the cluster")
        self._use(self._signed)
        # After the files are chosen: hooks load them at once.
        for hook in self._hooks:
            hook()

    def _use(self, file: PairFile) -> None:
        self._files = (file.path, file.path)


def _subject(node: str, addresses: list[JsonObject]) -> NodeCertificateSubject:
    by_type = [(each["type"], each["address"]) for each in addresses]
    names = sorted({address for kind, address in by_type if kind in ("Hostname", "InternalDNS", "ExternalDNS")})
    return NodeCertificateSubject(
        node,
        tuple(names),
        tuple(sorted({address for kind, address in by_type if kind in ("InternalIP", "ExternalIP")})),
    )
