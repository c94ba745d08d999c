"""Two COSE libraries that are not ours judge signed statements: scitt-cose and cwt.

usage: statement.py FILE PUBLIC_KEY_HEX    one COSE_Sign1 statement and the Ed25519 key that must have signed it
       statement.py --ledger DIR           every statement in the entry bundles of a ledger, by the keys it introduces

Each statement must be accepted by both libraries, and refused by both after one flipped byte in header, payload or
signature.
"""

import hashlib
import sys
from pathlib import Path

import cbor2
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cwt import COSE, COSEKey
from scitt_cose import parse_signed_statement

COSE_SIGN1 = 18
ALGORITHM, KEY_ID, CWT_CLAIMS = 1, 4, 15
ISSUER, SUBJECT = 1, 2
EDDSA = -8


def thumbprint(key):
    """Return the RFC 9679 thumbprint: SHA-256 over the deterministic COSE_Key of only what is required."""
    return hashlib.sha256(cbor2.dumps({1: 1, -1: 6, -2: key}, canonical=True)).digest()


def accepted_by_scitt_cose(statement, pem):
    """Tell whether scitt-cose finds the signature good; a library that raises has refused too."""
    try:
        return parse_signed_statement(statement, public_key_pem=pem)["signature_verified"] is True
    except Exception:
        return False


def accepted_by_cwt(statement, pem, key_id):
    """Tell whether cwt decodes the statement under this key; it raises when it does not."""
    try:
        COSE.new().decode(statement, COSEKey.from_pem(pem, kid=key_id))
    except Exception:
        return False
    return True


def check(name, statement, key):
    """Exit with a message unless both libraries accept the statement and refuse every damaged one."""
    tagged = cbor2.loads(statement)
    if not isinstance(tagged, cbor2.CBORTag) or tagged.tag != COSE_SIGN1:
        sys.exit(f"{name}: not a tagged COSE_Sign1")
    protected, unprotected, payload, signature = tagged.value
    header = cbor2.loads(protected)
    key_id = thumbprint(key)
    if header[ALGORITHM] != EDDSA or header[KEY_ID] != key_id or unprotected != {}:
        sys.exit(f"{name}: header {header!r} does not name EdDSA and the key's thumbprint")

    pem = Ed25519PublicKey.from_public_bytes(key).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    seen = parse_signed_statement(statement, public_key_pem=pem)
    if seen["signature_verified"] is not True:
        sys.exit(f"{name}: scitt-cose refuses it")
    if (seen["issuer"], seen["subject"]) != (header[CWT_CLAIMS][ISSUER], header[CWT_CLAIMS][SUBJECT]):
        sys.exit(f"{name}: scitt-cose reads another issuer or subject")
    if COSE.new().decode(statement, COSEKey.from_pem(pem, kid=key_id)) != payload:
        sys.exit(f"{name}: cwt reads another payload")

    for part, value in (("protected header", protected), ("payload", payload), ("signature", signature)):
        damaged = bytearray(statement)
        damaged[statement.index(value) + len(value) // 2] ^= 1
        if accepted_by_scitt_cose(bytes(damaged), pem):
            sys.exit(f"{name}: scitt-cose accepts a flipped byte in the {part}")
        if accepted_by_cwt(bytes(damaged), pem, key_id):
            sys.exit(f"{name}: cwt accepts a flipped byte in the {part}")


def tile_path(index):
    """Return the C2SP path of a tile: groups of three digits, all but the last behind an `x`."""
    groups = [f"{index % 1000:03}"]
    while index := index // 1000:
        groups.insert(0, f"x{index % 1000:03}")
    return "/".join(groups)


def statements(log):
    """Return the statements that the published tree head covers, in order."""
    size = int((log / "checkpoint").read_text().splitlines()[1])
    found = []
    for index in range((size + 255) // 256):
        path = log / "tile" / "entries" / tile_path(index)
        width = min(256, size - 256 * index)
        if not path.exists():
            path = path.with_name(path.name + ".p") / str(width)
        bundle = path.read_bytes()
        for _ in range(width):
            length = int.from_bytes(bundle[:2], "big")
            found.append(bundle[2 : 2 + length])
            bundle = bundle[2 + length :]
        if bundle:
            sys.exit(f"{path}: {len(bundle)} bytes too many")
    return found


def check_ledger(directory):
    """Check every statement of a ledger by the key that a key claim at or before it introduces."""
    keys, found = {}, statements(Path(directory) / "log")
    if not found:
        sys.exit(f"{directory}: no statement to check")
    for index, statement in enumerate(found):
        protected, _, payload, _ = cbor2.loads(statement).value
        for claim in cbor2.loads(payload)["claims"]:
            if claim["kind"] == "key":
                key = claim["facts"]["key"]
                keys[thumbprint(key)] = key
        key_id = cbor2.loads(protected)[KEY_ID]
        if key_id not in keys:
            sys.exit(f"statement {index}: signed by {key_id.hex()}, which no key claim so far introduces")
        check(f"statement {index}", statement, keys[key_id])
    return len(found)


def main():
    match sys.argv[1:]:
        case ["--ledger", directory]:
            count = check_ledger(directory)
        case [file, key]:
            check(file, Path(file).read_bytes(), bytes.fromhex(key))
            count = 1
        case _:
            sys.exit(__doc__)
    print(f"{count} accepted by scitt-cose and cwt, each refused with a byte flipped in header, payload or signature")


if __name__ == "__main__":
    main()
