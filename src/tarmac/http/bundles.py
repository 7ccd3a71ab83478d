"""PEM bundles and short CA ids, without the X.509 library.

Agents report the CAs they trust, and do not load that library.
"""

from __future__ import annotations

import hashlib
import re
import ssl

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


def certificates_in(pem: str) -> list[str]:
    """Return each certificate of a PEM text, in order."""
    return [each.strip() + "\n" for each in _BLOCK.findall(pem)]


def authority_id(certificate: str) -> str:
    """Return the id under which a trusted CA is reported. Raises ValueError."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()[:16]
