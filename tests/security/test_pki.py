"""Keys and certificates: made once, kept, renewed in time, shared by several servers."""

from __future__ import annotations

import asyncio
import base64
import multiprocessing
import ssl
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tarmac.base.clock import ManualClock, SystemClock
from tarmac.server.security.certificates.issuing import new_key, subject_names
from tarmac.server.security.certificates.pki import Pki, write_kubeconfig
from tarmac.server.security.certificates.renewal import ServerTls

YEAR = 365 * 24 * 3600.0


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def serving(pki: Pki, *names: str) -> x509.Certificate:
    """The certificate of a server with these names, which goes with its key."""
    with pki.server_files(names) as (certificate, key):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        return load(certificate)


def test_everything_is_private_and_kept(tmp_path: Path) -> None:
    first = Pki(tmp_path / "pki", ManualClock())
    serving(first)
    files = {file.name: file.read_bytes() for file in (tmp_path / "pki").iterdir()}
    assert {"ca.crt", "ca.key", "sa.key", "server.crt", "server.key"} <= set(files)
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "pki").glob("*.key")} == {0o600}
    serving(Pki(tmp_path / "pki", ManualClock()))
    assert {file.name: file.read_bytes() for file in (tmp_path / "pki").iterdir()} == files


def test_the_server_answers_to_all_its_names(tmp_path: Path) -> None:
    names = subject_names(serving(Pki(tmp_path, ManualClock()), "api.example.com", "192.0.2.1"))
    assert {"api.example.com", "192.0.2.1", "localhost", "127.0.0.1", "::1", "10.96.0.1"} <= names
    assert {"kubernetes", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"} <= names


def test_the_server_certificate_is_renewed_for_new_names_and_in_time(tmp_path: Path) -> None:
    clock = ManualClock()
    pki = Pki(tmp_path, clock)
    serials: list[int] = []
    for name, later in (("a", 0.0), ("a", YEAR / 2), ("b", 0.0), ("b", YEAR - 20 * 24 * 3600)):
        clock.advance(later)
        serials.append(serving(pki, name).serial_number)
    assert serials[0] == serials[1]
    assert len(set(serials)) == 3


def test_servers_with_names_of_their_own_agree_on_one_certificate(tmp_path: Path) -> None:
    clock = ManualClock()
    one, other = Pki(tmp_path, clock), Pki(tmp_path, clock)
    serving(one, "one.example.org")
    both = serving(other, "192.0.2.2")
    assert {"one.example.org", "192.0.2.2"} <= subject_names(both)
    assert serving(one, "one.example.org").serial_number == both.serial_number
    clock.advance(YEAR)
    assert "192.0.2.2" not in subject_names(serving(one, "one.example.org")), "unused names are removed at renewal"


def test_a_server_killed_between_certificate_and_key_starts_again(tmp_path: Path) -> None:
    pki = Pki(tmp_path, ManualClock())
    serving(pki, "a")
    before = (tmp_path / "server.key").read_bytes()
    serving(pki, "b")
    (tmp_path / "server.key").write_bytes(before)
    assert {"a", "b"} <= subject_names(serving(pki, "a", "b"))


def test_a_server_certificate_of_another_authority_is_replaced(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "a", ManualClock())
    other = Pki(tmp_path / "b", ManualClock())
    serving(pki)
    serving(other)
    for file in ("server.crt", "server.key"):
        (tmp_path / "a" / file).write_bytes((tmp_path / "b" / file).read_bytes())
    serving(pki).verify_directly_issued_by(load(pki.ca_file))


def test_the_authority_suits_strict_clients(tmp_path: Path) -> None:
    authority = load(Pki(tmp_path, ManualClock()).ca_file)
    usage = authority.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    years = (authority.not_valid_after_utc - authority.not_valid_before_utc).days / 365
    assert 9.9 < years < 10.1


async def test_a_running_server_gets_its_new_certificate(tmp_path: Path) -> None:
    clock = ManualClock()
    pki = Pki(tmp_path, clock)
    certificate = tmp_path / "server.crt"
    tls, used = ServerTls(pki, ["a"], clock), list[bytes]()
    assert tls.renewed() is not None
    first = certificate.read_bytes()
    task = asyncio.create_task(tls.keep(lambda _: used.append(certificate.read_bytes())))
    await asyncio.sleep(0)
    for days in (1, 330, 10):
        clock.advance(days * 24 * 3600)
        await asyncio.sleep(0.001)
    assert certificate.read_bytes() != first
    assert used == [certificate.read_bytes()]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _open(directory: str) -> bytes:
    return Pki(Path(directory), SystemClock()).ca_file.read_bytes()


def test_servers_that_start_together_agree_on_one_authority(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert len(set(pool.map(_open, [str(tmp_path / "pki")] * 6))) == 1


def csr(name: str = "system:node:n1", group: str = "system:nodes") -> bytes:
    key = new_key()
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("n1")]), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_requests_are_signed_with_what_was_approved(tmp_path: Path) -> None:
    clock = ManualClock()
    pki = Pki(tmp_path, clock)
    signed = x509.load_pem_x509_certificate(pki.sign_request(csr(), ["digital signature", "client auth"], 3600))
    assert signed.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
    assert subject_names(signed) == {"n1"}
    usage = signed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert signed.not_valid_after_utc.timestamp() == pytest.approx(clock.now() + 3600, abs=1)
    assert not signed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    signed.verify_directly_issued_by(load(pki.ca_file))


def test_a_certificate_for_clients_alone_has_no_empty_key_usage(tmp_path: Path) -> None:
    """OpenSSL rejects a certificate whose key usage has no bit; ours then closes the connection."""
    signed = x509.load_pem_x509_certificate(Pki(tmp_path, ManualClock()).sign_request(csr(), ["client auth"], 3600))
    assert [each for each in signed.extensions if isinstance(each.value, x509.KeyUsage)] == []
    usage = signed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_bad_requests_are_not_signed(tmp_path: Path) -> None:
    pki = Pki(tmp_path, ManualClock())
    with pytest.raises(ValueError, match="unrecognized usages"):
        pki.sign_request(csr(), ["world domination"], 3600)
    with pytest.raises(ValueError):
        pki.sign_request(b"not a request", ["client auth"], 3600)


def test_a_kubeconfig_is_complete_and_private(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki", SystemClock())
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:6443", pki.ca_file.read_bytes(), pki.admin())
    assert path.stat().st_mode & 0o777 == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert config["current-context"] == config["contexts"][0]["name"]
    user = config["users"][0]["user"]
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    files[0].write_bytes(base64.b64decode(user["client-certificate-data"]))
    files[1].write_bytes(base64.b64decode(user["client-key-data"]))
    ssl.create_default_context().load_cert_chain(*files)
