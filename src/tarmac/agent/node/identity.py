"""Who the node is towards the API server.

The kubeconfig names the server and, usually, a client certificate. Without one, a bootstrap kubeconfig's token is
traded for a certificate, and the kubeconfig is written: from then on it is as if it had always been there. A renewed
certificate lives below the root directory and wins over the kubeconfig's own while it lasts longer.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from tarmac.agent.config.reading import BadConfig
from tarmac.agent.config.settings import AgentConfig
from tarmac.agent.node.certificates.files import PairFile, split_pair, write_private
from tarmac.agent.node.certificates.requests import CLIENT_SIGNER, CertificateRefused, CertificateSubject, obtain
from tarmac.agent.node.certificates.rotation import Rotation, usable_until
from tarmac.agent.node.rotatingtransport import RotatingTransport
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import load

_log = log("agent")


class Identity:
    """The node's credentials and the client that uses them. `http` is who we are now, once there is a client."""

    http: HttpConfig

    def __init__(self, config: AgentConfig, clock: Clock, randomness: Randomness) -> None:
        self._config = config
        self._clock = clock
        self._randomness = randomness
        self._file = PairFile(config.root_dir / "pki", "kubelet-client", clock)
        self._subject = CertificateSubject(config.node_name)

    async def client(self) -> Client:
        """The client under the node's own name, after bootstrapping if there is need. Raises BadConfig."""
        if not await self._is_known():
            await self._bootstrap()
        self.http = await self._newest(load(str(self._config.flags.kubeconfig)).http)
        self._transport = RotatingTransport(replace(self.http, user_agent="tarmac-agent"), self._clock)
        self._client = Client(self._transport, self._clock, self._randomness)
        return self._client

    async def run(self) -> None:
        """Renew the certificate until cancelled; at once an end when there is none, or it is not to be renewed."""
        if not self.http.certificate or not self._config.kubelet.rotate_certificates:
            return
        rotation = Rotation(
            self._file,
            lambda: obtain(self._client, CLIENT_SIGNER, self._subject),
            self._changed,
            self._clock,
            self._randomness,
        )
        await rotation.run(self.http.certificate)

    def _changed(self, certificate: str, key: str) -> None:
        _log.info("the client certificate is renewed")
        self.http = replace(self.http, certificate=certificate, key=key)
        self._transport.replace(replace(self.http, user_agent="tarmac-agent"))

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
        try:
            certificate, key = await obtain(client, CLIENT_SIGNER, self._subject)
        except CertificateRefused as error:
            raise BadConfig(f"--bootstrap-kubeconfig: the cluster gives no certificate: {error}") from error
        finally:
            await client.close()
        self._file.write(certificate, key)
        write_private(flags.kubeconfig, _kubeconfig(first, self._file.path))
        _log.info("the node has its own certificate now", kubeconfig=str(flags.kubeconfig))

    async def _newest(self, http: HttpConfig) -> HttpConfig:
        """With the certificate that lasts longest: the kubeconfig's, or a renewed one."""
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
    cluster = {"server": server.url, "tls-server-name": server.server_name}
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
