"""Whom the node trusts, who signs certificates now, and what the node says of that on its Node.

Certificates are read by a program of their own (`cryptoprocess`), and only while there are several authorities: with
one, all that there is to know is that it is trusted.
"""

from __future__ import annotations

from tarmac.agent.node.certificates.cryptoprocess import Order, craft
from tarmac.api.rotations import certified_by, trusts_authority
from tarmac.http.bundles import authority_id, certificates_in


class NodeAuthorities:
    """The authorities as the node knows them."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._names: dict[str, str] = {}  # by an authority's name: its id

    async def learn(self, pem: str) -> None:
        """These are trusted, first the one that signs. Raises CraftError, ValueError."""
        certificates = certificates_in(pem)
        ids = [authority_id(each) for each in certificates]
        if ids == self._ids:
            return
        several = certificates if len(certificates) > 1 else []
        names = [(await craft(Order("inspect", pem=each))).common_name for each in several]
        self._names = dict(zip(names, ids, strict=False))
        self._ids = ids

    def outdated(self, issuer: str) -> bool:
        """Whether a certificate of this authority is to be replaced, because another one signs now."""
        return bool(self._names) and issuer != next(iter(self._names))

    def words(self, issuer: str) -> str:
        """What the Node says, if its own certificate is of `issuer`; empty when nothing is known."""
        own = self._names.get(issuer) if self._names else next(iter(self._ids), None)
        return " ".join([*map(trusts_authority, self._ids), *([certified_by(own)] if own else ())])
