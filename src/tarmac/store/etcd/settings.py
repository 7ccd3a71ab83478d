"""Endpoints and credentials of the etcd cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tarmac.base.statefiles import read_state

DEFAULT_PREFIX = "/registry/tarmac"
_MAX_BYTES = 65_536
_OPTIONS = ("prefix", "user", "password-file", "cacert", "cert", "key", "compact", "members")


@dataclass(frozen=True)
class EtcdSettings:
    """Connection, credentials, and the prefix of all keys."""

    endpoints: tuple[str, ...]
    prefix: str = DEFAULT_PREFIX
    user: str | None = None
    password: str = ""
    cacert: bytes | None = None  # PEM; its presence turns TLS on
    cert: bytes | None = None
    key: bytes | None = None
    compact_seconds: float = 300  # 0: compaction is configured elsewhere
    members: Path | None = None  # lists further endpoints, and is kept up to date from etcd's own list of members

    @classmethod
    def parse(cls, hosts: str, options: Sequence[tuple[str, str]]) -> EtcdSettings:
        """Parse the parts of a store URL. Raises ValueError."""
        given = dict(options)
        unknown = sorted(given.keys() - set(_OPTIONS))
        if unknown:
            raise ValueError(f"etcd store: unknown option {unknown[0]!r}, known are {', '.join(_OPTIONS)}")
        if ("cert" in given) != ("key" in given):
            raise ValueError("etcd store: cert and key are given together or not at all")
        if "cert" in given and "cacert" not in given:
            raise ValueError("etcd store: a client certificate needs TLS, which cacert turns on")
        members = Path(given["members"]) if "members" in given else None
        stated = [_endpoint(host) for host in hosts.split(",")]
        return cls(
            endpoints=tuple(dict.fromkeys([*stated, *(_known(members) if members else ())])),
            prefix=_prefix(given.get("prefix", DEFAULT_PREFIX)),
            user=given.get("user"),
            password=_file(given, "password-file").decode().strip() if "password-file" in given else "",
            cacert=_file(given, "cacert") if "cacert" in given else None,
            cert=_file(given, "cert") if "cert" in given else None,
            key=_file(given, "key") if "key" in given else None,
            compact_seconds=_seconds(given.get("compact", "300")),
            members=members,
        )


def _endpoint(text: str) -> str:
    host, colon, port = text.strip().rpartition(":")
    if not (host and colon and port.isdecimal() and "@" not in host):
        raise ValueError(f"etcd store: {text!r} is not HOST:PORT")
    return f"{host}:{port}"


def _known(members: Path) -> list[str]:
    """Return the endpoints that the file lists. It is written once the first member has answered."""
    try:
        return [_endpoint(line) for line in read_state(members, _MAX_BYTES).decode().split()]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"etcd store: members: cannot read {members}: {error}") from error


def _prefix(text: str) -> str:
    prefix = "/" + text.strip("/")
    if prefix in ("/", "/registry"):
        raise ValueError(f"etcd store: prefix {text!r} may hold another program's keys, choose one of your own")
    return prefix


def _seconds(text: str) -> float:
    if not text.isdecimal():
        raise ValueError(f"etcd store: compact must be a number of seconds, not {text!r}")
    return float(text)


def _file(given: dict[str, str], option: str) -> bytes:
    try:
        return Path(given[option]).read_bytes()
    except OSError as error:
        raise ValueError(f"etcd store: {option}: cannot read {given[option]}: {error.strerror}") from error
