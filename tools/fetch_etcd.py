"""Gets Debian's etcd for the tests, unpacked and not installed: `python -m tools.fetch_etcd` prints where it is.

Nothing of the system is touched and no root is needed: a private apt configuration, whose only source is another Debian
release on the mirror that this machine uses already, downloads the package; `dpkg-deb` unpacks it into the cache.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.cache import cache_root, cached, digest, say

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_WANTED = ("trixie", "3.5.16-4")
_FALLBACK = ("bookworm", "3.4.23-4+b4")


def fetch_etcd() -> Path:
    """The etcd binary of trixie, or with a loud word that of bookworm. Raises RuntimeError."""
    found = cached_etcd()
    if found is not None:
        return found
    try:
        return _fetch(*_WANTED)
    except (subprocess.CalledProcessError, RuntimeError) as error:
        say(f"etcd {_WANTED[1]} of {_WANTED[0]} could not be had: {_reason(error)}")
    say(f"FALLING BACK to etcd {_FALLBACK[1]} of {_FALLBACK[0]}: it is past its end of life and only good for tests")
    try:
        return _fetch(*_FALLBACK)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"no etcd to be had: {_reason(error)}") from error


def cached_etcd() -> Path | None:
    """What was fetched earlier."""
    return _binary(*_WANTED) or _binary(*_FALLBACK)


def _fetch(release: str, version: str) -> Path:
    say(f"fetching etcd {version} of Debian {release}")
    mirror = next(_mirrors(), None)
    if mirror is None:
        raise RuntimeError("no Debian mirror is named in /etc/apt")
    cached("etcd", version, _key(release), lambda folder: _unpack(folder, mirror, release, version))
    found = _binary(release, version)
    if found is None:
        raise RuntimeError(f"the package etcd-server {version} has no etcd in it")
    return found


def _key(release: str) -> str:
    return digest([release.encode()])


def _binary(release: str, version: str) -> Path | None:
    path = cache_root() / f"etcd-{version}-{_key(release)}" / "root" / "usr" / "bin" / "etcd"
    return path if path.is_file() else None


def _unpack(folder: Path, mirror: str, release: str, version: str) -> None:
    (folder / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {mirror} {release} main\n")
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    options = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder,
        "Dir::Cache::archives": folder / "archives",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
    }
    apt = ["apt-get", "-qq", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    for command in (
        [*apt, "update"],
        [*apt, "download", f"etcd-server={version}"],
        ["sh", "-c", "dpkg-deb -x etcd-server_*.deb root && rm -rf lists archives *.bin *.deb"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)


def _mirrors() -> Iterator[str]:
    """The addresses of Debian mirrors in this machine's own apt sources, except security updates."""
    apt = Path("/etc/apt")
    for path in sorted(apt.glob("sources.list.d/*.sources")):
        for line in re.findall(r"^URIs:\s*(.+)$", path.read_text(), re.MULTILINE):
            yield from (uri for uri in line.split() if _is_debian(uri))
    for path in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]:
        if path.is_file():
            found = re.findall(r"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)", path.read_text(), re.MULTILINE)
            yield from (uri for uri in found if _is_debian(uri))


def _is_debian(uri: str) -> bool:
    return uri.rstrip("/").endswith("/debian")


def _reason(error: Exception) -> str:
    text = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    return (str(text).strip().splitlines() or ["no reason given"])[-1]


if __name__ == "__main__":
    try:
        print(fetch_etcd())
    except RuntimeError as failure:
        sys.exit(str(failure))
