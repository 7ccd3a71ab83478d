"""A whole server over TLS with its controllers, and attackers who send it arbitrary bytes."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tarmac.apps.control_plane import local_transport
from tarmac.base.clock import SystemClock
from tarmac.client.client import Client
from tarmac.client.targets.untyped import CERTIFICATE_REQUESTS, SECRETS
from tarmac.server.security.certificates.issuing import KeyPair
from tarmac.server.security.certificates.pki import Pki
from tarmac.store.interface import Store
from tests.client.backends import ADMIN, our_server

Json = dict[str, Any]
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"


@dataclass(frozen=True)
class Answer:
    """The status and body of a response."""

    status: int
    body: Json

    @property
    def message(self) -> str:
        return self.body.get("message", "")


@dataclass(frozen=True)
class Wire:
    """The server's address and authority, an administrator, a place for files, and the store."""

    port: int
    pki: Pki
    admin: Client
    folder: Path
    store: Store

    def attacker(self, pair: KeyPair | None = None, token: str = "") -> Attacker:
        context = ssl.create_default_context(cadata=self.pki.ca_file.read_text())
        if pair is not None:
            file = self.folder / "attacker.pem"
            file.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(file)
        return Attacker(self.port, context, (("Authorization", f"Bearer {token}"),) if token else ())

    def node(self, name: str) -> Attacker:
        """Return an attacker with the certificate of a node."""
        return self.attacker(self.pki.node(name))

    async def token(self, identity: str = "abcdef", **more: str) -> str:
        """A bootstrap token, made by the administrator."""
        secret = "0123456789abcdef"
        data = {"token-id": identity, "token-secret": secret, "usage-bootstrap-authentication": "true", **more}
        body: Json = {"metadata": {"name": f"bootstrap-token-{identity}", "namespace": "kube-system"}}
        body |= {"type": "bootstrap.kubernetes.io/token", "stringData": data}
        await self.admin.resource(SECRETS).create(body)
        return f"{identity}.{secret}"

    async def decided(self, name: str) -> Json:
        """Return the status of a certificate request once it is denied, failed or signed."""
        async with asyncio.timeout(10):
            while True:
                found = await self.admin.resource(CERTIFICATE_REQUESTS).get(name)
                status = found.get("status") or {}
                kinds = {each["type"] for each in status.get("conditions") or ()}
                if kinds & {"Denied", "Failed"} or status.get("certificate"):
                    return status
                await asyncio.sleep(0.02)

    async def undecided(self, name: str) -> bool:
        """Return true if a request stays undecided after a later one was decided."""
        marker = await self.admin.resource(CERTIFICATE_REQUESTS).create(
            signing_request(csr("system:node:marker-node", "system:nodes"), name="marker")
        )
        await self.decided(marker["metadata"]["name"])
        found = await self.admin.resource(CERTIFICATE_REQUESTS).get(name)
        return not found.get("status")


@dataclass(frozen=True)
class Attacker:
    """A client that sends raw requests with a credential."""

    port: int
    context: ssl.SSLContext
    headers: tuple[tuple[str, str], ...] = ()

    async def get(self, target: str, *headers: tuple[str, str]) -> Answer:
        return await self.send("GET", target, None, *headers)

    async def post(self, target: str, body: Json | bytes, *headers: tuple[str, str]) -> Answer:
        return await self.send("POST", target, body, *headers)

    async def patch(self, target: str, body: Json, kind: str = "merge-patch") -> Answer:
        return await self.send("PATCH", target, body, ("Content-Type", f"application/{kind}+json"))

    async def send(self, method: str, target: str, body: Json | bytes | None, *headers: tuple[str, str]) -> Answer:
        """Send one request exactly as given, on a connection of its own."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        lines = [*self.headers, *headers, ("Connection", "close")]
        if all(name.lower() != "host" for name, _ in lines):
            lines.append(("Host", "server"))
        if content:
            lines.append(("Content-Length", str(len(content))))
            if all(name.lower() != "content-type" for name, _ in lines):
                lines.append(("Content-Type", "application/json"))
        head = "".join([f"{method} {target} HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in lines), "\r\n"])
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context)
        try:
            writer.write(head.encode() + content)
            async with asyncio.timeout(10):
                raw = await reader.read()
        finally:
            writer.close()
        top, _, rest = raw.partition(b"\r\n\r\n")
        return Answer(int(top.split(b" ", 2)[1]), json.loads(rest) if rest.startswith(b"{") else {})


@asynccontextmanager
async def serving(folder: Path, *features: str) -> AsyncGenerator[Wire]:
    """Serve until the block ends. `features`: gates that are on."""
    async with our_server(folder, *features) as running:
        admin = Client(local_transport(running.server, ADMIN))
        yield Wire(running.listener.port, Pki(folder / "pki", SystemClock()), admin, folder, running.store)


KEY = ec.generate_private_key(ec.SECP256R1())


def subject(*attributes: tuple[x509.ObjectIdentifier, str] | list[tuple[x509.ObjectIdentifier, str]]) -> x509.Name:
    """A subject; a list is one relative name with several attributes in it."""
    groups = [each if isinstance(each, list) else [each] for each in attributes]
    relative = [x509.RelativeDistinguishedName([x509.NameAttribute(*one) for one in group]) for group in groups]
    return x509.Name(relative)


def csr_of(name: x509.Name, *alternative: x509.GeneralName, key: ec.EllipticCurvePrivateKey = KEY) -> bytes:
    """A request signed with its own key."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    if alternative:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternative), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def csr(common_name: str, *organisations: str, key: ec.EllipticCurvePrivateKey = KEY) -> bytes:
    """An ordinary one."""
    groups = [(NameOID.ORGANIZATION_NAME, each) for each in organisations]
    return csr_of(subject(*groups, (NameOID.COMMON_NAME, common_name)), key=key)


def signing_request(pem: bytes, signer: str = KUBELET_CLIENT, usages: Sequence[str] = (), name: str = "wanted") -> Json:
    """A CertificateSigningRequest."""
    purpose = "server auth" if signer == KUBELET_SERVING else "client auth"
    spec: Json = {"request": base64.b64encode(pem).decode(), "signerName": signer}
    spec["usages"] = list(usages) or ["digital signature", purpose]
    header = {"apiVersion": CERTIFICATE_REQUESTS.api_version, "kind": CERTIFICATE_REQUESTS.kind}
    return {**header, "metadata": {"name": name}, "spec": spec}


def pair_of(status: Json) -> KeyPair:
    """The certificate that was signed for `KEY`."""
    key = KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(base64.b64decode(status["certificate"]), key)
