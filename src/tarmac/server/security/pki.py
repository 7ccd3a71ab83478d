"""The directory of keys and certificates a server runs with, made at first start.

    ca.crt ca.key          the authority; clients trust it, and it signs client and serving certificates
    ca-chain.crt           while the authority is rotated: its certificate as the one before has signed it
    server.crt server.key  the servers' own, renewed when it is near its end or lacks a name
    sa.key                 signs service-account tokens
    registry.*             signs what clients show the registry; made when the first is asked for

Several servers may share the directory (or copies of it): whatever is there is used, what is missing is made under a
lock. Everything handed out hangs on the authority and on the token key, so they are replaced by a rotation only, after
which the files are copies of what the store has (`keyrecords`). `ca.crt` has every authority that is trusted, first the
one that signs; `ca.key` is that one's. A server that the certificate lacks a name for adds it to those that are there,
which are others'.
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
from tarmac.server.security.certificates import (
    Authority,
    KeyPair,
    belongs_to,
    issued_by,
    load_certificate,
    new_key,
    private_pem,
    subject_names,
)
from tarmac.server.security.files import directory_lock, write_private
from tarmac.server.security.serviceaccounts import account_groups

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
    """An opened directory."""

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
        """The one that signs, as the files are now."""
        # The key decides: if a server is killed between the two files, the old pair is still a pair.
        found = (self.ca_file.read_bytes(), self.ca_key_file.read_bytes())
        if found != self._loaded:
            certificates, key = [each.encode() for each in certificates_in(found[0].decode())], found[1]
            own = next((each for each in certificates if belongs_to(key, load_certificate(each))), found[0])
            self._authority, self._loaded = Authority(KeyPair(own, key)), found
        return self._authority

    @property
    def ca_file(self) -> Path:
        """The certificates of the authorities that are trusted, first the one that signs."""
        return self._directory / "ca.crt"

    @property
    def ca_key_file(self) -> Path:
        """The key of the one that signs."""
        return self._directory / "ca.key"

    @property
    def chain(self) -> bytes:
        """What is sent along with certificates to those who may trust the authority before this one only."""
        file = self._directory / _CHAIN
        return file.read_bytes() if file.exists() else b""

    def trust(self, authorities: Sequence[str], key: str, chain: str) -> bool:
        """Have these in the files, first the one that signs, with its key. Whether they were others."""
        wanted = {_CHAIN: chain.encode(), "ca.crt": "".join(authorities).encode(), "ca.key": key.encode()}
        with directory_lock(self._directory):
            files = {self._directory / name: data for name, data in wanted.items()}
            changed = {path: data for path, data in files.items() if _content(path) != data}
            for path, data in changed.items():
                write_private(path, data) if data else path.unlink()
        return bool(changed)

    def stamp(self) -> tuple[object, ...]:
        """Another one whenever a file of the authority or of the servers was replaced; cheap to ask for."""
        names = ("ca.crt", "ca.key", _CHAIN, "server.crt", "server.key")
        return tuple(_identity(self._directory / name) for name in names)

    @property
    def server_file(self) -> Path:
        """The servers' own certificate, once one of them listens."""
        return self._directory / "server.crt"

    @property
    def token_key_file(self) -> Path:
        """The key that signs service-account tokens."""
        return self._directory / "sa.key"

    def registry_tokens(self) -> KeyPair:
        """The key that signs tokens for the registry, which trusts this certificate and no other.

        It is nobody's child: with the authority, whoever has a certificate of ours could sign.
        """
        with directory_lock(self._directory):
            self._pair("registry", lambda: Authority.create("tarmac-registry-tokens", self._clock.now()))
        return KeyPair(*((self._directory / f"registry.{end}").read_bytes() for end in ("crt", "key")))

    def registry_server(self, addresses: Sequence[str]) -> KeyPair:
        """A new certificate for the registry to serve with."""
        return self._serving(REGISTRY, [REGISTRY, *addresses])

    @contextmanager
    def server_files(self, names: Iterable[str]) -> Generator[tuple[Path, Path]]:
        """Certificate and key to serve with: for `names` and the names every API server has.

        Inside the block nobody replaces them.
        """
        wanted = dict.fromkeys([*SERVICE_NAMES, *SERVICE_ADDRESSES, *names])
        certificate, key = self.server_file, self._directory / "server.key"
        with directory_lock(self._directory):
            known = self._served_names(certificate, key)
            if not (wanted.keys() <= known and self._is_good(certificate)):
                every = [*wanted, *sorted(known - wanted.keys())]
                self._write("server", self._serving("kube-apiserver", every))
            yield certificate, key

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A new client certificate."""
        return self.authority.issue_client(user, groups, self._clock.now())

    def server_to_nodes(self, user: str) -> KeyPair:
        """A client certificate for nodes, which may not have heard of a new authority."""
        pair = self.client(user)
        return KeyPair(pair.certificate + self.chain, pair.key)

    def admin(self) -> KeyPair:
        """The administrator, who bypasses authorization."""
        return self.client("kubernetes-admin", ("system:masters",))

    def controllers(self) -> KeyPair:
        """Controllers in a process of their own, who may do what those beside the server may, and no more."""
        return self.client(user_name(PROCESS), account_groups(NAMESPACE))

    def node(self, name: str) -> KeyPair:
        """A node agent."""
        return self.client(f"system:node:{name}", ("system:nodes",))

    def sign_request(self, request_pem: bytes, usages: Sequence[str], lifetime: float) -> bytes:
        """What the certificates controller calls to sign an approved request.

        Nobody but its servers serves under their names, whoever has approved it. Raises ValueError.
        """
        if "server auth" in usages:
            asked = {each.lower().removesuffix(".") for each in alternative_names(load_request(request_pem)).dns}
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
        """The names of a pair that an authority of ours has made; none otherwise."""
        if not (path.exists() and key.exists()):
            return set()
        certificate = load_certificate(path.read_bytes())
        ours = any(issued_by(certificate, each) for each in x509.load_pem_x509_certificates(self.ca_file.read_bytes()))
        fresh = certificate.not_valid_after_utc.timestamp() > self._clock.now() + _RENEW_BEFORE
        return subject_names(certificate) if ours and fresh and belongs_to(key.read_bytes(), certificate) else set()

    def _is_good(self, path: Path) -> bool:
        """Whether the authority that signs now has made it, and what is to be sent along is."""
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
    return found.st_ino, found.st_mtime_ns


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def kubeconfig(servers: Sequence[str], ca: bytes, pair: KeyPair, user: str = "kubernetes-admin") -> str:
    """A kubeconfig with everything embedded. The first server is everybody's; all of them are for clients of ours."""
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
    """Write one that knows one server, for its owner's eyes only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, kubeconfig([server], ca, pair, user).encode())
