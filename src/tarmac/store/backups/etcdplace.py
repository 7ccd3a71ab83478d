"""The objects below an etcd prefix as the target of a restore, while no server writes there.

etcd does not record which servers use it. But each running server renews a Lease there every few seconds, so where such
Leases exist, this module watches for a change below the prefix for a while. Killed servers leave their Leases behind;
servers that stopped cleanly release them and cost no waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tarmac.base.clock import Clock
from tarmac.store.backups.restoring import Changed, StoreContents, replaced_rows
from tarmac.store.backups.storecopies import copy_store
from tarmac.store.etcd.client import EtcdClient
from tarmac.store.etcd.questions import newest
from tarmac.store.etcd.records import EtcdLayout
from tarmac.store.etcd.restoring import commit, finish_restore, prepare
from tarmac.store.interface import FLOOR_STEP, Unavailable
from tarmac.store.open import etcd_settings
from tarmac.store.sqlite.sums import LogRow

QUIET_SECONDS = 7.0
"""Longer than the interval at which servers and their controllers renew their Leases."""
_LEASES, _OF_SERVERS = "coordination.k8s.io/leases", "kube-system/"


class EtcdPlace:
    """The objects below the prefix of an `etcd://` URL."""

    def __init__(self, url: str, clock: Clock) -> None:
        settings = etcd_settings(url)
        self._url = url
        self._prefix = settings.prefix
        self._clock = clock
        self._client = EtcdClient(settings, clock)
        self._records = EtcdLayout(settings.prefix, None)
        self._floor = 0

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def present(self) -> StoreContents:
        """Complete a killed restore, then return the present objects. Raises Unavailable when servers write there."""
        await finish_restore(self._client, self._records)
        rows: list[LogRow] = []
        highest = await copy_store(self._url, self._clock, rows.extend)
        if any(map(_is_held, rows)):
            await self._require_no_writers()
        return StoreContents(rows, highest if rows else 0, "")

    async def _require_no_writers(self) -> None:
        before = await self._newest()
        await self._clock.sleep(QUIET_SECONDS)
        if await self._newest() != before:
            raise Unavailable(f"servers write below {self._prefix}: stop all of them first")

    async def _newest(self) -> int:
        return max((kv.mod_revision for kv in (await self._client.range(newest(self._records))).kvs), default=0)

    async def replace(
        self, backup: Sequence[LogRow], changed: Sequence[Changed], above: int, at: int
    ) -> tuple[int, Path | None]:
        """Prepare the new objects beside the present ones. The present ones are not kept: the operator has a backup, or
        had none.
        """
        self._floor = above + FLOOR_STEP
        rows, highest = replaced_rows(backup, changed, self._floor, at)
        await prepare(self._client, self._records, ((row.bucket, row.name, row.value or b"") for row in rows))
        return highest, None

    async def rename(self) -> None:
        """Switch over. From the first write on, the new objects are the store; any server can complete an interrupted
        switch.
        """
        await commit(self._client, self._records, self._floor)
        await finish_restore(self._client, self._records)


def _is_held(row: LogRow) -> bool:
    if row.bucket != _LEASES or not row.name.startswith(_OF_SERVERS):
        return False
    spec = msgspec.json.decode(row.value or b"{}").get("spec") or {}
    return bool(spec.get("holderIdentity"))
