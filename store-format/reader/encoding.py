"""Digests (ids.md), the one encoding (encoding.md) and signatures (trust.md, statements.md).

What the bytes mean is not decided here.
"""
import hashlib

import blake3
import cbor2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Malformed(ValueError):
    """The bytes are not what the pages say that they must be."""


def object_id(data: bytes) -> bytes:
    return blake3.blake3(data).digest()


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def encode(value) -> bytes:
    return cbor2.dumps(value, canonical=True)


def decode(data: bytes, keys=str, limit=16 << 20):
    """One item in the one encoding, whose map keys are all of one type."""
    if len(data) > limit:
        raise Malformed(f"{len(data)} bytes are too many")
    try:
        value = cbor2.loads(data)
        # A lenient library reads it, then its strict form is asked for: heads, lengths, order of keys, floats, and
        # bytes that follow all show as a difference.
        same = encode(value) == data
    except (cbor2.CBORError, ValueError, TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise Malformed(f"not CBOR: {error}") from None
    if not same:
        raise Malformed("not in the one encoding")
    _walk(value, keys, 0)
    return value


def _walk(value, keys, depth):
    # Tags and simple values come back as other types than these, so a list of types refuses all of them.
    if type(value) in (list, dict):
        if depth == 32:
            raise Malformed("nested more than 32 deep")
        if type(value) is dict:
            if any(type(key) is not keys for key in value):
                raise Malformed("a map key of another type")
            value = value.values()
        for inner in value:
            _walk(inner, keys, depth + 1)
    elif type(value) is int:
        if not -(1 << 64) <= value < 1 << 64:
            raise Malformed("an integer beyond 64 bits")
    elif value is not None and type(value) not in (bool, bytes, str, float):
        raise Malformed("a tag or a simple value")


# Ed25519. The curve is -x^2 + y^2 = 1 + D x^2 y^2 over the integers modulo P; a point is written as y, with the low
# bit of x on top. These are the y of the eight points of small order, under which a signature says nothing.
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
_Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER = {0, 1, P - 1, _Y8, P - _Y8}


def fit_for_use(public: bytes) -> bool:
    """Whether these bytes are a point, in its one encoding, and not of small order."""
    y = int.from_bytes(public, "little") & (2**255 - 1)
    x_squared = (y * y - 1) * pow(D * y * y + 1, -1, P)
    return y < P and y not in SMALL_ORDER and pow(x_squared, (P - 1) // 2, P) == 1


def signed_by(public: bytes, message: bytes, signature: bytes) -> bool:
    """Ed25519 by the strict rules. The library checks the scalar and the equation without the cofactor."""
    point = int.from_bytes(signature[:32], "little") & (2**255 - 1)
    if point % P in SMALL_ORDER or not fit_for_use(public):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def key_id(public: bytes) -> bytes:
    return sha256(bytes.fromhex("a301012006215820"), public)


def to_be_signed(protected: bytes, payload: bytes) -> bytes:
    """The Sig_structure of RFC 9052, which all signatures here but those of notes are over."""
    return encode(["Signature1", protected, b"", payload])
