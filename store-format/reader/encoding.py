"""Digests (ids.md), the one encoding (encoding.md) and signatures (trust.md); not what any bytes mean."""
import functools
import hashlib

import blake3
import cbor2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

class Malformed(ValueError):
    """The bytes are not what the pages say that they must be."""

def object_id(content: bytes) -> bytes:
    return blake3.blake3(content).digest()

def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()

def encode(value) -> bytes:
    return cbor2.dumps(value, canonical=True)

def decode(content: bytes, keys=str, limit=16 << 20):
    """One item in the one encoding, whose map keys are all of one type.

    A lenient library reads it; then it is encoded anew, strictly, and compared. Long heads, lengths without end, keys
    out of order or twice, wide floats and bytes that follow all show as a difference.
    """
    if len(content) > limit:
        raise Malformed(f"{len(content)} bytes are too many")
    try:
        value = cbor2.loads(content)
        same = encode(value) == content
    except (cbor2.CBORError, ValueError, TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise Malformed(f"not CBOR: {error}") from None
    if not same:
        raise Malformed("not in the one encoding")
    _walk(value, keys, 0)
    return value

def _walk(value, keys, depth):
    """Tags and other simple values are of types of their own here, so a list of types refuses all of them."""
    if type(value) in (list, dict):
        if depth == 32 or type(value) is dict and any(type(key) is not keys for key in value):
            raise Malformed("nested more than 32 deep, or a map key of another type")
        for inner in value.values() if type(value) is dict else value:
            _walk(inner, keys, depth + 1)
    elif type(value) is int:
        if not -(1 << 64) <= value < 1 << 64:
            raise Malformed("an integer beyond 64 bits")
    elif value is not None and type(value) not in (bool, bytes, str, float):
        raise Malformed("a tag or a simple value")

# Ed25519 is on the curve -x^2 + y^2 = 1 + D x^2 y^2 modulo P. A point is written as its y, with the low bit of x on
# top. Eight points have small order, and these are their y: under such a key one signature fits many messages.
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
_Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER = {0, 1, P - 1, _Y8, P - _Y8}

def _y(point: bytes) -> int:
    return int.from_bytes(point, "little") & (2**255 - 1)

@functools.lru_cache
def fit_for_use(public: bytes) -> bool:
    """Whether these bytes are a point, in its one encoding, and not of small order."""
    y = _y(public)
    x_squared = (y * y - 1) * pow(D * y * y + 1, -1, P)
    return y < P and y not in SMALL_ORDER and pow(x_squared, (P - 1) // 2, P) == 1

@functools.lru_cache(4096)
def signed_by(public: bytes, message: bytes, signature: bytes) -> bool:
    """By the strict rules; the library looks at the scalar, and takes the equation without the cofactor."""
    if not fit_for_use(public) or _y(signature[:32]) % P in SMALL_ORDER:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True

def key_id(public: bytes) -> bytes:
    return sha256(bytes.fromhex("a301012006215820"), public)

def to_be_signed(protected: bytes, payload: bytes) -> bytes:
    """The Sig_structure of RFC 9052; every signature is over one, but those of tree heads."""
    return encode(["Signature1", protected, b"", payload])
