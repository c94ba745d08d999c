"""Compares this reader with every file of `vectors/` (README.md, Vectors).

usage: python store-format/reader/check_vectors.py [VECTORS]
"""
import json
import sys
from pathlib import Path

from encoding import Malformed, decode, key_id, object_id, sha256
from fold import Fold
from records import fault_of_facts, read_record, typed
from statements import leaf_hash, read_statement

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "vectors")
counts, wrong = {}, []


def expect(sort, name, holds):
    counts[sort] = counts.get(sort, 0) + 1
    if not holds:
        wrong.append(f"{sort}: {name}")


def refused(read, *arguments):
    try:
        read(*arguments)
    except Malformed:
        return True
    return False


def fold(statements):
    """The fold of some statements, and whether each had its id and standing."""
    state = Fold()
    for at, each in enumerate(statements):
        content = bytes.fromhex(each["hex"])
        standing = state.add(content)
        said = standing if standing in ("accepted", "unknown") else f"rejected ({standing})"
        expect("statements folded", f"{at} {each['what']}: {said}, not {each['standing']}",
               (said, leaf_hash(content).hex()) == (each["standing"], each["id"]))
    return state


def summary(state):
    """The state in the form that fold.json has."""
    def name(key, value):
        return {"kind": key[0], "name": key[1], "holder": f"h:{value.holder.hex()}", "closed": value.closed,
                "versions": [typed(*version) for version in value.versions]}

    def mark(target, since, index):
        return {"by statement": index, "since": since,
                "target": f"claim {target[2]} of statement {state.first_at[target[1]]}"}

    return {
        "keys": [{"holder": f"h:{key.holder.hex()}", "key": kid.hex(), "roles": key.roles}
                 for kid, key in state.keys.items()],
        "marks": [mark(*each) for each in state.marks],
        "names": [name(*each) for each in sorted(state.names.items(), key=lambda item: item[0])],
        "rules": state.rules,
        "runs": [{"attempts, latest first": [typed("start", start) for start in starts], "plan": typed("plan", plan),
                  "status": state.status(plan)} for plan, starts in state.runs.items()],
    }


def main():
    for file in sorted(ROOT.glob("encoding/*/*.hex")):
        said = refused(decode, bytes.fromhex(file.read_text()))
        expect("items", file.name, said == (file.parent.name == "invalid"))
    for file in sorted(ROOT.glob("statements/*.cose")):
        expect("statements", file.name, not refused(read_statement, file.read_bytes()))
    for file in sorted(ROOT.glob("statements/invalid/*.hex")):
        expect("statements", file.name, refused(read_statement, bytes.fromhex(file.read_text())))
    kinds = set()
    for each in json.loads((ROOT / "records.json").read_text()):
        content = bytes.fromhex(each["hex"])
        kinds.add(each["kind"])
        expect("records", f"{each['kind']} {each['name']}", not refused(read_record, each["kind"], content)
               and typed(each["kind"], object_id(content)) == each["id"] and sha256(content).hex() == each["sha256"])
    for file in sorted(ROOT.glob("records/invalid/*.hex")):
        kind = max((kind for kind in kinds if file.name.startswith(kind + "-")), key=len)
        expect("records", file.name, refused(read_record, kind, bytes.fromhex(file.read_text())))
    for each in json.loads((ROOT / "facts.json").read_text()):
        expect("facts", each["kind"], fault_of_facts(each["kind"], decode(bytes.fromhex(each["hex"]))) is None)
    for each in json.loads((ROOT / "keys.json").read_text()):
        expect("keys", each["name"], key_id(bytes.fromhex(each["public"])).hex() == each["thumbprint"])
    want = json.loads((ROOT / "fold.json").read_text())
    state = fold(want["statements"])
    expect("states", "root", state.roots[-1].hex() == want["root"] and state.ledger.hex() == want["ledger"])
    got = summary(state)
    for part, value in want["state"].items():
        expect("states", f"{part}: {json.dumps(got[part])}\n  not {json.dumps(value)}", got[part] == value)
    for each in want["first"]:
        fold([each])
    for line in wrong:
        print("differs:", line)
    print(", ".join(f"{number} {sort}" for sort, number in counts.items()) + f": {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
