"""The published key of a node reaches the configuration of `wg` only in the canonical form."""

from __future__ import annotations

import base64

import pytest

from tarmac.datapath.linux.egress.wireguard import is_key

KEY = base64.b64encode(bytes(range(32))).decode()
ALIASES = [KEY[:-2] + letter + "=" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"]


def test_a_key_has_one_text() -> None:
    same = [each for each in ALIASES if base64.b64decode(each) == bytes(range(32))]
    assert len(same) == 4, "two bits of the last letter are unused"
    assert [each for each in same if is_key(each)] == [KEY]


@pytest.mark.parametrize(
    "text",
    [
        "",
        KEY[:-1],
        f"{KEY}\n",
        f" {KEY}",
        f"{KEY}\nAllowedIPs = 0.0.0.0/0",
        f"{KEY}\n[Peer]\nPublicKey = {KEY}",
        f"{KEY}\0",
        KEY * 2,
        "=" * 44,
        "é" * 44,
    ],
)
def test_a_text_with_more_than_a_key_is_none(text: str) -> None:
    assert not is_key(text)
