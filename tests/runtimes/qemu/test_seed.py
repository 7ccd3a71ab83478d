"""The exact documents of a seed: our own small images read them line by line."""

from __future__ import annotations

import email
import email.message
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.runtimes.qemu.seed.documents import Seed, SeedTooLarge, documents
from tarmac.runtimes.qemu.seed.network import GuestNetwork, network_config
from tarmac.runtimes.qemu.seed.scalars import quoted, scalar
from tarmac.runtimes.qemu.seed.vendor import GuestDisk, vendor_data

ROUTER = "fe80::74:61ff:fe72:6d63"
DOMAINS = ("default.svc.cluster.local", "default.inst.cluster.local", "svc.cluster.local", "cluster.local")
AROUND = GuestNetwork(ROUTER, ("169.254.20.10", "fd00:96:20::a"), DOMAINS)
FIRST = AttachedInterface(
    "eth0",
    "default/default",
    mtu=1460,
    mac="02:dd:50:62:0e:9a",
    addresses=["10.128.0.2/20", "fd20:501:aace::2/64"],
    gateways=["10.128.0.1", "fd20:501:aace::1"],
    routes=["0.0.0.0/0", "::/0", "10.128.0.0/9", "fd20:501:aace::/48"],
)
SECOND = AttachedInterface(
    "eth1",
    "default/corp",
    mtu=1400,
    mac="02:dd:50:62:0e:9b",
    addresses=["10.9.0.7/24"],
    gateways=["10.9.0.1"],
    routes=["10.9.0.0/16", "fd99::/48"],
)
AGAIN = AttachedInterface(
    "eth2",
    "default/default",
    mtu=1460,
    mac="02:dd:50:62:0e:9c",
    addresses=["10.128.0.3/20", "fd20:501:aace::3/64"],
    gateways=["10.128.0.1", "fd20:501:aace::1"],
    routes=["10.128.0.0/9", "fd20:501:aace::/48"],
)
EXPECTED = """\
version: 2
ethernets:
  eth0:
    match: {macaddress: "02:dd:50:62:0e:9a"}
    set-name: eth0
    mtu: 1460
    dhcp4: false
    dhcp6: false
    accept-ra: false
    addresses: ["10.128.0.2/20", "fd20:501:aace::2/128"]
    gateway4: 10.128.0.1
    gateway6: "fe80::74:61ff:fe72:6d63"
    routes:
    - {to: 10.128.0.0/9, via: 10.128.0.1}
    - {to: "fd20:501:aace::/48", via: "fe80::74:61ff:fe72:6d63"}
    - {to: 169.254.192.0/18, via: 10.128.0.1}
    nameservers: {addresses: ["169.254.20.10", "fd00:96:20::a"], search: [default.svc.cluster.local, \
default.inst.cluster.local, svc.cluster.local, cluster.local]}
  eth1:
    match: {macaddress: "02:dd:50:62:0e:9b"}
    set-name: eth1
    mtu: 1400
    dhcp4: false
    dhcp6: false
    accept-ra: false
    addresses: ["10.9.0.7/24"]
    routes:
    - {to: 10.9.0.0/16, via: 10.9.0.1}
"""


def test_two_interfaces_of_which_one_leads_everywhere() -> None:
    assert network_config([FIRST, SECOND], AROUND) == EXPECTED


def test_a_second_interface_on_a_network_has_its_addresses_and_leaves_the_routes_to_the_first() -> None:
    read = yaml.safe_load(network_config([FIRST, SECOND, AGAIN], AROUND))["ethernets"]
    assert read["eth2"]["addresses"] == ["10.128.0.3/20", "fd20:501:aace::3/128"]
    assert read["eth2"]["match"] == {"macaddress": AGAIN.mac}
    assert "routes" not in read["eth2"]
    only = replace(FIRST, addresses=FIRST.addresses[:1], gateways=FIRST.gateways[:1])
    other = replace(AGAIN, addresses=AGAIN.addresses[1:], gateways=AGAIN.gateways[1:])
    read = yaml.safe_load(network_config([only, other], AROUND))["ethernets"]
    assert [each["to"] for each in read["eth2"]["routes"]] == ["fd20:501:aace::/48"], "the first has no IPv6"


def test_a_single_family_interface_has_no_gateway_of_the_other_family() -> None:
    six = AttachedInterface("eth0", "n", mac="02:00:00:00:00:01", addresses=["fd00::2/64"], gateways=["fd00::1"])
    six.routes = ["::/0", "0.0.0.0/0"]
    read = yaml.safe_load(network_config([six], AROUND))["ethernets"]["eth0"]
    assert read["gateway6"] == ROUTER
    assert not {"gateway4", "mtu", "routes"} & set(read)
    assert read["nameservers"]["addresses"] == list(AROUND.resolvers)


def test_any_number_of_interfaces() -> None:
    many = [AttachedInterface(f"net{n}", "n", mac=f"02:00:00:00:00:0{n}", addresses=[f"10.{n}.0.2/24"],
                              gateways=[f"10.{n}.0.1"], routes=[f"10.{n}.0.0/16"]) for n in range(8)]  # fmt: skip
    read = yaml.safe_load(network_config(many, AROUND))
    assert {name: each["addresses"] for name, each in read["ethernets"].items()} == {
        f"net{n}": [f"10.{n}.0.2/24"] for n in range(8)
    }
    assert not any("nameservers" in each or "gateway4" in each for each in read["ethernets"].values())


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_as_itself(text: str) -> None:
    key = text[:15]  # as long as an interface's name
    read = yaml.safe_load(f"{scalar(key)}: [{scalar(text)}, {quoted(text)}]\n")
    assert read == {key: [text, text]}


@pytest.mark.parametrize("word", ["on", "no", "0", "1e3", "null", "~", "", "1.5", "0x1f", "12:30", "-", "2001-01-01"])
def test_words_that_mean_something_to_yaml_stay_words(word: str) -> None:
    assert yaml.safe_load(f"a: {scalar(word)}") == {"a": word}


KEYS = 'ubuntu:ssh-ed25519 AAAA one@example\nroot:ssh-ed25519 BBBB\n ubuntu:ssh-rsa CCCC it\'s "two"\n'
DISKS = (
    GuestDisk("persistent-disk-0", "persistent-disk-0"),
    GuestDisk("logs", "logs", "/var/log/app"),
    GuestDisk("conf", "conf", "/etc/conf", "iso9660", read_only=True),
)


def parts(text: str) -> list[tuple[str, str]]:
    read: email.message.Message[str, str] = email.message_from_string(text)
    found: Any = read.get_payload()
    assert read.get_content_type() == "multipart/mixed"
    return [(each.get_content_type(), each.get_payload()) for each in found]


def test_vendor_data_is_a_boothook_and_a_cloud_config() -> None:
    (first, hook), (second, config) = parts(vendor_data(DISKS, KEYS))
    assert (first, second) == ("text/cloud-boothook", "text/cloud-config")
    assert hook.splitlines()[:2] == ["#cloud-boothook", "#!/bin/sh"]
    pair = [
        'KERNEL=="vd*[!0-9]", ENV{DEVTYPE}=="disk", ATTR{serial}=="logs", SYMLINK+="disk/by-id/datumcloud-logs"',
        'KERNEL=="vd*[0-9]", ENV{DEVTYPE}=="partition", ATTRS{serial}=="logs", '
        'SYMLINK+="disk/by-id/datumcloud-logs-part%n"',
    ]
    assert hook.splitlines()[6:8] == pair
    assert hook.splitlines()[-3:] == [
        "udevadm control --reload",
        "udevadm trigger --subsystem-match=block --action=change",
        "udevadm settle",
    ]
    assert config.startswith("#cloud-config\nusers: [default, {name: ubuntu, ssh_authorized_keys: [")
    read = yaml.safe_load(config)
    default, ubuntu, root = read["users"]
    assert default == "default"
    assert ubuntu["ssh_authorized_keys"] == ["ssh-ed25519 AAAA one@example", 'ssh-rsa CCCC it\'s "two"']
    assert (ubuntu["sudo"], ubuntu["shell"], ubuntu["lock_passwd"]) == (["ALL=(ALL) NOPASSWD:ALL"], "/bin/bash", True)
    assert (root["name"], read["disable_root"]) == ("root", False)
    assert read["mounts"] == [
        ["/dev/disk/by-id/virtio-logs", "/var/log/app", "ext4", "defaults,nofail"],
        ["/dev/disk/by-id/virtio-conf", "/etc/conf", "iso9660", "ro,nofail"],
    ]
    assert read["growpart"] == {"mode": "auto", "devices": ["/"]}


def test_without_keys_the_image_keeps_its_own_users() -> None:
    config = yaml.safe_load(parts(vendor_data((), ""))[1][1])
    assert config == {"growpart": {"mode": "auto", "devices": ["/"]}}


def test_the_boothook_is_a_script_that_a_shell_reads(tmp_path: Path) -> None:
    script = tmp_path / "hook"
    script.write_text(parts(vendor_data(DISKS, KEYS))[0][1].removeprefix("#cloud-boothook\n"))
    shell = shutil.which("sh")
    assert shell is not None
    subprocess.run([shell, "-n", str(script)], check=True)


def seed(**given: Any) -> Seed:
    return Seed(instance_id="7f0c2c9e", name="db-0", interfaces=[FIRST], guest_network=AROUND, **given)


def test_user_data_is_passed_byte_for_byte() -> None:
    made = documents(seed(user_data=b"#!/bin/sh\r\n\xff\x00", network_data=b"version: 1\n"))
    assert made["user-data"] == b"#!/bin/sh\r\n\xff\x00"
    assert made["network-config"] == b"version: 1\n"
    assert list(made) == ["meta-data", "user-data", "network-config", "vendor-data"]


def test_missing_user_documents_are_filled_by_the_platform() -> None:
    made = documents(seed())
    assert made["user-data"] == b"#cloud-config\n{}\n"
    assert made["network-config"] == network_config([FIRST], AROUND).encode()
    assert yaml.safe_load(made["meta-data"]) == {"instance-id": "7f0c2c9e", "local-hostname": "db-0"}


def test_a_name_that_is_too_long_for_a_host_is_cut() -> None:
    long = Seed(instance_id="1e5", name="a" * 62 + "-" + "b" * 30, interfaces=[], guest_network=AROUND)
    read = yaml.safe_load(documents(long)["meta-data"])
    assert read == {"instance-id": "1e5", "local-hostname": "a" * 62}


def test_more_than_fits_is_refused() -> None:
    with pytest.raises(SeedTooLarge, match="at most 1048576 fit"):
        documents(seed(user_data=b"#" * (1 << 20)))
