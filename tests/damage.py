#!/usr/bin/env python3
"""Damages every file of a small ledger in every way, and asks both readers what is wrong: `ledger fsck` and store-format/reader.

Both must name the same thing, or both must call the damage harmless. Statements that are signed and not true follow.
usage: damage.py    LEDGER=BINARY; run it with the Python of store-format/reader/requirements.lock
"""
import base64
import json
import multiprocessing
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "store-format" / "reader"))
from check import Ledger  # noqa: E402, what this script is about
from encoding import encode, key_id, leaf_hash, object_id, sha256, to_be_signed  # noqa: E402
from log import Tree, parts_of  # noqa: E402

LEDGER = os.path.realpath(os.environ.get("LEDGER") or shutil.which("ledger") or sys.exit("damage.py: LEDGER=BINARY is needed"))
STATEMENTS = 20
PROCESSES = 2


def environment(home: Path, key="kim") -> dict:
    """Nothing of the user's is read or written."""
    return {
        "PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home / key), "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8",
        "GIT_AUTHOR_NAME": "kim", "GIT_AUTHOR_EMAIL": "kim@example.org", "GIT_COMMITTER_NAME": "kim",
        "GIT_COMMITTER_EMAIL": "kim@example.org",
    }


def make_ledger(scratch: Path) -> Path:
    """A project whose ledger has statements of every sort that commands write."""
    project, home = scratch / "project", scratch / "home"
    project.mkdir()

    def command(*words, key="kim"):
        done = subprocess.run(words, cwd=project, env=environment(home, key), capture_output=True, text=True, timeout=60)
        if done.returncode:
            sys.exit(f"damage.py: {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout.strip()

    def ledger(*words, key="kim"):
        return command(LEDGER, *words, key=key)

    def weights(path, step):
        header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
        (project / path).mkdir(parents=True)
        (project / path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, step))
        (project / path / "config.json").write_text("{}\n")

    def entries():
        return int(json.loads(ledger("fsck", "--json"))["statements"])

    (project / "config.json").write_text('{"lr": 0.1, "steps": 3}\n')
    (project / "data").mkdir()
    (project / "data" / "train.csv").write_text("a,b\n1,2\n")
    for folder in range(70):
        (project / "many" / str(folder)).mkdir(parents=True)
        (project / "many" / str(folder) / "row").write_text(f"{folder}\n")
    (project / "requirements.txt").write_text("numpy==2.4.6\n")
    (project / "untracked.txt").write_text("left over\n")
    (project / "contract.toml").write_text("# what a run must satisfy\n")
    (project / "policy.yaml").write_text("# what a promotion must satisfy\n")
    command("git", "init", "-q")
    command("git", "add", "config.json", "requirements.txt")
    command("git", "commit", "-q", "-m", "first")

    ledger("init", "--name", "kim")
    ledger("key", "new", "--name", "lee", key="lee")
    request = ledger("key", "show", "--request", key="lee")
    ledger("key", "add", request, "--roles", "author,evaluator,log")
    ledger("record", "dataset", "data", "--name", "train")
    ledger("record", "dataset", "many", "--name", "many")
    ledger("record", "model", "config.json", "--name", "start")
    flags = ["-c", "config.json", "--lock", "requirements.txt", "--data", "train=data", "--base", "init=model:start",
             "--contract", "contract.toml", "--policy", "policy.yaml", "--seed", "7"]
    plan = ledger("freeze", *flags, "--name", "first", "--", "sh", "-c", "exit 0")
    ledger("run", plan, "--", "sh", "-c", "exit 0")
    weights("out/step-1", 1)
    one = ledger("record", "checkpoint", "out/step-1", "--run", plan, "--name", "best")
    weights("out/step-2", 2)
    two = ledger("record", "checkpoint", "out/step-2", "--run", plan, "--parent", one, "--store")
    measure = """echo '{"accuracy": 0.75, "loss": 1e-3}' >results.json"""
    ledger("eval", "--subject", "out/step-1", "--results", "results.json", "--benchmark", "toy", "--", "sh", "-c", measure)
    ledger("record", "eval", "results.json", "--subject", two, "--benchmark", "toy", key="lee")
    ledger("record", "note", two, "-m", "the second one", key="lee")
    (project / "config.json").write_text('{"lr": 0.2, "steps": 3}\n')
    other = ledger("freeze", *flags, "--allow-dirty", "--", "sh", "-c", "exit 3", key="lee")
    ledger("start", other, key="lee")
    ledger("start", other, key="lee")
    ledger("end", other, "--status", "failed", "--reason", "by hand", key="lee")
    ledger("freeze", "--no-code", "--", "true")
    ledger("revoke", two, "--reason", "trained on the test set")
    theirs = next(key for key in json.loads(ledger("key", "ls", "--json"))["keys"]
                  if "evaluator" in key["roles"] and "owner" not in key["roles"])
    ledger("key", "revoke", theirs["key"], "--compromised-since", str(entries() - 2), "--reason", "laptop stolen")
    while (count := entries()) < STATEMENTS:
        ledger("record", "note", one, "-m", f"statement {count}")
    if count != STATEMENTS:
        sys.exit(f"damage.py: the ledger has {count} statements, not {STATEMENTS}")
    return project


def sort_of(path: str) -> str:
    """Files of one sort are swapped with each other: objects, bundles, tiles, heads, and the rest."""
    if path.startswith("objects/"):
        return "objects"
    return path.rpartition("/")[0] if path.startswith("log/") else "."


def damages(files: dict):
    """(path, what was done to it, the files as they lie then)."""
    for path, content in files.items():
        places = {"first": 0, "middle": len(content) // 2, "last": len(content) - 1}
        if path.startswith("log/heads/"):  # the field before `statements` is the receipt
            places["receipt's last"] = content.index(b"jstatements") - 1
        for where, at in places.items():
            if content:
                flipped = bytes([content[at] ^ 1])
                yield path, f"{where} byte flipped", {path: content[:at] + flipped + content[at + 1:]}
        yield path, "emptied", {path: b""}
        yield path, "cut to half", {path: content[:len(content) // 2]}
        yield path, "deleted", {path: None}
        of_a_sort = [other for other in files if sort_of(other) == sort_of(path)]
        other = of_a_sort[(of_a_sort.index(path) + 1) % len(of_a_sort)]
        if files[other] != content:
            yield path, f"swapped with {other}", {path: files[other], other: content}


def put(root: Path, files: dict):
    for path, content in files.items():
        file = root / path
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_bytes(content)


def asked_of_fsck(project: Path, home: Path):
    done = subprocess.run([LEDGER, "fsck", "--json"], cwd=project, env=environment(home), capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout)["findings"]
    return done.returncode, {one["at"] or one["id"] or one["kind"] for one in found if one["severity"] == "fail"}


def asked_of_reader(project: Path):
    ledger = Ledger(project / ".ledger")
    ledger.check()
    if ledger.exit_code == 3:
        return 3, {"not-a-ledger"}
    return ledger.exit_code, {where for severity, where, _ in ledger.findings if severity == "FAIL"}


def compare(share):
    """One process: its own copy of the project, and every so many-th damage."""
    number, scratch, original = share
    project = scratch / f"copy-{number}"
    shutil.copytree(original, project, symlinks=True)
    home, root = scratch / "home", project / ".ledger"
    files = files_of(root)
    tried, disagreements = 0, []
    for at, (path, how, changed) in enumerate(damages(files)):
        if at % PROCESSES != number:
            continue
        put(root, changed)
        ours, theirs = asked_of_fsck(project, home), asked_of_reader(project)
        put(root, {name: files[name] for name in changed})
        tried += 1
        # What is named must be what was damaged, too; a byte in a bundle is one in a statement.
        # Of a pack that is gone nothing is known but what is missing.
        is_gone = path.startswith("packs/") and how == "deleted"
        is_right = not ours[1] or ours[0] == 3 or is_gone or any(name in changed or name.startswith("statement ") for name in ours[1])
        if ours != theirs or not is_right:
            disagreements.append(f"{path}, {how}:\n  ledger fsck: {ours[0]} {sorted(ours[1])}\n  reader:      {theirs[0]} {sorted(theirs[1])}")
    if asked_of_fsck(project, home) != (0, set()) or asked_of_reader(project) != (0, set()):
        disagreements.append("what was damaged was not mended again")
    return tried, disagreements


def files_of(root: Path) -> dict:
    found = sorted(path for path in root.rglob("*") if stat.S_ISREG(path.lstat().st_mode))
    names = [str(path.relative_to(root)) for path in found]
    return {name: (root / name).read_bytes() for name in names if name.split("/")[0] not in ("runs", "tmp")}


# No damage, but one more statement in the golden ledger, whole and under a signed head. What is accepted of it must be true,
# and what must not be accepted asks for nothing: those of the second list name an object that is nowhere.
TRUE = {"what": "note", "key": 1, "claim": {}, "record": {}, "flip": 0, "log": 2, "origin": None}
LIES = {
    "a note": {},
    "a note whose object has another size": {"claim": {"size": 7}},
    "a note whose object has another SHA-256": {"claim": {"sha256": b"\1" * 32}},
    "a note about something else than its record": {"claim": {"links": [["subject", "blob", b"\2" * 32]]}},
    "a mark": {"what": "revocation"},
    "a mark from another index on than its record has it": {"what": "revocation", "record": {"since": 5}},
    "a note that is not of version 1": {"record": {"v": 2}},
    "a note with a field too many": {"record": {"more": 1}},
    "a note in which a field has the wrong type": {"record": {"text": 1}},
    "a head that names another ledger": {"origin": "lineage-ledger/" + "6" * 64},
    "a head by a key that may not sign one": {"log": 1},
    "a note whose object is nowhere": {"claim": {"object": b"\3" * 32}},
}
REFUSED = {
    "a note with a signature that does not hold": {"flip": 1},
    "a note by the log key": {"key": 2},
    "a note by the recovery key": {"key": 3},
    "a note by somebody else": {"key": 5},
    "a note that would replace a claim": {"claim": {"prev": [b"\4" * 32, 0]}},
}


def ledger_with(lie: dict, project: Path):
    """The golden ledger and a statement that one of its keys has signed; a seed is one byte, 32 times."""
    lie, root = {**TRUE, **lie}, project / ".ledger"
    for part in ("objects", "log"):
        shutil.copytree(REPOSITORY / "store-format" / "vectors" / part, root / part)
    (root / "format").write_text("ledger-format/1\nshared no\n")
    entries = parts_of("entries", (root / "log/tile/entries/000.p/7").read_bytes(), 7)
    tree = Tree(map(leaf_hash, entries))
    author, log = (Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (lie["key"], lie["log"]))
    ids = [key_id(key.public_key().public_bytes_raw()) for key in (author, log)]
    subject = next(path for path in sorted((root / "objects").glob("*/*")) if b"dkindcend" in path.read_bytes())
    subject = ["end", bytes.fromhex(subject.parent.name + subject.name)]
    target = ["object", *subject]
    own = {"note": {"subject": subject, "text": "true"}, "revocation": {"target": target}}[lie["what"]]
    record = encode({"kind": lie["what"], "v": 1, "nonce": b"\5" * 16, **own, **lie["record"]})
    claim = {"kind": lie["what"], "size": len(record), "facts": {"target": target} if "target" in own else {},
             "links": [] if "target" in own else [["subject", *subject]], "object": object_id(record), "sha256": sha256(record),
             **lie["claim"]}
    (root / "objects" / object_id(record).hex()[:2]).mkdir(exist_ok=True)
    (root / "objects" / object_id(record).hex()[:2] / object_id(record).hex()[2:]).write_bytes(record)
    prefix = {"note": "note", "revocation": "revoke"}[lie["what"]]
    protected = encode({1: -8, 3: "application/vnd.lineage-ledger.statement+cbor", 4: ids[0], 15: {
        1: f"h:{key_id(Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32).public_key().public_bytes_raw()).hex()}",
        2: f"{prefix}:{claim['object'].hex()}", 6: 1764500000}})
    payload = encode({"v": 1, "seen": [7, tree.root(7)], "claims": [claim], "ledger": tree.leaves[0]})
    signature = author.sign(to_be_signed(protected, payload))
    signature = bytes([signature[0] ^ lie["flip"]]) + signature[1:]
    entries.append(b"\xd2" + encode([protected, {}, payload, signature]))
    tree.leaves.append(leaf_hash(entries[-1]))
    (root / "log/tile/0/000.p/8").write_bytes(b"".join(tree.leaves))
    (root / "log/tile/entries/000.p/8").write_bytes(b"".join(struct.pack(">H", len(entry)) + entry for entry in entries))
    origin = lie["origin"] or f"lineage-ledger/{tree.leaves[0].hex()}"
    note = f"{origin}\n8\n{base64.b64encode(tree.root(8)).decode()}\n"
    stamp = sha256(origin.encode(), b"\n\1", log.public_key().public_bytes_raw())[:4] + log.sign(note.encode())
    (root / "log/checkpoint").write_text(f"{note}\n\u2014 {origin} {base64.b64encode(stamp).decode()}\n")


def ask_about_lies(scratch: Path):
    """What both readers disagree about, or both do not see."""
    for number, (name, lie) in enumerate({**LIES, **REFUSED}.items()):
        project = scratch / f"lie-{number}"
        lie = dict(lie)
        if name in REFUSED:
            lie["claim"] = {"object": b"\3" * 32, **lie.get("claim", {})}
        ledger_with(lie, project)
        ours, theirs = asked_of_fsck(project, scratch / "home"), asked_of_reader(project)
        finds = bool(LIES.get(name)) and name != "a mark"
        if ours != theirs or bool(ours[1]) != finds:
            yield f"{name}:\n  ledger fsck: {ours[0]} {sorted(ours[1])}\n  reader:      {theirs[0]} {sorted(theirs[1])}"


def main():
    scratch = Path(tempfile.mkdtemp(prefix="ledger-damage."))
    try:
        project = make_ledger(scratch)
        if asked_of_fsck(project, scratch / "home") != (0, set()) or asked_of_reader(project) != (0, set()):
            sys.exit("damage.py: the ledger is damaged before anything was done to it")
        with multiprocessing.Pool(PROCESSES) as pool:
            answers = pool.map(compare, [(number, scratch, project) for number in range(PROCESSES)])
        answers.append((len(LIES) + len(REFUSED), list(ask_about_lies(scratch))))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    disagreements = [one for _, found in answers for one in found]
    for one in disagreements:
        print(one)
    print(f"damages tried: {sum(tried for tried, _ in answers)}")
    print(f"disagreements between the two readers: {len(disagreements)}")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
