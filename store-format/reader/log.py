"""Tiles, tree heads and receipts (log.md); not what the entries say, which is in fold.py."""
import base64
import re
from collections import namedtuple

from encoding import Malformed, decode, encode, sha256, signed_by, to_be_signed
from records import data, fields, many, text, uint
from statements import leaf_hash, one

NOTE = re.compile(r"((lineage-ledger/[0-9a-f]{64})\n([1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\n)\n((?:[^\n]+\n){1,100})")
SIGNATURE = re.compile("\u2014 ([^ +]+) ([A-Za-z0-9+/]+={0,2})")
HEAD_FILE = fields(v=one, note=text, extends=uint(), receipt=data(), statements=many(data(), 1, 4096))

def root_of(hashes: list) -> bytes:
    """The root over neighbours of one height: pairs are joined upwards, and an odd one waits at the right."""
    while len(hashes) > 1:
        odd = hashes[len(hashes) // 2 * 2:]
        hashes = [sha256(b"\1", left, right) for left, right in zip(hashes[::2], hashes[1::2])] + odd
    return hashes[0] if hashes else sha256(b"")

def grouped(number: int) -> str:
    groups = f"{number:,}".split(",")
    return "/".join(["x" + group.zfill(3) for group in groups[:-1]] + [groups[-1].zfill(3)])

def tile_of(path: str):
    """Level, number and width out of the path of a tile or bundle; None for other paths."""
    name = re.fullmatch(r"log/tile/([0-7]|entries)((?:/x\d{3})*/\d{3})(?:\.p/([1-9]\d{0,2}))?", path, re.ASCII)
    if name and int(name[3] or 0) < 256:
        return name[1], int(re.sub("[/x]", "", name[2])), int(name[3] or 256)
    return None

def split_tile(content: bytes) -> list:
    return [content[at:at + 32] for at in range(0, len(content), 32)]

def split_bundle(content: bytes, width: int) -> list:
    entries, at = [], 0
    for number in range(width):
        size = 2 + int.from_bytes(content[at:at + 2], "big")
        if len(content) < at + size:
            raise Malformed(f"the bundle ends inside entry {number} of {width}")
        entries.append(content[at + 2:at + size])
        at += size
    if at < len(content):
        raise Malformed(f"{len(content) - at} bytes follow the {width} entries of the bundle")
    return entries

class Head(namedtuple("Head", "origin size root signed lines")):
    def signers(self, log_keys: dict) -> list:
        """Those of the keys that signed it. A line that is one of theirs and does not verify is a forgery."""
        found = []
        for name, stamp in self.lines:
            theirs = {kid: public for kid, public in log_keys.items()
                      if name == self.origin and stamp[:4] == sha256(name.encode(), b"\n\1", public)[:4]}
            by = [kid for kid, public in theirs.items() if signed_by(public, self.signed, stamp[4:])]
            if theirs and not by:
                raise Malformed("a signature by a key of the log does not hold")
            found += by
        if not found:
            raise Malformed("no signature is by a key that may sign for this log")
        return found

def read_head(content: bytes) -> Head:
    try:
        note = content.decode()
        match = NOTE.fullmatch(note)
        lines = [SIGNATURE.fullmatch(line) for line in match[5].split("\n")[:-1]]
        if len(content) > 1_000_000 or re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", note):
            raise ValueError
        root = base64.b64decode(match[4])
        if base64.b64encode(root).decode() != match[4]:
            raise ValueError
        stamps = [(line[1], base64.b64decode(line[2], validate=True)) for line in lines]
    except (ValueError, TypeError):
        raise Malformed("not a signed tree head") from None
    return Head(match[2], int(match[3]), root, match[1].encode(), stamps)

def check_commit(content: bytes, extends: int, published: Head, leaves: list, fold):
    """A head file against the log of these leaves; `fold` is None where they could not be folded."""
    commit = decode(content, limit=17 << 20)
    if not HEAD_FILE(commit) or commit["extends"] != extends:
        raise Malformed("not a head file of this size")
    head, batch = read_head(commit["note"].encode()), [leaf_hash(statement) for statement in commit["statements"]]
    size = extends + len(batch)
    if extends < len(leaves) and batch != leaves[extends:size]:
        raise Malformed("its statements are not those in the log")
    if extends <= len(leaves) and head[:3] != (published.origin, size, root_of(leaves[:extends] + batch)):
        raise Malformed("its head is not one of this log")
    if fold and size <= len(leaves):
        log_keys = fold.log_keys[size]
        for kid in head.signers(log_keys):
            # All of a receipt but its signature follows from the key, so it is built anew and nothing is parsed.
            protected = encode({1: -8, 4: kid, 395: 1})
            start = b"\xd2\x84" + encode(protected) + b"\xa0\xf6\x58\x40"
            if commit["receipt"][:-64] == start and signed_by(
                    log_keys[kid], to_be_signed(protected, head.root), commit["receipt"][-64:]):
                return
        raise Malformed("its receipt is not by the key that signed the head")
