"""Fetches the pinned Go modules that carry Kubernetes' schemas, checked against the go.sum in third_party/."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from tools.cache import ROOT
from tools.gobuild import find_go

PINS = ROOT / "third_party" / "kubernetes-schemas"
_REQUIRE = re.compile(r"^\t(\S+) (v\S+)$", re.MULTILINE)


def pinned() -> dict[str, str]:
    """Module path -> version, from go.mod."""
    return dict(_REQUIRE.findall((PINS / "go.mod").read_text()))


def fetch() -> dict[str, Path]:
    """Module path -> folder with its files."""
    wanted = [f"{path}@{version}" for path, version in pinned().items()]
    answer = subprocess.run(
        [find_go(), "mod", "download", "-json", *wanted],
        cwd=PINS,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    decoder, text, folders = json.JSONDecoder(), answer.stdout.lstrip(), dict[str, Path]()
    while text:
        module, end = decoder.raw_decode(text)
        folders[module["Path"]] = Path(module["Dir"])
        text = text[end:].lstrip()
    return folders
