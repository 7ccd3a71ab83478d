"""Pushes a file to the registry as an OCI artifact: its blob in chunks, an empty configuration, then the manifest.

The registry shows a blob only after all of its bytes have arrived and have the stated digest. So an upload that ends
in the middle, by SIGKILL too, leaves nothing that can be pulled; its bytes are removed later. A broken connection, or a
restart of the registry, is retried: from the bytes that the registry has, if it still knows them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tarmac.api.repositories import Repository
from tarmac.base.clock import Clock
from tarmac.cli.uploads.diskfile import DiskFile
from tarmac.cli.uploads.registry import (
    Answer,
    RegistryAway,
    RegistryConnection,
    RegistryTokens,
    UploadRefused,
    relative,
)

CHUNK: Final = 8 << 20
ATTEMPTS: Final = 6
_RETRY_DELAY: Final = 1.0  # seconds; doubled at each attempt
_OCTETS: Final = "application/octet-stream"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_EMPTY: Final = b"{}"
_EMPTY_DIGEST: Final = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
_ARTIFACT: Final = "application/vnd.tarmac.machine-image"
_REFUSED: Final = (401, 403)

ProgressCallback = Callable[[int], None]


class Push:
    """The push of one file to one repository."""

    def __init__(
        self, registry: RegistryConnection, tokens: RegistryTokens, repository: Repository, clock: Clock
    ) -> None:
        self._registry = registry
        self._tokens = tokens
        self._repository = repository
        self._clock = clock
        self._upload = ""  # path of the upload in progress

    async def push(self, disk: DiskFile, digest: str, progress: ProgressCallback) -> bool:
        """Push the file; returns False if it was already there. Raises UploadRefused, ClientError, OSError."""
        try:
            fresh = not await self._has(digest, disk.stored)
        except RegistryAway as away:
            start = "start one with `tarmac up --registry`, or give its address with --registry"
            raise UploadRefused(f"{away}; {start}") from away
        if fresh:
            await self._retried(lambda: self._blob(disk, digest, progress))
        await self._retried(self._configuration)
        await self._retried(lambda: self._manifest(disk, digest))
        return fresh

    async def _retried(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        for attempt in range(ATTEMPTS):
            try:
                await step()
            except RegistryAway as away:
                if attempt == ATTEMPTS - 1:
                    raise UploadRefused(f"{away}; run the command again") from away
                await self._clock.sleep(_RETRY_DELAY * 2**attempt)
            else:
                return

    async def _has(self, digest: str, size: int) -> bool:
        return (await self._call("HEAD", f"blobs/{digest}", size)).status == 200

    async def _blob(self, disk: DiskFile, digest: str, progress: ProgressCallback) -> None:
        with disk.path.open("rb") as file:
            place = file.seek(await self._place(disk.stored))
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                answer = await self._call("PATCH", self._upload, disk.stored - place, chunk, _OCTETS)
                self._upload = _location(answer, 202)
                place += len(chunk)
                progress(place)
        try:
            _expect(await self._call("PUT", _with_digest(self._upload, digest), 0, b"", _OCTETS), 201)
        except UploadRefused as refused:
            changed = "if the file changed meanwhile, run the command again"
            raise UploadRefused(f"{disk.path}: {refused}; {changed}") from refused
        finally:
            self._upload = ""  # finished, or of no use: its bytes are not those of the digest

    async def _place(self, size: int) -> int:
        """Return the number of bytes that the registry has, of the upload in progress or of a new one."""
        if self._upload:
            answer = await self._call("GET", self._upload, size)
            last = answer.headers.get("range", "").partition("-")[2]
            if answer.status == 204 and last.isdecimal() and int(last):  # 0-0 is said of no byte, too
                self._upload = _location(answer, 204)
                return int(last) + 1
        self._upload = _location(await self._call("POST", "blobs/uploads/", size), 202)
        return 0

    async def _configuration(self) -> None:
        if not await self._has(_EMPTY_DIGEST, len(_EMPTY)):
            begun = _location(await self._call("POST", "blobs/uploads/", len(_EMPTY)), 202)
            _expect(await self._call("PUT", _with_digest(begun, _EMPTY_DIGEST), 0, _EMPTY, _OCTETS), 201)

    async def _manifest(self, disk: DiskFile, digest: str) -> None:
        """Push the manifest: without one, a registry's garbage collection would remove the blob."""
        empty = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": _EMPTY_DIGEST, "size": len(_EMPTY)}
        content = {"mediaType": f"{_ARTIFACT}.{disk.format}", "digest": digest, "size": disk.stored}
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "artifactType": _ARTIFACT}
        body = json.dumps({**manifest, "config": empty, "layers": [content]}).encode()
        tag = digest.partition(":")[2]
        _expect(await self._call("PUT", f"manifests/{tag}", 0, body, _MANIFEST), 201)

    async def _call(self, method: str, target: str, size: int, body: bytes = b"", media_type: str = "") -> Answer:
        """Send a request; `size` is the number of bytes still to push. Raises RegistryAway, UploadRefused."""
        path = target if target.startswith("/") else f"/v2/{self._repository}/{target}"
        token = await self._tokens.get(size)
        answer = await asyncio.to_thread(self._registry.call, method, path, token, body, media_type)
        if answer.status in _REFUSED:  # a restarted registry may know other keys than those of an earlier token
            self._tokens.forget()
            token = await self._tokens.get(size)
            answer = await asyncio.to_thread(self._registry.call, method, path, token, body, media_type)
        if answer.status in _REFUSED:
            raise UploadRefused(f"{self._repository}: the registry refuses the token: {answer.reason()}")
        return answer


def _expect(answer: Answer, status: int) -> None:
    if answer.status != status:
        raise UploadRefused(f"the registry refuses it: {answer.reason()}")


def _location(answer: Answer, status: int) -> str:
    if answer.status == 404:
        raise RegistryAway("the registry does not know the upload any more")
    _expect(answer, status)
    return relative(answer.headers.get("location", ""))


def _with_digest(upload: str, digest: str) -> str:
    return f"{upload}{'&' if '?' in upload else '?'}digest={digest}"
