"""A newcomer: a machine with neither `kubectl` nor `tarmac` on its PATH, `make run` in one terminal, pages in another.

The newcomer knows only the pages and the output of `make run`: the commands that it offers for missing programs are
typed unchanged, and so is the one that removes everything in the end.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tarmac.datapath.hosts.plan import identity
from tests.docs.pages import code
from tests.node.planet import down
from tests.support.tarmac_process import READY
from tests.transcripts.replaying import shell
from tools.cache import ROOT, cache_root

SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
MISSING = {"kubectl", "tarmac"}
# the paths in the pages; a test has its own
DATA_DIR = "/var/lib/tarmac"
# a free port, and metrics that are sampled more often than in the pages
_OF_THE_TEST = "--listen 127.0.0.1:0 --autoscaler-sync-period 3s"
_RUN = re.compile(r"make run(?: ARGS=(?:'([^']*)'|(\S+)))?")
_OFFER = re.compile(r"is not on the PATH: .*?(export PATH=.*:\$PATH)$", re.MULTILINE)
_REMOVAL = re.compile(r"`(tarmac down --data-dir \S+)`")


def run_dir(data_dir: Path) -> str:
    """Return the folder with the networks of a data directory."""
    return f"/run/tarmac/{identity(data_dir)}"


RUN_DIR = run_dir(Path(DATA_DIR))


class Terminal:
    """A shell that keeps exported variables, in a folder that looks like the clone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        self.data_dir = folder / "data"
        self.environment = bare_machine(folder)
        self.folder.mkdir()
        for each in ROOT.iterdir():
            (self.folder / each.name).symlink_to(each)
        self._exported = folder / "exported"
        self._exported.touch()

    def run(self, command: str) -> str:
        """Return the output of a command. Only the data directory and its networks differ from the page."""
        command = command.replace(DATA_DIR, str(self.data_dir)).replace(RUN_DIR, run_dir(self.data_dir))
        assert "tarmac down" not in command or str(self.data_dir) in command, "that would end another planet"
        script = f". {self._exported}\n{command}\ncode=$?\nexport -p > {self._exported}\nexit $code"
        shown = shell(script, self.environment, self.folder)
        return shown.replace(str(self.data_dir), DATA_DIR).replace(run_dir(self.data_dir), RUN_DIR)


def bare_machine(folder: Path) -> dict[str, str]:
    """Return an environment with a plain Debian's programs, without the missing ones; the cache has built parts."""
    binaries = folder / "system"
    binaries.mkdir()
    for each in (program for place in SYSTEM.split(":") for program in Path(place).iterdir()):
        if each.name not in MISSING and not (binaries / each.name).is_symlink():
            (binaries / each.name).symlink_to(each)
    cache = str(cache_root().parent)
    return {"PATH": str(binaries), "HOME": str(folder), "XDG_CACHE_HOME": cache, "LANG": "C.UTF-8", "TMPDIR": "/tmp"}


@contextmanager
def first_steps(page: Path, folder: Path) -> Generator[Terminal]:
    """Run `make run` like the page, until it is stopped with ^C and removed by the command that it prints."""
    terminal, log = Terminal(folder), folder / "make-run.log"
    match = next(match for line in code(page.read_text()) if (match := _RUN.match(line)))
    places = f"--data-dir {terminal.data_dir} --kubeconfig {folder / '.kube' / 'config'}"
    flags = f"{match[1] or match[2] or ''} {places} {_OF_THE_TEST}"
    with log.open("w") as errors:
        process = subprocess.Popen(
            ["make", "run", f"ARGS={flags}"], cwd=ROOT, env=terminal.environment, stdout=subprocess.PIPE, stderr=errors,
            text=True, start_new_session=True,
        )  # fmt: skip
    with process:
        try:
            _follow(process, terminal, log)
            yield terminal
            _leave(process, terminal, log)
        finally:  # also after a start that failed halfway
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            down(terminal.data_dir)


def _follow(process: subprocess.Popen[str], terminal: Terminal, log: Path) -> None:
    """Wait for the ready line, and run the commands that are offered with it."""
    assert process.stdout is not None
    said = process.stdout.readline().rstrip("\n")
    ready = READY.match(said)
    assert ready, f"no ready line but {said!r}:\n{log.read_text()[-4000:]}"
    offers = _OFFER.findall(log.read_text())
    assert len(offers) == len(MISSING), log.read_text()
    for typed in offers:
        assert "[exit" not in terminal.run(typed)


def _leave(process: subprocess.Popen[str], terminal: Terminal, log: Path) -> None:
    """Press ^C, and check the output."""
    os.killpg(process.pid, signal.SIGINT)
    process.wait(60)
    removal = _REMOVAL.search(log.read_text())
    assert removal, f"it was not said how to remove everything:\n{log.read_text()[-4000:]}"
    assert terminal.run(removal[1]) == ""
    assert not terminal.data_dir.exists()
