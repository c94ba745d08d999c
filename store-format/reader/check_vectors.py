"""Compares this reader with every file of `vectors/` (README.md, Vectors).

usage: python store-format/reader/check_vectors.py [VECTORS]
"""
import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from encoding import Refused, decode, key_id, object_id, sha256
from records import TABLE, faults_of_facts, read_record, typed
from statements import fold, read_statement

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "vectors")

def takes(read, *arguments):
    try:
        return [read(*arguments)] != []
    except Refused:
        return False

def cases():
    """(sort, name, what this reader finds, what it should)"""
    for file in sorted([*ROOT.glob("*/*.cose"), *ROOT.glob("*/*/*.hex")]):
        content = bytes.fromhex(file.read_text()) if file.suffix == ".hex" else file.read_bytes()
        sort, is_valid = file.relative_to(ROOT).parts[0], "invalid" not in file.parts
        kind = max((kind for kind in TABLE if file.name.startswith(kind)), key=len, default=None)
        read = {"encoding": decode, "statements": read_statement, "records": partial(read_record, kind)}[sort]
        yield sort, file.name, takes(read, content), is_valid
    for each in json.loads((ROOT / "records.json").read_text()):
        content = bytes.fromhex(each["hex"])
        yield "records", each["name"], takes(read_record, each["kind"], content), True
        yield "ids", each["name"], typed(each["kind"], object_id(content)), each["id"]
        yield "ids", each["name"], sha256(content).hex(), each["sha256"]
    for each in json.loads((ROOT / "facts.json").read_text()):
        facts = decode(bytes.fromhex(each["hex"]))
        yield "facts", each["kind"], any(faults_of_facts(each["kind"], facts)), False
    for each in json.loads((ROOT / "keys.json").read_text()):
        yield "keys", each["name"], key_id(bytes.fromhex(each["public"])).hex(), each["thumbprint"]
    want = json.loads((ROOT / "fold.json").read_text())
    fork = json.loads((ROOT / "fork.json").read_text())
    logs = [fork[name] for name in ("parent", "child", "grandchild")]
    lines = [[want], logs[:1], logs[:2], logs, *([{"statements": [first]}] for first in want["first"]),
             *([logs[0], {"statements": [first]}] for first in fork["first"])]
    for line in lines:  # of logs that go on from each other, of which the last is compared
        log = None
        for want in line:
            log = fold((bytes.fromhex(each["hex"]) for each in want["statements"]), log)
        said = log.state.standings[-len(log.tree.leaves):]
        for each, said, identity in zip(want["statements"], said, log.tree.leaves):
            said = said if said in ("accepted", "unknown") else f"rejected ({said})"
            yield "standings", each["what"], (said, identity.hex()), (each["standing"], each["id"])
        got = {"ledger": log.ledger.hex(), "root": log.tree.root(len(log.tree.leaves)).hex()}
        got, asked = {**got, **summary(log.state)}, {**want, **want.get("state", {})}
        yield from (("states", part, got[part], asked[part]) for part in got if part in asked)

def summary(state):
    """In the form that fold.json and fork.json have."""
    return {
        "keys": [{"holder": f"h:{key['holder'].hex()}", "key": kid.hex(), "roles": key["roles"]}
                 for kid, key in state.keys.items()],
        "marks": [{"by statement": index, "since": since,
                   "target": f"claim {target[2]} of statement {state.first_at[target[1]]}"}
                  for target, since, index in state.marks],
        "names": [{"kind": kind, "name": word, "holder": f"h:{name.holder.hex()}", "closed": name.closed,
                   "versions": [typed(*what) for what in name.versions]}
                  for (kind, word), name in sorted(state.names.items())],
        "rules": state.rules,
        "runs": [{"attempts, latest first": [typed(*start) for start in starts], "plan": typed(*plan),
                  "status": state.status(plan)} for plan, starts in state.runs.items()],
    }

if __name__ == "__main__":
    counts, wrong = Counter(), 0
    for sort, name, got, want in cases():
        counts[sort] += 1
        wrong += got != want
        if got != want:
            print(f"differs: {sort}: {name}: {got}, not {want}")
    print(", ".join(f"{number} {sort}" for sort, number in counts.items()) + f": {wrong} differ")
    sys.exit(wrong > 0)
