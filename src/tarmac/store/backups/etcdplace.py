"""Objects below a prefix of etcd as the place of a store, while no server writes there.

Nothing in etcd says which servers have it open. But each that serves renews a Lease there every few seconds, so where
such Leases are, a look is taken whether anything below the prefix changes meanwhile. Servers that were killed leave
theirs behind; those that stopped do not, and cost no waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tarmac.base.clock import Clock
from tarmac.store.backups.restoring import Changed, Present, replaced_rows
from tarmac.store.backups.sources import copy_store
from tarmac.store.etcd.client import EtcdClient
from tarmac.store.etcd.questions import newest
from tarmac.store.etcd.records import Records
from tarmac.store.etcd.restoring import commit, finish_restore, prepare
from tarmac.store.interface import FLOOR_STEP, Unavailable
from tarmac.store.open import etcd_settings
from tarmac.store.sqlite.sums import Row

LOOK = 7.0
"""Longer than servers and their controllers go without renewing a Lease."""
_LEASES, _OF_SERVERS = "coordination.k8s.io/leases", "kube-system/"


class EtcdPlace:
    """What lies below the prefix of an `etcd://` URL."""

    def __init__(self, url: str, clock: Clock) -> None:
        settings = etcd_settings(url)
        self._url = url
        self._prefix = settings.prefix
        self._clock = clock
        self._client = EtcdClient(settings, clock)
        self._records = Records(settings.prefix, None)
        self._floor = 0

    async def close(self) -> None:
        """Hang up."""
        await self._client.close()

    async def present(self) -> Present:
        """What is there, once a restore that was killed is finished. Raises Unavailable when servers write there."""
        await finish_restore(self._client, self._records)
        rows: list[Row] = []
        highest = await copy_store(self._url, self._clock, rows.extend)
        if any(map(_is_held, rows)):
            await self._insist_on_silence()
        return Present(rows, highest if rows else 0, "")

    async def _insist_on_silence(self) -> None:
        before = await self._newest()
        await self._clock.sleep(LOOK)
        if await self._newest() != before:
            raise Unavailable(f"servers write below {self._prefix}: stop all of them first")

    async def _newest(self) -> int:
        return max((kv.mod_revision for kv in (await self._client.range(newest(self._records))).kvs), default=0)

    async def replace(
        self, backup: Sequence[Row], changed: Sequence[Changed], above: int, at: int
    ) -> tuple[int, Path | None]:
        """Prepare everything beside the objects that are there. Those are not kept: they have a backup, or had none."""
        self._floor = above + FLOOR_STEP
        rows, highest = replaced_rows(backup, changed, self._floor, at)
        await prepare(self._client, self._records, ((row.bucket, row.name, row.value or b"") for row in rows))
        return highest, None

    async def rename(self) -> None:
        """From the first write on it is the store, whoever finishes it."""
        await commit(self._client, self._records, self._floor)
        await finish_restore(self._client, self._records)


def _is_held(row: Row) -> bool:
    if row.bucket != _LEASES or not row.name.startswith(_OF_SERVERS):
        return False
    spec = msgspec.json.decode(row.value or b"{}").get("spec") or {}
    return bool(spec.get("holderIdentity"))
