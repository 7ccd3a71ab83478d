"""`tarmac rotate`, with the server killed at every named step: the next server continues from there.

Each step is one write of the record of keys. The server is killed when the write is durable, before it has an effect;
with `make soak` also before the write, and each of these three times.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tarmac.base.randomness import Randomness
from tarmac.server.security.keys.encryption import SecretSealer
from tarmac.server.security.keys.keyrecords import KeyRecord, read_record
from tarmac.store.sqlite import SqliteStore
from tests.apps.test_rotating_keys import kept_kubeconfig, make_secrets, rotate, secrets_of, status
from tests.soak import SOAK
from tests.support.tarmac_process import TarmacProcess

TIMES, MOMENTS = (3, ("before", "after")) if SOAK else (1, ("after",))
HASTY = Path(__file__).parents[1] / "support" / "hasty"
BEGIN, RETIRE = (), ("--retire", "--force")
STEPS: dict[str, dict[str, tuple[str, ...] | None]] = {
    "ca": {"trusted": BEGIN, "signing": None, "settled": RETIRE},
    "tokens": {"trusted": BEGIN, "signing": None, "settled": RETIRE},
    "encryption": {
        "trusted": BEGIN, "sealing": None, "floor": None, "sealed": None, "retiring": RETIRE, "settled": None
    },
}  # fmt: skip
"""By kind: its steps in order, and the commands that lead to each."""


async def stored(server: TarmacProcess, what: str) -> KeyRecord | None:
    """Return the record of a stopped server."""
    sealer = SecretSealer.from_file(server.data_dir / "secrets.key", Randomness())
    store = SqliteStore(server.data_dir / "store.db", sealer=sealer)
    await store.start()
    try:
        return read_record(store, what)
    finally:
        await store.close()


async def walk(server: TarmacProcess, what: str, before: Path, known: dict[str, str]) -> None:
    """Run once through all steps."""
    record = await stored(server, what)
    begun = record.step if record is not None else 0
    for number, (step, words) in enumerate(STEPS[what].items(), begun + 1):
        for moment in MOMENTS:
            server.program = ("tests.apps.rotation_killed_process", what, str(number), moment)
            server.start()
            said = None
            try:
                if words is not None:
                    assert await secrets_of(before) == known, f"nobody is logged out before the end: {step}"
                    said = rotate(server, what, *words)  # it may report that the server has gone
                code = server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                pytest.fail(f"it never came to {step}; the command said {said}")
            assert code == -signal.SIGKILL, f"it never came to {step}"
    done = await stored(server, what)
    assert done is not None
    assert done.step == begun + len(STEPS[what]), "no kill happened at one of the steps"


@pytest.mark.soak(minutes=3)
@pytest.mark.timeout(600 if SOAK else 120)
@pytest.mark.parametrize("what", STEPS)
async def test_killed_at_every_step_the_next_server_goes_on(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HASTY))
    server = TarmacProcess(tmp_path / "data", "--controllers=-*")
    with server:
        await make_secrets(server.kubeconfig, 5)
        known = await secrets_of(server.kubeconfig)
        server.kill()
    for _ in range(TIMES):
        await walk(server, what, kept_kubeconfig(server, tmp_path), known)
    server.program = ("tarmac.apps.main",)
    with server:
        found = await status(server, what)
        assert (found["stage"], len(found["trusted"]), found["waiting"]) == ("settled", 1, [])
        assert await secrets_of(server.kubeconfig) == known
