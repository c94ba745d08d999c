"""The table of kinds, facts and the fields of records (records.md).

Whether a claim counts is not decided here but in fold.py.
"""
import re
from typing import NamedTuple

from encoding import Malformed, decode

# kind | prefix | stated by | links. The rows are in the order in which claims take effect.
KINDS = """
genesis | genesis | first statement | -
holder | holder | never | -
key | key | key rules | holder -> holder
format | format | owner | -
config | cfg | never | frozen -> blob; source* -> blob
dataset | data | author evaluator | root -> tree or blob; sums? -> sums (beside); from* -> dataset (beside)
tree | tree | never | -
sums | sums | never | -
tensors | tensors | never | -
code | code | never | diff? -> blob
environment | env | never | lock? -> blob
model | model | author evaluator | root -> tree or blob; sums? -> sums (beside)
contract | contract | never | text -> blob
policy | policy | never | text -> blob
private | private | never | -
about | about | never | -
plan | run | author | config? -> config; code? -> code; environment? -> environment; data* -> dataset; base* -> model or \
checkpoint!; contract* -> contract; policy* -> policy; spec? -> blob; manifest -> blob (beside); \
untracked? -> tree (beside); from? -> plan! (beside)
start | start | author | plan -> plan!; environment? -> environment; lost* -> start!
end | end | run or owner | start -> start!
checkpoint | ck | author of run | start? -> start!; full -> tree; weights -> tree; tensors? -> tensors; \
parent? -> checkpoint!; sums? -> sums (beside)
transform | tf | author | from+ -> model or checkpoint!; to -> checkpoint!
benchmark | bench | never | definition? -> blob
eval | eval | author evaluator | subject -> tree; of? -> checkpoint!; benchmark -> benchmark; result* -> blob; \
start? -> start!
paper-claim | claim | author | from+ -> eval!
observation | obs | author evaluator reviewer | subject -> any!
import | import | author evaluator owner | document -> blob; subject* -> any
verdict | verdict | evaluator | subject -> checkpoint!; policy -> policy; facts -> blob; baseline? -> checkpoint!
approval | approval | reviewer approver | subject -> any!; verdict? -> verdict!
promotion | promotion | approver | subject -> checkpoint!; verdict? -> verdict!
deployment | deploy | approver | subject? -> checkpoint!; verdict? -> verdict!
channel | channel | owner | policy -> policy
revocation | revoke | revocation rules | -
erasure | erase | owner | -
name | name | owner | to? -> any!
note | note | owner author evaluator reviewer approver | subject -> any
blob | blob | never | -
"""
ROLES = {"approver", "author", "evaluator", "log", "owner", "recovery", "reviewer"}


class Link(NamedTuple):
    least: int
    most: float
    kinds: dict  # kind -> whether an accepted claim of it must stand earlier, which the table writes as `!`
    beside: bool  # signed in the claim and no part of the record


class Kind(NamedTuple):
    order: int
    prefix: str
    stated_by: str
    links: dict


def _table() -> dict:
    rows = [[cell.strip() for cell in line.split(" | ")] for line in KINDS.strip().split("\n")]
    claimed = {kind: True for kind, _, stated, _ in rows if stated != "never"}
    everything = {kind: False for kind, *_ in rows}
    table = {}
    for order, (kind, prefix, stated, links) in enumerate(rows):
        table[kind] = Kind(order, prefix, stated, {})
        # Every claim may have these two, whatever its kind.
        for link in links.replace("-", "", links == "-").split(";") + ["private? -> private (beside)", "about? -> about (beside)"]:
            if link.strip():
                role, kinds = link.split("->")
                beside, words = "(beside)" in kinds, kinds.replace("(beside)", "").split(" or ")
                taken = {word.strip().rstrip("!"): "!" in word for word in words}
                taken = claimed if taken == {"any": True} else everything if taken == {"any": False} else taken
                least, most = {"?": (0, 1), "*": (0, 1e9), "+": (1, 1e9)}.get(role.strip()[-1], (1, 1))
                table[kind].links[role.strip(" ?*+")] = Link(least, most, taken, beside)
    return table


TABLE = _table()
PREFIXES = {row.prefix: kind for kind, row in TABLE.items()}


def typed(kind: str, digest: bytes) -> str:
    return f"{TABLE[kind].prefix}:{digest.hex()}"


# A shape is a function that says whether a value has it. `type(..) is`, because to Python True is an integer.
def text(value):
    return type(value) is str


def data(size=None):
    return lambda value: type(value) is bytes and size in (None, len(value))


def uint(bits=64):
    return lambda value: type(value) is int and 0 <= value < 1 << bits


def integer(value):
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def boolean(value):
    return type(value) is bool


def words(*allowed):
    return lambda value: text(value) and value in allowed


def row(*shapes):
    return lambda value: type(value) is list and len(value) == len(shapes) and all(s(v) for s, v in zip(shapes, value))


def many(shape, least=0, most=1e9, ordered_by=None):
    def check(value):
        if type(value) is not list or not least <= len(value) <= most or not all(map(shape, value)):
            return False
        keys = [ordered_by(item) for item in value] if ordered_by else []
        return all(a < b for a, b in zip(keys, keys[1:]))  # ascending, and none twice
    return check


def mapping(shape, least=0):
    return lambda value: type(value) is dict and len(value) >= least and all(map(shape, value.values()))


def fields(**shapes):
    """A map with exactly these fields; those whose name ends in `_` may be absent."""
    wanted = {name.rstrip("_"): shape for name, shape in shapes.items()}
    required = {name for name in shapes if not name.endswith("_")}
    return lambda value: (type(value) is dict and required <= value.keys()
                          and all(key in wanted and wanted[key](inner) for key, inner in value.items()))


NAME = re.compile(r"[a-z0-9][a-z0-9._/-]{0,127}")
digest, nonce = data(32), data(16)


def name_text(value):
    return text(value) and NAME.fullmatch(value) is not None


def ref(value):
    return row(text, digest)(value) and value[0] in TABLE


def entry(value):
    """A file, an executable, a directory or a link; its name must not lead elsewhere."""
    shapes = {0: (uint(), digest), 1: (uint(), digest), 2: (digest,), 3: (data(),)}
    if type(value) is not list or not value or type(value[0]) is not int or value[0] not in shapes:
        return False
    return (row(uint(), data(), *shapes[value[0]])(value) and value[1] not in (b"", b".", b"..")
            and not set(value[1]) & set(b"/\0"))


def first(item):
    return item[0].encode() if text(item[0]) else item[0]


PARENT = row(digest, uint(), digest)
STATUS = ("completed", "failed", "cancelled", "preempted")
INPUTS = many(row(text, ref), ordered_by=first)
TEXTS = mapping(text, 1)
RECORDS = {
    "genesis": dict(nonce=nonce, rules=uint(32), parent_=PARENT),
    "holder": dict(name=text),
    "key": dict(key=digest, holder=ref, first=digest, roles=many(words(*ROLES), ordered_by=str.encode), proof_=data(64)),
    "format": dict(rules=uint(32)),
    "config": dict(frozen=ref, sources=many(ref)),
    "dataset": dict(root=ref),
    "model": dict(root=ref),
    "contract": dict(text=ref),
    "policy": dict(text=ref),
    "code": dict(format=text, commit=text, tree=text, project=data(), dirt=words("clean", "dirty", "unknown"),
                 reason_=text, files=many(row(data(), text), ordered_by=first), diff_=ref,
                 submodules=many(fields(path=data(), commit=text, dirty=boolean), ordered_by=lambda s: s["path"])),
    "environment": dict(lock_=fields(name=text, quality=text, file=ref), interpreter_=fields(name=text, version=text),
                        os=text, arch=text),
    "private": dict(salt=digest, argv_=many(text, 1), texts_=TEXTS, paths_=TEXTS, variables_=TEXTS,
                    stats_=mapping(digest, 1)),
    "about": dict(texts=mapping(text)),
    "plan": dict(nonce_=nonce, name_=name_text, config_=ref, code_=ref, environment_=ref, data=INPUTS, base=INPUTS,
                 contracts_=many(ref, 1), policies_=many(ref, 1), spec_=ref, none=mapping(text), argv=many(text),
                 seed_=uint(), study_=text, arm_=text),
    "start": dict(nonce=nonce, plan=ref, environment_=ref, lost_=many(ref, 1), check=words("frozen", "quick", "full")),
    "end": dict(nonce=nonce, start=ref, status=words(*STATUS), code_=integer, signal_=text),
    "checkpoint": dict(start_=ref, full=ref, weights=ref, tensors_=ref, parent_=ref, format=text, step_=uint(), path_=text),
    "benchmark": dict(name=text, definition_=ref),
    "eval": dict(subject=ref, of_=ref, benchmark=ref, results=many(ref), start_=ref, partial_=text, format=text,
                 binding=words("observed", "sealed", "asserted"),
                 metrics=many(fields(name=text, value=text, stderr_=text, n_=uint()), ordered_by=lambda m: m["name"].encode())),
    "note": dict(nonce=nonce, subject=ref, text=text),
    "tree": dict(entries_=many(entry, most=4096, ordered_by=lambda e: e[1]),
                 split_=many(row(uint(8), digest), 1, ordered_by=first)),
    "sums": dict(tree=digest, below=many(digest), files=many(digest)),
    "tensors": dict(tensors=many(row(text, text, many(uint()), digest), ordered_by=first)),
}


def read_record(kind: str, content: bytes) -> dict:
    """A record of that kind, or Malformed. Kinds whose fields are reserved are checked no further than `v`."""
    record = decode(content)
    if type(record) is not dict or record.get("kind") != kind or type(record.get("v")) is not int or record["v"] != 1:
        raise Malformed(f"not a record of kind {kind} and version 1")
    if kind in RECORDS:
        shapes = dict(RECORDS[kind], kind=text, v=uint())
        if kind not in ("tree", "sums", "tensors"):  # their ids are to depend on content alone
            shapes["ext_"] = lambda value: type(value) is dict
        if not fields(**shapes)(record):
            raise Malformed(f"the fields are not those of a {kind}")
        if any(kind_of not in TABLE[kind].links[role].kinds for role, kind_of, _ in _refs(record)):
            raise Malformed("a reference to a kind that its role does not take")
        if not _COHERENT.get(kind, lambda _: True)(record):
            raise Malformed(f"the fields of this {kind} contradict each other")
    return record


_COHERENT = {
    # What a plan has not it explains, and it explains nothing else.
    "plan": lambda r: ("name" in r) != ("nonce" in r) and r["none"].keys() == {
        part for part in ("config", "code", "data", "environment", "base") if not r.get(part)},
    "code": lambda r: not (r["dirt"] == "clean" and (r["files"] or "diff" in r))
    and (r["dirt"] != "unknown" or "reason" in r),
    "tree": lambda r: ("entries" in r) != ("split" in r),
}
_ROLE_OF_FIELD = {"contracts": "contract", "policies": "policy", "results": "result", "sources": "source"}


def _refs(record: dict) -> list:
    """(role, kind, id) of the references that the table of kinds has for the record's fields."""
    found = []
    for field, value in record.items():
        role = _ROLE_OF_FIELD.get(field, field)
        link = TABLE[record["kind"]].links.get(role)
        if link and not link.beside and field != "ext":
            value = value["file"] if field == "lock" else value
            pairs = [value] if ref(value) else [item[1] if field in ("data", "base") else item for item in value]
            found += [(role, kind, identity) for kind, identity in pairs]
    return found


def references(record: dict) -> list:
    """All that the record's bytes refer to, trees and sums included. Files of trees need not be in the store."""
    if record["kind"] == "tree":
        return [("node", "tree", e[2]) for e in record.get("entries", []) if e[0] == 2] + [
            ("node", "tree", node) for _, node in record.get("split", [])]
    if record["kind"] == "sums":
        return [("tree", "tree", record["tree"])] + [("below", "sums", identity) for identity in record["below"]]
    return _refs(record) if record["kind"] in RECORDS else []


# Facts: a set of words or a pattern is a text, whose words are looked at after all types.
FACTS = {
    "genesis": dict(nonce=nonce, rules=uint(32), parent_=PARENT),
    "key": dict(key=digest, holder=digest, roles=many(text), proof_=data(64)),
    "format": dict(rules=uint(32)),
    "plan": dict(name_=NAME), "dataset": dict(name_=NAME), "model": dict(name_=NAME), "checkpoint": dict(name_=NAME),
    "end": dict(status=set(STATUS)),
    "verdict": dict(outcome={"open", "closed"}, position=uint()),
    "approval": dict(decision={"approve", "reject"}),
    "promotion": dict(channel=NAME, stage=NAME, action={"enter", "reject"}),
    "deployment": dict(target=NAME, action={"on", "off", "rollback"}),
    "channel": dict(channel=NAME),
    "revocation": dict(target=many(lambda _: True, 1), since_=uint()),
    "erasure": dict(objects=many(digest)),
    "name": dict(kind=TABLE, name=NAME, action={"assign", "retire", "reserve"}),
}
TARGETS = {"claim": row(text, digest, uint(16)), "object": row(text, text, digest), "key": row(text, digest)}


def fault_of_facts(kind: str, facts: dict):
    """None, "unknown" or "bad-form": the first thing that is wrong, in the order that records.md gives."""
    shapes = FACTS.get(kind, {})
    for key, value in facts.items():
        shape = shapes.get(key, shapes.get(key + "_"))
        if shape is None or key.endswith("_"):
            return "unknown"
        if not (shape(value) if callable(shape) else text(value)):
            return "bad-form"
        if kind == "key" and key == "roles":
            if not ROLES.issuperset(value):
                return "unknown"
            if not many(text, ordered_by=str.encode)(value):
                return "bad-form"
        if kind == "revocation" and key == "target":
            if not text(value[0]) or value[0] in TARGETS and not TARGETS[value[0]](value):
                return "bad-form"
            if value[0] not in TARGETS or value[0] == "object" and value[1] not in TABLE:
                return "unknown"
    for key, shape in sorted(shapes.items(), key=lambda item: (len(item[0].rstrip("_")), item[0])):
        value = facts.get(key.rstrip("_"))
        if value is None:
            if not key.endswith("_"):
                return "bad-form"
        elif isinstance(shape, re.Pattern) and not shape.fullmatch(value):
            return "bad-form"
        elif isinstance(shape, (set, dict)) and value not in shape:
            return "unknown" if shape is TABLE else "bad-form"
    return None


def facts_of(record: dict) -> dict:
    """What the claim of a record repeats of it."""
    shapes = FACTS.get(record["kind"], {})
    facts = {key.rstrip("_"): record[key.rstrip("_")] for key in shapes if key.rstrip("_") in record}
    if record["kind"] == "key":
        facts["holder"] = record["first"]
    return facts
