"""The server's directory of keys and certificates, created at first start.

    ca.crt ca.key          the authority; clients trust it, and it signs client and serving certificates
    ca-chain.crt           during a rotation of the authority: its certificate, cross-signed by the previous authority
    server.crt server.key  the servers' own, renewed before it expires or if it lacks a name
    sa.key                 signs service-account tokens
    registry.*             signs registry tokens; created on first use
    etcd.crt etcd.key      the authority of an etcd that Tarmac runs; created with its first member

Several servers may share the directory (or copies of it): existing files are used, missing ones are created under a
lock. All issued credentials depend on the authority and the token key, so only a rotation replaces these; after one,
the files are copies of the store's records (`keyrecords`). `ca.crt` holds every trusted authority, the signing one
first; `ca.key` belongs to that one. A server with a name that the certificate lacks adds it to the existing names,
which belong to the other servers.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509

from tarmac.api.identities import NAMESPACE, PROCESS, user_name
from tarmac.api.repositories import REGISTRY
from tarmac.base.clock import Clock
from tarmac.http.bundles import certificates_in
from tarmac.http.subjects import alternative_names, load_request
from tarmac.server.security.certificates.issuing import (
    Authority,
    KeyPair,
    belongs_to,
    issued_by,
    load_certificate,
    new_key,
    private_pem,
    subject_names,
)
from tarmac.server.security.keys.privatefiles import directory_lock, write_private
from tarmac.server.security.users import account_groups

SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)
SERVICE_ADDRESSES = ("10.96.0.1", "127.0.0.1", "::1")
_CHAIN = "ca-chain.crt"
_RENEW_BEFORE = 30 * 24 * 3600.0


class Pki:
    """An opened directory of keys and certificates."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        with directory_lock(directory):
            self._pair("ca", lambda: Authority.create("tarmac-ca", clock.now()))
            if not self.token_key_file.exists():
                write_private(self.token_key_file, private_pem(new_key()))
        self._loaded: tuple[bytes, bytes] | None = None
        self._authority = self.authority

    @property
    def authority(self) -> Authority:
        """The signing authority, re-read if the files have changed."""
        # The key decides: if a server is killed between writing the two files, the old pair is still a pair.
        found = (self.ca_file.read_bytes(), self.ca_key_file.read_bytes())
        if found != self._loaded:
            certificates, key = [each.encode() for each in certificates_in(found[0].decode())], found[1]
            own = next((each for each in certificates if belongs_to(key, load_certificate(each))), found[0])
            self._authority, self._loaded = Authority(KeyPair(own, key)), found
        return self._authority

    @property
    def ca_file(self) -> Path:
        """The file of the trusted authorities' certificates, the signing one first."""
        return self._directory / "ca.crt"

    @property
    def ca_key_file(self) -> Path:
        """The file of the signing authority's key."""
        return self._directory / "ca.key"

    @property
    def chain(self) -> bytes:
        """The cross-signed certificate to send to peers that trust only the previous authority, or empty."""
        file = self._directory / _CHAIN
        return file.read_bytes() if file.exists() else b""

    def trust(self, authorities: Sequence[str], key: str, chain: str) -> bool:
        """Write these authorities (the signing one first), its key and the chain. Return True if any file changed."""
        # The key is written last: it selects the signing certificate, so after a crash in between the old pair signs.
        wanted = {_CHAIN: chain.encode(), "ca.crt": "".join(authorities).encode(), "ca.key": key.encode()}
        with directory_lock(self._directory):
            files = {self._directory / name: data for name, data in wanted.items()}
            changed = {path: data for path, data in files.items() if _content(path) != data}
            for path, data in changed.items():
                write_private(path, data) if data else path.unlink()
        return bool(changed)

    def stamp(self) -> tuple[object, ...]:
        """Return a value that changes whenever a file of the authority or the servers is replaced.

        Costs five stat calls.
        """
        names = ("ca.crt", "ca.key", _CHAIN, "server.crt", "server.key")
        return tuple(_identity(self._directory / name) for name in names)

    @property
    def server_file(self) -> Path:
        """The file of the servers' own certificate, present once one of them listens."""
        return self._directory / "server.crt"

    @property
    def token_key_file(self) -> Path:
        """The file of the key that signs service-account tokens."""
        return self._directory / "sa.key"

    def registry_tokens(self) -> KeyPair:
        """Return the key that signs registry tokens; the registry trusts only its certificate.

        The certificate is self-signed: if the registry trusted the authority, every holder of our certificates could
        sign.
        """
        with directory_lock(self._directory):
            self._pair("registry", lambda: Authority.create("tarmac-registry-tokens", self._clock.now()))
        return KeyPair(*((self._directory / f"registry.{end}").read_bytes() for end in ("crt", "key")))

    @property
    def etcd_file(self) -> Path:
        """The file of etcd's authority."""
        return self._directory / "etcd.crt"

    def etcd_authority(self) -> Authority:
        """Return the authority of etcd's members and of the servers that use it.

        It is not that of the cluster: members accept every certificate of their authority, and each node has one of the
        cluster's.
        """
        with directory_lock(self._directory):
            self._pair("etcd", lambda: Authority.create("tarmac-etcd", self._clock.now()))
        return Authority(KeyPair(*((self._directory / f"etcd.{end}").read_bytes() for end in ("crt", "key"))))

    def renew_registry_tokens(self) -> KeyPair:
        """Replace the key that signs registry tokens: a registry that trusts the new one rejects earlier tokens."""
        pair = Authority.create("tarmac-registry-tokens", self._clock.now())
        with directory_lock(self._directory):
            self._write("registry", pair)
        return pair

    def registry_server(self, addresses: Sequence[str]) -> KeyPair:
        """Issue a serving certificate for the registry."""
        return self._serving(REGISTRY, [REGISTRY, *addresses])

    @contextmanager
    def server_files(self, names: Iterable[str]) -> Generator[tuple[Path, Path]]:
        """Yield certificate and key files to serve with: for `names` and the names that every API server has.

        The lock is held inside the block, so no other process replaces the files.
        """
        wanted = dict.fromkeys([*SERVICE_NAMES, *SERVICE_ADDRESSES, *names])
        certificate, key = self.server_file, self._directory / "server.key"
        with directory_lock(self._directory):
            known = self._served_names(certificate, key)
            if not (wanted.keys() <= known and self._is_good(certificate)):
                # The names of the other servers that share the directory are kept, or each server would replace the
                # other's certificate.
                every = [*wanted, *sorted(known - wanted.keys())]
                self._write("server", self._serving("kube-apiserver", every))
            yield certificate, key

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Issue a client certificate."""
        return self.authority.issue_client(user, groups, self._clock.now())

    def server_to_nodes(self, user: str) -> KeyPair:
        """Issue a client certificate for calls to nodes.

        It carries the chain, for nodes that do not know a new authority yet.
        """
        pair = self.client(user)
        return KeyPair(pair.certificate + self.chain, pair.key)

    def admin(self) -> KeyPair:
        """Issue the administrator's certificate. It bypasses authorization."""
        return self.client("kubernetes-admin", ("system:masters",))

    def controllers(self) -> KeyPair:
        """Issue the certificate of a separate controller process, with the rights of controllers inside the server."""
        return self.client(user_name(PROCESS), account_groups(NAMESPACE))

    def node(self, name: str) -> KeyPair:
        """Issue the certificate of a node agent."""
        return self.client(f"system:node:{name}", ("system:nodes",))

    def sign_request(self, request_pem: bytes, usages: Sequence[str], lifetime: float) -> bytes:
        """Sign an approved request for the certificates controller. Raises ValueError.

        The servers' own names are rejected in serving certificates, regardless of the approver.
        """
        if "server auth" in usages:
            asked = {each.lower().removesuffix(".") for each in alternative_names(load_request(request_pem)).dns}
            # An approver may be any user with the right `approve`: a certificate for these names would impersonate the
            # API server.
            if own := asked & self._own_names():
                raise ValueError(
                    f"the name {min(own)!r} is {'the registry' if REGISTRY in own else 'an API server'}'s own"
                )
        return self.authority.sign_request(request_pem, usages, lifetime, self._clock.now())

    def _pair(self, name: str, make: Callable[[], KeyPair]) -> None:
        if not (self._directory / f"{name}.key").exists():
            self._write(name, make())

    def _write(self, name: str, pair: KeyPair) -> None:
        # The key goes last: its presence says that the pair is complete.
        write_private(self._directory / f"{name}.crt", pair.certificate)
        write_private(self._directory / f"{name}.key", pair.key)

    def _serving(self, name: str, names: Sequence[str]) -> KeyPair:
        pair = self.authority.issue_server(name, names, self._clock.now())
        return KeyPair(pair.certificate + self.chain, pair.key)

    def _served_names(self, path: Path, key: Path) -> set[str]:
        """Return the names of a pair issued by a trusted authority and not due for renewal; else the empty set."""
        if not (path.exists() and key.exists()):
            return set()
        certificate = load_certificate(path.read_bytes())
        ours = any(issued_by(certificate, each) for each in x509.load_pem_x509_certificates(self.ca_file.read_bytes()))
        fresh = certificate.not_valid_after_utc.timestamp() > self._clock.now() + _RENEW_BEFORE
        return subject_names(certificate) if ours and fresh and belongs_to(key.read_bytes(), certificate) else set()

    def _is_good(self, path: Path) -> bool:
        """Return True if the current authority issued the certificate and the file ends with the current chain."""
        first, *others = certificates_in(path.read_text())
        ours = issued_by(load_certificate(first.encode()), load_certificate(self.authority.pem))
        return ours and others == certificates_in(self.chain.decode())

    def _own_names(self) -> set[str]:
        file = self.server_file
        served = subject_names(load_certificate(file.read_bytes())) if file.exists() else set[str]()
        return {each.lower() for each in (*SERVICE_NAMES, REGISTRY, *served)}


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    # The inode, too: a replaced file may have the time of the old one, on file systems with coarse times.
    return found.st_ino, found.st_mtime_ns


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def kubeconfig(servers: Sequence[str], ca: bytes, pair: KeyPair, user: str = "kubernetes-admin") -> str:
    """Build a kubeconfig with everything embedded.

    Any client uses the first server; our own clients use all of them.
    """
    cluster = "tarmac"
    every = "".join(f"\n        - {url}" for url in servers)
    encoded_ca, certificate, key = (base64.b64encode(data).decode() for data in (ca, pair.certificate, pair.key))
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: {cluster}
  cluster:
    server: {servers[0]}
    certificate-authority-data: {encoded_ca}
    extensions:
    - name: tarmac.dev/servers
      extension:
        servers:{every}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {cluster}
  context:
    cluster: {cluster}
    user: {user}
current-context: {cluster}
"""


def write_kubeconfig(path: Path, server: str, ca: bytes, pair: KeyPair, user: str = "kubernetes-admin") -> None:
    """Write a kubeconfig for one server, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, kubeconfig([server], ca, pair, user).encode())
