"""The directory of keys and certificates a server runs with, made at first start.

    ca.crt ca.key          the authority; clients trust it, and it signs client and serving certificates
    server.crt server.key  the servers' own, renewed when it is near its end or lacks a name
    sa.key                 signs service-account tokens
    registry.*             signs what clients show the registry; made when the first is asked for

Several servers may share the directory (or copies of it): whatever is there is used, what is missing is made under a
lock. The authority and the token key are never replaced, because everything handed out hangs on them. A server that the
certificate lacks a name for adds it to those that are there, which are others'.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from tarmac.api.identities import NAMESPACE, PROCESS, user_name
from tarmac.api.repositories import REGISTRY
from tarmac.base.clock import Clock
from tarmac.http.subjects import alternative_names, load_request
from tarmac.server.security.certificates import (
    Authority,
    KeyPair,
    belongs_to,
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
        self.authority = Authority(KeyPair(self.ca_file.read_bytes(), (directory / "ca.key").read_bytes()))

    @property
    def ca_file(self) -> Path:
        """The authority's certificate."""
        return self._directory / "ca.crt"

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
        return self.authority.issue_server(REGISTRY, [REGISTRY, *addresses], self._clock.now())

    @contextmanager
    def server_files(self, names: Iterable[str]) -> Generator[tuple[Path, Path]]:
        """Certificate and key to serve with: for `names` and the names every API server has.

        Inside the block nobody replaces them.
        """
        wanted = dict.fromkeys([*SERVICE_NAMES, *SERVICE_ADDRESSES, *names])
        certificate, key = self._directory / "server.crt", self._directory / "server.key"
        with directory_lock(self._directory):
            known = self._served_names(certificate, key)
            if not wanted.keys() <= known:
                every = [*wanted, *sorted(known - wanted.keys())]
                self._write("server", self.authority.issue_server("kube-apiserver", every, self._clock.now()))
            yield certificate, key

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A new client certificate."""
        return self.authority.issue_client(user, groups, self._clock.now())

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

    def _served_names(self, path: Path, key: Path) -> set[str]:
        """The names of a certificate that may go on being used; none otherwise."""
        if not (path.exists() and key.exists()):
            return set()
        certificate = load_certificate(path.read_bytes())
        fresh = certificate.not_valid_after_utc.timestamp() > self._clock.now() + _RENEW_BEFORE
        good = fresh and self._is_ours(certificate) and belongs_to(key.read_bytes(), certificate)
        return subject_names(certificate) if good else set()

    def _own_names(self) -> set[str]:
        file = self._directory / "server.crt"
        served = subject_names(load_certificate(file.read_bytes())) if file.exists() else set[str]()
        return {each.lower() for each in (*SERVICE_NAMES, REGISTRY, *served)}

    def _is_ours(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(load_certificate(self.authority.pem))
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def kubeconfig(server: str, ca: bytes, pair: KeyPair, user: str = "kubernetes-admin", cluster: str = "tarmac") -> str:
    """A kubeconfig with everything embedded."""
    encoded_ca, certificate, key = (base64.b64encode(data).decode() for data in (ca, pair.certificate, pair.key))
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: {cluster}
  cluster:
    server: {server}
    certificate-authority-data: {encoded_ca}
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
    """Write one, for its owner's eyes only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, kubeconfig(server, ca, pair, user).encode())
