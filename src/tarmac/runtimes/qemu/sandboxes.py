"""The sandboxes of machines: addresses, taps, a user and a folder. What limits them is the pod's cgroup."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from tarmac.base.clock import Clock
from tarmac.runtimes.interface import NotFound, PodIdentity, RuntimeRefused, Sandbox, SandboxConfig
from tarmac.runtimes.interface.networks import NotConnected
from tarmac.runtimes.labels import sandbox_labels
from tarmac.runtimes.qemu.needs import Taps
from tarmac.runtimes.qemu.process import users_of_processes
from tarmac.runtimes.qemu.records import Folders, SandboxRecord, sandbox_id

_FIRST_USER: Final = 0x70000000
_USERS: Final = 1 << 24


class SandboxStore:
    """By id."""

    def __init__(self, folders: Folders, taps: Taps, clock: Clock) -> None:
        self._folders = folders
        self._taps = taps
        self._clock = clock
        self._records: dict[str, SandboxRecord] = {}

    def adopt(self, records: Iterable[SandboxRecord]) -> None:
        """Know what an agent before this one made."""
        self._records.update((each.id, each) for each in records)

    def all(self) -> Iterable[SandboxRecord]:
        """Everything that was made and not removed."""
        return list(self._records.values())

    def find(self, id: str) -> SandboxRecord | None:
        return self._records.get(id)

    def known(self, id: str) -> SandboxRecord:
        """Raises NotFound."""
        if id not in self._records:
            raise NotFound(f'an error occurred when try to find sandbox "{id}": not found')
        return self._records[id]

    async def make(self, config: SandboxConfig, handler: str) -> SandboxRecord:
        """One for this attempt of the pod. Raises RuntimeRefused, OSError."""
        made = sandbox_id(config.pod.uid, config.pod.attempt)
        if made in self._records:
            raise RuntimeRefused(f'failed to reserve sandbox name "{config.pod.name}": it is reserved for "{made}"')
        taken = {each.uid for each in self._records.values()} | await asyncio.to_thread(users_of_processes)
        try:
            # Without the host's interfaces there is nothing to connect: that is how handlers are tried.
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
        # Killed before this line, the taps are nobody's and are swept, and what was begun is begun again.
        self._folders.forget_sandbox(made)
        self._folders.sandbox(made).mkdir(parents=True, mode=0o711)
        self._folders.keep_sandbox(record)
        self._records[made] = record
        return record

    async def stop(self, id: str) -> None:
        """Give its interfaces back; its machines have ended."""
        record = self._records.get(id)
        if record is not None and not record.stopped:
            await self._taps.detach(id)
            record.stopped = True
            self._folders.keep_sandbox(record)

    def lost(self, id: str) -> None:
        """Its interfaces are gone: it is of no more use."""
        record = self.known(id)
        record.stopped = True
        self._folders.keep_sandbox(record)

    def remove(self, id: str) -> None:
        """Forget it."""
        self._folders.forget_sandbox(id)
        self._records.pop(id, None)

    def sweep(self) -> None:
        """Remove folders that an agent was killed over. Only before anything is made."""
        for stray in self._folders.strays():
            self._folders.forget_sandbox(stray)


def shown(record: SandboxRecord, *, addresses: bool) -> Sandbox:
    """As runtimes show a sandbox."""
    return Sandbox(
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
    """The pod's: those of its first interface come first."""
    return tuple(each.partition("/")[0] for interface in record.interfaces for each in interface.addresses)


def _user(pod_uid: str, taken: set[int]) -> int:
    """Whom the pod's machines run as: always the same, unless somebody is that already."""
    number = int.from_bytes(sha256(pod_uid.encode()).digest()[:3])
    while _FIRST_USER + number in taken:
        number = (number + 1) % _USERS
    return _FIRST_USER + number
