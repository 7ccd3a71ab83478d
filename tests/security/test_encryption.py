"""Secrets on disk are unreadable without the key file, and keys can be changed."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from tarmac.base.randomness import Randomness
from tarmac.server.security.keys.encryption import BadKeyFile, SecretSealer

SECRETS = "core/secrets"
VALUE = b'{"metadata":{"name":"s"},"data":{"password":"aHVudGVyMg=="}}'


def key_file(path: Path, *names: str) -> Path:
    file = path / "secrets.key"
    lines = [f"{name} {base64.b64encode(os.urandom(32)).decode()}" for name in names]
    file.write_text("\n".join(["# keys", *lines, ""]))
    file.chmod(0o600)
    return file


def test_sealed_values_open_again(tmp_path: Path) -> None:
    sealer = SecretSealer.from_file(tmp_path / "secrets.key", Randomness())
    blob = sealer.seal(SECRETS, "a/s", VALUE)
    assert b"password" not in blob
    assert sealer.open(SECRETS, "a/s", blob) == VALUE
    assert SecretSealer.from_file(tmp_path / "secrets.key", Randomness()).open(SECRETS, "a/s", blob) == VALUE
    assert (tmp_path / "secrets.key").stat().st_mode & 0o777 == 0o600


def test_the_same_value_never_looks_the_same(tmp_path: Path) -> None:
    sealer = SecretSealer.from_file(tmp_path / "secrets.key", Randomness())
    assert sealer.seal(SECRETS, "a/s", VALUE) != sealer.seal(SECRETS, "a/s", VALUE)


def test_other_buckets_are_left_alone(tmp_path: Path) -> None:
    sealer = SecretSealer.from_file(tmp_path / "secrets.key", Randomness())
    assert sealer.seal("core/configmaps", "a/s", VALUE) is VALUE
    assert sealer.open("core/configmaps", "a/s", VALUE) is VALUE


def test_values_from_before_encryption_are_readable(tmp_path: Path) -> None:
    assert SecretSealer.from_file(tmp_path / "secrets.key", Randomness()).open(SECRETS, "a/s", VALUE) == VALUE


def test_a_value_moved_to_another_name_does_not_open(tmp_path: Path) -> None:
    sealer = SecretSealer.from_file(tmp_path / "secrets.key", Randomness())
    blob = sealer.seal(SECRETS, "a/s", VALUE)
    with pytest.raises(ValueError, match="does not open"):
        sealer.open(SECRETS, "b/s", blob)


def test_keys_are_rotated_by_putting_a_new_one_first(tmp_path: Path) -> None:
    file = key_file(tmp_path, "old")
    blob = SecretSealer.from_file(file, Randomness()).seal(SECRETS, "a/s", VALUE)
    new = f"new {base64.b64encode(os.urandom(32)).decode()}\n"
    file.write_text(new + file.read_text())
    both = SecretSealer.from_file(file, Randomness())
    assert both.open(SECRETS, "a/s", blob) == VALUE
    rewritten = both.seal(SECRETS, "a/s", VALUE)
    file.write_text(new)
    assert SecretSealer.from_file(file, Randomness()).open(SECRETS, "a/s", rewritten) == VALUE
    with pytest.raises(ValueError, match='sealed with key "old", which the encryption key file does not have'):
        SecretSealer.from_file(file, Randomness()).open(SECRETS, "a/s", blob)


def test_a_wrong_key_under_the_right_name_is_noticed(tmp_path: Path) -> None:
    blob = SecretSealer.from_file(key_file(tmp_path, "k"), Randomness()).seal(SECRETS, "a/s", VALUE)
    with pytest.raises(ValueError, match="has another key under that id"):
        SecretSealer.from_file(key_file(tmp_path, "k"), Randomness()).open(SECRETS, "a/s", blob)


@pytest.mark.parametrize("text", ["", "# nothing\n", "onlyname\n", "k notbase64!\n", "k c2hvcnQ=\n"])
def test_a_bad_key_file_is_refused_with_a_reason(tmp_path: Path, text: str) -> None:
    file = tmp_path / "secrets.key"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(BadKeyFile):
        SecretSealer.from_file(file, Randomness())


def test_a_key_file_others_can_read_is_refused(tmp_path: Path) -> None:
    file = key_file(tmp_path, "k")
    file.chmod(0o644)
    with pytest.raises(BadKeyFile, match="mode must be 0600"):
        SecretSealer.from_file(file, Randomness())
