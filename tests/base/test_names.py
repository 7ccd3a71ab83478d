"""Rules of names, and their error messages."""

from __future__ import annotations

import pytest

from tarmac.base import names


def test_labels_and_subdomains() -> None:
    assert names.dns1123_label("my-name") == []
    assert names.dns1123_label("a.b") == ["must not contain dots"]
    assert names.dns1123_label("a" * 64) == ["must be no more than 63 characters"]
    assert names.dns1123_label("Bad") == [
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
        "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ]
    assert names.dns1123_subdomain("a.b-c.d") == []
    assert names.dns1035_label("1a") != []


def test_label_keys_say_which_part_is_wrong() -> None:
    assert names.label_key("example.com/Name_1") == []
    assert names.label_key("/x") == ["prefix part must be non-empty"]
    assert names.label_key("x/")[0] == "name part must be non-empty"
    assert names.label_key("a" * 64) == ["name part must be no more than 63 bytes"]
    assert names.label_key("Bad_Prefix/x")[0].startswith("prefix part a lowercase RFC 1123 subdomain")
    assert names.label_key("a/b/c")[0].endswith("(e.g. 'example.com/MyName')")


def test_label_values_may_be_empty() -> None:
    assert names.label_value("") == []
    assert names.label_value("a_b.C-1") == []
    assert names.label_value("a" * 64) == ["must be no more than 63 bytes"]
    assert names.label_value("-a") != []


def test_a_trailing_newline_is_not_forgiven() -> None:
    assert names.dns1123_label("a\n") != []
    assert names.label_value("a\n") != []


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("a" * 16, "must be no more than 15 characters"),
        ("Web", "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        ("80", "must contain at least one letter (a-z)"),
        ("a--b", "must not contain consecutive hyphens"),
        ("-a", "must not begin or end with a hyphen"),
    ],
)
def test_port_names(value: str, complaint: str) -> None:
    assert complaint in names.port_name(value)
    assert names.port_name("http-8") == []


def test_keys_and_variables() -> None:
    assert names.config_map_key("app.conf") == []
    assert names.config_map_key("..x") == ["must not start with '..'"]
    assert names.env_var_name("A b") == []
    assert names.env_var_name("A=b") != []
    assert names.c_identifier("_a1") == []
    assert names.c_identifier("1a") != []
    assert names.path_segment_name("a:b") == []
    assert names.path_segment_name("a/b%") == ["may not contain '/'", "may not contain '%'"]


def test_addresses() -> None:
    for good in ("10.0.0.1", "::1", "010.001.002.003", "::ffff:1.2.3.4"):
        assert names.ip_address(good) == []
    for bad in ("10.0.0", "fe80::1%eth0", "x", "", "1.2.3.4.5"):
        assert names.ip_address(bad) == ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    assert names.ip_address("010.1.2.3", strict=True) == ["must not have leading 0s"]
    assert names.ip_address("::ffff:1.2.3.4", strict=True) == ["must not be an IPv4-mapped IPv6 address"]


def test_ranges() -> None:
    assert names.cidr("10.0.0.1/8") == []
    assert names.cidr("10.0.0.1/8", strict=True) == ["must not have bits set beyond the prefix length"]
    for bad in ("10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0/8/8", "/8"):
        assert names.cidr(bad) == ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]


@pytest.mark.parametrize(
    ("address", "ordinary"),
    [
        ("10.1.2.3", True),
        ("223.255.255.255", True),
        ("239.1.1.1", True),
        ("0.0.0.0", False),
        ("127.0.0.1", False),
        ("169.254.1.1", False),
        ("224.0.0.1", False),
        ("010.1.2.3", False),
        ("::1", False),
        ("10.1.2", False),
        ("10.1.2.3\0", False),
        ("", False),
    ],
)
def test_nothing_special_passes_for_an_ordinary_address(address: str, ordinary: bool) -> None:
    assert names.is_ordinary_ipv4(address) is ordinary
