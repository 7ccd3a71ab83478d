"""Rotation of the certificate authority.

The old authority cross-signs the new one, and servers send that certificate along: peers that know only the old one
keep working until it is retired. The new authority signs once every server and every agent reports that it trusts it.
"""

from __future__ import annotations

from hashlib import sha256

from tarmac.api.rotations import certified_by, trusts_authority
from tarmac.base.clock import Clock, rfc3339
from tarmac.http.bundles import authority_id
from tarmac.server.security.certificates.authoritykeys import authority_record
from tarmac.server.security.certificates.authorityusers import OldCertificateUsers
from tarmac.server.security.certificates.issuing import Authority, KeyPair
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.keys.keyrecords import AUTHORITIES, KeptKey, KeyRecord, with_new_key
from tarmac.server.security.keys.rotation import KeyRotation, named
from tarmac.server.security.keys.trusting import silent_nodes, silent_servers
from tarmac.store.interface import Store

_NEW_KUBECONFIGS = (
    "tarmac user create writes a new kubeconfig; servers renew that of the administrator in their data directory"
)
_NODES = "system:node:"


class AuthorityRotation(KeyRotation):
    """The authority rotation of one cluster. `users` records the users seen with certificates of the old authority."""

    kind = AUTHORITIES

    def __init__(self, store: Store, pki: Pki, users: OldCertificateUsers, clock: Clock) -> None:
        super().__init__(store, lambda: authority_record(pki, clock.now()), clock)
        self._users = users

    def with_new_key(self, record: KeyRecord) -> KeyRecord:
        """Return the record with one more authority, cross-signed by the signing one."""
        now, old = self.clock.now(), record.keys[record.signing]
        # Authorities need different names: with equal ones, programs cannot tell which of them issued a certificate.
        made = Authority.create(f"tarmac-ca-{sha256(f'{now} {old.certificate}'.encode()).hexdigest()[:8]}", now)
        signer = Authority(KeyPair(old.certificate.encode(), old.pem.encode()))
        cross = signer.vouch_for(made.certificate, now).decode()
        kept = KeptKey(made.key.decode(), rfc3339(now), made.certificate.decode(), cross)
        return with_new_key(record, authority_id(kept.certificate), kept)

    async def silent(self, record: KeyRecord, *, force: bool) -> list[str]:
        """List the servers and agents that do not trust the new authority yet; with `force`, only the servers."""
        word = trusts_authority(record.newest)
        nodes = [] if force else await silent_nodes(self.store, self.clock, word)
        return [*await silent_servers(self.store, self.clock, word), *nodes]

    async def obstacles(self) -> list[str]:
        """List certificates of the old authority that are still in use."""
        record = self.record
        if record.settled:
            return []
        if not record.switched:
            return ["the new authority does not sign yet: --status names whom it waits for"]
        found: list[str] = []
        if nodes := await silent_nodes(self.store, self.clock, certified_by(record.signing)):
            found.append(f"certificates of nodes are of the old authority: {named(nodes)}")
        if users := [each for each in self._users.seen() if not each.startswith(_NODES)]:
            seen = f"seen with certificates of the old authority in the last 7 days: {named(users)}"
            found.append(f"{seen}; {_NEW_KUBECONFIGS}")
        return found
