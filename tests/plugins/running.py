"""Running a provider as an agent does: a request on stdin, a response on stdout.

A new process costs more than all formulas together, so most tests run a provider's file inside their own.
"""

from __future__ import annotations

import io
import json
import runpy
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tools.cache import ROOT

NAMES = ("aks", "brackets", "eks", "gke", "gke-doc", "openshift")
VERSION = "sizingprovider.kubelet.k8s.io/v1alpha1"
REQUEST = {"kind": "SizingProviderRequest", "apiVersion": VERSION}


@dataclass(frozen=True)
class Ran:
    """The exit code and the output of a provider."""

    code: int
    out: str
    err: str


def run(name: str, *args: str, request: Any = REQUEST) -> Ran:
    """Run once in this process. `request`: a JSON value, or an invalid text."""
    path = str(ROOT / "plugins" / name)
    stdin = io.TextIOWrapper(io.BytesIO(_text(request).encode()))
    with (
        patch.object(sys, "argv", [path, *args]),
        patch.object(sys, "stdin", stdin),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        code = _code(path)
    return Ran(code, out.getvalue(), err.getvalue())


def start(name: str, *args: str, request: Any = REQUEST) -> Ran:
    """Run once in a process of its own."""
    command = [ROOT / "plugins" / name, *args]
    ran = subprocess.run(command, input=_text(request), capture_output=True, text=True, timeout=30)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def asked(name: str, *args: str) -> dict[str, dict[str, str]]:
    """Return the maps of the response."""
    ran = run(name, *args)
    assert ran.code == 0, ran.err
    answer = json.loads(ran.out)
    assert (answer.pop("kind"), answer.pop("apiVersion")) == ("SizingProviderResponse", VERSION)
    return answer


def _text(request: Any) -> str:
    return request if isinstance(request, str) else json.dumps(request)


def _code(path: str) -> int:
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # as the interpreter does
            return 1
        return end.code or 0
    return 0
