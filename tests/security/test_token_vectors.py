"""Tokens and key sets of the standards: the examples of RFC 7515 (appendix A) and RFC 7517 (appendix A.1)."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tarmac.base.clock import ManualClock
from tarmac.server.security.authentication.openid.keys import NamedKey, RemoteKeys, read_keys
from tarmac.server.security.tokens.jwt import parse

PAYLOAD = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
CLAIMS = {"iss": "joe", "exp": 1300819380, "http://example.com/is_root": True}

RSA_KEY = (
    '{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4Q'
    "lL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo"
    "7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2P"
    'AcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}'
)
EC_KEY = (
    '{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",'
    '"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}'
)
RS256 = (
    f"eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}."
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1"
    "dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzD"
    "wusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe7"
    "7Rw"
)
ES256 = (
    f"eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}."
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)
HS256 = f"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{PAYLOAD}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
UNSECURED = f"eyJhbGciOiJub25lIn0.{PAYLOAD}."

PUBLIC_KEYS = b"""{"keys":[
  {"kty":"EC","crv":"P-256","use":"enc","kid":"1",
   "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"},
  {"kty":"RSA","e":"AQAB","alg":"RS256","kid":"2011-04-29",
   "n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3ok\
njhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL\
5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"}
]}"""


async def _verifier(*keys: NamedKey) -> RemoteKeys:
    async def fetch() -> tuple[NamedKey, ...]:
        return keys

    remote = RemoteKeys(fetch, ManualClock())
    await remote.refresh()
    return remote


@pytest.mark.parametrize(("key", "token"), [(RSA_KEY, RS256), (EC_KEY, ES256)], ids=["RS256", "ES256"])
async def test_the_signed_examples_of_rfc_7515_verify_and_a_changed_byte_does_not(key: str, token: str) -> None:
    verifier = await _verifier(*read_keys(f'{{"keys":[{key}]}}'.encode()))
    assert parse(token).claims == CLAIMS
    assert verifier.verify(parse(token))
    for changed in (
        token.replace("LmNvbS9p", "Lm5ldC9p"),
        token[:-6] + ("A" if token[-6] != "A" else "B") + token[-5:],
    ):
        assert not verifier.verify(parse(changed))


@pytest.mark.parametrize("token", [HS256, UNSECURED], ids=["HS256", "none"])
@pytest.mark.parametrize("key", [RSA_KEY, EC_KEY], ids=["RSA", "EC"])
async def test_the_shared_secret_and_unsecured_examples_of_rfc_7515_verify_by_no_key(key: str, token: str) -> None:
    verifier = await _verifier(*read_keys(f'{{"keys":[{key}]}}'.encode()))
    assert parse(token).claims == CLAIMS
    assert not verifier.verify(parse(token))


@pytest.mark.parametrize(("key", "token"), [(EC_KEY, RS256), (RSA_KEY, ES256)], ids=["RS256", "ES256"])
async def test_a_signature_does_not_verify_by_a_key_of_another_type(key: str, token: str) -> None:
    assert not (await _verifier(*read_keys(f'{{"keys":[{key}]}}'.encode()))).verify(parse(token))


def test_the_key_set_of_rfc_7517_gives_its_signing_key_and_skips_the_encryption_key() -> None:
    [key] = read_keys(PUBLIC_KEYS)
    assert key.id == "2011-04-29"
    assert isinstance(key.key, rsa.RSAPublicKey)
    assert (key.key.key_size, key.key.public_numbers().e) == (2048, 65537)
    [curve] = read_keys(PUBLIC_KEYS.replace(b'"enc"', b'"sig"').replace(b'"RSA"', b'"unknown"'))
    assert isinstance(curve.key, ec.EllipticCurvePublicKey)
