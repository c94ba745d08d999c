"""The whole check of a ledger's directory (directories.md, and *Verification* on each page)."""
import os
import re
import stat
from contextlib import contextmanager
from pathlib import Path

import log
from encoding import U64, Refused, fits, leaf_hash, object_id, require, sha256
from records import FIELDS, facts_of, read_record, references, typed
from statements import fold, said_by

FORMAT = rb"ledger-format/1\n((?!shared ).*\n)*shared (yes|no)\n((?!shared ).*\n)*"
PLACE = rb"ledger-place/1\ninstance [0-9a-f]{32}\ninode (0|[1-9][0-9]*)\n"
MAY_BE_ABSENT = ("private", "holder", "about")  # they say who, where and why, and may be left out of a copy

class Ledger:
    """After `check`: `findings` as (severity, where, what), and `fold` if the log could be folded."""
    def __init__(self, root, parents=None):
        self.root, self.findings, self.fold, self.tree = Path(root), [], None, None
        self.parents, self.base = parents or self.root / "parents", 0  # the place of this log's first statement
        self.objects = {}  # id -> bytes, or None where they are others

    def find(self, where, what, severity="FAIL"):
        self.findings.append((severity, where, str(what)))

    @contextmanager
    def at(self, where):
        """What goes wrong inside is a finding at that place."""
        try:
            yield
        except (OSError, Refused) as error:
            self.find(where, error)

    @property
    def exit_code(self):
        severities = {severity for severity, *_ in self.findings}
        return 5 if "FAIL" in severities else 3 if "unknown" in severities else 0

    def read(self, name, limit=1 << 40):
        """A regular file, no symbolic link, and without waiting for whoever writes to a FIFO."""
        with open(os.open(self.root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            require(stat.S_ISREG(status.st_mode) and status.st_size <= limit, "no regular file, or too long")
            return file.read()

    def files(self, below, name):
        paths = (str(path.relative_to(self.root)) for path in self.root.glob(below) if not path.is_dir())
        return sorted(path for path in paths if re.fullmatch(name, path))

    def check(self):
        if not os.path.lexists(self.root / "format"):
            return self.find("format", "there is none, so this is no ledger", "unknown")
        with self.at("format"):
            lines = self.read("format", 4096)
            if re.match(rb"ledger-format/([2-9]|[1-9][0-9]+)\n", lines):
                return self.find("format", "it is newer than this reader", "unknown")
            require(re.fullmatch(FORMAT, lines), "it is not what this format's file says")
        place = None
        if os.path.lexists(self.root / "place"):
            with self.at("place"):
                place = re.fullmatch(PLACE, self.read("place", 4096))
                require(place, "it is not what this format's file says")
        if not place or int(place[1]) != os.stat(self.root).st_ino:
            self.find("place", "this directory is a copy of a ledger", "warn")
        with self.at("log/checkpoint"):
            self.check_log(log.read_head(self.read("log/checkpoint", 1_000_000)))
        for path in self.files("objects/*/*", "objects/[0-9a-f]{2}/[0-9a-f]{62}"):
            identity = bytes.fromhex(path[8:].replace("/", ""))
            self.objects[identity] = None
            with self.at(path):
                content = self.read(path)
                require(object_id(content) == identity, "its bytes have another id")
                self.objects[identity] = content
        for path in self.files("packs/*", "packs/[0-9a-f]{64}"):
            with self.at(path):
                self.check_pack(self.read(path), path[6:])
        if self.fold:
            self.check_claims()
            if self.fold.state.rules > 1:
                self.find("log", "its rules are newer than this reader", "unknown")

    def check_log(self, head):
        # Two witnesses of the leaves: the bundles, and the tiles of level 0 beside them. The size is not
        # proven yet, so the files that are there decide how far to read, and one beyond is missed.
        entries, hashes, bundles = [], [], set()
        for number in range(min(-(-head.size // 256), len(self.files("log/tile/**/*", ".*")) + 1)):
            width = min(256, head.size - 256 * number)
            path, more = self.tile("entries", number, width)
            bundles.add(path)
            entries += more
            hashes += self.tile("0", number, width)[1]
        # Where they differ, the head's root says which of them is damaged; where none gives it, the head is.
        trees = [log.Tree(map(leaf_hash, entries)), log.Tree(hashes)]
        good = [tree for tree in trees if len(tree.leaves) == head.size and tree.root(head.size) == head.root]
        damaged = any(where.startswith("log/") for _, where, _ in self.findings)
        require(good or damaged, "its root is neither that of the statements nor that of the tiles")
        if good:
            self.tree = good[0]
            parent = self.check_parent(entries)
            self.check_tiles(head.size, bundles)
            if good[0] is trees[0] and (not parent or parent.fold):
                self.fold = fold(entries, parent and parent.fold)
            heads = self.files("log/heads/**/*", r"log/heads(/x[0-9]{3})*/[0-9]{3}")
            for path in heads if self.parents.parent == self.root else ():  # a parent's say nothing
                with self.at(path):
                    content, extends = self.read(path, 17 << 20), log.number_of(path[9:])
                    log.check_commit(content, extends, self.tree.leaves, self.fold)
        if self.fold:
            require(head.origin == f"lineage-ledger/{self.fold.ledger.hex()}" and self.fold.state.keys,
                    "the log does not begin with the genesis of the ledger that it names")
            log.signers_of(head, self.fold.log_keys[-1])

    def check_parent(self, entries):
        """The log that the first statement goes on from, if it names one, its own parent before it."""
        for first in fold(entries[:1]).state.statements:
            named = first and first.identity == self.tree.leaves[0] and first.claims[0].facts.get("parent")
            if fits((32, U64, 32), named):
                name, parent = named[0].hex(), Ledger(self.parents / named[0].hex(), self.parents)
                with parent.at("log/checkpoint"):
                    head = log.read_head(parent.read("log/checkpoint", 1_000_000))
                    require(head[:3] == (f"lineage-ledger/{name}", *named[1:]), "not what the next log names")
                    parent.check_log(head)
                self.base = parent.base + named[1]
                self.findings += [(severity, re.sub("^log/", f"parents/{name}/log/", where), what)
                                  for severity, where, what in parent.findings]
                return parent

    def tile(self, name, number, width):
        """Path and parts of a tile or bundle: the partial one, the full one, or a wider one."""
        whole = f"log/tile/{name}/{log.grouped(number)}"
        paths = {held: whole + f".p/{held}" * (held < 256) for held in (width, 256, *range(width + 1, 256))}
        for held, path in paths.items():
            try:
                return path, log.parts_of(name, self.read(path), held)[:width]
            except Refused:  # which is found when all tiles are held against the leaves
                return path, []
            except OSError:
                continue
        self.find(paths[width], "the file is missing")
        return paths[width], []

    def check_tiles(self, size, bundles):
        """Every tile and bundle must hold what the leaves give; one damaged file accuses no other."""
        for level in range(1, 8):
            for at in range(0, size >> 8 * level, 256):
                self.tile(level, at // 256, min(256, (size >> 8 * level) - at))
        commit_waits = (self.root / "log/heads" / log.grouped(size)).exists()
        for path in filter(log.tile_of, self.files("log/tile/**/*", ".*")):
            with self.at(path):
                name, number, width = log.tile_of(path)
                held = log.parts_of(name, self.read(path), width)
                held = list(map(leaf_hash, held)) if name == "entries" else held
                span = 1 if name == "entries" else 256 ** int(name)
                places = range(256 * number, min(256 * number + width, size // span))
                wrong = [at for at in places if self.tree.root(span * (at + 1), span * at) != held[at % 256]]
                for index in wrong if path in bundles else ():
                    self.find(f"statement {self.base + index}", "it is not the statement that the head covers")
                require(path in bundles or not wrong, "it is not what the head covers")
                require(len(places) == width or commit_waits, "it is beyond the head, and no commit waits")

    def check_pack(self, content, name):
        """A pack (packs.md): of several copies of an object one is good enough; a damaged page hides its rows."""
        number, index = (int.from_bytes(content[at:at + 8], "big") for at in (-48, -40))
        end, wrong = index + 48 * number + 32 * -(-number // 84), 0
        require(index >= 16 and len(content) == end + 48, "its end does not fit its size")
        pages = [content[at:min(at + 84 * 48 + 32, end)] for at in range(index, end, 84 * 48 + 32)]
        sound = [page[:-32] for page in pages if object_id(page[:-32]) == page[-32:]]
        for row in (page[at:at + 48] for page in sound for at in range(0, len(page), 48)):
            identity, begin, size = row[:32], int.from_bytes(row[32:40], "big"), int.from_bytes(row[40:], "big")
            if object_id(content[begin:begin + size]) == identity:
                self.objects[identity] = content[begin:begin + size]
            else:
                wrong += 1
                self.objects.setdefault(identity)
        require(not wrong, f"of its objects {wrong} have other bytes")
        require(content[:16] == b"ledger-pack/1\n\n\n" and name == content[-32:].hex() == object_id(content[:-32]).hex(),
                "it is not the pack of its name")

    def check_claims(self):
        """Follows every accepted claim to its object and its links, and these to all that they refer to."""
        asked = set()
        for index, (standing, statement) in enumerate(zip(self.fold.state.standings, self.fold.state.statements)):
            for claim in statement.claims if standing == "accepted" else ():
                if self.objects.get(claim.what[1]) is not None:
                    with self.at(f"statement {index}"):
                        self.compare(claim, self.objects[claim.what[1]])
                found = [("", *claim.what), *((role, *what) for role, what in claim.links)]
                while found:
                    role, kind, identity = found.pop()
                    # A root that is one file is the user's data, which stays where it is.
                    if (kind, identity) not in asked and (role, kind) != ("root", "blob"):
                        asked.add((kind, identity))
                        found += self.look_at(kind, identity, index) or []

    def look_at(self, kind, identity, index):
        """What an object refers to, once it was found to be what others take it for."""
        where, content = f"objects/{identity.hex()[:2]}/{identity.hex()[2:]}", self.objects.get(identity)
        if identity not in self.objects and identity not in self.fold.state.erased:
            severity = "warn" if kind in MAY_BE_ABSENT else "FAIL"
            self.find(where, f"{typed(kind, identity)} is missing; statement {index} needs it", severity)
        with self.at(where):
            return references(read_record(kind, content)) if content is not None and kind != "blob" else []

    def compare(self, claim, content):
        """A claim repeats its record's references and facts: the log means the same without its objects."""
        require((claim.size, claim.sha256) == (len(content), sha256(content)), "its object has other digests")
        record = read_record(claim.kind, content)
        same = said_by(claim) == (set(references(record)), facts_of(record)) or claim.kind not in FIELDS
        require(same, f"its claim of {typed(*claim.what)} is not what the record says")
