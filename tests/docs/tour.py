"""The README's tour as a transcript: the console blocks, replayed and compared like any other session.

`python -m tests.docs.tour` writes the outputs anew; read the difference before you commit it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.node.planet import down
from tests.support.kubectl import kubectl_path
from tests.support.tarmac_process import TarmacProcess
from tests.transcripts.replaying import Transcript, mask, parse_text, render, replay
from tools.cache import ROOT

README = ROOT / "README.md"
_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
# the reader's kubeconfig is not the test's
_LEFT_ALONE = "export KUBECONFIG="


def blocks(text: str) -> list[str]:
    """The console blocks in order."""
    return [match[0] for match in _BLOCK.finditer(text)]


def replayed(text: str, server: TarmacProcess, directory: Path) -> str:
    """The README with the outputs that were seen now."""
    (directory / "examples").symlink_to(ROOT / "examples")
    expected = [parse_text(README, block) for block in blocks(text)]
    seen = iter([_replay(transcript, server, directory) for transcript in expected])
    return _BLOCK.sub(lambda _: next(seen), text)


def _replay(transcript: Transcript, server: TarmacProcess, directory: Path) -> str:
    runnable = Transcript(transcript.path, steps=[s for s in transcript.steps if not s.command.startswith(_LEFT_ALONE)])
    outputs = iter(replay(runnable, kubectl_path(), server.kubeconfig, directory, masked=False).steps)
    steps = [step if step.command.startswith(_LEFT_ALONE) else next(outputs) for step in transcript.steps]
    return render(Transcript(transcript.path, steps=steps))


def comparable(text: str) -> str:
    """Without what differs from run to run and from machine to machine: ages, addresses that were free, processors."""
    without_addresses = re.sub(r"\b(10\.128\.[\d.]+|fd20:[0-9a-f:]+|fe80::[0-9a-f:]+)", "<address>", mask(text))
    return re.sub(r"\b\d{5}m\b", "<cpu>", without_addresses)


@contextmanager
def real_cities(folder: Path) -> Generator[TarmacProcess]:
    """What `make run` brings up as root, gone afterwards."""
    try:
        with TarmacProcess(folder / "data", command="up") as server:
            yield server
    finally:
        down(folder / "data")


def main() -> int:
    """Record."""
    with tempfile.TemporaryDirectory() as folder, real_cities(Path(folder)) as server:
        README.write_text(replayed(README.read_text(), server, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
