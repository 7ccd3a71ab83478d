"""A real etcd and kube-apiserver on loopback, for suites that compare against the real thing, and a kube-scheduler.

Binaries come from TARMAC_PEER_ETCD, TARMAC_PEER_APISERVER and TARMAC_PEER_SCHEDULER (set by `PEERS=1`). They run in a
temporary directory on free ports, with TLS, RBAC and a service-account key; three identities are ready: an
administrator (`system:masters`) by token and by client certificate, and a user without rights. Processes are ended by
their ids. Logs stay in the directory, and their last lines are part of every error.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support.ports import free_ports

START_SECONDS = 90.0
_NO_ACCOUNTS = "--disable-admission-plugins=ServiceAccount"
ADMIN_TOKEN = "admin-token"
NOBODY_TOKEN = "nobody-token"


@dataclass(frozen=True)
class Peer:
    """A running kube-apiserver and how to reach it."""

    url: str
    ca: str  # PEM
    token: str  # of the administrator
    nobody_token: str
    certificate: str  # PEM, of the administrator
    key: str
    kubeconfig: Path
    directory: Path
    etcd_url: str
    restart: Callable[[], None]
    """Kill the API server without warning and start it again on the same port and etcd; returns when it is ready."""
    pids: Callable[[], list[int]]
    """The process ids of the API server and etcd as they are now."""
    node_kubeconfig: Callable[[str], str]
    """The text of a kubeconfig for a node of this name, by a certificate."""


def peer_binaries() -> tuple[str, str]:
    """(etcd, kube-apiserver), or a loud skip."""
    return _binary("TARMAC_PEER_ETCD"), _binary("TARMAC_PEER_APISERVER")


def _binary(name: str) -> str:
    path = os.environ.get(name, "")
    if not path or not os.access(path, os.X_OK):
        pytest.skip(f"NOT RUN: {name} names no executable ({path!r}); run with PEERS=1 to build the real servers")
    return path


@contextmanager
def running_peer(
    durable: bool = False, flags: Sequence[str] = (), address: str = "127.0.0.1", accounts: bool = False
) -> Generator[Peer]:
    """Start both servers, wait until ready, end them again. The directory is kept when the body fails.

    etcd runs without fsync unless `durable`, for comparisons of cost. `flags` go to the API server, which listens at
    `address` alone. With `accounts` Pods get tokens, for which kube-controller-manager has to run.
    """
    etcd, apiserver = peer_binaries()
    directory = Path(tempfile.mkdtemp(prefix="tarmac-peer-"))
    processes: list[subprocess.Popen[bytes]] = []
    failed = True
    try:
        more = flags if accounts else (_NO_ACCOUNTS, *flags)
        yield _start(directory, etcd, apiserver, processes, durable, more, address)
        failed = False
    finally:
        for process in reversed(processes):
            _end(process)
        if failed:
            print(f"logs of the real servers are kept in {directory}")
        else:
            _remove(directory)


@contextmanager
def running_scheduler(peer: Peer) -> Generator[None]:
    """The stock kube-scheduler on a running server, as the administrator and with its default configuration."""
    command = [_binary("TARMAC_PEER_SCHEDULER"), f"--kubeconfig={peer.kubeconfig}", "--leader-elect=false"]
    process = _spawn(peer.directory, "scheduler", [*command, "--bind-address=127.0.0.1", "--secure-port=0"])
    try:
        yield
        assert process.poll() is None, (peer.directory / "scheduler.log").read_text(errors="replace")[-3000:]
    finally:
        _end(process)


def _start(
    directory: Path,
    etcd: str,
    apiserver: str,
    processes: list[subprocess.Popen[bytes]],
    durable: bool,
    flags: Sequence[str],
    address: str,
) -> Peer:
    etcd_port, peer_port, port = free_ports(3)
    etcd_url, url = f"http://127.0.0.1:{etcd_port}", f"https://{address}:{port}"
    authority = _Authority()
    _write_files(directory, authority, address)
    context = ssl.create_default_context(cadata=authority.pem)

    def start_apiserver() -> None:
        command = [*_apiserver_command(apiserver, directory, etcd_url, address, port), *flags]
        processes.append(_spawn(directory, "apiserver", command))
        _wait(directory, "apiserver", processes[-1], f"{url}/readyz", context, ADMIN_TOKEN)

    def restart() -> None:
        processes[-1].kill()
        processes.pop().wait()
        start_apiserver()

    processes.append(_spawn(directory, "etcd", _etcd_command(etcd, directory, etcd_url, peer_port, durable)))
    _wait(directory, "etcd", processes[-1], f"{etcd_url}/health", None, "")
    start_apiserver()
    certificate, key = authority.issue("admin", organisation="system:masters")
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(url, authority.pem, certificate, key)))
    identity = (authority.pem, ADMIN_TOKEN, NOBODY_TOKEN, certificate, key)

    def pids() -> list[int]:
        return [process.pid for process in processes]

    def node_kubeconfig(name: str) -> str:
        pair = authority.issue(f"system:node:{name}", organisation="system:nodes")
        return json.dumps(_kubeconfig(url, authority.pem, *pair))

    return Peer(url, *identity, kubeconfig, directory, etcd_url, restart, pids, node_kubeconfig)


def _etcd_command(binary: str, directory: Path, url: str, peer_port: int, durable: bool) -> list[str]:
    peer_url = f"http://127.0.0.1:{peer_port}"
    return [
        binary,
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        *([] if durable else ["--unsafe-no-fsync"]),
        "--log-level=warn",
    ]


def _apiserver_command(binary: str, directory: Path, etcd_url: str, address: str, port: int) -> list[str]:
    return [
        binary,
        f"--etcd-servers={etcd_url}",
        f"--bind-address={address}",
        f"--advertise-address={address}",
        f"--secure-port={port}",
        f"--cert-dir={directory}",
        f"--tls-cert-file={directory / 'server.crt'}",
        f"--tls-private-key-file={directory / 'server.key'}",
        f"--client-ca-file={directory / 'ca.crt'}",
        f"--kubelet-client-certificate={directory / 'kubelet-client.crt'}",
        f"--kubelet-client-key={directory / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP,Hostname",  # as kubeadm says: names need a DNS that knows them
        f"--token-auth-file={directory / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--enable-bootstrap-token-auth",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={directory / 'accounts.key'}",
        f"--service-account-signing-key-file={directory / 'accounts.key'}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged",
    ]


def _write_files(directory: Path, authority: _Authority, address: str) -> None:
    certificate, key = authority.issue("kube-apiserver", addresses=(address,))
    client, client_key = authority.issue("kube-apiserver-kubelet-client", organisation="system:masters")
    accounts = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    contents = {
        "ca.crt": authority.pem,
        "server.crt": certificate,
        "server.key": key,
        "kubelet-client.crt": client,
        "kubelet-client.key": client_key,
        "accounts.key": _pem(accounts),
        "tokens.csv": f'{ADMIN_TOKEN},admin,1,"system:masters"\n{NOBODY_TOKEN},nobody,2,""\n',
    }
    for name, text in contents.items():
        (directory / name).write_text(text)


def _kubeconfig(url: str, ca: str, certificate: str, key: str) -> dict[str, object]:
    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "peer",
        "clusters": [{"name": "peer", "cluster": {"server": url, "certificate-authority-data": encoded(ca)}}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "peer", "context": {"cluster": "peer", "user": "admin"}}],
    }


class _Authority:
    """A throw-away certificate authority."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "peer-ca")])
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
        certificate = builder.sign(self._key, hashes.SHA256())
        self.pem = certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, name: str, organisation: str = "", addresses: tuple[str, ...] = ()) -> tuple[str, str]:
        """(certificate, key) as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organisation:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
        builder = _builder(x509.Name(attributes), self._name, key.public_key())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if addresses:
            names = [x509.IPAddress(ip_address(each)) for each in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM).decode(), _pem(key)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _spawn(directory: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    with (directory / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)


def _wait(
    directory: Path,
    name: str,
    process: subprocess.Popen[bytes],
    url: str,
    context: ssl.SSLContext | None,
    token: str,
) -> None:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(request, timeout=2, context=context):
                return
        except OSError:
            time.sleep(0.1)
    tail = (directory / f"{name}.log").read_text(errors="replace")[-3000:]
    raise RuntimeError(f"{name} did not become ready (exit {process.poll()}); its last lines:\n{tail}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _remove(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    directory.rmdir()


@pytest.fixture(scope="session")
def peer() -> Generator[Peer]:
    """One real server for the whole run; import this name into a conftest to use it."""
    with running_peer() as running:
        yield running
