"""Tokens for the registry are signed with the newest key pair, also after one that could not be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.server.security.certificates.issuing import KeyPair
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.tokens.jwt import SigningKey
from tarmac.server.security.tokens.repositorytokens import RepositoryTokens, key_id


def test_a_replaced_key_that_cannot_be_read_at_first_signs_the_next_token(tmp_path: Any) -> None:
    clock = ManualClock()
    old, new = (Pki(tmp_path / name, clock).registry_tokens() for name in ("old", "new"))
    answers: list[KeyPair | OSError] = [old, OSError("the file is being replaced"), new]
    room = SimpleNamespace(key_version=1)

    def pair() -> KeyPair:
        found = answers.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    tokens = RepositoryTokens(cast("Any", None), cast("Any", room), pair, clock, Randomness(1))
    assert tokens._signing_key().id == SigningKey(old.key, key_id).id
    room.key_version = 2
    with pytest.raises(OSError, match="replaced"):
        tokens._signing_key()
    assert tokens._signing_key().id == SigningKey(new.key, key_id).id
