"""A tenant against other tenants and local users, with each defence and without it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest

from tarmac.agent.dns import resolver
from tarmac.agent.dns.dnsmessages import NO_SUCH_NAME
from tarmac.agent.dns.view import DnsView, Key
from tarmac.api.egress.names import Address
from tarmac.api.status import ApiError
from tarmac.cli.machines.viewers import Viewers
from tarmac.decide.egress import sourceresolution
from tarmac.decide.egress.pool import SourceIPPool
from tarmac.server.admission.references.egressreferences import ExternalReferences
from tarmac.server.nodes import isolation, proxying
from tests.admission.test_egress_references import PLUGIN, service
from tests.admission.world import World
from tests.agent.dns.test_name_resolution import answered, values, view
from tests.agent.dns.test_names_of_external_services import external
from tests.attacking import TWICE
from tests.decide.egress.making import address_class, claim
from tests.decide.egress.making import service as external_service
from tests.decide.egress.test_other_namespaces_are_not_told_of import THEIRS, everything_told, shop
from tests.decide.egress.test_source_ip_pool import resting
from tests.security.test_screens_and_local_users import opened
from tests.server.streams.planet import Planet, planet
from tests.server.streams.test_isolated_content import PODS, Serve, answer, get, serve

__all__ = ["serve", "view"]
HOME, AWAY = "default/default", "other/default"


@pytest.fixture
async def admission() -> AsyncGenerator[World]:
    async with World() as made:
        yield made


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[Planet]:
    async with planet(tmp_path) as running:
        yield running


def nothing(*_: object) -> None:
    return None


@TWICE
async def test_the_range_of_another_tenants_network_by_a_dry_run(
    admission: World, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    own = ExternalReferences._of_networks  # pyright: ignore[reportPrivateUsage]

    def of_all(plugin: ExternalReferences, target: Address, _: str) -> str | None:
        return own(plugin, target, "shop")

    if not defended:
        monkeypatch.setattr(ExternalReferences, "_of_networks", of_all)
    network = {
        "metadata": {"name": "n", "namespace": "shop"},
        "spec": {"ipam": {"mode": "Auto", "ipv4Range": "172.16.0.0/16"}},
    }
    await admission.put("networks", network)
    told = ""
    try:
        admission.admit("externalservices", service("172.16.0.9", "team"), PLUGIN)
    except ApiError as refusal:
        told = str(refusal)
    assert ("Network shop/n 172.16.0.0/16" not in told) is defended


@TWICE
def test_services_that_exist_elsewhere(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(sourceresolution, "granted_service", lambda _service, key, world: world.service(key))
    wanted = external_service(sources=[THEIRS])
    assert (everything_told(wanted, shop("")) == everything_told(wanted, shop(None))) is defended


@TWICE
def test_namespaces_by_their_names(view: DnsView, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        counted = lambda self, namespace, sort, _: self._spaces[sort][namespace] > 0  # noqa: E731
        monkeypatch.setattr(DnsView, "has", counted)
    said = answered(view, "other.svc.cluster.local")
    assert said is not None
    assert (said.code == NO_SUCH_NAME) is defended


@TWICE
def test_the_target_of_another_namespaces_external_name(
    view: DnsView, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        monkeypatch.setattr(resolver, "_is_visible", lambda *_: True)
    told = values(answered(view, "outside.default.svc.cluster.local", "CNAME", AWAY))
    assert told == ([] if defended else ["CNAME www.example.com"])


@TWICE
def test_the_short_name_of_an_external_service(view: DnsView, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    """A tenant who created one of that name first would get the packets of all clients."""

    def oldest(known: DnsView, name: str, _: object) -> Key | None:
        return min((key for key in known.externals if key[1] == name), key=lambda key: known.externals[key].created)

    if not defended:
        monkeypatch.setattr(DnsView, "external_named", oldest)
        monkeypatch.setattr(resolver.Resolver, "_seen_external", lambda self, key, _: self._view.externals[key])
    view.put_external(("evil", "db"), external("169.254.192.66", day=1))
    view.put_external(("default", "db"), external("169.254.192.7", day=2))
    told = values(answered(view, "db.external-services.cluster.local", "A", HOME))
    assert told == ["A 169.254.192.7" if defended else "A 169.254.192.66"]


@TWICE
def test_the_address_of_a_deleted_namespace(defended: bool) -> None:
    """Without the comparison of uids the name of the namespace alone decides."""
    uid_of = "uid-{}".format if defended else lambda _: "uid-of-an-earlier-one"
    pool = SourceIPPool(address_class(), [resting("uid-of-an-earlier-one")], uid_of=uid_of)
    assert (pool.bind(claim(address="192.0.2.5")).value is None) is defended


@TWICE
async def test_a_page_of_a_pod(world: Planet, serve: Serve, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(isolation, "SANDBOX", ())
        monkeypatch.setattr(isolation, "_is_kept", lambda _name: True)
        monkeypatch.setattr(proxying, "check_destination", nothing)
    port = await serve(answer("Set-Cookie: a=b; Path=/", "Service-Worker-Allowed: /"))
    _, headers, _ = await get(world, f"{PODS}/web:{port}/proxy/")
    assert ("sandbox" in headers.get("content-security-policy", "")) is defended
    assert ("set-cookie" not in headers) is defended
    assert ("service-worker-allowed" not in headers) is defended
    status, _, body = await get(world, f"{PODS}/web:{port}/proxy/sw.js", Service_Worker="script")
    assert (status == 403) is defended
    assert ("alert" not in body) is defended


@TWICE
async def test_a_screen_without_its_password(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def admitted(*_: object) -> bytes:
        return b""

    if not defended:
        monkeypatch.setattr(Viewers, "_admitted", admitted)
    async with opened() as port:
        reader, writer = await port.connect()
        writer.write(b"RFB 003.008\n\x01\x01")
        with suppress(ConnectionResetError):
            await reader.read()
        writer.close()
    assert port.sessions == (0 if defended else 1)
