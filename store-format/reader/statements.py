"""A statement's one byte form (statements.md, Envelope and Payload); whether it counts is not decided here."""
import re
from typing import NamedTuple

from encoding import Malformed, decode, encode, sha256, to_be_signed
from records import data, digest, fields, many, mapping, row, text, uint

CONTENT_TYPE = "application/vnd.lineage-ledger.statement+cbor"
CLAIM = fields(kind=text, prev_=row(digest, uint(16)), size=uint(), facts=mapping(lambda _: True),
               links=many(row(text, text, digest), ordered_by=lambda link: (link[0].encode(), link[1].encode(), link[2])),
               object=digest, sha256=digest)
PAYLOAD = fields(v=lambda v: v == 1, req_=data(16), seen_=row(uint(), digest), claims=many(CLAIM, 1, 65535), ledger_=digest)


class Statement(NamedTuple):
    identity: bytes
    kid: bytes
    issuer: str
    subject: str
    time: int
    payload: dict
    signed: bytes
    signature: bytes

    @property
    def claims(self):
        return self.payload["claims"]


def leaf_hash(content: bytes) -> bytes:
    return sha256(b"\0", content)


def read_statement(content: bytes) -> Statement:
    if len(content) > 65535 or content[:1] != b"\xd2":
        raise Malformed("too long, or no COSE_Sign1")
    parts = decode(content[1:])
    if not row(data(), lambda v: v == {}, data(), data(64))(parts):
        raise Malformed("not the four parts of an envelope")
    protected, _, inside, signature = parts
    header, payload = decode(protected, keys=int), decode(inside)
    if not (type(header) is dict and header.keys() == {1, 3, 4, 15} and header[1] == -8 and header[3] == CONTENT_TYPE
            and digest(header[4]) and type(header[15]) is dict and header[15].keys() == {1, 2, 6}):
        raise Malformed("not the header of a statement")
    issuer, subject, time = (header[15][label] for label in (1, 2, 6))
    if not (text(issuer) and re.fullmatch("h:[0-9a-f]{64}", issuer) and text(subject) and uint()(time)):
        raise Malformed("not the claims of a header")
    if not PAYLOAD(payload) or ("seen" in payload) != ("ledger" in payload) or payload.get("seen", [1])[0] < 1:
        raise Malformed("not a payload")
    claims = payload["claims"]
    if sum(len(claim["links"]) for claim in claims) > 1000 or not subject.endswith(":" + claims[0]["object"].hex()):
        raise Malformed("too many links, or a subject that is not the first claim's object")
    return Statement(leaf_hash(content), header[4], issuer, subject, time, payload, to_be_signed(protected, inside), signature)
