"""Texts with several certificates, and short names for authorities, without the library that understands them.

Agents have to tell which authorities they trust, and do without that library.
"""

from __future__ import annotations

import hashlib
import re
import ssl

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


def certificates_in(pem: str) -> list[str]:
    """Each certificate of a text, in order."""
    return [each.strip() + "\n" for each in _BLOCK.findall(pem)]


def authority_id(certificate: str) -> str:
    """What an authority is called where somebody says that it is trusted. Raises ValueError."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()[:16]
