"""A store from its URL.

memory://
sqlite:///var/lib/tarmac/store.db          an absolute path; sqlite://store.db is relative
etcd://host:2379,host:2379?prefix=/registry/tarmac&user=tarmac&password-file=F&cacert=F&cert=F&key=F&compact=300&members=F
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from tarmac.base.clock import Clock
from tarmac.store.interface import Observer, Sealer, Store
from tarmac.store.memory import MemoryStore

if TYPE_CHECKING:
    from tarmac.store.etcd.settings import EtcdSettings

_FILES = ("password-file", "cacert", "cert", "key")


def open_store(
    url: str, *, sealer: Sealer | None = None, clock: Clock | None = None, observer: Observer | None = None
) -> Store:
    """Return the store that `url` names, not started yet. Raises ValueError with a text for the author of the URL."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return MemoryStore(clock=clock, observer=observer)
    if parts.scheme == "sqlite":
        from tarmac.store.sqlite import SqliteStore  # each driver imports libraries that the other drivers do not need

        return SqliteStore(sqlite_path(url), sealer=sealer, clock=clock, observer=observer)
    if parts.scheme == "etcd":
        from tarmac.store.etcd import EtcdStore

        return EtcdStore(etcd_settings(url), sealer=sealer, clock=clock, observer=observer)
    raise ValueError(f"store {url!r}: must start with memory://, sqlite:// or etcd://")


def etcd_settings(url: str) -> EtcdSettings:
    """Return the settings of an `etcd://` URL. Raises ValueError with a text for the author of the URL."""
    from tarmac.store.etcd.settings import EtcdSettings

    parts = urlsplit(url)
    return EtcdSettings.parse(parts.netloc, parse_qsl(parts.query, keep_blank_values=True))


def etcd_files(url: str) -> dict[str, Path]:
    """Return the files that an `etcd://` URL names, by option."""
    return {option: Path(value) for option, value in parse_qsl(urlsplit(url).query) if option in _FILES}


def follows_members(url: str) -> bool:
    """Return True if the URL names an etcd that Tarmac runs: its servers follow the list of members."""
    parts = urlsplit(url)
    return parts.scheme == "etcd" and "members" in dict(parse_qsl(parts.query))


def etcd_endpoints(url: str) -> list[str]:
    """Return the members that an `etcd://` URL names itself, as HOST:PORT."""
    return urlsplit(url).netloc.split(",")


def with_known_members(url: str) -> str:
    """Return the URL with every member that its file lists. Raises ValueError with a text for the author of the URL."""
    return urlsplit(url)._replace(netloc=",".join(etcd_settings(url).endpoints)).geturl()


def with_files(url: str, files: Mapping[str, Path]) -> str:
    """Return the URL with these files in place of its own."""
    parts = urlsplit(url)
    options = [(name, str(files.get(name, value))) for name, value in parse_qsl(parts.query, keep_blank_values=True)]
    return parts._replace(query=urlencode(options, safe="/,")).geturl()


def sqlite_path(url: str) -> Path:
    """Return the file that a `sqlite://` URL names. Raises ValueError with a text for the author of the URL."""
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise ValueError(f"store {url!r}: sqlite takes no options")
    path = Path(unquote(parts.netloc + parts.path))
    if not path.name:
        raise ValueError(f"store {url!r}: names no file, as in sqlite:///var/lib/tarmac/store.db")
    if not path.parent.is_dir():
        raise ValueError(f"store {url!r}: there is no folder {path.parent}")
    return path
