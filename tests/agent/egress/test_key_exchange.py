"""The shared secret of two nodes matches X25519; weak keys are refused."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from tarmac.agent.egress.leases.exchange import PrivateKey
from tarmac.base.randomness import Randomness

DRAW = Randomness(7).randbytes
PRIME = 2**255 - 19
OF_SMALL_ORDER = [0, 1, PRIME - 1, PRIME, PRIME + 1]


def test_as_another_library_works_it_out() -> None:
    for _ in range(200):
        own, other = DRAW(32), DRAW(32)
        known, peer = X25519PrivateKey.from_private_bytes(own), PrivateKey(other)
        assert PrivateKey(own).public == known.public_key().public_bytes_raw()
        shared = known.exchange(X25519PublicKey.from_public_bytes(peer.public))
        assert shared == PrivateKey(own).exchange(peer.public) == peer.exchange(PrivateKey(own).public)


@pytest.mark.parametrize(
    "public", [b"", b"short", bytes(31), b"x" * 33, *(n.to_bytes(32, "little") for n in OF_SMALL_ORDER)]
)
def test_invalid_and_weak_keys_are_refused(public: bytes) -> None:
    own = PrivateKey(DRAW(32))
    with pytest.raises(ValueError, match="no X25519 key"):
        own.exchange(public)
    assert own.exchange(PrivateKey(DRAW(32)).public), "a failed exchange does not affect the next one"


@pytest.mark.parametrize("private", [b"", bytes(31), bytes(33)])
def test_a_private_key_has_32_bytes(private: bytes) -> None:
    with pytest.raises(ValueError, match="no X25519 key"):
        PrivateKey(private)
