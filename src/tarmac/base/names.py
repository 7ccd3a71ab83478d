"""Syntax rules of names, labels, ports and addresses.

Each function returns a list of complaints about a value, empty when it is valid, worded as Kubernetes words them
because clients and their tests match on the text. Limits count bytes, as there. The one oddity is deliberate: limits of
labels say "bytes" and limits of names say "characters". A valid value costs one match; complaints come after.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = f"{_LABEL}(\\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"

_SPECIAL_OCTETS = frozenset({0, 127, 169, 224})  # unspecified, loopback, link-local, link-local multicast
_MAX_ADDRESS = 256  # characters; leading zeros make an address longer than its 45
_MAX_MATCHED = 4096  # characters; every limit is below, and a longer value is invalid anyway


def _matcher(pattern: str) -> Callable[[str], object]:
    match = re.compile(pattern).fullmatch
    return lambda value: match(value) if len(value) <= _MAX_MATCHED else None


_label = _matcher(_LABEL)
_subdomain = _matcher(_SUBDOMAIN)
_label_1035 = _matcher(_LABEL_1035)
_key = _matcher(_KEY)
_value = _matcher(_VALUE)
_identifier = re.compile(_IDENTIFIER).fullmatch
_config_key = _matcher(_CONFIG_KEY)
_percent = re.compile(_PERCENT).fullmatch
_port_charset = re.compile(r"[-a-z0-9]+").fullmatch
_lower_case = re.compile(r"[a-z]").search
_variable = re.compile(r"[ -<>-~]*").fullmatch
_leading_zeros = re.compile(r"\b0+(?=\d)")

_ALNUM_ENDS = "and must start and end with an alphanumeric character"
_LABEL_TEXT = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALNUM_ENDS}"
_SUBDOMAIN_TEXT = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ALNUM_ENDS}"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_KEY_TEXT = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"
_VALUE_TEXT = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"
)
_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'"
)
_CONFIG_KEY_TEXT = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_PERCENT_TEXT = "a valid percent string must be a numeric string followed by an ending '%'"


def regex_message(text: str, pattern: str, *examples: str) -> str:
    """Return a complaint about a pattern, with examples of accepted values."""
    hint = " or ".join(f"'{example}', " for example in examples)
    return f"{text} ({f'e.g. {hint}' if examples else ''}regex used for validation is '{pattern}')"


def _too_long(value: str, limit: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(value.encode()) > limit else []


def dns1123_label(value: str) -> list[str]:
    """`my-name`: most object names."""
    if len(value) <= 63 and _label(value):
        return []
    errors = _too_long(value, 63)
    if not _label(value):
        dotted = _subdomain(value)
        errors.append("must not contain dots" if dotted else regex_message(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return errors


def dns1123_subdomain(value: str) -> list[str]:
    """`my.name`: labels joined by dots."""
    if len(value) <= 253 and _subdomain(value):
        return []
    errors = _too_long(value, 253)
    if not _subdomain(value):
        errors.append(regex_message(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return errors


def dns1035_label(value: str) -> list[str]:
    """A label that does not begin with a digit: Service names."""
    errors = _too_long(value, 63)
    if not _label_1035(value):
        errors.append(regex_message(_LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"))
    return errors


def label_key(value: str) -> list[str]:
    """`[prefix/]name`: keys of labels and annotations, resource names, finalizers."""
    parts = value.split("/", 2)  # a third part is an error, however many follow
    if len(parts) == 1 and len(value) <= 63 and _key(value):
        return []
    if len(parts) == 2 and len(parts[1]) <= 63 and _key(parts[1]) and len(parts[0]) <= 253 and _subdomain(parts[0]):
        return []
    pattern = regex_message(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
    if len(parts) > 2:
        return [
            f"a valid label key {pattern} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    name = parts[-1]
    errors = _prefix(parts[0]) if len(parts) == 2 else []
    if not name:
        errors.append("name part must be non-empty")
    errors += [f"name part {message}" for message in _too_long(name, 63, "bytes")]
    if not _key(name):
        errors.append(f"name part {pattern}")
    return errors


qualified_name = label_key


def _prefix(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    errors = _too_long(prefix, 253, "bytes")
    if not _subdomain(prefix):
        errors.append(regex_message(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return [f"prefix part {message}" for message in errors]


def label_value(value: str) -> list[str]:
    """The value of a label; may be empty."""
    if len(value) <= 63 and _value(value):
        return []
    errors = _too_long(value, 63, "bytes")
    if not _value(value):
        errors.append(regex_message(_VALUE_TEXT, _VALUE, "MyValue", "my_value", "12345"))
    return errors


def port_name(value: str) -> list[str]:
    """An IANA service name."""
    errors = _too_long(value, 15)
    if not _port_charset(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _lower_case(value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value and "-" in {value[0], value[-1]}:
        errors.append("must not begin or end with a hyphen")
    return errors


def c_identifier(value: str) -> list[str]:
    """A name in the C language."""
    if _identifier(value):
        return []
    return [regex_message(_IDENTIFIER_TEXT, _IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def env_var_name(value: str) -> list[str]:
    """The name of an environment variable: any printable ASCII but `=`."""
    errors = [] if value else ["environment variable name must be non-empty"]
    if not _variable(value):
        errors.append(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
    return errors


def config_map_key(value: str) -> list[str]:
    """A key of a ConfigMap or Secret, which becomes a file name."""
    errors = _too_long(value, 253)
    if not _config_key(value):
        errors.append(regex_message(_CONFIG_KEY_TEXT, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in {".", ".."}:
        errors.append(f"must not be '{value}'")
    elif value.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def path_segment_name(value: str) -> list[str]:
    """Any single segment of a URL path."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in value]


def percent(value: str) -> list[str]:
    """`25%`."""
    return [] if _percent(value) else [regex_message(_PERCENT_TEXT, _PERCENT, "1%", "93%")]


def ip_address(value: str, *, strict: bool = False) -> list[str]:
    """An IPv4 or IPv6 address.

    Kubernetes' older fields tolerate leading zeros and mapped addresses; `strict` does not.
    """
    if not strict and address_family(value):
        return []
    try:
        address = _address(value)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if strict and _has_leading_zeros(value):
        return ["must not have leading 0s"]
    if strict and address.version == 6 and address.ipv4_mapped:
        return ["must not be an IPv4-mapped IPv6 address"]
    return []


def address_family(value: str) -> int:
    """Return 4 or 6 for an address in canonical syntax, 0 for anything else. Cheap: pods have many addresses."""
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in value else socket.AF_INET, value)
    except (OSError, ValueError):
        return 0
    return 6 if ":" in value else 4


def is_ordinary_ipv4(value: str) -> bool:
    """True for an IPv4 address in canonical syntax outside every special range. False requires a full check.

    Cheap: lists of endpoints are long, and nearly all are such.
    """
    try:
        return socket.inet_pton(socket.AF_INET, value)[0] not in _SPECIAL_OCTETS
    except (OSError, ValueError):
        return False


def cidr(value: str, *, strict: bool = False) -> list[str]:
    """A range of addresses, `10.9.8.0/24`. `strict` also refuses bits beyond the prefix."""
    host, slash, length = value.partition("/")
    try:
        address = _address(host)
        if not (slash and length.isdecimal() and length.isascii() and int(length) <= address.max_prefixlen):
            raise ValueError
    except ValueError:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    if strict:
        return _strict_range(value, address, int(length))
    return []


def address_range(value: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Parse a valid range, normalised: without the bits beyond its prefix. Raises ValueError.

    `010.0.0.1/8` and `::ffff:10.0.0.0/104` are 10.0.0.0/8.
    """
    host, _, length = value.partition("/")
    address, bits = plain_address(host), int(length)
    if address.version == 4 and ":" in host:
        bits = max(0, bits - 96)
    return ipaddress.ip_network(f"{address}/{bits}", strict=False)


def _strict_range(value: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address, length: int) -> list[str]:
    host, _, text = value.partition("/")
    if _has_leading_zeros(host) or (len(text) > 1 and text[0] == "0"):
        return ["must not have leading 0s in IP or prefix length"]
    if address.version == 6 and address.ipv4_mapped:
        return ["must not have an IPv4-mapped IPv6 address"]
    if int(address) & ((1 << (address.max_prefixlen - length)) - 1):
        return ["must not have bits set beyond the prefix length"]
    return []


def _has_leading_zeros(value: str) -> bool:
    return "." in value and _leading_zeros.search(value.rpartition(":")[2]) is not None


def plain_address(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an address with the liberties that Kubernetes' older fields tolerate, normalised. Raises ValueError.

    `010.0.0.1` and `::ffff:10.0.0.1` are 10.0.0.1.
    """
    address = _address(value)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _address(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if len(value) > _MAX_ADDRESS:  # parsing splits at each separator: megabytes of them would hold the loop
        raise ValueError(f"longer than {_MAX_ADDRESS} characters")
    if "%" in value:
        raise ValueError("zones are not allowed")
    if "." in value:
        head, colon, dotted = value.rpartition(":")
        value = head + colon + _leading_zeros.sub("", dotted)
    return ipaddress.ip_address(value)
