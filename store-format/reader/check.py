"""The whole check of a ledger's directory (directories.md, and *Verification* of each page)."""
import os
import re
import stat
from pathlib import Path

import log
from encoding import Malformed, object_id, sha256
from fold import NAMED_BESIDE, Fold
from records import RECORDS, TABLE, facts_of, read_record, references, typed
from statements import leaf_hash

# These may be left out of a copy, since they only say who and where; and a single file of data stays where it lay.
MAY_BE_ABSENT = ("private", "holder", "about")
MAY_BE_ELSEWHERE = ("root", "subject")


class NotOpened(Exception):
    """There is nothing here that this reader can decide about."""


def read_file(path: Path, limit=None) -> bytes:
    """A regular file, no symbolic link, and without waiting for whoever writes to a FIFO."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path} is no regular file")
        content = file.read() if limit is None else file.read(limit + 1)
        if limit is not None and len(content) > limit:
            raise OSError(f"{path} has more than {limit} bytes")
        return content


class Ledger:
    """After `check`: `findings` as (severity, where, what), and the fold if the log could be folded."""

    def __init__(self, root):
        self.root, self.findings = Path(root), []
        self.fold, self.leaves, self.objects = None, [], {}

    def find(self, severity, where, what):
        self.findings.append((severity, where, what))

    @property
    def exit_code(self):
        if any(severity == "fail" for severity, *_ in self.findings):
            return 5
        return 3 if self.fold and self.fold.rules > 1 else 0

    def check(self):
        self.check_files()
        self.check_log()
        self.check_objects()
        if self.fold:
            self.check_claims()
        return self

    # The three small files.

    def lines(self, name):
        content = read_file(self.root / name, 4096)
        if not content.endswith(b"\n"):
            raise ValueError("the last line does not end")
        return content.decode("ascii").split("\n")[:-1]

    def check_files(self):
        try:
            lines = self.lines("format")
            newer = re.fullmatch("ledger-format/([0-9]+)", lines[0])
            if newer and newer[1] != "1":
                raise NotOpened(f"{lines[0]} is not a format that this reader knows")
            shared = [line for line in lines if line.startswith("shared ")]
            if lines[0] != "ledger-format/1" or shared not in (["shared yes"], ["shared no"]):
                self.find("fail", "format", "it is not what this format's file says")
        except FileNotFoundError:
            raise NotOpened(f"{self.root} has no `format`, so it is no ledger") from None
        except (OSError, ValueError) as error:
            self.find("fail", "format", str(error))
        try:
            place = re.fullmatch("ledger-place/1 instance [0-9a-f]{32} inode ([0-9]+)", " ".join(self.lines("place")))
            if not place:
                self.find("fail", "place", "it is not what this format's file says")
            elif int(place[1]) != os.stat(self.root).st_ino:
                self.find("warn", "place", "this directory is a copy of a ledger")
        except FileNotFoundError:
            self.find("warn", "place", "this directory is a copy of a ledger")
        except (OSError, ValueError) as error:
            self.find("fail", "place", str(error))
        try:
            ignored = read_file(self.root / ".gitignore", 4096) == b"*\n"
        except OSError:
            ignored = False
        if not ignored:
            self.find("warn", ".gitignore", "it does not keep the ledger out of a repository")

    # The log: head, bundles, tiles, head files.

    def tile(self, name, number, width):
        """The bytes of a tile or bundle and its path: the partial one, the full one, or a wider one."""
        whole = f"log/tile/{name}/{log.grouped(number)}"
        exact = f"{whole}.p/{width}" if width < 256 else whole
        for path in (exact, whole, *(f"{whole}.p/{wider}" for wider in range(width + 1, 256))):
            try:
                return path, read_file(self.root / path)
            except OSError:
                continue
        self.find("fail", exact, "the file is missing")
        return exact, None

    def check_log(self):
        try:
            head = log.read_head(read_file(self.root / "log/checkpoint", 1_000_000))
        except (OSError, Malformed) as error:
            return self.find("fail", "log/checkpoint", str(error))
        # What the bundles and, for each bundle, the tile of level 0 beside it say that the leaves are.
        entries, leaves, hashes, seen = [], [], [], set()
        for number in range(-(-head.size // 256)):
            width = min(256, head.size - 256 * number)
            path, bundle = self.tile("entries", number, width)
            seen.add(path)
            try:
                entries += log.split_bundle(bundle, width, path) if bundle is not None else []
            except Malformed as error:
                self.find("fail", path, str(error))
            tile = self.tile(0, number, width)[1] or b""
            hashes += [tile[at:at + 32] for at in range(0, 32 * width, 32)]
        leaves = [leaf_hash(entry) for entry in entries]
        # The head's root decides which of the two is damaged.
        if len(entries) == head.size and log.root_of(leaves) == head.root:
            self.leaves = leaves
            self.fold_log(entries, head)
        elif log.root_of(hashes) == head.root:
            self.leaves = hashes
            for index, (leaf, tile) in enumerate(zip(leaves, hashes)):
                if leaf != tile and len(leaves) == len(hashes):
                    self.find("fail", f"statement {index}", "it is not the statement that the head covers")
        elif not any(severity == "fail" and where.startswith("log/") for severity, where, _ in self.findings):
            self.find("fail", "log/checkpoint", "its root is neither that of the statements nor that of the tiles")
        if self.leaves:
            self.check_tiles(head.size, seen if self.fold is None else set())
            self.check_heads(head)

    def fold_log(self, entries, head):
        self.fold = fold = Fold()
        for entry in entries:
            fold.add(entry)
        try:
            if head.origin != f"lineage-ledger/{fold.ledger.hex()}":
                raise Malformed("the log does not begin with the genesis of the ledger that the head names")
            head.signers(fold.log_keys[-1])
        except Malformed as error:
            self.find("fail", "log/checkpoint", str(error))

    def check_tiles(self, size, judged):
        """Every file under `log/tile`: none may hold anything but what the leaves give."""
        levels = [self.leaves]
        for level in range(1, 8):
            below = levels[-1]
            levels.append([log.root_of(below[at:at + 256]) for at in range(0, len(below) - 255, 256)])
            for number in range(-(-len(levels[level]) // 256)):
                self.tile(level, number, min(256, len(levels[level]) - 256 * number))
        for file in sorted(self.root.glob("log/tile/**/*")):
            path = str(file.relative_to(self.root))
            name = re.fullmatch(r"log/tile/([0-7]|entries)((?:/x[0-9]{3})*/[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", path)
            if not name or path in judged or not stat.S_ISREG(os.lstat(file).st_mode) or name[3] and int(name[3]) > 255:
                continue
            start, width = 256 * int(re.sub("[/x]", "", name[2])), int(name[3] or 256)
            want = levels[0 if name[1] == "entries" else int(name[1])][start:start + width]
            if len(want) < width and not (self.root / "log/heads" / log.grouped(size)).exists():
                self.find("fail", path, "it is beyond the head, which no commit explains")
            try:
                content = read_file(file)
                held = ([leaf_hash(entry) for entry in log.split_bundle(content, width, path)] if name[1] == "entries"
                        else [content[at:at + 32] for at in range(0, len(content), 32)])
                if len(held) != width or held[:len(want)] != want:
                    raise Malformed("it is not what the statements give")
            except (OSError, Malformed) as error:
                self.find("fail", path, str(error))

    def check_heads(self, head):
        for file in sorted(self.root.glob("log/heads/**/*")):
            path = str(file.relative_to(self.root))
            name = re.fullmatch(r"log/heads((?:/x[0-9]{3})*/[0-9]{3})", path)
            if name and not stat.S_ISDIR(os.lstat(file).st_mode):
                try:
                    log.check_commit(read_file(file, 17 << 20), int(re.sub("[/x]", "", name[1])), head, self.leaves, self.fold)
                except (OSError, Malformed) as error:
                    self.find("fail", path, str(error))

    # Objects, and what claims say of them.

    def check_objects(self):
        for file in sorted(self.root.glob("objects/??/*")):
            name = file.parent.name + file.name
            if re.fullmatch("[0-9a-f]{64}", name):
                try:
                    content = read_file(file)
                except OSError as error:
                    self.find("fail", f"objects/{name[:2]}/{name[2:]}", str(error))
                    self.objects[bytes.fromhex(name)] = None
                    continue
                self.objects[bytes.fromhex(name)] = content
                if object_id(content).hex() != name:
                    self.find("fail", f"objects/{name[:2]}/{name[2:]}", "its bytes are others")
                    self.objects[bytes.fromhex(name)] = None

    def check_claims(self):
        """Follows every accepted claim to its object, and that to what it refers to."""
        asked = set()

        def follow(kind, identity, role, index):
            if (kind, identity) in asked:
                return None
            asked.add((kind, identity))
            where, record = f"objects/{identity.hex()[:2]}/{identity.hex()[2:]}", None
            if identity not in self.objects:
                if identity not in self.fold.erased and not (kind == "blob" and role in MAY_BE_ELSEWHERE):
                    self.find("warn" if kind in MAY_BE_ABSENT else "fail", where,
                              f"{typed(kind, identity)} is missing; statement {index} needs it")
            elif self.objects[identity] is not None and kind != "blob":
                try:
                    record = read_record(kind, self.objects[identity])
                except Malformed as error:
                    return self.find("fail", where, f"{typed(kind, identity)}: {error}")
                for role, to, other in references(record):
                    follow(to, other, role, index)
            return record

        for index, (standing, statement) in enumerate(zip(self.fold.standings, self.fold.statements)):
            for claim in statement.claims if standing == "accepted" else ():
                follow(claim["kind"], claim["object"], "", index)
                for role, kind, identity in claim["links"]:
                    follow(kind, identity, role, index)
                self.compare(claim, index)

    def compare(self, claim, index):
        """A claim repeats its record's references and facts, so that the log means the same without its objects."""
        content = self.objects.get(claim["object"])
        if content is None:
            return
        if (claim["size"], claim["sha256"]) != (len(content), sha256(content)):
            self.find("fail", f"statement {index}", "its claim has another size or SHA-256 than the object")
        try:
            record = read_record(claim["kind"], content)
        except Malformed:
            return
        links, kind = TABLE[claim["kind"]].links, claim["kind"]
        signed = [tuple(link) for link in claim["links"] if not links[link[0]].beside]
        facts = {key: value for key, value in claim["facts"].items() if key != "name" or kind not in NAMED_BESIDE}
        if kind in RECORDS and (set(signed) != set(references(record)) or facts != facts_of(record)):
            self.find("fail", f"statement {index}", f"its claim of {typed(kind, claim['object'])} is not what the record says")
