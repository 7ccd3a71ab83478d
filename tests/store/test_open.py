"""Stores by URL, with errors that name the wrong part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.store.etcd import EtcdStore
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.memory import MemoryStore
from tarmac.store.open import etcd_files, open_store, with_files
from tarmac.store.sqlite import SqliteStore


def test_each_scheme_has_its_driver(tmp_path: Path) -> None:
    """Nothing is opened yet."""
    assert isinstance(open_store("memory://"), MemoryStore)
    assert isinstance(open_store(f"sqlite://{tmp_path}/store.db"), SqliteStore)
    assert isinstance(open_store("etcd://127.0.0.1:2379,localhost:2380"), EtcdStore)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("postgres://db", "must start with memory://, sqlite:// or etcd://"),
        ("store.db", "must start with"),
        ("sqlite://", "names no file"),
        ("sqlite:///no/such/folder/store.db", "there is no folder /no/such/folder"),
        ("sqlite:///tmp/store.db?mode=ro", "takes no options"),
        ("etcd://", "'' is not HOST:PORT"),
        ("etcd://one:2379,two", "'two' is not HOST:PORT"),
        ("etcd://me:secret@one:2379", "is not HOST:PORT"),
        ("etcd://one:2379?color=red", "unknown option 'color'"),
        ("etcd://one:2379?prefix=/registry", "another program's keys"),
        ("etcd://one:2379?prefix=", "another program's keys"),
        ("etcd://one:2379?compact=soon", "number of seconds"),
        ("etcd://one:2379?cert=a", "together or not at all"),
        ("etcd://one:2379?cacert=/no/such/file", "cannot read /no/such/file"),
    ],
)
def test_a_bad_url_is_explained(url: str, complaint: str) -> None:
    """Each error has words of its own."""
    with pytest.raises(ValueError) as refused:
        open_store(url)
    assert complaint in str(refused.value)


def test_etcd_options(tmp_path: Path) -> None:
    """Files are read at once, so that a wrong path is reported at once."""
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name)
    (tmp_path / "password").write_text("hunter2\n")
    options = [("prefix", "/mine/"), ("user", "tarmac"), ("password-file", f"{tmp_path}/password"), ("compact", "0")]
    options += [("cacert", f"{tmp_path}/ca"), ("cert", f"{tmp_path}/cert"), ("key", f"{tmp_path}/key")]
    assert EtcdSettings.parse("[::1]:2379", options) == EtcdSettings(
        endpoints=("[::1]:2379",),
        prefix="/mine",
        user="tarmac",
        password="hunter2",
        cacert=b"ca",
        cert=b"cert",
        key=b"key",
        compact_seconds=0,
    )


def test_the_files_of_a_url_can_lie_elsewhere() -> None:
    """Everything else of it stays."""
    url = "etcd://a:2379,b:2379?prefix=/x&cacert=/etc/ca.crt&cert=/etc/c.crt&key=/etc/c.key&compact=0"
    assert etcd_files(url) == {"cacert": Path("/etc/ca.crt"), "cert": Path("/etc/c.crt"), "key": Path("/etc/c.key")}
    moved = with_files(url, {name: Path(f"/var/{name}") for name in ("cacert", "cert", "key")})
    assert moved == "etcd://a:2379,b:2379?prefix=/x&cacert=/var/cacert&cert=/var/cert&key=/var/key&compact=0"
    assert etcd_files("etcd://a:2379") == {}
    assert with_files("etcd://a:2379", {}) == "etcd://a:2379"
