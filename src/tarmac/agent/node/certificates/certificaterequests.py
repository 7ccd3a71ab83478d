"""Requests certificates from the cluster by CertificateSigningRequest, and waits for the decision.

A pending request is waited for without a limit, not repeated; only when it is gone (the cluster deletes them after a
day) a new one is created.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

from tarmac.agent.node.certificates.cryptoprocess import CryptoRequest, run_crypto
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import CERTIFICATE_REQUESTS

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER = "kubernetes.io/kubelet-serving"
_FIRST_LOOK, _LONGEST_PAUSE = 0.2, 30.0
_log = log("certificates")


class CertificateRefused(Exception):
    """The cluster denied the request. The message is its own."""


@dataclass(frozen=True, slots=True)
class NodeCertificateSubject:
    """Subject of a certificate: a node, with these names when it serves."""

    node: str
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def common_name(self) -> str:
        """The node's user name."""
        return f"system:node:{self.node}"


async def obtain(
    client: Client,
    signer: str,
    subject: NodeCertificateSubject,
    key: str = "",
    keep: Callable[[str], None] | None = None,
) -> tuple[str, str]:
    """Obtain a certificate and its key. Raises CertificateRefused, ApiError, ClientError, CryptoError.

    `key` is used instead of a new one; `keep` gets the key before the request is sent, so that a crash does not lose
    it.
    """
    order = CryptoRequest("request", subject.common_name, "system:nodes", subject.names, subject.addresses, pem=key)
    crafted = await run_crypto(order)
    # Before the request: a crash after it would lose the key of a certificate that the cluster issues.
    if keep is not None:
        keep(crafted.key)
    purpose = "client auth" if signer == CLIENT_SIGNER else "server auth"
    body: JsonObject = {
        "apiVersion": CERTIFICATE_REQUESTS.api_version,
        "kind": CERTIFICATE_REQUESTS.kind,
        "metadata": {"generateName": "csr-"},
        "spec": {
            "request": base64.b64encode(crafted.request.encode()).decode(),
            "signerName": signer,
            "usages": ["digital signature", purpose],
        },
    }
    name = (await client.resource(CERTIFICATE_REQUESTS).create(body))["metadata"]["name"]
    _log.info("certificate requested", request=name, signer=signer)
    return await _decided(client, name), crafted.key


async def _decided(client: Client, name: str) -> str:
    pause = _FIRST_LOOK
    while True:
        await client.clock.sleep(pause)
        # Longer each time: an approval by hand can take days.
        pause = min(pause * 2, _LONGEST_PAUSE)
        try:
            found = await client.resource(CERTIFICATE_REQUESTS).get(name)
        except NotFound as error:
            raise CertificateRefused(f"the request {name} was deleted before anybody decided") from error
        # Not fatal: a new request would need a new approval.
        except (ApiError, ClientError) as error:
            _log.debug("certificate request cannot be read, will retry", request=name, why=str(error))
            continue
        status = found.get("status") or {}
        for condition in status.get("conditions") or ():
            if condition["type"] in ("Denied", "Failed"):
                raise CertificateRefused(f"{condition['type']}: {condition.get('reason')}: {condition.get('message')}")
        if status.get("certificate"):
            return base64.b64decode(status["certificate"]).decode()
