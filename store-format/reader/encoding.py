"""Digests (ids.md), the one encoding (encoding.md), signatures (trust.md), and CDDL as Python values."""
import functools
import hashlib
import re
from itertools import pairwise

import blake3
import cbor2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

class Refused(Exception):
    """Something is not as the pages say that it must be; the text says what, or is a standing."""

def require(holds, what):
    if not holds:
        raise Refused(what)

def object_id(content): return blake3.blake3(content).digest()
def sha256(*parts): return hashlib.sha256(b"".join(parts)).digest()
def leaf_hash(content): return sha256(b"\0", content)
def key_id(public): return sha256(bytes.fromhex("a301012006215820"), public)
def encode(value): return cbor2.dumps(value, canonical=True)
def to_be_signed(protected, payload): return encode(["Signature1", protected, b"", payload])

def decode(content, keys=str, limit=16 << 20):
    """One item in the one encoding. A lenient library reads it; it is encoded anew and compared."""
    require(len(content) <= limit, f"{len(content)} bytes are too many")
    try:
        value = cbor2.loads(content)
        same = encode(value) == content
    except (cbor2.CBORError, ValueError, TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise Refused(f"not CBOR: {error}") from None
    require(same and is_plain(value, keys), "not in the one encoding")
    return value

def is_plain(value, keys, depth=32):
    """No tag and no other simple value, which have types of their own here, and nothing too large or deep."""
    if type(value) not in (list, dict):
        return fits(range(-1 << 64, 1 << 64), value) or type(value) in (bytes, str, float, bool, type(None))
    inner = [*value.values()] if type(value) is dict else value
    return (depth > 0 and all(type(value) is list or type(key) is keys for key in value)
            and all(is_plain(each, keys, depth - 1) for each in inner))

ONE, INT = range(1, 2), range(-1 << 63, 1 << 63)
U16, U32, U64 = (range(1 << bits) for bits in (16, 32, 64))

def fits(shape, value):
    """Whether a value has a shape. To Python True is an integer, so types are compared by `is`."""
    match shape:
        case type(): return type(value) is shape
        case int(): return type(value) is bytes and len(value) == shape
        case range(): return type(value) is int and value in shape
        case set(): return type(value) is str and value in shape
        case re.Pattern(): return type(value) is str and shape.fullmatch(value) is not None
        case tuple(): return type(value) is list and len(value) == len(shape) and all(map(fits, shape, value))
        case [item]: return type(value) is list and all(fits(item, each) for each in value)
        case dict() if str in shape: return type(value) is dict and fits([shape[str]], [*value.values()])
        case dict():  # fields; one whose name ends in `_` may be absent, and is when it would be empty
            may = {name[:-1]: inner for name, inner in shape.items() if str(name)[-1] == "_"}
            must = {name: inner for name, inner in shape.items() if str(name)[-1] != "_"}
            return (type(value) is dict and must.keys() <= value.keys() <= must.keys() | may.keys()
                    and all(fits((must | may)[name], each) for name, each in value.items())
                    and not any(value.get(name) in ([], {}) for name in may))
    return shape(value)

def either(*shapes): return lambda value: any(fits(shape, value) for shape in shapes)

def ascending(item, by=lambda each: each, least=0, most=1 << 32):
    """A list in strictly ascending order. Texts have the order of their bytes, since UTF-8 keeps it."""
    return lambda value: (fits([item], value) and least <= len(value) <= most
                          and all(by(one) < by(other) for one, other in pairwise(value)))

# Ed25519 is on the curve -x^2 + y^2 = 1 + D x^2 y^2 modulo P. A point is written as its y, with the low bit
# of x on top. Eight points have small order, and these are their y.
P, Y8 = 2**255 - 19, 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
D, SMALL_ORDER = -121665 * pow(121666, -1, P) % P, {0, 1, P - 1, Y8, P - Y8}

def y_of(point): return int.from_bytes(point, "little") & (2**255 - 1)

@functools.lru_cache
def fit_for_use(public):
    """Whether these bytes are a point, in its one encoding, and not of small order."""
    y = y_of(public)
    x_squared = (y * y - 1) * pow(D * y * y + 1, -1, P)
    return y < P and y not in SMALL_ORDER and pow(x_squared, (P - 1) // 2, P) == 1

@functools.lru_cache(4096)
def signed_by(public, message, signature):
    """By the strict rules; the library looks at the scalar, and takes the equation without the cofactor."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return fit_for_use(public) and y_of(signature[:32]) % P not in SMALL_ORDER
