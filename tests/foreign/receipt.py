"""Two COSE libraries that are not ours judge receipts of RFC 9942: scitt-cose and cwt.

usage: receipt.py inclusion VKEYS RECEIPT STATEMENT OTHER_RECEIPT OTHER_STATEMENT
       receipt.py consistency VKEYS RECEIPT OLD_HEAD NEW_HEAD OTHER_RECEIPT OTHER_HEAD

VKEYS holds the log's verifier keys, a line each; a head is a signed note, whose signature is for others to check. The
first receipt must be accepted for what follows it. It must be refused for the other statement or head, and so must a
receipt with its index or size moved, with one hash flipped, with one hash less, with the signature of the other
receipt's head, and under another key.
"""

import base64
import sys
from pathlib import Path

import cbor2
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cwt import COSE, COSEKey
from scitt_cose import verify_consistency, verify_receipt, verify_sign1
from scitt_cose.merkle import root_from_inclusion_proof
from statement import thumbprint

COSE_SIGN1 = 18
ALGORITHM, KEY_ID, TREE, PROOFS = 1, 4, 395, 396
INCLUSION, CONSISTENCY = -1, -2
EDDSA, RFC9162_SHA256 = -8, 1


def pem_of(key):
    """Return a public key as PEM."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def read_keys(path):
    """Return the keys of a log by their thumbprints."""
    found = {}
    for line in Path(path).read_text().split():
        # Base64 has `+` among its digits, names have not.
        typed = base64.b64decode(line.split("+", 2)[2], validate=True)
        if typed[0] != 1:
            sys.exit(f"{line}: not an Ed25519 key")
        found[thumbprint(typed[1:])] = pem_of(Ed25519PublicKey.from_public_bytes(typed[1:]))
    return found


def read_head(path):
    """Return the size of a signed head and its root in hex."""
    lines = Path(path).read_text().split("\n")
    return int(lines[1]), base64.b64decode(lines[2], validate=True).hex()


def opened(receipt, label):
    """Return the parts of a receipt with one proof of the kind that the label names."""
    tagged = cbor2.loads(receipt)
    protected, unprotected, payload, signature = tagged.value
    header = cbor2.loads(protected)
    if tagged.tag != COSE_SIGN1 or payload is not None or header != header | {ALGORITHM: EDDSA, TREE: RFC9162_SHA256}:
        sys.exit(f"not a receipt of this kind: {tagged!r}")
    if unprotected.keys() != {PROOFS} or unprotected[PROOFS].keys() != {label} or len(unprotected[PROOFS][label]) != 1:
        sys.exit(f"not one proof: {unprotected!r}")
    return protected, header[KEY_ID], cbor2.loads(unprotected[PROOFS][label][0]), signature


def closed(protected, label, proof, signature):
    """Return a receipt with these parts."""
    unprotected = {PROOFS: {label: [cbor2.dumps(proof)]}}
    return cbor2.dumps(cbor2.CBORTag(COSE_SIGN1, [protected, unprotected, None, signature]))


def signed(receipt, root, pem, key_id):
    """Tell whether both libraries find a detached root signed; a library that raises has refused."""
    answers = []
    for check in (
        lambda: verify_sign1(receipt, public_key_pem=pem, detached_payload=root),
        lambda: COSE.new().decode(receipt, COSEKey.from_pem(pem, kid=key_id), detached_payload=root),
    ):
        try:
            check()
            answers.append(True)
        except Exception:
            answers.append(False)
    return answers


def judge_inclusion(receipt, statement, pem, key_id):
    """Return what each library says of a receipt for the bytes of a statement."""
    ours = verify_receipt(receipt, leaf_entry_hex=statement.hex(), log_public_key_pem=pem)
    _, _, (size, index, path), _ = opened(receipt, INCLUSION)
    root = root_from_inclusion_proof(statement.hex(), index, size, [item.hex() for item in path])
    return [ours.ok is True] + (signed(receipt, bytes.fromhex(root), pem, key_id) if root else [False])


def judge_consistency(receipt, old, new, pem, key_id):
    """Return what each library says of a receipt that leads from one head to another."""
    _, _, (old_size, new_size, path), _ = opened(receipt, CONSISTENCY)
    if (old_size, new_size) != (old[0], new[0]):
        return [False]
    leads = verify_consistency(old[1], new[1], old_size, new_size, [item.hex() for item in path])
    return [leads, *(leads and answer for answer in signed(receipt, bytes.fromhex(new[1]), pem, key_id))]


def spoilt(receipt, label, other):
    """Yield receipts that must all be refused, each with what was done to it."""
    protected, _, (first, second, path), signature = opened(receipt, label)
    yield "first number moved", closed(protected, label, [first * 2 + 1, second, path], signature)
    yield "second number moved", closed(protected, label, [first, second ^ 1, path], signature)
    for at in range(len(path)):
        flipped = path[:at] + [bytes([path[at][0] ^ 1]) + path[at][1:]] + path[at + 1 :]
        yield f"hash {at} flipped", closed(protected, label, [first, second, flipped], signature)
    yield "one hash less", closed(protected, label, [first, second, path[1:]], signature)
    yield "one hash more", closed(protected, label, [first, second, [*path, path[0]]], signature)
    yield "the other head's signature", closed(protected, label, [first, second, path], opened(other, label)[3])
    yield "a flipped signature", closed(protected, label, [first, second, path], bytes([signature[0] ^ 1]) + signature[1:])


def main():
    match sys.argv[1:]:
        case ["inclusion", vkeys, receipt, statement, other, other_statement]:
            label, held, strange = INCLUSION, [Path(statement).read_bytes()], [Path(other_statement).read_bytes()]
            judge = judge_inclusion
        case ["consistency", vkeys, receipt, old, new, other, other_head]:
            label, held, strange = CONSISTENCY, [read_head(old), read_head(new)], [read_head(other_head), read_head(new)]
            judge = judge_consistency
        case _:
            sys.exit(__doc__)
    receipt, other = Path(receipt).read_bytes(), Path(other).read_bytes()
    protected, key_id, proof, signature = opened(receipt, label)
    if not proof[2]:
        sys.exit("a proof without hashes tests nothing; take a longer log")
    # Our receipts have one byte form, and it is the one that a CBOR library writes.
    if closed(protected, label, proof, signature) != receipt:
        sys.exit("the receipt is not in its shortest form")
    pem = read_keys(vkeys).get(key_id)
    if pem is None:
        sys.exit(f"signed by {key_id.hex()}, which is no key of the log")

    answers = judge(receipt, *held, pem, key_id)
    if not answers or not all(answers):
        sys.exit(f"refused: {answers}")
    refusals = [("something else", receipt, strange, pem)]
    refusals.append(("another key", receipt, held, pem_of(Ed25519PrivateKey.generate().public_key())))
    refusals += [(what, changed, held, pem) for what, changed in spoilt(receipt, label, other)]
    for what, changed, things, key in refusals:
        answers = judge(changed, *things, key, key_id)
        # Each library alone must refuse, but for the path alone, which knows no key and no signature.
        alone = answers[1:] if label == CONSISTENCY else answers
        if any(alone) or (what.startswith(("hash", "one hash", "something")) and answers[0]):
            sys.exit(f"accepted with {what}: {answers}")
    print(f"accepted by scitt-cose and cwt, and refused in {len(refusals)} damaged forms")


if __name__ == "__main__":
    main()
