"""Certificate requests that the cryptography library does not parse are invalid, and no server error."""

from __future__ import annotations

import base64

import pytest

from tarmac.api.kubernetes.certificates import SigningRequestStrategy
from tarmac.base.fielderrors import FieldErrors
from tests.fuzz.extremes import signing_request

SOUND = base64.b64decode(b"".join(signing_request().splitlines()[1:-1]))
P256 = bytes.fromhex("06082a8648ce3d030107")
ECDSA_SHA256 = bytes.fromhex("06082a8648ce3d040302")
VERSION = bytes.fromhex("020100")


def problems(der: bytes) -> list[str]:
    body = base64.encodebytes(der).decode()
    pem = f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n"
    spec = {"signerName": "example.com/x", "usages": ["client auth"]}
    obj = {"metadata": {"name": "x"}, "spec": {**spec, "request": base64.b64encode(pem.encode()).decode()}}
    with FieldErrors() as errors:
        SigningRequestStrategy().validate(obj, errors)
    return [each.path for each in errors]


def test_a_sound_request_is_accepted() -> None:
    assert problems(SOUND) == []


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (P256, "060822a8648ce3d030107f"),
        (P256, "06082a8648ce3d03017f"),
        (ECDSA_SHA256, "06082a8648ce3d04037f"),
        (ECDSA_SHA256, "06082a8648ce3d040301"),
        (VERSION, "02017f"),
        (VERSION, "020101"),
    ],
)
def test_an_unknown_curve_algorithm_or_version_is_invalid(part: bytes, other: str) -> None:
    assert part in SOUND
    assert problems(SOUND.replace(part, bytes.fromhex(other)[: len(part)], 1)) == ["spec.request"]


def test_every_changed_byte_gives_an_answer() -> None:
    for place in range(len(SOUND)):
        for bit in (1, 0x80):
            changed = bytearray(SOUND)
            changed[place] ^= bit
            assert problems(bytes(changed)) in ([], ["spec.request"])
