"""The words around the ready line of `tarmac up`: programs that are missing, the kubeconfig, and the next commands."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tarmac.apps.homekubeconfig import Merged, home_file, merge
from tarmac.apps.layout import Layout
from tarmac.base.clock import Clock
from tarmac.cli.flags import default_data_dir

_EXAMPLE = Path("examples/web.yaml")
_EXAMPLE_CITIES = {"DFW", "SEA"}


def kubeconfig_of(options: argparse.Namespace) -> Path | None:
    """Return the user's kubeconfig to add the context to, or None.

    Without a flag only the server in the default data directory is added: others are for tests and comparisons.
    """
    if options.no_kubeconfig:
        return None
    if options.kubeconfig is not None:
        return options.kubeconfig.expanduser().absolute()
    default = options.data_dir.expanduser().absolute() == default_data_dir().absolute()
    return home_file(os.environ) if default else None


class Welcome:
    """Prepares what is printed, and prints it."""

    def __init__(self, layout: Layout, kubeconfig: Path | None, cities: Sequence[str], log: Path | None) -> None:
        self._layout = layout
        self._kubeconfig = kubeconfig
        self._cities = cities
        self._log = log
        self._merged: Merged | None = None

    async def prepare(self, clock: Clock) -> None:
        """Add the context to the user's kubeconfig, and print hints for missing programs."""
        if self._kubeconfig is not None:
            self._merged = await merge(self._layout, self._kubeconfig, clock)
        for hint in hints(self._layout.kubeconfig):
            print(hint, file=sys.stderr)

    def ready(self, line: str) -> None:
        """Print the ready line, and the next commands on stderr."""
        print(line, flush=True)
        lines = ["", *self._about_files(), "next, in another terminal:", *(f"  {each}" for each in self.commands())]
        print("\n".join(lines), file=sys.stderr, flush=True)

    def commands(self) -> list[str]:
        """Return the next commands to type."""
        found = ["kubectl get locations"]
        if _EXAMPLE.is_file() and set(self._cities) >= _EXAMPLE_CITIES:
            found.append(f"kubectl apply -f {_EXAMPLE}")
        else:
            city = next(iter(self._cities), "DFW")
            new = f"tarmac new web --image nginx:1.29 --port 80 --cities {city}"
            found.append(f"{new} | kubectl apply -f -")
        found.append("tarmac dashboard")
        needs = self._merged is None and self._kubeconfig != self._layout.kubeconfig
        return [f"export KUBECONFIG={self._layout.kubeconfig}", *found] if needs else found

    def _about_files(self) -> list[str]:
        found: list[str] = []
        if self._merged is not None:
            copy = f", {self._merged.backup} is a copy of it" if self._merged.backup is not None else ""
            found.append(f'kubectl uses context "{self._merged.context}" of {self._merged.file} now{copy}')
        if self._log is not None:
            found.append(f"log lines are in {self._log}; Ctrl-C stops")
        return found


def hints(kubeconfig: Path) -> list[str]:
    """Return a line with a command to paste for each program that is not on the PATH."""
    found: list[str] = []
    own = Path(sys.executable).parent / "tarmac"
    if shutil.which("tarmac") is None:
        where = f"export PATH={own.parent}:$PATH" if own.exists() else f"use `{sys.executable} -m tarmac.apps.main`"
        found.append(f"tarmac is not on the PATH: {where}")
    if shutil.which("kubectl") is None:
        found.append(
            f"kubectl is not on the PATH: install one from 1.30 on (it wants --kubeconfig {kubeconfig}), or in a clone "
            f"of Tarmac build one: export PATH=$(dirname $(.venv/bin/python -m tools.kubectl)):$PATH"
        )
    return found
