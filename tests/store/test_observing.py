"""The observer of a store is called for every write, with its duration."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tarmac.store.open import open_store
from tests.store.conftest import EtcdClusters, EtcdPlace
from tests.store.objects import PODS, value


@pytest.mark.parametrize("driver", ["memory", "sqlite", "etcd"])
async def test_writes_are_observed(driver: str, tmp_path: Path, etcds: EtcdClusters) -> None:
    """The duration is from accepted to acknowledged; for SQLite each sync of the disk is observed, too."""
    url = {"memory": "memory://", "sqlite": f"sqlite://{tmp_path}/store.db"}.get(driver)
    if url is None:
        settings = EtcdPlace(*etcds.get("etcd")).settings
        url = f"etcd://{settings.endpoints[0]}?prefix={settings.prefix}&compact=0"
    seen: list[tuple[str, float]] = []
    store = open_store(url, observer=lambda operation, seconds: seen.append((operation, seconds)))
    await store.start()
    entry = await store.create(PODS, "ns/a", value("one"))
    entry = await store.update(PODS, "ns/a", value("two"), entry.revision)
    await store.delete(PODS, "ns/a", entry.revision)
    await store.close()
    expected = Counter(create=1, update=1, delete=1)
    if driver == "sqlite":
        expected["sync"] = 3
    assert Counter(operation for operation, _ in seen) == expected
    assert all(0 <= seconds < 10 for _, seconds in seen)
