"""Writes new outputs of transcripts: `python -m tests.transcripts.record real|tarmac|planet [NAME…]`.

The files were recorded from the real kube-apiserver; read the difference before you commit it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.kubectl import kubectl_path
from tests.support.peer import running_peer
from tests.support.tarmac_process import TarmacProcess
from tests.transcripts.planet import STORIES, running_planet
from tests.transcripts.replaying import CASES, SERVER_FLAGS, parse, prepare_namespace, render, replay


def record(names: list[str], kubeconfig: Path, cases: Path = CASES) -> None:
    """Replay and overwrite."""
    for path in sorted(cases.glob("*.txt")):
        if names and path.stem not in names:
            continue
        transcript = parse(path)
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder)
            config = prepare_namespace(transcript.namespace, kubectl_path(), kubeconfig, directory)
            path.write_text(render(replay(transcript, kubectl_path(), config, directory)))
        print(path.stem, flush=True)


def main() -> int:
    """Record against one kind of server."""
    kind, names = sys.argv[1], sys.argv[2:]
    if kind == "real":
        with running_peer() as peer:
            record(names, peer.kubeconfig)
    elif kind == "planet":
        with tempfile.TemporaryDirectory() as folder, running_planet(Path(folder)) as planet:
            record(names, planet.kubeconfig, STORIES)
    else:
        with tempfile.TemporaryDirectory() as folder, TarmacProcess(Path(folder) / "data", *SERVER_FLAGS) as server:
            record(names, server.kubeconfig)
    return 0


if __name__ == "__main__":
    sys.exit(main())
