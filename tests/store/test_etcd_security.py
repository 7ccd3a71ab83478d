"""An etcd with authentication: passwords whose tokens expire, and mutual TLS."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tarmac.base.clock import SystemClock
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient, Lost
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.interface import Store, Unavailable
from tarmac.store.open import open_store
from tests.store.conftest import etcd_binary
from tests.store.objects import PODS, value
from tests.support.etcd import EtcdCluster


@contextmanager
def _cluster(folder: Path, *flags: str, tls: bool = False) -> Generator[EtcdCluster]:
    cluster = EtcdCluster(etcd_binary("etcd"), folder, extra=flags, tls=tls)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


async def _works(store: Store) -> None:
    entry = await store.create(PODS, "ns/a", value("one"))
    await store.delete(PODS, "ns/a", entry.revision)
    assert len(await store.history(PODS, entry.revision - 1)) == 2


async def test_a_password_whose_tokens_expire(tmp_path: Path) -> None:
    """Tokens live a second here; calls and watches get new ones without an error."""
    password = tmp_path / "password"
    with _cluster(tmp_path, "--auth-token-ttl", "1") as cluster:
        for path, body in (
            ("/v3/auth/user/add", {"name": "root", "password": "hunter2"}),
            ("/v3/auth/role/add", {"name": "root"}),
            ("/v3/auth/user/grant", {"user": "root", "role": "root"}),
            ("/v3/auth/enable", {}),
        ):
            assert "error" not in cluster.call(path, json.dumps(body))
        url = f"etcd://{cluster.endpoints[0]}?user=root&password-file={password}"
        password.write_text("hunter2\n")
        store = open_store(url)
        await store.start()
        await _works(store)
        await asyncio.sleep(2.2)  # real time: the token's life is etcd's business
        await _works(store)
        await store.close()

        password.write_text("wrong")
        with pytest.raises(Unavailable, match="authentication failed"):
            await open_store(url).start()
        with pytest.raises(Unavailable, match="user name is empty"):
            await open_store(f"etcd://{cluster.endpoints[0]}").start()


def _write_certificates(folder: Path) -> None:
    """ca.pem, and for server and client a certificate signed by it."""
    now = datetime.datetime.now(datetime.UTC)

    def make(name: str, issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer[0].subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
        )
        certificate = builder.sign(issuer[1] if issuer else key, hashes.SHA256())
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, key

    ca = make("ca", None)
    make("server", ca)
    make("client", ca)


async def test_tls_both_ways(tmp_path: Path) -> None:
    """The client checks the server's certificate against the given CA, and sends its own."""
    _write_certificates(tmp_path)
    with _cluster(tmp_path, tls=True) as cluster:
        url = f"etcd://{cluster.endpoints[0]}?cacert={tmp_path}/ca.pem"
        store = open_store(f"{url}&cert={tmp_path}/client.pem&key={tmp_path}/client.key")
        await store.start()
        await _works(store)
        await store.close()


def test_tls_on_the_loop_that_servers_run_on(tmp_path: Path) -> None:
    """This client's TLS is not the standard library's; here with responses of many frames."""

    async def work(url: str) -> None:
        store = open_store(url)
        await store.start()
        await _works(store)
        made = [store.create(PODS, f"ns/{number}", value(str(number), 100_000)) for number in range(50)]
        await asyncio.gather(*made)
        await store.close()
        again = open_store(url)
        await again.start()
        assert len(again.list(PODS).entries) == 50
        await again.close()

    _write_certificates(tmp_path)
    with _cluster(tmp_path, tls=True) as cluster:
        papers = f"cacert={tmp_path}/ca.pem&cert={tmp_path}/client.pem&key={tmp_path}/client.key"
        uvloop.run(work(f"etcd://{cluster.endpoints[0]}?{papers}"))


async def test_tls_with_the_wrong_papers(tmp_path: Path) -> None:
    """A member with a certificate of another CA receives no request; one without our certificate answers none."""
    _write_certificates(tmp_path)
    (tmp_path / "other").mkdir()
    _write_certificates(tmp_path / "other")
    pem = {name: (tmp_path / name).read_bytes() for name in ("ca.pem", "client.pem", "client.key", "other/ca.pem")}
    with _cluster(tmp_path, tls=True) as cluster:
        plain = EtcdSettings(endpoints=tuple(cluster.endpoints))
        known = replace(plain, cacert=pem["ca.pem"])
        for settings, words in (
            (replace(plain, cacert=pem["other/ca.pem"]), "certificate verify failed"),
            (known, "did not answer"),
            (plain, "did not answer"),
        ):
            client = EtcdClient(settings, SystemClock())
            with pytest.raises(Lost, match=words):
                await client.txn(pb.TxnRequest())
            await client.close()
    with pytest.raises(ValueError, match="must be PEM, and key that of cert"):
        EtcdClient(
            replace(known, cert=pem["client.pem"], key=(tmp_path / "other/client.key").read_bytes()), SystemClock()
        )
