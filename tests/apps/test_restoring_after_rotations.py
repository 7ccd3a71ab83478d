"""A backup from before every key was rotated and retired is restored in one run, and no retired key comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tarmac.server.security.keys.encryption import read_keys
from tests.apps.test_backups import tarmac
from tests.apps.test_rotations_in_between import HASTY, KINDS, Cluster
from tests.support.tarmac_process import TarmacProcess

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HASTY))


async def rotate(server: TarmacProcess) -> None:
    """Rotate every key to the end."""
    cluster = Cluster(server.kubeconfig)
    for what in KINDS:
        await cluster.rotate(what, action="begin")
    await cluster.go_on()
    await Cluster(server.kubeconfig).retire()
    async with asyncio.timeout(30):
        while len(read_keys(server.data_dir / "secrets.key")) > 1:  # the server follows the record
            await asyncio.sleep(0.1)


class History:
    """Rotations before and after a backup; then the server stops."""

    def __init__(self, folder: Path) -> None:
        self.server = TarmacProcess(folder / "data", "--controllers=-*")
        self.file, words = folder / "backup", folder / "passphrase"
        words.write_text("correct horse battery\n")
        self.passphrase = f"--passphrase-file={words}"

    async def happen(self, *, rotated_before: bool) -> None:
        with self.server as server:
            if rotated_before:
                await rotate(server)
            self.before = await Cluster(server.kubeconfig).somebody("before")
            made = tarmac("backup", "create", str(self.file), self.passphrase, f"--data-dir={server.data_dir}")
            assert made.returncode == 0, made.stderr
            await rotate(server)
            server.stop()

    def restore(self, *flags: str) -> tuple[int, str]:
        done = tarmac("restore", str(self.file), f"--data-dir={self.server.data_dir}", "--accept-loss", *flags)
        return done.returncode, done.stderr

    def keys(self) -> dict[str, bytes]:
        names = ("pki/ca.crt", "pki/ca.key", "pki/sa.key", "secrets.key")
        return {name: (self.server.data_dir / name).read_bytes() for name in names}


@pytest.mark.parametrize("rotated_before", [False, True], ids=["first", "second"])
async def test_the_passphrase_is_all_that_is_asked_for_and_present_keys_stay(
    tmp_path: Path, rotated_before: bool
) -> None:
    history = History(tmp_path)
    await history.happen(rotated_before=rotated_before)
    keys = history.keys()
    code, told = history.restore()
    assert code == 3
    [_, line] = told.splitlines()
    assert line.startswith("error: keys: ")
    assert line.endswith("an encryption key that this server has retired; give --passphrase-file")
    assert history.restore(history.passphrase)[0] == 0
    assert history.keys() == keys
    with history.server as server:
        cluster = Cluster(server.kubeconfig)
        assert await cluster.secrets() == ["before"]
        assert not await history.before.is_known(server.url), "keys that may be stolen stay retired"
        assert await cluster.stages() == dict.fromkeys(KINDS, "settled")
        assert history.keys() == keys
        await rotate(server)
        assert await Cluster(server.kubeconfig).secrets() == ["before"], "and the next rotation loses nothing"


async def test_after_the_loss_of_the_store_as_well_it_takes_the_operators_word(tmp_path: Path) -> None:
    """No key and no uid is left that would distinguish this cluster from another one."""
    history = History(tmp_path)
    await history.happen(rotated_before=True)
    keys = history.keys()
    for each in history.server.data_dir.glob("store.db*"):
        each.unlink()
    code, told = history.restore(history.passphrase)
    assert (code, "is of another cluster" in told) == (3, True)
    assert history.restore(history.passphrase, "--from-another-cluster")[0] == 0
    with history.server as server:
        assert await Cluster(server.kubeconfig).secrets() == ["before"]
        assert history.keys() == keys
