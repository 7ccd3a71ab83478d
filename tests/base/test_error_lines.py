"""Errors about files begin with the file, in words, without a number of the operating system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarmac.base.stderr import print_error
from tarmac.cli.verbs.manifests import BadManifest, read_manifests


def shown(error: object, capsys: pytest.CaptureFixture[str]) -> str:
    print_error(error)
    return capsys.readouterr().err


def test_a_missing_file_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none"
    with pytest.raises(FileNotFoundError) as failure:
        missing.read_text()
    assert shown(failure.value, capsys) == f"error: {missing}: no such file or directory\n"
    with pytest.raises(BadManifest) as bad:
        read_manifests(str(missing))
    assert shown(bad.value, capsys) == f"error: {missing}: no such file or directory\n"


def test_a_denied_permission_names_root_to_other_users(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = PermissionError(13, os.strerror(13), "/var/lib/tarmac")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    wanted = "error: /var/lib/tarmac: permission denied; run this command as root, or as the owner\n"
    assert shown(denied, capsys) == wanted
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert shown(denied, capsys) == "error: /var/lib/tarmac: permission denied\n"


@pytest.mark.parametrize("error", [OSError("the link is down"), OSError(5, "Input/output error"), "a text"])
def test_an_error_without_a_file_stays_as_it_is(error: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(error, capsys) == f"error: {error}\n"
