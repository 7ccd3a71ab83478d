"""X25519 key agreement: derives the secret shared by two nodes from one private and one public key.

Uses the OpenSSL that Python's `ssl` module has loaded anyway. The `cryptography` package brings its own OpenSSL: 8 MB
in every agent that takes part in external services, for one function.
"""

from __future__ import annotations

import _ssl
import ctypes
from collections.abc import Callable
from typing import Any, Final

from tarmac.agent.egress.leases.addressconfig import KEY_BYTES

_X25519: Final = 1034  # NID_X25519 of OpenSSL
_loaded: list[ctypes.CDLL] = []


class PrivateKey:
    """The private key of this node."""

    def __init__(self, private: bytes) -> None:
        """Raises ValueError if `private` is not an X25519 key."""
        self._library = _library()
        self._key = _made(self._library.EVP_PKEY_new_raw_private_key, private)
        public, length = ctypes.create_string_buffer(KEY_BYTES), ctypes.c_size_t(KEY_BYTES)
        _check(self._library.EVP_PKEY_get_raw_public_key(self._key, public, ctypes.byref(length)))
        self.public = public.raw

    def __del__(self) -> None:
        # The constructor raises before it sets this attribute if the key is invalid.
        if hasattr(self, "_key"):
            self._library.EVP_PKEY_free(self._key)

    def exchange(self, public: bytes) -> bytes:
        """Return the secret shared with the owner of `public`.

        Raises ValueError if `public` is not a key, or a weak key with a publicly known secret.
        """
        library = self._library
        other = _made(library.EVP_PKEY_new_raw_public_key, public)
        context = library.EVP_PKEY_CTX_new(self._key, None)
        try:
            shared, length = ctypes.create_string_buffer(KEY_BYTES), ctypes.c_size_t(KEY_BYTES)
            _check(library.EVP_PKEY_derive_init(context))
            _check(library.EVP_PKEY_derive_set_peer(context, other))
            # OpenSSL fails here for a point of low order, whose secret is publicly known.
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
    """Raise ValueError unless OpenSSL returned 1, its value for success."""
    if done != 1:
        # Clear this thread's error queue: the next user of OpenSSL would report these errors as its own.
        _library().ERR_clear_error()
        raise ValueError("no X25519 key")


def _library() -> ctypes.CDLL:
    if not _loaded:
        library = ctypes.CDLL(getattr(_ssl, "__file__", None))  # the loader finds the libraries that it is linked with
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
            # Without these types ctypes would cut pointers to 32 bits.
            function.restype, function.argtypes = result, arguments
        _loaded.append(library)
    return _loaded[0]
