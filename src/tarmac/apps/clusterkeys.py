"""The cluster's keys in one server process: the records in the store, their copies in files, and its own progress."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.rotations import opens_with, seals_with, trusts_authority
from tarmac.apps.layout import Layout
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.server.security.certificates.authoritykeys import TrustedAuthorities, follow_authorities
from tarmac.server.security.certificates.authorityrotation import AuthorityRotation
from tarmac.server.security.certificates.authorityusers import OldCertificateUsers
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.certificates.renewal import ServerTls
from tarmac.server.security.keys.encryption import SecretSealer, follow_keys, read_keys
from tarmac.server.security.keys.encryptionrotation import EncryptionRotation
from tarmac.server.security.keys.keyrecords import AUTHORITIES, ENCRYPTION, TOKENS, read_record
from tarmac.server.security.keys.privatefiles import write_private
from tarmac.server.security.keys.rotation import KeyRotation
from tarmac.server.security.tokens.jwt import SigningKey
from tarmac.server.security.tokens.tokenkeys import TokenKeys
from tarmac.server.security.tokens.tokenrotation import TokenRotation, token_record
from tarmac.store.interface import Store


class ClusterKeys:
    """Created after the store has been read."""

    def __init__(self, layout: Layout, store: Store, sealer: SecretSealer, pki: Pki, clock: Clock) -> None:
        self.pki = pki
        self._store = store
        self._sealer = sealer
        self._encryption_file = layout.encryption_key
        self.follow()  # before anything is signed: this server may have missed a rotation
        self.first_token_key = SigningKey(pki.token_key_file.read_bytes())
        self.tokens = TokenKeys(store, self.first_token_key)
        self.users = OldCertificateUsers(store, clock)
        self.authorities = TrustedAuthorities(store, clock, self.users.note)
        self.rotations: tuple[KeyRotation, ...] = (
            AuthorityRotation(store, pki, self.users, clock),
            TokenRotation(store, lambda: token_record(pki.token_key_file.read_bytes(), clock.now()), clock),
            EncryptionRotation(store, self._encryption_file, clock, Randomness()),
        )

    def follow(self) -> None:
        """Update the key files from the records. Raises OSError."""
        if (record := read_record(self._store, AUTHORITIES)) is not None:
            follow_authorities(self.pki, record)
        if (record := read_record(self._store, TOKENS)) is not None:
            pem = record.keys[record.signing].pem.encode()
            if pem != self.pki.token_key_file.read_bytes():
                write_private(self.pki.token_key_file, pem)
        if (record := read_record(self._store, ENCRYPTION)) is not None:
            follow_keys(self._encryption_file, record)

    def words(self, tls: ServerTls) -> Iterator[str]:
        """Yield the words that announce the keys this server trusts and uses."""
        yield from self.tokens.trusted
        yield from map(trusts_authority, tls.trusted)
        # From the file, not from memory: a start needs these keys before it can read the record.
        yield from (opens_with(key) for key, _ in read_keys(self._encryption_file))
        yield seals_with(self._sealer.sealing)
