"""The sandboxes of machines: addresses, taps, a user and a directory. Limits are set on the pod's cgroup."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from tarmac.base.clock import Clock
from tarmac.runtimes.interface import PodIdentity, RuntimeObjectNotFound, RuntimeRefused, RuntimeSandbox, SandboxConfig
from tarmac.runtimes.interface.sandboxnetworks import NotConnected
from tarmac.runtimes.labels import sandbox_labels
from tarmac.runtimes.qemu.dependencies import Taps
from tarmac.runtimes.qemu.process import users_of_processes
from tarmac.runtimes.qemu.records import MachineFolders, SandboxRecord, sandbox_id

_FIRST_USER: Final = 0x70000000
_USERS: Final = 1 << 24


class SandboxStore:
    """The sandboxes of this node, by id."""

    def __init__(self, folders: MachineFolders, taps: Taps, clock: Clock) -> None:
        self._folders = folders
        self._taps = taps
        self._clock = clock
        self._records: dict[str, SandboxRecord] = {}

    def adopt(self, records: Iterable[SandboxRecord]) -> None:
        """Add the sandboxes of the previous agent."""
        self._records.update((each.id, each) for each in records)

    def all(self) -> Iterable[SandboxRecord]:
        """Return all sandboxes that were created and not removed."""
        return list(self._records.values())

    def find(self, id: str) -> SandboxRecord | None:
        return self._records.get(id)

    def known(self, id: str) -> SandboxRecord:
        """Return the record of a sandbox. Raises RuntimeObjectNotFound."""
        if id not in self._records:
            raise RuntimeObjectNotFound(f'an error occurred when try to find sandbox "{id}": not found')
        return self._records[id]

    async def make(self, config: SandboxConfig, handler: str) -> SandboxRecord:
        """Create the sandbox of this attempt of the pod. Raises RuntimeRefused, OSError."""
        made = sandbox_id(config.pod.uid, config.pod.attempt)
        if made in self._records:
            raise RuntimeRefused(f'failed to reserve sandbox name "{config.pod.name}": it is reserved for "{made}"')
        taken = {each.uid for each in self._records.values()} | await asyncio.to_thread(users_of_processes)
        try:
            # Handler checks use the host network: then there is no interface to attach.
            bare = config.security.host_network
            interfaces = [] if bare else list(await self._taps.attach(made, config.pod))
        except NotConnected as why:
            raise RuntimeRefused(str(why)) from None
        record = SandboxRecord(
            id=made,
            namespace=config.pod.namespace,
            name=config.pod.name,
            pod_uid=config.pod.uid,
            attempt=config.pod.attempt,
            handler=handler,
            created_at=self._clock.now(),
            cgroup=config.cgroup_parent,
            log_directory=config.log_directory,
            uid=_user(config.pod.uid, taken),
            hostname=config.hostname,
            labels=sandbox_labels(config.pod, config.labels),
            annotations=dict(config.annotations),
            dns_servers=list(config.dns_servers),
            dns_searches=list(config.dns_searches),
            interfaces=interfaces,
        )
        # An agent killed before this line leaves taps without an owner; they are swept, and the sandbox is made again.
        self._folders.forget_sandbox(made)
        self._folders.sandbox(made).mkdir(parents=True, mode=0o711)
        self._folders.keep_sandbox(record)
        self._records[made] = record
        return record

    async def stop(self, id: str) -> None:
        """Detach the interfaces. All machines of the sandbox must have exited."""
        record = self._records.get(id)
        if record is not None and not record.stopped:
            await self._taps.detach(id)  # repeated after a crash before the record is written; idempotent
            record.stopped = True
            self._folders.note_sandbox(record)

    def lost(self, id: str) -> None:
        """Mark the sandbox as stopped: its interfaces are gone, so it cannot be used any more."""
        record = self.known(id)
        record.stopped = True
        self._folders.note_sandbox(record)

    def remove(self, id: str) -> None:
        """Delete the sandbox, its record first. Raises RuntimeRefused; can be repeated."""
        self._folders.forget_sandbox(id)
        self._records.pop(id, None)

    def sweep(self) -> None:
        """Remove directories left incomplete by a killed agent. Call before any sandbox is created."""
        for stray in self._folders.strays():  # without a record, so that nothing here can fail
            self._folders.forget_sandbox(stray)


def shown(record: SandboxRecord, *, addresses: bool) -> RuntimeSandbox:
    """Return the sandbox as the runtime interface shows it."""
    return RuntimeSandbox(
        id=record.id,
        pod=PodIdentity(record.namespace, record.name, record.pod_uid, record.attempt),
        ready=not record.stopped,
        created_at=record.created_at,
        handler=record.handler,
        labels=record.labels,
        annotations=record.annotations,
        addresses=addresses_of(record) if addresses else (),
    )


def addresses_of(record: SandboxRecord) -> tuple[str, ...]:
    """Return the pod's addresses, those of its first interface first."""
    return tuple(each.partition("/")[0] for interface in record.interfaces for each in interface.addresses)


def _user(pod_uid: str, taken: set[int]) -> int:
    """Return the user id of the pod's machines: derived from the pod's uid, or the next one that is not in use."""
    number = int.from_bytes(sha256(pod_uid.encode()).digest()[:3])
    while _FIRST_USER + number in taken:
        number = (number + 1) % _USERS
    return _FIRST_USER + number
