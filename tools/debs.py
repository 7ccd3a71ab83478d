"""Gets a program out of a Debian package, unpacked and not installed: no service starts, no upgrade happens.

It changes nothing in the system and needs no root: a private apt configuration, whose only source is one Debian release
on this machine's mirror, downloads the package; `dpkg-deb` unpacks it into the cache.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.cache import cache_root, cached, digest, say

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


RETRIES = (0, 5, 15)  # seconds before each attempt to fetch a package
NEWEST = "newest"  # as a version: the newest of the release, in case a point release withdrew the pinned one


@dataclass(frozen=True)
class Deb:
    """A package of a release, and the program in it."""

    name: str
    package: str
    release: str
    version: str
    program: str  # its path
    remark: str = ""  # printed when it is not the first choice
    also: tuple[str, ...] = ()  # other packages unpacked into the same folder, as `name` or `name=version`

    @property
    def key(self) -> str:
        """Distinguishes it from the same version of another release."""
        return digest([self.release.encode(), *(package.encode() for package in self.also)])

    @property
    def root(self) -> Path:
        """The folder of the unpacked package."""
        return cache_root() / f"{self.name}-{self.version}-{self.key}" / "root"

    @property
    def path(self) -> Path:
        """The path of the unpacked program."""
        return self.root / self.program

    @property
    def packages(self) -> list[str]:
        """The arguments for apt."""
        first = self.package if self.version == NEWEST else f"{self.package}={self.version}"
        return [first, *self.also]

    def __str__(self) -> str:
        return f"{self.name} {self.version} of Debian {self.release}"


def found(*choices: Deb) -> Path | None:
    """Return the first choice that was fetched earlier."""
    return next((deb.path for deb in choices if deb.path.is_file()), None)


def fetch(*choices: Deb) -> Path:
    """Return the program, from the cache or from the first available choice. Raises RuntimeError."""
    known = found(*choices)
    if known is not None:
        return known
    for deb in choices:
        if deb is not choices[0]:
            say(f"FALLING BACK to {deb}{deb.remark}")
        for wait in RETRIES:
            # apt also runs the hooks of the machine's own configuration, which fail while a second apt is running.
            time.sleep(wait)
            try:
                return _fetch(deb)
            except (subprocess.CalledProcessError, RuntimeError) as error:
                say(f"{deb} could not be fetched: {_reason(error)}")
    raise RuntimeError(f"{choices[0].name} could not be fetched")


def mirror() -> str:
    """Return the Debian mirror that this machine uses. Raises RuntimeError."""
    found = next(_mirrors(), None)
    if found is None:
        raise RuntimeError("no Debian mirror is named in /etc/apt")
    return found


def main(*choices: Deb) -> int:
    """Print the path of the program; return the exit code."""
    try:
        print(fetch(*choices))
    except RuntimeError as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


def _fetch(deb: Deb) -> Path:
    say(f"fetching {deb}")
    source = mirror()
    cached(deb.name, deb.version, deb.key, lambda folder: _unpack(folder, source, deb))
    if not deb.path.is_file():
        raise RuntimeError(f"the package {deb.package} {deb.version} has no {deb.program} in it")
    return deb.path


def _unpack(folder: Path, mirror: str, deb: Deb) -> None:
    (folder / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {mirror} {deb.release} main\n")
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
        [*apt, "download", *deb.packages],
        ["sh", "-ec", "for deb in *.deb; do dpkg-deb -x $deb root; done; rm -rf lists archives *.bin *.deb"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)


def _mirrors() -> Iterator[str]:
    """Return the addresses of Debian mirrors in this machine's own apt sources, except security updates."""
    apt = Path("/etc/apt")
    for path in sorted(apt.glob("sources.list.d/*.sources")):
        for line in re.findall(r"^URIs:\s*(.+)$", path.read_text(), re.MULTILINE):
            yield from (uri for uri in line.split() if _is_debian(uri))
    for path in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]:
        if path.is_file():
            named = re.findall(r"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)", path.read_text(), re.MULTILINE)
            yield from (uri for uri in named if _is_debian(uri))


def _is_debian(uri: str) -> bool:
    return uri.rstrip("/").endswith("/debian")


def _reason(error: Exception) -> str:
    text = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    return (str(text).strip().splitlines() or ["no reason given"])[-1]
