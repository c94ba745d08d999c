"""Tiles, tree heads and receipts (log.md). What the entries say is not decided here but in fold.py."""
import base64
import re
from typing import NamedTuple

from encoding import Malformed, decode, encode, sha256, signed_by, to_be_signed
from records import data, fields, many, text, uint
from statements import leaf_hash

SIGNATURE = re.compile("\u2014 ([^ +]+) ([A-Za-z0-9+/]+={0,2})")
HEAD_FILE = fields(v=lambda v: v == 1, note=text, extends=uint(), receipt=data(), statements=many(data(), 1, 4096))


def root_of(hashes: list) -> bytes:
    """The root over full subtrees of one height: pairs are joined upwards, and an odd one waits at the right."""
    if not hashes:
        return sha256(b"")
    while len(hashes) > 1:
        odd = hashes[-1:] if len(hashes) % 2 else []
        hashes = [sha256(b"\1", left, right) for left, right in zip(hashes[::2], hashes[1::2])] + odd
    return hashes[0]


def grouped(number: int) -> str:
    digits = f"{number:0{-(-len(str(number)) // 3) * 3}d}"
    groups = [digits[at:at + 3] for at in range(0, len(digits), 3)]
    return "/".join("x" + group for group in groups[:-1]) + ("/" if groups[1:] else "") + groups[-1]


def split_bundle(content: bytes, width: int, path: str) -> list:
    """The first `width` entries of a bundle, which has no more than its name says."""
    entries, at, last = [], 0, int(path.rpartition(".p/")[2]) if ".p/" in path else 256
    for _ in range(last):
        size = int.from_bytes(content[at:at + 2], "big")
        if len(content) < at + 2 + size:
            raise Malformed(f"the bundle ends inside entry {len(entries)} of {last}")
        entries.append(content[at + 2:at + 2 + size])
        at += 2 + size
    if at < len(content):
        raise Malformed(f"{len(content) - at} bytes follow the {last} entries of the bundle")
    return entries[:width]


class Head(NamedTuple):
    origin: str
    size: int
    root: bytes
    signed: bytes
    lines: list  # (name, key id and signature)

    def signers(self, log_keys: dict) -> list:
        """Those of the keys that signed it. One line of theirs that does not verify makes all of it a forgery."""
        found = []
        for name, stamp in self.lines:
            for kid, public in log_keys.items():
                if name == self.origin and stamp[:4] == sha256(name.encode(), b"\n\1", public)[:4]:
                    if not signed_by(public, self.signed, stamp[4:]):
                        raise Malformed("a signature by a key of the log does not hold")
                    found.append(kid)
        if not found:
            raise Malformed("no signature is by a key that may sign for this log")
        return found


def read_head(content: bytes) -> Head:
    try:
        note = content.decode()
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None
    body, blank, tail = note.rpartition("\n\n")
    lines = [SIGNATURE.fullmatch(line) for line in tail.split("\n")[:-1]]
    head = re.fullmatch(r"(lineage-ledger/[0-9a-f]{64})\n([1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)", body)
    if (len(content) > 1_000_000 or len(lines) > 100 or re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", note) or not blank
            or not note.endswith("\n") or not lines or not all(lines) or not head):
        raise Malformed("not a signed tree head")
    root = base64.b64decode(head[3])
    if base64.b64encode(root).decode() != head[3]:
        raise Malformed("its root has a second form")
    try:
        stamps = [(line[1], base64.b64decode(line[2], validate=True)) for line in lines]
    except ValueError:
        raise Malformed("a signature is not base64") from None
    return Head(head[1], int(head[2]), root, (body + "\n").encode(), stamps)


def check_receipt(receipt: bytes, root: bytes, log_keys: dict, signers: list):
    """The root's second signature. All bytes but the signature follow from the key, so nothing is parsed."""
    for kid in signers:
        protected = encode({1: -8, 4: kid, 395: 1})
        frame = b"\xd2\x84" + encode(protected) + b"\xa0\xf6\x58\x40"
        if receipt[:-64] == frame and signed_by(log_keys[kid], to_be_signed(protected, root), receipt[-64:]):
            return
    raise Malformed("its receipt is not by the key that signed the head")


def check_commit(content: bytes, extends: int, published: Head, leaves: list, fold):
    """A head file against the log of these leaves; `fold` is None where they could not be folded."""
    commit = decode(content, limit=17 << 20)
    if not HEAD_FILE(commit) or commit["extends"] != extends:
        raise Malformed("not a head file of this size")
    head, size = read_head(commit["note"].encode()), extends + len(commit["statements"])
    batch = [leaf_hash(statement) for statement in commit["statements"]]
    if extends > len(leaves):
        return
    if extends < len(leaves) and batch != leaves[extends:size]:
        raise Malformed("its statements are not those in the log")
    if head[:3] != (published.origin, size, root_of(leaves[:extends] + batch)):
        raise Malformed("its head is not one of this log")
    if fold and size <= len(leaves):
        log_keys = fold.log_keys[size]
        check_receipt(commit["receipt"], head.root, log_keys, head.signers(log_keys))
