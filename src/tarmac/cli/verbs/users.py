"""`tarmac user create|revoke`: a kubeconfig for a person, and its revocation.

The key is generated here and never leaves the file. The certificate request is created and approved with the caller's
own rights: a caller without the right to approve certificates of people cannot make any. The file is written
atomically, is readable by its owner only, and never replaces an existing one.

A certificate only authenticates; roles grant rights, before or after. A revocation refuses every certificate of the
name that was issued until then, on every server, and closes open connections.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from tarmac.api.nodetokens import AUTHORITIES_PATH
from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden
from tarmac.base.clock import rfc3339
from tarmac.cli.rendering.text import printable
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig
from tarmac.client.targets.untyped import CERTIFICATE_REQUESTS
from tarmac.controllers.revoking import refused_until, revoke
from tarmac.http.bundles import certificates_in

_SIGNER = "kubernetes.io/kube-apiserver-client"
_SYSTEM = "system:"
_MAX_NAME = 64  # of a subject's parts, by X.509
_TIMEOUT, _POLL_INTERVAL = 30.0, 0.1
_MAX_WAIT = 5.0  # for a revocation; a later end was written with a clock that is ahead, or by hand
_FAILED = 1


class NotSigned(Exception):
    """The cluster gives no certificate; the text gives the reason."""


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await user(call.client, call.http, call.options, call.console)


async def user(client: Client, server: HttpConfig, options: argparse.Namespace, console: Console) -> int:
    """Execute one action; returns the exit code."""
    if options.action == "revoke":
        return await _revoke(client, options.name, console)
    file: Path = options.file or Path(f"{options.name}.kubeconfig")
    if mistakes := list(_mistakes(options.name, options.group, file, chosen=options.file is not None)):
        for each in mistakes:
            console.fail(each)
        return _FAILED
    await _outlast_revocation(client, options.name)
    try:
        request, key = _request(options.name, options.group)
        certificate = await _signed(client, options.name, request, options.ttl)
        _write(file, _kubeconfig(await _trusting(client, server), options.name, certificate, key))
    except NotSigned as error:
        console.fail(str(error))
        return _FAILED
    except FileExistsError:
        console.fail(f"{file} exists: choose another file with -o, or remove it")
        return _FAILED
    until = rfc3339(client.clock.now() + options.ttl)
    console.say(f"{file} written: {printable(options.name)}, until {until}\n")
    return 0


async def _trusting(client: Client, server: HttpConfig) -> HttpConfig:
    """Return the server with every currently trusted CA: the caller may know only one that is being retired."""
    if server.ca is None:
        return server
    shown = (await client.call("GET", AUTHORITIES_PATH, headers={"accept": "*/*"})).body.decode()
    return replace(server, ca=shown) if certificates_in(shown) else server


async def _revoke(client: Client, name: str, console: Console) -> int:
    if name.startswith(_SYSTEM):
        console.fail(f'"{printable(name)}" is no person; `tarmac node remove` ends the certificates of a node')
        return _FAILED
    await revoke(client, name)
    console.say(f'every certificate of "{printable(name)}" that was issued until now is refused; its roles stay\n')
    return 0


def _mistakes(name: str, groups: Sequence[str], file: Path, *, chosen: bool) -> Iterator[str]:
    for what, text in (("the name", name), *(("the group", each) for each in groups)):
        if text.startswith(_SYSTEM):
            yield f'{what} "{printable(text)}" begins with {_SYSTEM}, which is for parts of the cluster'
        if not 0 < len(text) <= _MAX_NAME or not text.isprintable():
            yield f"{what} must have 1 to {_MAX_NAME} printable characters, not {printable(repr(text))}"
    if not chosen and ("/" in name or not name):
        yield f'"{printable(name)}.kubeconfig" is no file name: choose a file with -o'
    elif file.exists():
        yield f"{file} exists: choose another file with -o, or remove it"
    elif not file.parent.is_dir():
        yield f"{file.parent} is no directory"


async def _outlast_revocation(client: Client, name: str) -> None:
    """Wait for the end of a revocation.

    The validity of a certificate starts at a whole second, so one made in the second of a revocation would be refused.
    """
    with suppress(Forbidden):  # without the right to read it, the user finds out when using the certificate
        left = await refused_until(client, name) - client.clock.now()
        if 0 < left < _MAX_WAIT:
            await client.clock.sleep(left)


def _request(name: str, groups: Sequence[str]) -> tuple[bytes, bytes]:
    """Return a request and its key, both PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    from tarmac.http.subjects import CertificateSubject

    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(CertificateSubject(name, tuple(groups)).name)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return builder.sign(key, hashes.SHA256()).public_bytes(pem), private


async def _signed(client: Client, name: str, request: bytes, ttl: float) -> bytes:
    """Return the certificate (PEM). Raises NotSigned, ApiError, ClientError. Without one the request is deleted."""
    requests = client.resource(CERTIFICATE_REQUESTS)
    body: JsonObject = {
        "apiVersion": CERTIFICATE_REQUESTS.api_version,
        "kind": CERTIFICATE_REQUESTS.kind,
        "metadata": {"generateName": "user-"},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": _SIGNER,
            "usages": ["digital signature", "client auth"],
            "expirationSeconds": int(ttl),
        },
    }
    made = await requests.create(body)
    try:
        condition = {"type": "Approved", "status": "True", "reason": "UserCreate", "message": "by tarmac user create"}
        made["status"] = {"conditions": [condition]}
        await requests.update(made, subresource="approval")
        async with asyncio.timeout(_TIMEOUT):
            return await _certificate(client, made["metadata"]["name"])
    except BaseException as error:
        # Also after Ctrl-C: an approved request would be signed for a key that is lost.
        await asyncio.shield(requests.delete(made["metadata"]["name"]))
        if isinstance(error, TimeoutError):
            why = f"the certificate was not signed in {_TIMEOUT:g} seconds: does the controller `certificates` run?"
            raise NotSigned(why) from error
        raise


async def _certificate(client: Client, name: str) -> bytes:
    while True:
        status = (await client.resource(CERTIFICATE_REQUESTS).get(name)).get("status") or {}
        for condition in status.get("conditions") or ():
            if condition["type"] in ("Denied", "Failed"):
                raise NotSigned(f"{condition['type']}: {condition.get('message') or condition.get('reason')}")
        if status.get("certificate"):
            return base64.b64decode(status["certificate"])
        await client.clock.sleep(_POLL_INTERVAL)


def _kubeconfig(server: HttpConfig, name: str, certificate: bytes, key: bytes) -> bytes:
    def encoded(data: bytes) -> str:
        return base64.b64encode(data).decode()

    cluster = {"server": server.url, "tls-server-name": server.server_name}
    if server.ca is not None:
        cluster["certificate-authority-data"] = encoded(server.ca.encode())
    person = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tarmac", "cluster": {key: value for key, value in cluster.items() if value}}],
        "users": [{"name": name, "user": person}],
        "contexts": [{"name": "tarmac", "context": {"cluster": "tarmac", "user": name}}],
        "current-context": "tarmac",
    }
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def _write(file: Path, content: bytes) -> None:
    """Write the file. Raises FileExistsError rather than replace a file that was created meanwhile."""
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as written:
            written.write(content)
            written.flush()
            os.fsync(written.fileno())
        os.link(name, file)
    finally:
        Path(name).unlink()
