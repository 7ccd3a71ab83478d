"""`tarmac upgrade check`: every obstacle in one line each, 0 when there is none; and when formats are raised."""

from __future__ import annotations

import json
from pathlib import Path

from tarmac import __version__
from tarmac.api.identities import NAMESPACE, PROCESS, VERSION
from tarmac.api.schema import JsonObject
from tarmac.apps import formatupgrade
from tarmac.apps.leaderelection import elector
from tarmac.apps.simworld import world
from tarmac.apps.upgradecheck import fields_that_go
from tarmac.base.randomness import Randomness
from tarmac.client.leader import Leadership
from tarmac.client.targets.untyped import LEASES
from tarmac.decide.versions import minor_of
from tarmac.sim.faults.draws import FaultInjector
from tarmac.sim.loop import VirtualLoop, run
from tests.apps.test_backups import tarmac
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess


def _other(step: int) -> str:
    minor = minor_of(__version__)
    assert minor is not None
    return f"{minor[0]}.{minor[1] + step}.0"


def test_obstacles_are_told_all_at_once_and_go_away_one_by_one(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", "--controllers=namespace") as server:
        here = f"--data-dir={server.data_dir}"
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": {VERSION: __version__}}}
        kubectl("create", "-f", "-", stdin=json.dumps(node))
        found = tarmac("upgrade", "check", here, f"--to={_other(2)}")
        assert found.returncode == 3
        lines = found.stderr.splitlines()
        assert [line.split(": ")[1] for line in lines] == ["server", "agent", "backup"]
        assert f"n1 has tarmac {__version__}, too old for servers of {_other(2)}; upgrade it first" in lines[1]
        assert tarmac("backup", "create", str(tmp_path / "b"), "--without-keys", here).returncode == 0
        kubectl("create", "-f", "-", stdin=json.dumps(_leaders_lease(_other(1))))
        ahead = tarmac("upgrade", "check", here, f"--to={_other(1)}")
        assert ahead.returncode == 3
        newer = f"a-machine_1 has tarmac {_other(1)}, newer than its servers; upgrade the servers first"
        assert ahead.stderr == f"error: controllers: {newer}\n"
        kubectl("-n", NAMESPACE, "delete", "lease", PROCESS)
        good = tarmac("upgrade", "check", here, f"--to={_other(1)}")
        assert (good.returncode, good.stderr) == (0, "")
        server.stop()
    assert tarmac("upgrade", "check", f"--data-dir={tmp_path / 'data'}").returncode == 1


def _leaders_lease(version: str) -> JsonObject:
    metadata = {"name": PROCESS, "namespace": NAMESPACE, "annotations": {VERSION: version}}
    kind = {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
    return {**kind, "metadata": metadata, "spec": {"holderIdentity": "a-machine_1"}}


def test_the_controllers_that_lead_say_which_version_they_are_until_they_let_go() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with world(loop, 1, FaultInjector(Randomness(1))) as made:
            client = made.reliable()
            leases = client.resource(LEASES)

            async def lead(_: Leadership) -> None:
                lease = await leases.get(PROCESS, NAMESPACE)
                assert lease["metadata"]["annotations"] == {VERSION: __version__}

            await elector(client).run(lead)
            assert not (await leases.get(PROCESS, NAMESPACE))["metadata"].get("annotations")

    run(main)


def test_fields_that_this_version_does_not_have_are_told_with_who_has_them() -> None:
    """Store objects as an earlier version did: the server returns objects as they are stored."""

    async def main(loop: VirtualLoop) -> None:
        async with world(loop, 1, FaultInjector(Randomness(1))) as made:
            assert await fields_that_go(made.reliable()) == []
            strange = {"a": b'"flavour":1', "b": b'"flavour":2', "c": b'"data":[1]'}
            for name, part in strange.items():
                kind = b'"kind":"ConfigMap","apiVersion":"v1"'
                raw = b'{"metadata":{"name":"%b","namespace":"default"},%b,%b}' % (name.encode(), part, kind)
                await made.store.create("core/configmaps", f"default/{name}", raw)
            first, second = await fields_that_go(made.reliable())
            assert first.text.startswith('configmaps default/a and 1 more: unknown field "flavour", which tarmac ')
            assert "configmaps default/c: content that cannot be read" in second.text

    run(main)


class _Store:
    """Counts."""

    raised = 0

    async def raise_format(self) -> tuple[int, int]:
        """Once."""
        self.raised += 1
        return 1, 2


def test_the_format_is_raised_when_every_server_has_been_new_for_a_minute() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with world(loop, 1, FaultInjector(Randomness(1))) as made:
            client = made.reliable()
            labels, notes = {"apiserver.kubernetes.io/identity": "tarmac-server"}, {VERSION: "0.0.9"}
            metadata = {"name": "apiserver-a", "namespace": "kube-system", "labels": labels, "annotations": notes}
            lease: JsonObject = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata}
            lease["spec"] = {"holderIdentity": "https://a:6443"}
            await client.resource(LEASES).create(lease)
            store = _Store()
            raising = loop.create_task(formatupgrade.raise_format(client, store))  # pyright: ignore[reportArgumentType]
            await made.clock.sleep(300)
            assert store.raised == 0, "one of them reads only the older format"
            change = {"metadata": {"annotations": {VERSION: __version__}}}
            await client.resource(LEASES).patch("apiserver-a", change, "kube-system")
            await made.clock.sleep(50)
            assert store.raised == 0, "it may still be downgraded"
            await made.clock.sleep(30)
            assert store.raised == 1
            await raising

    run(main)
