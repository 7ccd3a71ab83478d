"""Exchanges a token for the node's certificate, using the agent's own bootstrap.

The token is on disk only during `obtain_certificate`: a kill leaves it there for the same command to use again, or for
`leave` to remove.
"""

from __future__ import annotations

import base64
from contextlib import suppress

import msgspec

from tarmac.agent.config.agentconfig import settle
from tarmac.agent.config.configreader import BadConfig, stated
from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.node.certificates.cryptoprocess import CryptoError
from tarmac.agent.node.identity import NodeIdentity
from tarmac.api.nodetokens import NodeToken
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound, Unauthorized
from tarmac.apps.host.hostlayout import Machine, SetupFailed
from tarmac.apps.host.serverdiscovery import FoundServer
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.errors import BadKubeconfig, ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load, servers_extension
from tarmac.client.targets.untyped import NODES
from tarmac.decide.allocatable.reservations import Reservations
from tarmac.decide.nodeaddresses import LABEL_CONTROL_PLANE
from tarmac.http.authorities import key_hashes
from tarmac.server.security.keys.privatefiles import write_private


class CertificateDenied(SetupFailed):
    """The cluster permanently denies the certificate."""


def authorities_of_node(machine: Machine) -> list[str]:
    """Return the hashes of the CAs that this host trusts as a node: several during a rotation, or none."""
    try:
        ca = load(str(machine.kubeconfig)).http.ca
        return key_hashes(ca.encode()) if ca else []
    except (BadKubeconfig, ValueError):
        return []


def authorities_of_server(machine: Machine) -> list[str]:
    """Return the hashes of the CAs that this host trusts as a server."""
    try:
        return key_hashes((machine.data / "pki" / "ca.crt").read_bytes())
    except (OSError, ValueError):
        return []


async def mark_beside_server(machine: Machine, name: str) -> None:
    """Label the node as sharing a server's addresses: without the label it may not use them, and is never ready.

    Only an administrator may set it; a server's host has the administrator's kubeconfig. Raises ApiError, ClientError.
    """
    admin = Client(HttpTransport(load(str(machine.data / "kubeconfig")).http))
    try:
        await admin.resource(NODES).patch(name, {"metadata": {"labels": {LABEL_CONTROL_PLANE: ""}}})
    finally:
        await admin.close()


def node_client(machine: Machine) -> Client:
    """Return a client with the node's credentials. Raises BadKubeconfig."""
    return Client(HttpTransport(load(str(machine.kubeconfig)).http))


async def own_node(machine: Machine, name: str) -> JsonObject | None:
    """Return the Node of this host; None if it is not registered yet. Raises ApiError, ClientError."""
    client = node_client(machine)
    try:
        return await client.resource(NODES).get(name)
    except NotFound:
        return None
    finally:
        await client.close()


async def forget_if_revoked(machine: Machine, name: str) -> None:
    """Delete a certificate that the server refuses, so that a new one can be requested."""
    if not machine.kubeconfig.exists():
        return
    try:
        await own_node(machine, name)
    except Unauthorized:
        forget_identity(machine)
    except BadKubeconfig:
        forget_identity(machine)
    except (ApiError, ClientError):
        return  # says nothing about the certificate


def forget_identity(machine: Machine) -> None:
    """Delete the identity. The kubeconfig goes last: its presence means that there is something to delete."""
    for file in (machine.agent / "pki").glob("kubelet-client*"):
        file.unlink(missing_ok=True)
    machine.kubeconfig.unlink(missing_ok=True)


async def obtain_certificate(machine: Machine, found: FoundServer, token: NodeToken, name: str, clock: Clock) -> None:
    """Obtain the node's certificate and kubeconfig. Raises SetupFailed, CertificateDenied."""
    machine.agent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(machine.bootstrap, _bootstrap(found, token))
    flags = Flags(
        node_name=name, kubeconfig=machine.kubeconfig, bootstrap_kubeconfig=machine.bootstrap, root_dir=machine.agent,
        node_labels={}, feature_gates={},
    )  # fmt: skip
    identity = NodeIdentity(settle(stated(flags, KubeletConfiguration()), Reservations()), clock, Randomness())
    try:
        client = await identity.client()
    except BadConfig as error:
        with suppress(OSError):
            machine.bootstrap.unlink()
        raise CertificateDenied(str(error).partition("gives no certificate: ")[2] or str(error)) from error
    except Unauthorized as error:
        machine.bootstrap.unlink(missing_ok=True)
        why = f'the server does not know token "{token.id}": it expired or was deleted; make another one'
        raise CertificateDenied(why) from error
    except (ApiError, ClientError, CryptoError) as error:
        raise SetupFailed(f"no certificate: {error}") from error
    await client.close()
    machine.bootstrap.unlink(missing_ok=True)


def _bootstrap(found: FoundServer, token: NodeToken) -> bytes:
    cluster = {
        "server": found.url,
        "certificate-authority-data": base64.b64encode(found.ca.encode()).decode(),
        "extensions": servers_extension([found.url, *found.others]),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default", "cluster": cluster}],
        "users": [{"name": "default", "user": {"token": token.credential}}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "current-context": "default",
    }
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"
