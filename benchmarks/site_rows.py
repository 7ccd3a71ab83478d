"""The time from the package to a cluster, and of a machine to join it, on fresh roots of Debian 12 and 13.

Machines are namespaces with roots of their own on networks of their own, without any download.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from benchmarks.report import Row
from tests.machines.boxes import until
from tests.machines.packaged import package
from tests.machines.planet import KUBECONFIG, instance, location
from tests.machines.sites import SiteBox, sites
from tools.debian_roots import ensure

_PATIENCE = 300.0


def site_rows(directory: Path, say: Callable[[str], None]) -> Iterator[Row]:
    """Either Debian once as the first machine and once as the joining one."""
    packages = {debian: package(debian) for debian in ("12", "13")}
    for first, second in (("12", "13"), ("13", "12")):
        say(f"installing the package on Debian {first}, and joining it from Debian {second}")
        folder = directory / f"sites-{first}"
        with sites(folder, dallas=ensure(first), london=ensure(second)) as (dallas, london):
            began = perf_counter()
            dallas.install(packages[first])
            installed = perf_counter() - began
            init = ("init", "--location", "dfw", "--listen", f"{dallas.address}:6443", "--foreground")
            dallas.start(*init).until_said("join another machine", _PATIENCE)
            ready = perf_counter() - began
            london.install(packages[second])
            joined, running = _join(dallas, london)
        yield Row(f"Debian {first}: package to Ready, offline", "s", [ready], 60)
        yield Row(f"Debian {first}: of it dpkg, bytecode included", "s", [installed])
        yield Row(f"Debian {second}: join to Ready", "s", [joined], 20)
        yield Row(f"Debian {second}: from there to its first instance Running", "s", [running], 2)


def _join(server: SiteBox, joiner: SiteBox) -> tuple[float, float]:
    """Return the seconds until Ready, and from then until an instance runs there."""
    server.kubectl("create", "-f", "-", stdin=json.dumps(location("lhr")))
    token = server.run("token", "create", "--location", "lhr", *KUBECONFIG).stdout.strip()
    workload = json.dumps(instance("first", ["LHR"]))
    began = perf_counter()
    joiner.start("join", server.address, "--token", token, "--foreground").until_said("joined as", _PATIENCE)
    joined = perf_counter()
    server.kubectl("create", "-f", "-", stdin=workload)
    until(lambda: "Running" in server.kubectl("get", "instances"), _PATIENCE)
    return joined - began, perf_counter() - joined
