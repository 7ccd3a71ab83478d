"""X25519: the secret that two nodes share, each out of its own private key and the other's public one.

By the OpenSSL that Python's TLS is made of, which an agent has loaded anyway. The library of certificates brings an
OpenSSL of its own: 8 MB in every agent that has a part in external services, for one function.
"""

from __future__ import annotations

import _ssl
import ctypes
from collections.abc import Callable
from typing import Any, Final

from tarmac.agent.external.leases.terms import KEY_BYTES

_X25519: Final = 1034  # NID_X25519 of OpenSSL
_loaded: list[ctypes.CDLL] = []


class PrivateKey:
    """A node's own key."""

    def __init__(self, private: bytes) -> None:
        """Raises ValueError when it is none."""
        self._library = _library()
        self._key = _made(self._library.EVP_PKEY_new_raw_private_key, private)
        public, length = ctypes.create_string_buffer(KEY_BYTES), ctypes.c_size_t(KEY_BYTES)
        _check(self._library.EVP_PKEY_get_raw_public_key(self._key, public, ctypes.byref(length)))
        self.public = public.raw

    def __del__(self) -> None:
        if hasattr(self, "_key"):
            self._library.EVP_PKEY_free(self._key)

    def exchange(self, public: bytes) -> bytes:
        """What is shared with whoever has the other key. Raises ValueError for what is no key, or one whose secret
        everybody knows."""
        library = self._library
        other = _made(library.EVP_PKEY_new_raw_public_key, public)
        context = library.EVP_PKEY_CTX_new(self._key, None)
        try:
            shared, length = ctypes.create_string_buffer(KEY_BYTES), ctypes.c_size_t(KEY_BYTES)
            _check(library.EVP_PKEY_derive_init(context))
            _check(library.EVP_PKEY_derive_set_peer(context, other))
            _check(library.EVP_PKEY_derive(context, shared, ctypes.byref(length)))
            return shared.raw
        finally:
            library.EVP_PKEY_CTX_free(context)
            library.EVP_PKEY_free(other)


def _made(make: Callable[..., Any], key: bytes) -> int:
    made = make(_X25519, None, key, len(key))
    _check(made is not None)
    return made


def _check(done: int) -> None:
    """OpenSSL says 1 when it has done something."""
    if done != 1:
        # Of this thread: what is left there would be taken for the fault of whatever uses OpenSSL here next.
        _library().ERR_clear_error()
        raise ValueError("no X25519 key")


def _library() -> ctypes.CDLL:
    if not _loaded:
        library = ctypes.CDLL(getattr(_ssl, "__file__", None))  # what it is linked with is found by it
        pointer, number, text, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
        length = ctypes.POINTER(size)
        for name, result, arguments in (
            ("EVP_PKEY_new_raw_private_key", pointer, (number, pointer, text, size)),
            ("EVP_PKEY_new_raw_public_key", pointer, (number, pointer, text, size)),
            ("EVP_PKEY_get_raw_public_key", number, (pointer, pointer, length)),
            ("EVP_PKEY_free", None, (pointer,)),
            ("EVP_PKEY_CTX_new", pointer, (pointer, pointer)),
            ("EVP_PKEY_CTX_free", None, (pointer,)),
            ("EVP_PKEY_derive_init", number, (pointer,)),
            ("EVP_PKEY_derive_set_peer", number, (pointer, pointer)),
            ("EVP_PKEY_derive", number, (pointer, pointer, length)),
            ("ERR_clear_error", None, ()),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        _loaded.append(library)
    return _loaded[0]
