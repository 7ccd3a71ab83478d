"""Runs kube-controller-manager beside the control plane: started with it, restarted when it ends, stopped with it.

It survives a killed `up`. The next one stops it before it starts its own: two would act on the same objects, and the
leader election that prevents this between hosts takes 15 s to notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tarmac.apps.control_plane import Running
from tarmac.apps.layout import Layout
from tarmac.apps.processes import end, ended, find_processes, last_words, start, stop
from tarmac.base.clock import SystemClock
from tarmac.base.log import log
from tarmac.base.tasks import background, supervise
from tarmac.runtimes.parts import PartMissing, find_program
from tarmac.server.security.authorization.stockcontrollers import STOCK_PROCESS
from tarmac.server.security.certificates.pki import Pki, write_kubeconfig

PROGRAM = "kube-controller-manager"
_MIN_RESTART_DELAY = 0.1
_MAX_RESTART_DELAY = 30.0
_MIN_UPTIME = 60.0  # seconds; after them an end is not counted as one more failure in a row
_log = log("kubernetes-controllers")

RUN: Final[frozenset[str]] = frozenset({
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
})  # fmt: skip

# controller of kube-controller-manager -> Tarmac's own that does its work, as `--controllers` names it
OWN: Final[dict[str, str]] = {
    "bootstrap-signer-controller": "certificates",
    "certificatesigningrequest-approving-controller": "certificates",
    "certificatesigningrequest-cleaner-controller": "certificates",
    "certificatesigningrequest-signing-controller": "certificates",
    "clusterrole-aggregation-controller": "clusterrole",
    "disruption-controller": "disruption",
    "endpoints-controller": "service",
    "endpointslice-controller": "service",
    "endpointslice-mirroring-controller": "endpointslicemirroring",
    "ephemeral-volume-controller": "volume",
    "garbage-collector-controller": "garbage",
    "legacy-serviceaccount-token-cleaner-controller": "serviceaccounttoken",
    "namespace-controller": "namespace",
    "node-lifecycle-controller": "node",
    "persistentvolume-binder-controller": "volume",
    "persistentvolume-expander-controller": "volume",
    "persistentvolume-protection-controller": "volume",
    "persistentvolumeclaim-protection-controller": "volume",
    "pod-garbage-collector-controller": "node",
    "resourcequota-controller": "quota",
    "root-ca-certificate-publisher-controller": "serviceaccount",
    "service-cidr-controller": "serviceaddress",
    "serviceaccount-controller": "serviceaccount",
    "serviceaccount-token-controller": "serviceaccounttoken",
    "taint-eviction-controller": "node",
    "token-cleaner-controller": "certificates",
}

# controllers of kinds that Tarmac does not serve, of clouds, or of features that are off
NOT_OFFERED: Final[frozenset[str]] = frozenset({
    "cloud-node-lifecycle-controller",
    "device-taint-eviction-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "node-ipam-controller",
    "node-route-controller",
    "persistentvolume-attach-detach-controller",
    "podcertificaterequest-cleaner-controller",
    "resourceclaim-controller",
    "selinux-warning-controller",
    "service-lb-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "ttl-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class StockControllersProgram:
    """The program and the files of one data directory."""

    layout: Layout
    program: Path

    @property
    def folder(self) -> Path:
        """Its own directory: nothing in it is lost when it is removed."""
        return self.layout.data_dir / "kubernetes-controllers"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of its user."""
        return self.folder / "kubeconfig"

    @property
    def log(self) -> Path:
        """Its log."""
        return self.folder / "kube-controller-manager.log"

    @property
    def command(self) -> list[str]:
        """The command line."""
        return [str(self.program), *controller_arguments(self.kubeconfig, RUN)]


def controller_arguments(kubeconfig: Path, chosen: Collection[str]) -> list[str]:
    """Return the arguments of the program: the chosen controllers only, whatever it enables by default.

    Each controller uses a service account of its own, with the rights of its role.
    """
    return [
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(sorted(chosen))}",
        "--use-service-account-credentials",
        "--secure-port=0",  # no port, so no lookup of clients' authorities either
        "--leader-elect-resource-namespace=kube-system",
        "--profiling=false",
    ]


def find_stock_controllers() -> Path:
    """Return the program. Raises PartMissing, which says how to get it."""
    try:
        return find_program(PROGRAM)
    except PartMissing as missing:
        raise PartMissing(
            f"{missing}. `make kubernetes-controllers` builds it, in about 5 minutes; --with-kubernetes-controllers "
            "needs it, nothing else does"
        ) from missing


def left_running(data_dir: Path) -> list[int]:
    """Return the controllers that run on a data directory, regardless of their parent."""
    wanted = f"--kubeconfig={data_dir / 'kubernetes-controllers' / 'kubeconfig'}"
    return find_processes(lambda words: Path(words[0]).name == PROGRAM and wanted in words)


@asynccontextmanager
async def with_stock_controllers(
    controllers: StockControllersProgram,
    beside: Callable[[Running], AbstractAsyncContextManager[None]],
    running: Running,
) -> AsyncGenerator[None]:
    """Run the controllers and `beside` with a control plane."""
    clock = SystemClock()
    await end(left_running(controllers.layout.data_dir))
    keep = partial(_keep, controllers, running.url, Pki(controllers.layout.pki, clock), clock)
    async with (
        background(supervise("kubernetes controllers", keep, clock), "kubernetes controllers"),
        beside(running),
    ):
        yield


async def _keep(controllers: StockControllersProgram, server: str, pki: Pki, clock: SystemClock) -> None:
    """Run the program; restart it with a growing delay when it ends."""
    delay = _MIN_RESTART_DELAY
    while True:
        # a new certificate at each start: it outlives any process, and the CA may have changed
        pair, authorities = pki.client(STOCK_PROCESS), pki.ca_file.read_bytes()
        controllers.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(write_kubeconfig, controllers.kubeconfig, server, authorities, pair, STOCK_PROCESS)
        began = clock.monotonic()
        process = await start(controllers.command, controllers.log)
        try:
            code = await ended(process, controllers.log)
        finally:
            await stop(process)  # also on cancellation: the program must not outlive the server
        if clock.monotonic() - began > _MIN_UPTIME:
            delay = _MIN_RESTART_DELAY
        output = last_words(controllers.log)
        _log.warning("kube-controller-manager ended, restarting", code=code, delay=delay, output=output)
        await clock.sleep(delay)
        delay = min(2 * delay, _MAX_RESTART_DELAY)


# The controllers of kube-controller-manager: those that run beside Tarmac, and those that never do.
#
# Two controllers of one kind would write against each other. So a controller that Tarmac has itself never runs there.
