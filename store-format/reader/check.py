"""The whole check of a ledger's directory (directories.md, and *Verification* on each page)."""
import os
import re
import stat
from pathlib import Path

import log
from encoding import Malformed, object_id, sha256
from fold import NAMED_BESIDE, Fold
from records import RECORDS, TABLE, facts_of, read_record, references, typed
from statements import leaf_hash

MAY_BE_ABSENT = ("private", "holder", "about")  # they say who, where and why, and may be left out of a copy

class NotOpened(Exception):
    """There is nothing here that this reader can decide about."""

class Ledger:
    """After `check`: `findings` as (severity, where, what), and `fold` if the log could be folded."""

    def __init__(self, root):
        self.root, self.findings = Path(root), []
        self.fold, self.leaves, self.objects = None, [], {}  # id -> bytes, or None where they are others

    def check(self):
        self.check_format()
        self.check_place()
        self.check_log()
        self.check_objects()
        if self.fold:
            self.check_claims()
        return self

    @property
    def exit_code(self):
        if any(severity == "FAIL" for severity, *_ in self.findings):
            return 5
        return 3 if self.fold and self.fold.rules > 1 else 0

    def find(self, where, what, severity="FAIL"):
        self.findings.append((severity, where, str(what)))

    def read(self, name, limit=None) -> bytes:
        """A regular file, no symbolic link, and without waiting for whoever writes to a FIFO."""
        handle = os.open(self.root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError("it is no regular file")
            content = file.read(-1 if limit is None else limit + 1)
        if limit is not None and len(content) > limit:
            raise OSError(f"it has more than {limit} bytes")
        return content

    def files(self, below):
        """Paths of files, directories and what else there is, in order."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob(below))

    def check_format(self):
        try:
            lines = self.read("format", 4096).decode("ascii", "replace").split("\n")
        except FileNotFoundError:
            raise NotOpened(f"{self.root} has no `format`, so it is no ledger") from None
        except OSError as error:
            return self.find("format", error)
        if re.fullmatch("ledger-format/([2-9]|[1-9][0-9]+)", lines[0]):
            raise NotOpened(f"{lines[0]} is not a format that this reader knows")
        shared = [line for line in lines[1:] if line.startswith("shared ")]
        if lines[0] != "ledger-format/1" or lines[-1] or shared not in (["shared yes"], ["shared no"]):
            self.find("format", "it is not what this format's file says")

    def check_place(self):
        copy = True
        try:
            lines = self.read("place", 4096).decode("ascii", "replace")
            place = re.fullmatch("ledger-place/1\ninstance [0-9a-f]{32}\ninode (0|[1-9][0-9]*)\n", lines)
            copy = place and int(place[1]) != os.stat(self.root).st_ino
            if not place:
                self.find("place", "it is not what this format's file says")
        except FileNotFoundError:
            pass
        except OSError as error:
            self.find("place", error)
        if copy:
            self.find("place", "this directory is a copy of a ledger", "warn")

    def check_log(self):
        try:
            head = log.read_head(self.read("log/checkpoint", 1_000_000))
        except (OSError, Malformed) as error:
            return self.find("log/checkpoint", error)
        # Two witnesses of the leaves: the bundles, and the tiles of level 0 beside them.
        entries, hashes, bundles = [], [], []
        # The size is not proven yet, so the files that are there decide how far to read, and one beyond is missed.
        there = [tile[1] for tile in map(log.tile_of, self.files("log/tile/**/*")) if tile]
        for number in range(min(-(-head.size // 256), max(there, default=-1) + 2)):
            width = min(256, head.size - 256 * number)
            path, held, bundle = self.tile("entries", number, width)
            try:
                entries += log.split_bundle(bundle, held)[:width] if bundle is not None else []
            except Malformed as error:
                self.find(path, error)
            bundles.append(path)
            hashes += log.split_tile((self.tile("0", number, width)[2] or b"")[:32 * width])
        leaves = [leaf_hash(entry) for entry in entries]
        # Where they differ, the head's root says which of them is damaged; where none gives it, the head is.
        if len(leaves) == head.size and log.root_of(leaves) == head.root:
            self.leaves = leaves
            self.fold_log(entries, head)
        elif len(hashes) == head.size and log.root_of(hashes) == head.root:
            self.leaves = hashes
            for index, (leaf, tile) in enumerate(zip(leaves, hashes)):
                if leaf != tile and len(leaves) == head.size:
                    self.find(f"statement {index}", "it is not the statement that the head covers")
        elif not any(where.startswith("log/") for _, where, _ in self.findings):
            self.find("log/checkpoint", "its root is neither that of the statements nor that of the tiles")
        if self.leaves:
            self.check_tiles([] if self.fold else bundles)
            self.check_heads(head)

    def tile(self, name, number, width):
        """Path, width and bytes of a tile or bundle: the partial one, the full one, or a wider one."""
        whole = f"log/tile/{name}/{log.grouped(number)}"
        for held in (width, 256, *range(width + 1, 256)):
            path = whole if held == 256 else f"{whole}.p/{held}"
            try:
                return path, held, self.read(path)
            except OSError:
                continue
        path = whole if width == 256 else f"{whole}.p/{width}"
        self.find(path, "the file is missing")
        return path, width, None

    def fold_log(self, entries, head):
        self.fold = Fold()
        for entry in entries:
            self.fold.add(entry)
        try:
            if head.origin != f"lineage-ledger/{self.fold.ledger.hex()}" or not self.fold.keys:
                raise Malformed("the log does not begin with the genesis of the ledger that it names")
            head.signers(self.fold.log_keys[-1])
        except Malformed as error:
            self.find("log/checkpoint", error)

    def check_tiles(self, judged):
        """Every tile and bundle must hold what the leaves give; one damaged file accuses no other."""
        levels = [self.leaves]
        while levels[-1][255:]:
            below = levels[-1]
            levels.append([log.root_of(below[at:at + 256]) for at in range(0, len(below) - 255, 256)])
            for number in range(-(-len(levels[-1]) // 256)):
                self.tile(len(levels) - 1, number, min(256, len(levels[-1]) - 256 * number))
        commit_waits = (self.root / "log/heads" / log.grouped(len(self.leaves))).exists()
        for path in self.files("log/tile/**/*"):
            if not log.tile_of(path) or path in judged or (self.root / path).is_dir():
                continue
            name, number, width = log.tile_of(path)
            level = 0 if name == "entries" else int(name)
            want = (levels[level] if level < len(levels) else [])[256 * number:256 * number + width]
            try:
                content = self.read(path)
                held = log.split_tile(content) if name != "entries" else list(
                    map(leaf_hash, log.split_bundle(content, width)))
                if len(held) != width or held[:len(want)] != want:
                    raise Malformed("it is not what the head covers")
                if len(want) < width and not commit_waits:
                    raise Malformed("it is beyond the head, which no commit explains")
            except (OSError, Malformed) as error:
                self.find(path, error)

    def check_heads(self, head):
        for path in self.files("log/heads/**/*"):
            if re.fullmatch(r"log/heads(/x\d{3})*/\d{3}", path) and not (self.root / path).is_dir():
                try:
                    extends = int(re.sub("[/x]", "", path.removeprefix("log/heads")))
                    log.check_commit(self.read(path, 17 << 20), extends, head, self.leaves, self.fold)
                except (OSError, Malformed) as error:
                    self.find(path, error)

    def check_objects(self):
        for path in self.files("objects/*/*"):
            if re.fullmatch("objects/[0-9a-f]{2}/[0-9a-f]{62}", path):
                identity = bytes.fromhex(path[8:].replace("/", ""))
                self.objects[identity] = None
                try:
                    content = self.read(path)
                    if object_id(content) != identity:
                        raise Malformed("its bytes have another id")
                    self.objects[identity] = content
                except (OSError, Malformed) as error:
                    self.find(path, error)

    def check_claims(self):
        """Follows every accepted claim to its object and its links, and these to all that they refer to."""
        asked = set()
        for index, (standing, statement) in enumerate(zip(self.fold.standings, self.fold.statements)):
            for claim in statement.claims if standing == "accepted" else ():
                self.compare(claim, index)
                found = [("", claim["kind"], claim["object"]), *claim["links"]]
                while found:
                    role, kind, identity = found.pop()
                    # A root that is one file is the user's data, which stays where it is.
                    if (kind, identity) not in asked and (role, kind) != ("root", "blob"):
                        asked.add((kind, identity))
                        found += self.look_at(kind, identity, index)

    def look_at(self, kind, identity, index):
        """What an object refers to, once it was found to be what others take it for."""
        where = f"objects/{identity.hex()[:2]}/{identity.hex()[2:]}"
        if identity not in self.objects and identity not in self.fold.erased:
            severity = "warn" if kind in MAY_BE_ABSENT else "FAIL"
            self.find(where, f"{typed(kind, identity)} is missing; statement {index} needs it", severity)
        if self.objects.get(identity) is not None and kind != "blob":
            try:
                return references(read_record(kind, self.objects[identity]))
            except Malformed as error:
                self.find(where, f"{typed(kind, identity)}: {error}")
        return []

    def compare(self, claim, index):
        """A claim repeats its record's references and facts, so that the log means the same without its objects."""
        kind, content = claim["kind"], self.objects.get(claim["object"])
        if content is None:
            return
        try:
            if (claim["size"], claim["sha256"]) != (len(content), sha256(content)):
                raise Malformed("its claim has another size or SHA-256 than the object")
            record = read_record(kind, content)
            links = {tuple(link) for link in claim["links"] if not TABLE[kind].links[link[0]].beside}
            facts = {name: fact for name, fact in claim["facts"].items() if name != "name" or kind not in NAMED_BESIDE}
            if kind in RECORDS and (links != set(references(record)) or facts != facts_of(record)):
                raise Malformed(f"its claim of {typed(kind, claim['object'])} is not what the record says")
        except Malformed as error:
            self.find(f"statement {index}", error)
