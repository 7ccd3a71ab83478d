"""The tutorial of three sites, executed: machines from the package alone, and a block of commands for each by its name.

There is no systemd in such machines; a fake `systemctl` with a few verbs runs the commands of the package's own units.
An etcd member runs beside each machine from the beginning. `poweroff` pulls the plug.

`python -m tests.docs.sites_tour` writes new outputs; read the difference before you commit it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.docs import tour
from tests.machines.fakesystemd import SYSTEMCTL
from tests.machines.packaged import package
from tests.machines.sites import SiteBox, sites
from tests.support.kubectl import kubectl_path
from tests.transcripts.replaying import parse_text, play, render
from tools.cache import ROOT
from tools.debian_roots import ensure

PAGE = ROOT / "docs" / "tutorial" / "three-sites.md"
_MACHINES = {"dallas": "12", "london": "13", "seattle": "12"}
_BLOCK = re.compile(
    r"^(?P<indent> *)```console (?P<machine>\w+)\n(?P<text>.*?)(?=^(?P=indent)```)", re.DOTALL | re.MULTILINE
)


class Terminals:
    """A shell on each machine. Variables exported on one are set on the rest, as the page has its reader do."""

    def __init__(self, machines: list[SiteBox]) -> None:
        self._machines = {machine.name: machine for machine in machines}
        self._exported = ""

    def run(self, name: str, command: str) -> str:
        """Return the output of a command, with its exit code if it failed."""
        machine = self._machines[name]
        if command == "poweroff":
            machine.pull_the_plug()
            return ""
        script = f"{self._exported}\n{command}\ncode=$?\nexport -p > /tmp/exported\nexit $code"
        done = subprocess.run(
            machine.command("bash", "-c", script), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=300, env=machine.environment(),
        )  # fmt: skip
        self._exported = machine.path("/tmp/exported").read_text()
        return done.stdout + (f"[exit {done.returncode}]\n" if done.returncode else "")


@contextmanager
def three_machines(folder: Path) -> Generator[Terminals]:
    """Yield machines as the page finds them: installed, with an etcd beside, and the reader's kubectl."""
    packages = [package(debian) for debian in _MACHINES.values()]
    with sites(folder, **{name: ensure(debian) for name, debian in _MACHINES.items()}) as machines:
        with ThreadPoolExecutor(len(machines)) as hands:
            list(hands.map(lambda machine, deb: machine.install(deb), machines, packages))
        for machine in machines:
            for name, content in {
                "systemctl": SYSTEMCTL.encode(),
                "kubectl": Path(kubectl_path()).read_bytes(),
            }.items():
                machine.path(f"/usr/local/bin/{name}").write_bytes(content)
                machine.path(f"/usr/local/bin/{name}").chmod(0o755)
            machine.path("/run/systemd/system").mkdir(parents=True)
            machine.start_etcd({each.name: each.address for each in machines})
        yield Terminals(machines)


def comparable(text: str) -> str:
    """Return a text without values that differ from run to run: also tokens, checksums, and the number of objects."""
    masked = tour.comparable(text)
    masked = re.sub(r"tarmac1\.[a-z0-9]{6}\.[a-z0-9]{16}\.[0-9a-f]{64}", "<token>", masked)
    return re.sub(r"moved \d+ objects \(sha256:[0-9a-f]+\)", "moved <objects>", masked)


def replayed(terminals: Terminals) -> str:
    """Return the page with the outputs of this run."""

    def seen(block: re.Match[str]) -> str:
        transcript = parse_text(PAGE, textwrap.dedent(block["text"]))
        shown = render(play(transcript, lambda command: terminals.run(block["machine"], command)))
        return f"{block['indent']}```console {block['machine']}\n" + textwrap.indent(shown, block["indent"])

    return _BLOCK.sub(seen, PAGE.read_text())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, three_machines(Path(place)) as terminals_there:
        PAGE.write_text(replayed(terminals_there))
    sys.exit(0)
