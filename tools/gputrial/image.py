"""A container image of this machine's own files: its Python, a shell, the C library and cuBLAS; nothing is fetched.

It has none of the driver's files: those have to come from the node.
"""

from __future__ import annotations

import glob
import hashlib
import io
import json
import os
import re
import subprocess
import sysconfig
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools.gputrial.program import find_library

NAME: Final = "registry.local/tarmac/gpu-trial:1"
PYTHON: Final = "/usr/bin/python3"
_TOOLS: Final = ("/usr/bin/dash", "/usr/bin/ls", "/usr/bin/sleep", "/usr/bin/env", "/usr/bin/cat")
_SLEEP: Final = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done")
"""Ends at once on SIGTERM: the first process of a container has no default action for it."""
_LEFT_OUT: Final = re.compile(r"/(test|idlelib|tkinter|ensurepip|__pycache__|config-3)")


def needed_by(programs: Iterable[str]) -> set[str]:
    """Return the shared libraries that programs load, as the loader finds them here, without the driver's."""
    found: set[str] = set()
    for program in programs:
        output = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        found |= set(re.findall(r"(/\S+\.so\S*) \(0x", output))
    return {each for each in found if "/nvidia/lib64" not in each and "libcuda.so" not in each}


def contents(program: Path) -> dict[str, str]:
    """Return the files of the image: path in it → path here."""
    standard = sysconfig.get_paths(vars={"installed_base": "/usr", "base": "/usr"})["stdlib"]
    folder = standard if standard.startswith("/usr/lib/") else glob.glob("/usr/lib/python3.1*")[0]
    files = {
        str(each): str(each) for each in Path(folder).rglob("*") if each.is_file() and not _LEFT_OUT.search(str(each))
    }
    extensions = [each for each in files if each.endswith(".so")]
    blas = [path for stem in ("libcublas", "libcublasLt") if (path := find_library(stem))]
    programs = [PYTHON, *_TOOLS, *extensions, *blas]
    files |= {each: each for each in (PYTHON, *_TOOLS, *needed_by(programs)) if each not in blas}
    files |= {f"/opt/trial/lib/{Path(each).name}": each for each in blas}
    files["/opt/trial/program.py"] = str(program)
    return files


def write_image(target: Path, program: Path) -> int:
    """Write a docker archive; return the number of files in it."""
    files, layer = contents(program), target.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        for link, leads in (("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64"), ("usr/bin/sh", "dash")):
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, leads
            tar.addfile(entry)
        for inside, here in sorted(files.items()):
            with open(os.path.realpath(here), "rb") as file:
                # Links of the top folders would be replaced by folders of the same name.
                entry = tarfile.TarInfo(re.sub(r"^/(bin|lib|lib64)/", r"/usr/\1/", inside).lstrip("/"))
                entry.size, entry.mode = os.fstat(file.fileno()).st_size, 0o755
                tar.addfile(entry, file)
    with open(layer, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = {
        "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "config": {"Env": ["PATH=/usr/bin", "LD_LIBRARY_PATH=/opt/trial/lib"], "Cmd": _SLEEP},
    }  # fmt: skip
    manifest = [{"Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as tar:
        tar.add(layer, "layer.tar")
        for name, content in (("config.json", config), ("manifest.json", manifest)):
            text = json.dumps(content).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    layer.unlink()
    return len(files)
