"""A bit flips in the database, its write-ahead log or its marker: no reader ever gets data that was not written.

40 flips here, 1,000 in a soak. Each hits a copy of a store that was killed, or closed. A server on it fails to start
with one sentence that names the two remedies, or has exactly the acknowledged objects and history (the bit was in
unused bytes).
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tarmac.store.interface import Damaged
from tarmac.store.sqlite import SqliteStore
from tests.soak import SOAK
from tests.store.objects import PODS, SECRETS, value

FLIPS = 1000 if SOAK else 40
_PARTS = ("store.db", "store.db-wal", "store.db.marker")
Told = tuple[str, bytes, bytes | None]
Content = tuple[list[bytes], list[Told]]


async def _made(folder: Path, dice: random.Random) -> tuple[Path, Path]:
    """Two images of a store with objects, history and free pages: as kill -9 leaves it, and as closing does."""
    folder.mkdir()
    store = SqliteStore(folder / "store.db", wal_pages=400, keep_events=200, keep_seconds=0)
    await store.start()
    number = 0
    # long enough for checkpoints and free pages, and then until a good part of the log is not in the database yet
    while number < 900 or not 200 < store._checkpointer._pages < 390:
        number += 1
        bucket = dice.choice((PODS, SECRETS))
        name = f"ns-{dice.randrange(3)}/{dice.randrange(60)}"
        head = store.head(bucket, name)
        content = value(f"{number}", dice.choice((0, 700, 3000, 9000)))
        if head is None:
            await store.create(bucket, name, content)
        elif number % 4:
            await store.update(bucket, name, content, head.revision)
        else:
            await store.delete(bucket, name, head.revision)
    killed, closed = folder.with_name("killed"), folder.with_name("closed")
    shutil.copytree(folder, killed, ignore=shutil.ignore_patterns("*-shm", "*.lock"))
    await store.close()
    shutil.copytree(folder, closed, ignore=shutil.ignore_patterns("*.lock"))
    return killed, closed


async def _content(folder: Path) -> Content:
    """Return everything that readers can get after a start."""
    store = SqliteStore(folder / "store.db", wal_pages=64)
    await store.start()
    try:
        return _objects(store), await _history(store)
    finally:
        await store.close()


def _objects(store: SqliteStore) -> list[bytes]:
    return [entry.raw for bucket in (PODS, SECRETS) for entry in store.list(bucket).entries]


async def _history(store: SqliteStore) -> list[Told]:
    oldest = store._file.floor
    events = [event for bucket in (PODS, SECRETS) for event in await store.history(bucket, oldest)]
    return [(e.type, e.entry.raw, e.previous.raw if e.previous else None) for e in events]


def flip(path: Path, dice: random.Random) -> str:
    """Change one bit of the file, or a byte, or a whole sector of it; return a description."""
    content = bytearray(path.read_bytes())
    used = len(content) if path.name != "store.db-wal" else len(content.rstrip(b"\0")) + 100
    at = dice.randrange(min(used, len(content)))
    kind = dice.choice(("bit", "bit", "bit", "byte", "sector"))
    if kind == "sector":
        at -= at % 512
        content[at : at + 512] = bytes(512) if dice.random() < 0.5 else dice.randbytes(512)
    else:
        content[at] ^= 1 << dice.randrange(8) if kind == "bit" else dice.randrange(1, 256)
    path.write_bytes(content)
    return f"{kind} at {at} of {path.name}"


async def _outcome(folder: Path, acknowledged: Content, what: str) -> str:
    try:
        found = await _content(folder)
    except Damaged as error:
        sentence = str(error)
    else:
        assert found == acknowledged, f"{what}: served what was not written"
        return "harmless"
    assert "is damaged: " in sentence, what
    assert sentence.endswith("; restore a backup, or run `tarmac store repair --accept-loss`, which lists the losses")
    return "refused"


@pytest.mark.soak(minutes=4)
@pytest.mark.timeout(120 + FLIPS)
async def test_a_flipped_bit_is_never_served(tmp_path: Path) -> None:
    """No flip makes acknowledged writes disappear silently, either."""
    seed = int(os.environ.get("TARMAC_SEED", "20261116"))
    dice = random.Random(seed)
    images = await _made(tmp_path / "made", dice)
    whole = {image: await _content(shutil.copytree(image, tmp_path / f"whole-{image.name}")) for image in images}
    outcomes: Counter[str] = Counter()
    for number in range(FLIPS):
        image = dice.choice(images)
        folder = shutil.copytree(image, tmp_path / "flipped")
        part = dice.choice([part for part in _PARTS if (folder / part).exists()])
        what = f"seed {seed}, flip {number}, {image.name}: {flip(folder / part, dice)}"
        outcomes[f"{part} {await _outcome(folder, whole[image], what)}"] += 1
        shutil.rmtree(folder)
    print(f"\n{FLIPS} flips: {dict(sorted(outcomes.items()))}")
    assert outcomes["store.db refused"] > FLIPS / 8, "few flips hit the database"
    assert outcomes["store.db-wal refused"] > FLIPS / 20, "few flips hit the log"


async def _flip_while_open(folder: Path, dice: random.Random, what: str) -> str:
    """Return a description if the daily pass found it; in any case readers must get unchanged data."""
    store = SqliteStore(folder / "store.db", wal_pages=400, keep_events=200, keep_seconds=0)
    await store.start()
    for number in range(30):
        await store.create(PODS, f"later/{number}", value(f"later-{number}", dice.choice((0, 3000))))
    objects, history = _objects(store), await _history(store)
    store.forget(store.revision)  # memory keeps no history: from here on reads use the disk
    store._compacted = 0
    what += flip(folder / dice.choice(_PARTS[:2]), dice)
    assert _objects(store) == objects, what
    try:
        assert await _history(store) == history, f"{what}: history that was not written"
    except Damaged:
        assert store.checks()["store-integrity"]() is not None, what
    await store.verifier.verify()
    found = store.checks()["store-integrity"]() is not None
    await store.close()
    if not found:
        assert await _content(folder) == (objects, history), f"{what}: went unnoticed"
    return "found" if found else "harmless"


@pytest.mark.soak(minutes=4)
@pytest.mark.timeout(120 + FLIPS)
async def test_a_bit_that_flips_under_a_running_store_is_found(tmp_path: Path) -> None:
    """Objects come from memory, history is verified, and the daily pass finds the rest."""
    seed = int(os.environ.get("TARMAC_SEED", "20261117"))
    dice = random.Random(seed)
    image, _ = await _made(tmp_path / "made", dice)
    outcomes: Counter[str] = Counter()
    for number in range(FLIPS // 4):
        folder = shutil.copytree(image, tmp_path / "flipped")
        outcomes[await _flip_while_open(folder, dice, f"seed {seed}, flip {number}: ")] += 1
        shutil.rmtree(folder)
    print(f"\n{FLIPS // 4} flips under an open store: {dict(sorted(outcomes.items()))}")
    assert outcomes["found"] > FLIPS / 20, "few flips hit any used byte"
