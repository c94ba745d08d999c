"""A statement's one byte form (statements.md, Envelope and Payload); not whether it counts, which is in fold.py."""
import re
from collections import namedtuple

from encoding import Malformed, decode, encode, sha256, to_be_signed
from records import data, digest, fields, many, mapping, row, text, uint

def one(value): return uint(1)(value) and value == 1
def in_order(link): return (link[0].encode(), link[1].encode(), link[2])

CLAIM = fields(kind=text, prev_=row(digest, uint(16)), size=uint(), facts=mapping(lambda _: True), object=digest,
               sha256=digest, links=many(row(text, text, digest), by=in_order))
PAYLOAD = fields(v=one, req_=data(16), seen_=row(uint(), digest), claims=many(CLAIM, 1, 65535), ledger_=digest)
Statement = namedtuple("Statement", "identity kid issuer subject payload claims signed signature")

def leaf_hash(content: bytes) -> bytes:
    return sha256(b"\0", content)

def read_statement(content: bytes) -> Statement:
    if len(content) > 65535 or content[:1] != b"\xd2":
        raise Malformed("too long, or no COSE_Sign1")
    envelope = decode(content[1:])
    if not row(data(), lambda unprotected: unprotected == {}, data(), data(64))(envelope):
        raise Malformed("not the four parts of an envelope")
    protected, _, inside, signature = envelope
    header, payload = decode(protected, keys=int), decode(inside)
    kid, said = (header.get(4), header.get(15)) if type(header) is dict else (None, None)
    # All else in the header is fixed, so it is built anew and compared.
    if not digest(kid) or type(said) is not dict or said.keys() != {1, 2, 6} or protected != encode(
            {1: -8, 3: "application/vnd.lineage-ledger.statement+cbor", 4: kid, 15: said}):
        raise Malformed("not the header of a statement")
    issuer, subject, time = said[1], said[2], said[6]
    if not text(issuer) or not re.fullmatch("h:[0-9a-f]{64}", issuer) or not text(subject) or not uint()(time):
        raise Malformed("not the claims of a header")
    if not PAYLOAD(payload) or ("seen" in payload) != ("ledger" in payload) or payload.get("seen", [1])[0] < 1:
        raise Malformed("not a payload")
    claims = payload["claims"]
    if sum(len(claim["links"]) for claim in claims) > 1000 or subject.partition(":")[2] != claims[0]["object"].hex():
        raise Malformed("too many links, or a subject that is not the first claim's object")
    return Statement(leaf_hash(content), kid, issuer, subject, payload, claims, to_be_signed(protected, inside), signature)
