"""Tiles, tree heads and head files (log.md); not what the entries say, which is in statements.py."""
import re
from base64 import b64decode, b64encode
from collections import namedtuple

from encoding import ONE, U64, Refused, decode, encode, fits, leaf_hash, require, sha256, signed_by
from encoding import to_be_signed

LINE = "\u2014 ([^ +\0-\x1f\x7f-\x9f]+) ([A-Za-z0-9+/]+={0,2})\n"
TEXT = "(lineage-ledger/[0-9a-f]{64})\n([1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\n"
HEAD_FILE = dict(v=ONE, note=str, extends=U64, receipt=bytes, statements=[bytes])
Head = namedtuple("Head", "origin size root signed lines")

class Tree:
    """Over leaf hashes, which may grow in number."""
    def __init__(self, leaves=()):
        self.leaves, self.known = list(leaves), {}

    def root(self, end, start=0):
        """The root over some leaves; they are split at the largest power of two below their number."""
        if end - start < 2:
            return self.leaves[start] if end > start else sha256(b"")
        if (start, end) not in self.known:
            middle = start + (1 << (end - start - 1).bit_length() - 1)
            self.known[start, end] = sha256(b"\1", self.root(middle, start), self.root(end, middle))
        return self.known[start, end]

def grouped(number):
    *groups, last = f"{number:,}".split(",")
    return "/".join(["x" + group.zfill(3) for group in groups] + [last.zfill(3)])

def number_of(path):
    return int(re.sub("[/x]", "", path))

def tile_of(path):
    """Name, number and width out of the path of a tile or bundle; nothing for other paths."""
    name = re.fullmatch(r"log/tile/([0-7]|entries)((?:/x[0-9]{3})*/[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", path)
    return (name[1], number_of(name[2]), int(name[3] or 256)) if name and int(name[3] or 0) < 256 else ()

def parts_of(name, content, width):
    """The hashes of a tile, or the entries of a bundle."""
    parts, size = [], 32
    while content and len(parts) < width:
        if name == "entries":
            size, content = int.from_bytes(content[:2], "big"), content[2:]
        require(len(content) >= size, f"it ends inside part {len(parts)} of {width}")
        parts, content = parts + [content[:size]], content[size:]
    require(len(parts) == width and not content, f"it has not the bytes of {width} parts")
    return parts

def read_head(content):
    try:
        text, lines = re.fullmatch(f"({TEXT})\n((?:{LINE}){{1,100}})", content.decode()).group(1, 5)
        origin, size, root = re.fullmatch(TEXT, text).groups()
        signatures = [(name, b64decode(stamp, validate=True)) for name, stamp in re.findall(LINE, lines)]
    except (ValueError, AttributeError):
        raise Refused("not a signed tree head") from None
    require(b64encode(b64decode(root)).decode() == root, "its root is not in base64 as it must be")
    return Head(origin, int(size), b64decode(root), text.encode(), signatures)

def signers_of(head, log_keys):
    """Those of the keys that signed it. A line that is one of theirs and does not verify is a forgery."""
    found = set()
    for name, stamp in head.lines:
        theirs = {kid for kid, public in log_keys.items()
                  if name == head.origin and stamp[:4] == sha256(name.encode(), b"\n\1", public)[:4]}
        signed = {kid for kid in theirs if signed_by(log_keys[kid], head.signed, stamp[4:])}
        require(signed or not theirs, "a signature by a key of the log does not hold")
        found |= signed
    require(found, "no signature is by a key that may sign for this log")
    return found

def check_commit(content, extends, leaves, fold):
    """A head file against the log of these leaves; `fold` is None where they could not be folded."""
    commit = decode(content, limit=17 << 20)
    require(fits(HEAD_FILE, commit) and commit["extends"] == extends, "not a head file of this size")
    require(1 <= len(commit["statements"]) <= 4096, "a batch of no statements, or of too many")
    head, batch = read_head(commit["note"].encode()), list(map(leaf_hash, commit["statements"]))
    size, signature = extends + len(batch), commit["receipt"][-64:]
    require(extends >= len(leaves) or batch == leaves[extends:size], "its statements are not in the log")
    tree = Tree(leaves[:extends] + batch)
    require(extends > len(leaves) or head[:3] == (f"lineage-ledger/{leaves[0].hex()}", size, tree.root(size)),
            "its head is not one of this log")
    if fold and size <= len(leaves):
        # All of a receipt but its signature follows from the key, so it is built anew and compared.
        made = {kid: encode({1: -8, 4: kid, 395: 1}) for kid in signers_of(head, fold.log_keys[size])}
        require(any(commit["receipt"] == b"\xd2\x84" + encode(header) + b"\xa0\xf6\x58\x40" + signature
                    and signed_by(fold.log_keys[size][kid], to_be_signed(header, head.root), signature)
                    for kid, header in made.items()), "its receipt is not by a key that signed the head")
