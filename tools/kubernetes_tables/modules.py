"""Fetches the pinned Go modules that carry Kubernetes' schemas, checked against the go.sum in third_party/."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.cache import ROOT
from tools.gobuild import lent_go

PINS = ROOT / "third_party" / "kubernetes-schemas"
_REQUIRE = re.compile(r"^\t(\S+) (v\S+)$", re.MULTILINE)


def pinned() -> dict[str, str]:
    """Module path -> version, from go.mod."""
    return dict(_REQUIRE.findall((PINS / "go.mod").read_text()))


@contextmanager
def fetched() -> Generator[dict[str, Path]]:
    """Module path -> folder with its files, for the duration of the block. They are 170 MB, and read only once."""
    wanted = [f"{path}@{version}" for path, version in pinned().items()]
    with tempfile.TemporaryDirectory(prefix="tarmac-modules-") as cache, lent_go() as go:
        answer = subprocess.run(
            [go, "mod", "download", "-modcacherw", "-json", *wanted],
            cwd=PINS,
            env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOMODCACHE": cache},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        yield dict(_folders(answer.stdout))


def _folders(text: str) -> Iterator[tuple[str, Path]]:
    """Yield the modules of the JSON documents that Go prints."""
    decoder, text = json.JSONDecoder(), text.lstrip()
    while text:
        module, end = decoder.raw_decode(text)
        yield module["Path"], Path(module["Dir"])
        text = text[end:].lstrip()
