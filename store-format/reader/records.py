"""The table of kinds, facts and the fields of records (records.md); not whether a claim counts, which is in fold.py."""
import re
from collections import namedtuple

from encoding import Malformed, decode

# kind | prefix | stated by | links, as the page has them. In the order of the rows claims take effect.
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
parent? -> checkpoint!; files? -> blob; sums? -> sums (beside)
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
Kind = namedtuple("Kind", "order prefix stated_by links")
Link = namedtuple("Link", "least most kinds beside")  # kinds: each with whether it has `!`, so must be claimed before

def _table() -> dict:
    rows = [line.split(" | ") for line in KINDS.strip().split("\n")]
    claimed = {kind: True for kind, _, stated, _ in rows if stated != "never"}
    everything = {kind: False for kind, *_ in rows}
    table = {}
    for order, (kind, prefix, stated, links) in enumerate(rows):
        table[kind] = Kind(order, prefix, stated, {})
        for link in [*links.split("; "), "private? -> private (beside)", "about? -> about (beside)"]:
            if link != "-":
                role, kinds = link.replace(" (beside)", "").split(" -> ")
                taken = {"any": everything, "any!": claimed}.get(kinds) or {
                    word.rstrip("!"): word.endswith("!") for word in kinds.split(" or ")}
                least, most = {"?": (0, 1), "*": (0, 1e9), "+": (1, 1e9)}.get(role[-1], (1, 1))
                table[kind].links[role.rstrip("?*+")] = Link(least, most, taken, "(beside)" in link)
    return table

TABLE = _table()

def typed(kind: str, identity: bytes) -> str:
    return f"{TABLE[kind].prefix}:{identity.hex()}"

# A shape is a function that says whether a value has it. `type(..) is`, because to Python True is an integer.
def text(value): return type(value) is str
def boolean(value): return type(value) is bool
def integer(value): return type(value) is int and -(1 << 63) <= value < 1 << 63
def uint(bits=64): return lambda value: type(value) is int and 0 <= value < 1 << bits
def data(*sizes): return lambda value: type(value) is bytes and (not sizes or len(value) in sizes)
def words(*allowed): return lambda value: text(value) and value in allowed
def mapping(shape, least=0):
    return lambda value: type(value) is dict and len(value) >= least and all(map(shape, value.values()))

def row(*shapes):
    return lambda value: type(value) is list and len(value) == len(shapes) and all(s(v) for s, v in zip(shapes, value))

def many(shape, least=0, most=1e9, by=None):
    """A list; with `by` its items are in strictly ascending order of that."""
    def check(value):
        if type(value) is not list or not least <= len(value) <= most or not all(map(shape, value)):
            return False
        keys = list(map(by, value)) if by else []
        return all(a < b for a, b in zip(keys, keys[1:]))
    return check

def fields(**shapes):
    """A map of exactly these fields; those whose name ends in `_` may be absent, and are when they have no value."""
    wanted = {name.rstrip("_"): shape for name, shape in shapes.items()}
    return lambda value: (type(value) is dict and all(name in value or name.endswith("_") for name in shapes)
                          and all(key in wanted and wanted[key](inner) for key, inner in value.items()))

NAME = re.compile(r"[a-z0-9][a-z0-9._/-]{0,127}")
STATUS = ("completed", "failed", "cancelled", "preempted")
digest, nonce = data(32), data(16)
parent = row(digest, uint(), digest)

def ref(value): return row(text, digest)(value) and value[0] in TABLE
def name_text(value): return text(value) and NAME.fullmatch(value) is not None
def first(item): return item[0].encode() if text(item[0]) else item[0]
def field(name): return lambda item: item[name].encode() if text(item[name]) else item[name]

def entry(value):
    """A file, an executable, a directory or a link. A path made of its name must not lead elsewhere."""
    sort = value[0] if type(value) is list and value and uint(2)(value[0]) else 4
    rest = {0: (uint(), digest), 1: (uint(), digest), 2: (digest,), 3: (data(),), 4: ()}[sort]
    return (sort < 4 and row(uint(), data(), *rest)(value) and value[1] not in (b"", b".", b"..")
            and not set(value[1]) & set(b"/\0"))

TARGETS = {"claim": row(text, digest, uint(16)), "object": row(text, text, digest), "key": row(text, digest)}

def target(value):
    sort = value[0] if type(value) is list and value and text(value[0]) else None
    return sort in TARGETS and TARGETS[sort](value) and (sort != "object" or value[1] in TABLE)

inputs, texts = many(row(text, ref), by=first), mapping(text, 1)
RECORDS = {
    "genesis": dict(nonce=nonce, rules=uint(32), parent_=parent),
    "holder": dict(name=text),
    "key": dict(key=digest, holder=ref, first=digest, roles=many(words(*ROLES), by=str.encode), proof_=data(64)),
    "format": dict(rules=uint(32)),
    "config": dict(frozen=ref, sources=many(ref)),
    "dataset": dict(root=ref), "model": dict(root=ref), "contract": dict(text=ref), "policy": dict(text=ref),
    "code": dict(format=text, commit=text, tree=text, project=data(), dirt=words("clean", "dirty", "unknown"),
                 reason_=text, files=many(row(data(), text), by=first), diff_=ref,
                 submodules=many(fields(path=data(), commit=text, dirty=boolean), by=field("path"))),
    "environment": dict(lock_=fields(name=text, quality=text, file=ref), interpreter_=fields(name=text, version=text),
                        os=text, arch=text),
    "private": dict(salt=digest, argv_=many(text, 1), texts_=texts, paths_=texts, variables_=texts,
                    stats_=mapping(digest, 1)),
    "about": dict(texts=mapping(text)),
    "plan": dict(nonce_=nonce, name_=name_text, config_=ref, code_=ref, environment_=ref, data=inputs, base=inputs,
                 contracts_=many(ref, 1), policies_=many(ref, 1), spec_=ref, none=mapping(text), argv=many(text),
                 seed_=uint(), study_=text, arm_=text),
    "start": dict(nonce=nonce, plan=ref, environment_=ref, lost_=many(ref, 1), check=words("frozen", "quick", "full")),
    "end": dict(nonce=nonce, start=ref, status=words(*STATUS), code_=integer, signal_=text),
    "checkpoint": dict(start_=ref, full=ref, weights=ref, tensors_=ref, parent_=ref, format=text, step_=uint(), path_=text),
    "benchmark": dict(name=text, definition_=ref),
    "eval": dict(subject=ref, of_=ref, benchmark=ref, results=many(ref), start_=ref, partial_=text, format=text,
                 binding=words("observed", "sealed", "asserted"),
                 metrics=many(fields(name=text, value=text, stderr_=text, n_=uint()), by=field("name"))),
    "note": dict(nonce=nonce, subject=ref, text=text),
    "revocation": dict(nonce=nonce, target=target, since_=uint()),
    "tree": dict(entries_=many(entry, most=4096, by=lambda e: e[1]), split_=many(row(uint(8), digest), 1, by=first)),
    "sums": dict(tree=digest, below=many(digest), files=many(digest)),
    "tensors": dict(tensors=many(row(text, text, many(uint()), digest), by=first)),
}
COHERENT = {  # What a plan has not it explains, and it explains nothing else.
    "plan": lambda r: ("name" in r) != ("nonce" in r) and r["none"].keys() == {
        part for part in ("config", "code", "data", "environment", "base") if not r.get(part)},
    "code": lambda r: not (r["dirt"] == "clean" and (r["files"] or "diff" in r)
                           or r["dirt"] == "unknown" and "reason" not in r),
    "tree": lambda r: ("entries" in r) != ("split" in r),
}

def read_record(kind: str, content: bytes) -> dict:
    """A record of that kind, or Malformed. Kinds whose fields are reserved are checked no further than `v`."""
    record = decode(content)
    if type(record) is not dict or record.get("kind") != kind or not row(uint(1))([record.get("v")]) or record["v"] != 1:
        raise Malformed(f"not a record of kind {kind} and version 1")
    if kind in RECORDS:
        # Ids of trees, sums and tensors are to depend on content alone, so they have no room for more.
        more = {} if kind in ("tree", "sums", "tensors") else {"ext_": lambda value: type(value) is dict}
        if not fields(kind=text, v=uint(), **more, **RECORDS[kind])(record):
            raise Malformed(f"the fields are not those of a {kind}")
        if not COHERENT.get(kind, bool)(record):
            raise Malformed(f"the fields of this {kind} contradict each other")
        for role, to, _ in references(record):
            if role in TABLE[kind].links and to not in TABLE[kind].links[role].kinds:
                raise Malformed(f"its {role} is a {to}")
    return record

def references(record: dict) -> list:
    """(role, kind, id) of all that the bytes of a record refer to, but for the files of trees."""
    kind, found = record["kind"], []
    if kind == "tree":
        nodes = [node for _, node in record.get("split", ())] + [e[2] for e in record.get("entries", ()) if e[0] == 2]
        return [("", "tree", node) for node in nodes]
    if kind == "sums":
        return [("", "tree", record["tree"])] + [("", "sums", below) for below in record["below"]]
    for name, value in record.items() if kind in RECORDS else ():
        role = {"contracts": "contract", "policies": "policy", "results": "result", "sources": "source"}.get(name, name)
        if role in TABLE[kind].links and not TABLE[kind].links[role].beside:
            value = value["file"] if name == "lock" else value
            refs = [value] if ref(value) else [item[1] if name in ("data", "base") else item for item in value]
            found += [(role, *each) for each in refs]
    return found

# Facts. A set of words or a pattern stands for a text; words are looked at after all types.
FACTS = {
    "genesis": dict(nonce=nonce, rules=uint(32), parent_=parent),
    "key": dict(key=digest, holder=digest, roles=many(text), proof_=data(64)),
    "format": dict(rules=uint(32)),
    **dict.fromkeys(("plan", "dataset", "model", "checkpoint"), dict(name_=NAME)),
    "end": dict(status=set(STATUS)),
    "verdict": dict(outcome={"open", "closed"}, position=uint()),
    "approval": dict(decision={"approve", "reject"}),
    "promotion": dict(stage=NAME, action={"enter", "reject"}, channel=NAME),
    "deployment": dict(action={"on", "off", "rollback"}, target=NAME),
    "channel": dict(channel=NAME),
    "revocation": dict(since_=uint(), target=many(lambda _: True, 1)),
    "erasure": dict(objects=many(digest)),
    "name": dict(kind=TABLE, name=NAME, action={"assign", "retire", "reserve"}),
}

def fault_of_facts(kind: str, facts: dict):
    """None, "unknown" or "bad-form": the first thing that is wrong, in the order that the page gives."""
    shapes = {name.rstrip("_"): shape for name, shape in FACTS.get(kind, {}).items()}
    for name, value in facts.items():
        if name not in shapes:
            return "unknown"
        if not (shapes[name] if callable(shapes[name]) else text)(value):
            return "bad-form"
        if name == "roles":
            if not ROLES.issuperset(value):
                return "unknown"
            if not many(text, by=str.encode)(value):
                return "bad-form"
        if name == "target" and kind == "revocation":
            if not text(value[0]) or not TARGETS.get(value[0], bool)(value):
                return "bad-form"
            if value[0] not in TARGETS or value[0] == "object" and value[1] not in TABLE:
                return "unknown"
    for name, shape in sorted(shapes.items(), key=lambda item: (len(item[0]), item[0])):
        if name not in facts:
            if name + "_" not in FACTS[kind]:
                return "bad-form"
        elif isinstance(shape, re.Pattern) and not shape.fullmatch(facts[name]):
            return "bad-form"
        elif isinstance(shape, (set, dict)) and facts[name] not in shape:
            return "unknown" if shape is TABLE else "bad-form"
    return None

def facts_of(record: dict) -> dict:
    """What the claim of a record repeats of it."""
    names = [name.rstrip("_") for name in FACTS.get(record["kind"], ())]
    facts = {name: record[name] for name in names if name in record}
    return {**facts, "holder": record["first"]} if record["kind"] == "key" else facts
