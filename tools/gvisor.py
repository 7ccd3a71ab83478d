"""Builds gVisor and its containerd shim from pinned source: `python -m tools.gvisor` prints their folder.

Debian carries gVisor without the shim that lets the containers of a pod share one kernel, so both come from the Go
module registry, checked against the go.sum in third_party/gvisor. Each patch there gives its reason; the Go tool
compiles no changed files of its module cache, hence the copy that `replace` points at.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.cache import ROOT, cached, digest, say
from tools.gobuild import find_go

MODULE = "gvisor.dev/gvisor"
PROGRAMS = {"runsc": f"{MODULE}/runsc", "containerd-shim-runsc-v1": f"{MODULE}/shim"}
_PINS = ROOT / "third_party" / "gvisor"
PATCHES = sorted(_PINS.glob("*.patch"))
_GO_AT_LEAST = (1, 26, 3)


def build() -> Path:
    """Return the folder with the programs. Raises CalledProcessError, RuntimeError."""
    inputs = [(_PINS / name).read_bytes() for name in ("go.mod", "go.sum")]
    return cached("gvisor", _version(), digest([*inputs, *(each.read_bytes() for each in PATCHES)]), _compile)


def _version() -> str:
    pinned = re.search(rf"require {re.escape(MODULE)} v\S+-(\d{{8}})\d{{6}}-", (_PINS / "go.mod").read_text())
    if pinned is None:
        raise RuntimeError(f"third_party/gvisor/go.mod does not pin {MODULE}")
    return pinned[1]


def _compile(folder: Path) -> None:
    say("building gVisor, the kernel of sandboxes, from source: 2 to 6 minutes, once")
    go = find_go(_GO_AT_LEAST)
    work = folder / "work"
    shutil.copytree(_PINS, work)
    say("  fetching its source")
    _go(go, _PINS, "mod", "download")
    shutil.copytree(_source(go), work / "source")
    for path in [work / "source", *(work / "source").rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)  # the module cache is read-only
    for patch in PATCHES:
        apply_patch(patch.read_text(), work / "source")
    _go(go, work, "mod", "edit", f"-replace={MODULE}=./source")
    for name, package in PROGRAMS.items():
        say(f"  compiling {name}")
        _go(go, work, "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", str(folder / name), package)
    shutil.rmtree(work)


def _source(go: str) -> Path:
    """Return the folder into which the Go tool unpacked the module, its checksum verified."""
    return Path(json.loads(_go(go, _PINS, "list", "-m", "-json", MODULE))["Dir"])


def _go(go: str, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    return subprocess.run(
        [go, *arguments], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def apply_patch(patch: str, tree: Path) -> None:
    """Apply a unified diff of one hunk; its context must occur exactly once. Raises RuntimeError."""
    head, _, hunk = patch.partition("\n@@")
    name = re.findall(r"^\+\+\+ b/(\S+)$", head, re.MULTILINE)[0]
    lines = hunk.splitlines()[1:]
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] in " -")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] in " +")
    text = (tree / name).read_text()
    if text.count(before) != 1:
        raise RuntimeError(f"the patch for {name} does not fit this source")
    (tree / name).write_text(text.replace(before, after))


if __name__ == "__main__":
    print(build())
    sys.exit(0)
