"""`tarmac image upload`: pushes the file to the platform's registry, then creates or changes the LocalMachineImage.

The object comes last: until then no Workload can see the new image, and after an interruption the old one is in use.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from typing import Final

from tarmac.api.compute.machineimage import LocalMachineImage
from tarmac.api.compute.names import API_VERSION
from tarmac.api.declare import encode
from tarmac.api.repositories import GROUP, PULL, RESOURCE, Repository, parse_repository
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.cli.uploads.diskfile import BadDiskFile, DiskFile, checksum, examine
from tarmac.cli.uploads.pushing import Push
from tarmac.cli.uploads.registry import RegistryAddress, RegistryConnection, RegistryTokens, UploadRefused
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig
from tarmac.client.targets.typed import LOCAL_MACHINE_IMAGES
from tarmac.client.targets.untyped import LOCAL_ACCESS_REVIEWS

_MANAGER: Final = "tarmac-image-upload"
_FAILED, _WRONG = 1, 2
_STEP: Final = 10  # percent between two lines of progress, where they cannot be overwritten


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await upload(call.client, call.http, call.namespace, call.options, call.console)


async def upload(
    client: Client, server: HttpConfig, namespace: str, options: argparse.Namespace, console: Console
) -> int:
    """Upload a file; returns the exit code."""
    repository = Repository(namespace, options.name)
    try:
        if parse_repository(str(repository)) is None:
            raise BadDiskFile(f"{options.name}: not a name; use lower case letters, digits and single dashes")
        disk = examine(options.file, options.format, options.size)
    except (BadDiskFile, OSError) as error:
        console.fail(str(error))
        return _WRONG
    registry = RegistryConnection(RegistryAddress(*options.registry), server)
    try:
        digest = await asyncio.to_thread(checksum, disk.path, progress(console, "reading", disk.stored))
        push = Push(registry, RegistryTokens(client, repository, client.clock), repository, client.clock)
        if not await push.push(disk, digest, progress(console, "uploading", disk.stored)):
            print(f"{repository}: the registry has this file already", file=console.err)
    except UploadRefused as refused:
        console.fail(str(refused))
        return _FAILED
    finally:
        registry.close()
    made, what = await _write(client, repository, _spec(disk, digest, options))
    if options.output == "json":
        console.show_json(encode(made))
    else:
        console.say(f"localmachineimage.compute.datumapis.com/{options.name} {what}\n")
    await _warn_without_access(client, repository, console)
    return 0


def progress(console: Console, doing: str, total: int) -> Callable[[int], None]:
    """Return a progress callback: overwrites a line on a terminal, prints every tenth elsewhere."""
    live, before = console.err.isatty(), 0

    def report(done: int) -> None:
        nonlocal before
        percent = done * 100 // total if total else 100
        text = f"{doing}: {percent}% of {total / 1e6:.1f} MB"
        if live and percent != before:
            print(f"\r{text}", end="\n" if done == total else "", file=console.err, flush=True)
            before = percent
        elif not live and (percent >= before + _STEP or (done == total and percent != before)):
            print(text, file=console.err, flush=True)
            before = percent

    return report


def _spec(disk: DiskFile, digest: str, options: argparse.Namespace) -> JsonObject:
    """Return the fields as a merge patch: null removes those of an earlier version of the image."""
    return {
        "size": disk.size,
        "format": disk.format,
        "compression": disk.compression,
        "source": {"url": None, "repository": options.name},
        "checksum": digest,
        "firmware": options.firmware,
        "accepts": options.accepts,
    }


async def _write(client: Client, repository: Repository, spec: JsonObject) -> tuple[LocalMachineImage, str]:
    """Change the image, or create it. Raises ApiError."""
    images, (namespace, name) = client.resource(LOCAL_MACHINE_IMAGES), repository
    try:
        return await images.patch(name, {"spec": spec}, namespace, manager=_MANAGER), "configured"
    except NotFound:
        body = {
            "apiVersion": API_VERSION,
            "kind": "LocalMachineImage",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**spec, "source": {"repository": name}},
        }
        return await images.create(body, namespace=namespace, manager=_MANAGER), "created"


async def _warn_without_access(client: Client, repository: Repository, console: Console) -> None:
    """Warn if instances cannot pull the image yet: they do it as the service account of their Pods."""
    namespace = repository.namespace
    attributes = {"verb": PULL, "group": GROUP, "resource": RESOURCE, **repository._asdict()}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    account = {"user": f"system:serviceaccount:{namespace}:default", "groups": groups}
    review: JsonObject = {
        "apiVersion": LOCAL_ACCESS_REVIEWS.api_version,
        "kind": LOCAL_ACCESS_REVIEWS.kind,
        "metadata": {"namespace": namespace},
        "spec": {**account, "resourceAttributes": attributes},
    }
    try:
        answer = await client.resource(LOCAL_ACCESS_REVIEWS).create(review, namespace=namespace)
        allowed = bool(answer.get("status", {}).get("allowed"))
    except ApiError:
        allowed = False  # the user may not ask
    if not allowed:
        grant = f"rolebinding pull --clusterrole=tarmac:image-puller --group=system:serviceaccounts:{namespace}"
        print(f"instances need the right to pull it; once: kubectl -n {namespace} create {grant}", file=console.err)
