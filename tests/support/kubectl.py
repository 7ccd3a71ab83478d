"""Runs the real kubectl against a server and returns its output."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.kubectl import find_kubectl


@cache
def kubectl_path() -> str:
    """`TARMAC_KUBECTL`, else the one the set-up found or built."""
    return os.environ.get("TARMAC_KUBECTL") or find_kubectl()


@dataclass(frozen=True)
class Result:
    """The exit code and output of one invocation."""

    command: str
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"$ kubectl {self.command}\n[exit {self.code}]\n{self.out}{self.err}"


class Kubectl:
    """`kubectl` with one kubeconfig and a cache of its own."""

    def __init__(self, kubeconfig: Path, home: Path, binary: str = "") -> None:
        self.binary = binary or kubectl_path()
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home), "KUBE_EDITOR": "false"}
        self._home = home

    def run(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None, timeout: float = 30) -> Result:
        """Run and return, with any exit code."""
        done = subprocess.run(
            [self.binary, *arguments],
            input=stdin, capture_output=True, text=True, timeout=timeout, check=False, cwd=self._home,
            env={**self._environment, **(env or {})},
        )  # fmt: skip
        return Result(" ".join(arguments), done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> str:
        """Run, insist on success, return standard output."""
        result = self.run(*arguments, stdin=stdin, env=env)
        assert result.code == 0, str(result)
        return result.out

    def fails(self, *arguments: str, stdin: str = "") -> str:
        """Run, insist on failure, return standard error."""
        result = self.run(*arguments, stdin=stdin)
        assert result.code != 0, str(result)
        return result.err

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start in the background with piped input and output (for -w, for attach); the caller ends it."""
        return subprocess.Popen(
            [self.binary, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self._home,
            env=self._environment,
        )  # fmt: skip
