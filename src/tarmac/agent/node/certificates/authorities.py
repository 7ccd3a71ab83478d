"""The certificate authorities that the node trusts, the one that signs now, and their report on the Node.

Certificates are read by a separate program (`cryptoprocess`), and only while there are several authorities: with one,
its trust is all there is to know.
"""

from __future__ import annotations

from tarmac.agent.node.certificates.cryptoprocess import CryptoRequest, run_crypto
from tarmac.api.rotations import certified_by, trusts_authority
from tarmac.http.bundles import authority_id, certificates_in


class NodeAuthorities:
    """The authorities as the node knows them."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._names: dict[str, str] = {}  # common name of an authority -> its id

    async def learn(self, pem: str) -> None:
        """Set the trusted authorities, the signing one first. Raises CryptoError, ValueError."""
        certificates = certificates_in(pem)
        ids = [authority_id(each) for each in certificates]
        if ids == self._ids:
            return
        several = certificates if len(certificates) > 1 else []
        names = [(await run_crypto(CryptoRequest("inspect", pem=each))).common_name for each in several]
        # Both after the last await: a failed or cancelled inspection leaves the previous authorities in force.
        self._names = dict(zip(names, ids, strict=False))
        self._ids = ids

    def outdated(self, issuer: str) -> bool:
        """Return True if a certificate of this authority must be replaced, because another one signs now."""
        return bool(self._names) and issuer != next(iter(self._names))

    def words(self, issuer: str) -> str:
        """Return the Node's annotation text, if its own certificate is from `issuer`; empty if nothing is known."""
        own = self._names.get(issuer) if self._names else next(iter(self._ids), None)
        return " ".join([*map(trusts_authority, self._ids), *([certified_by(own)] if own else ())])
