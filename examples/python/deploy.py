"""Deploys the Workload of a file, waits until it is ready, and says why when it is not: `deploy.py web.yaml`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import yaml

from tarmac.api.compute.workload import Workload
from tarmac.api.status import ApiError
from tarmac.client.errors import ClientError
from tarmac.client.targets.typed import INSTANCES, WORKLOADS
from tarmac.client.usercluster import UserCluster

TIMEOUT = 60.0


async def deploy(cluster: UserCluster, file: str) -> bool:
    """Apply the Workload; return True once every instance of it is ready."""
    manifest = yaml.safe_load(Path(file).read_text())
    manifest["metadata"].setdefault("namespace", cluster.namespace)
    workload = await cluster.resource(WORKLOADS).apply(manifest, manager="deploy-example")
    name, namespace = workload.metadata.name, workload.metadata.namespace
    print(f"applied {name}, generation {workload.metadata.generation}")
    try:
        async with asyncio.timeout(TIMEOUT), cluster.changes(WORKLOADS, namespace) as changes:
            async for change in changes:
                if change.object.metadata.name == name and is_ready(change.object):
                    break
    except TimeoutError:
        explanation = await cluster.why(WORKLOADS, name, namespace)
        print(explanation.sentence, explanation.change, sep="\n")
        return False
    labels = f"compute.datumapis.com/workload-name={name}"
    for instance in (await cluster.resource(INSTANCES).list(namespace, labels=labels)).items:
        print(f"ready: {instance.metadata.name}")
    return True


def is_ready(workload: Workload) -> bool:
    """Return True if the status is that of the present specification, and all of it is ready."""
    status = workload.status
    if status is None or status.observed_generation != workload.metadata.generation:
        return False
    return any(each.type == "Ready" and each.status == "True" for each in status.conditions)


async def main() -> int:
    """Deploy with the kubeconfig's cluster; return the exit code."""
    try:
        async with UserCluster.connect() as cluster:
            return 0 if await deploy(cluster, sys.argv[1]) else 1
    except (ApiError, ClientError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
