"""The table of kinds, facts and fields (records.md); not whether a claim counts, see statements.py."""
import re
from collections import namedtuple
from operator import itemgetter
from pathlib import Path

from encoding import INT, ONE, U16, U32, U64, ascending, decode, either, fits, require

# The table of kinds is the page's own, row by row: kind, prefix, stated by, links, and more for people.
PAGE = (Path(__file__).parent.parent / "records.md").read_text()
ROWS = re.findall(r"(?m)^\| `([a-z-]+)` \| `([a-z]+)` \| ([^|]+) \| ([^|]+) \|(?:[^|\n]+\|){3}$", PAGE)
ANY = {"any": {kind: False for kind, *_ in ROWS}, "any!": {row[0]: True for row in ROWS if row[2] != "never"}}
COUNTS = {"": range(1, 2), "?": range(2), "*": range(1001), "+": range(1, 1001)}
Kind = namedtuple("Kind", "prefix stated_by links")
Link = namedtuple("Link", "count kinds beside")  # kinds: each with whether it has `!`, so is claimed before

def links_of(row):
    text = row + "; private? -> private (beside); about? -> about (beside)"
    for role, count, kinds, beside in re.findall(r"(\w+)([?*+]?) -> ([^;(]+?)( \(beside\))?(?:;|$)", text):
        each = {kind.rstrip("!"): kind[-1] == "!" for kind in kinds.split(" or ")}
        yield role, Link(COUNTS[count], ANY.get(kinds, each), bool(beside))

TABLE = {kind: Kind(prefix, stated_by, dict(links_of(links))) for kind, prefix, stated_by, links in ROWS}

def typed(kind, identity): return f"{TABLE[kind].prefix}:{identity.hex()}"

# Forms that facts and fields share.
NAME, KIND_WORD, REF = re.compile("[a-z0-9][a-z0-9._/-]{0,127}"), set(TABLE), (set(TABLE), 32)
ROLES = {"approver", "author", "evaluator", "log", "owner", "recovery", "reviewer"}
TARGETS = {"claim": (str, 32, U16), "object": (str, str, 32), "key": (str, 32)}

def target(value):  # of one of these forms, or of one of newer rules
    return fits(list, value) and value and fits(str, value[0]) and fits(TARGETS.get(value[0], list), value)

def known_target(value):
    return target(value) and value[0] in TARGETS and (value[0] != "object" or value[1] in TABLE)

NAMED_BESIDE = {"dataset", "model", "checkpoint"}  # whose records have no name: it is the claim's own
FACTS = dict.fromkeys(TABLE, {}) | dict.fromkeys({"plan"} | NAMED_BESIDE, dict(name_=NAME)) | {
    "genesis": dict(nonce=16, rules=U32, parent_=(32, U64, 32)),
    "key": dict(key=32, proof_=64, roles=ascending(ROLES), holder=32),
    "format": dict(rules=U32),
    "end": dict(status={"completed", "failed", "cancelled", "preempted"}),
    "verdict": dict(outcome={"open", "closed"}, position=U64),
    "approval": dict(decision={"approve", "reject"}),
    "promotion": dict(stage=NAME, action={"enter", "reject"}, channel=NAME),
    "deployment": dict(action={"on", "off", "rollback"}, target=NAME),
    "channel": dict(channel=NAME),
    "revocation": dict(since_=U64, target=known_target),
    "erasure": dict(objects=[32]),
    "name": dict(kind=KIND_WORD, name=NAME, action={"assign", "retire", "reserve"}),
}  # those of a kind in the order of its map

def faults_of_facts(kind, facts):
    """In the order of the page; the first that holds is the answer."""
    shapes = {name.rstrip("_"): shape for name, shape in FACTS[kind].items()}
    for name, value in facts.items():
        yield name not in shapes and "unknown"
        shape = shapes[name]
        later = type(shape) in (set, re.Pattern)  # words and names, of which only the type is looked at now
        wide = str if later else {"roles": [str], "target": target}.get(name, shape)
        yield not fits(wide, value) and "bad-form"
        yield name == "roles" and not ROLES.issuperset(value) and "unknown"
        yield not later and not fits(shape, value) and ("unknown" if shape is known_target else "bad-form")
    for name, shape in shapes.items():
        yield name not in facts and name in FACTS[kind] and "bad-form"
        yield name in facts and not fits(shape, facts[name]) and ("unknown" if name == "kind" else "bad-form")

def file_name(value):  # a path made of it must not lead elsewhere
    return fits(bytes, value) and value not in (b"", b".", b"..") and not set(value) & set(b"/\0")

TEXTS, FIRST, BARE = {str: str}, itemgetter(0), {"tree", "sums", "tensors"}
INPUTS = ascending((str, REF), FIRST)
TASK = dict(name=str, version_=str, hash_=str, dataset_=str, subset_=str, split_=str, revision_=str,
            few_shot_=U64, samples_=U64)
ENTRY = either((range(2), file_name, U64, 32), (range(2, 3), file_name, 32), (range(3, 4), file_name, bytes))
FIELDS = dict.fromkeys(("genesis", "format", "dataset", "model", "contract", "policy"), {}) | {
    "holder": dict(name=str),
    "key": dict(first=32),
    "config": dict(sources=[REF]),
    "code": dict(format=str, commit=str, tree=str, project=bytes, dirt={"clean", "dirty", "unknown"},
                 reason_=str, files=ascending((bytes, str), FIRST),
                 submodules=ascending(dict(path=bytes, commit=str, dirty=bool), itemgetter("path"))),
    "environment": dict(
        os=str, arch=str, interpreter_=dict(name=str, version=str), launch_=TEXTS,
        lock_=dict(name=str, quality=str, file=REF, packages_=U64, editable_=U64),
        installed_=dict(file=REF, packages=U64, missing_=U64, changed_=U64, extra_=U64),
        hardware_=dict(kernel_=str, cpu_=str, cores_=U64, memory_=U64, driver_=str, gpus_=[str]),
        container_=dict(runtime=str, image_=str)),
    "private": dict(salt=32, argv_=[str], texts_=TEXTS, paths_=TEXTS, variables_=TEXTS, stats_={str: 32}),
    "about": dict(texts=TEXTS),
    "plan": dict(nonce_=16, data=INPUTS, base=INPUTS, contracts_=[REF], policies_=[REF], none=TEXTS,
                 argv=[str], seed_=U64, study_=str, arm_=str),
    "start": dict(nonce=16, lost_=[REF], check={"frozen", "quick", "full"}),
    "end": dict(nonce=16, code_=INT, signal_=str),
    "checkpoint": dict(
        format=str, step_=U64, path_=str, layout_=str, state_={"complete", "incomplete"}, epoch_=str, tokens_=U64,
        best_=str, ranks_=U64, adapter_=dict(
            method=str, base_=str, revision_=str, rank_=U64, alpha_=str, targets_=ascending(str, least=1))),
    "benchmark": dict(name=str, tasks_=ascending(TASK, itemgetter("name"))),
    "eval": dict(results=[REF], binding={"observed", "sealed", "asserted"}, partial_=str, format=str,
                 reported_by_={"training"}, harness_=dict(name=str, version_=str), decoding_=TEXTS, seeds_=TEXTS,
                 metrics=ascending(dict(name=str, value=str, stderr_=str, n_=U64, task_=str, filter_=str,
                                        better_={"higher", "lower"}), itemgetter("name"))),
    "import": dict(subjects=ascending(REF), format=str, claims=[
        dict(value=str, metric_=str, label_=str, task_=TASK, source_=str, date_=str)]),
    "revocation": dict(nonce=16),
    "note": dict(nonce=16, text=str),
    "tree": either(dict(entries=ascending(ENTRY, itemgetter(1), most=4096)),
                   dict(split=ascending((range(256), 32), FIRST, least=1))),
    "sums": dict(tree=32, below=[32], files=[32]),
    "tensors": dict(tensors=ascending((str, str, [U64], 32), FIRST)),
}
for kind in FIELDS.keys() - BARE:  # a record has also its facts, and a reference for each single link
    refs = {role + "_" * (0 in link.count): REF for role, link in TABLE[kind].links.items()
            if not link.beside and link.count.stop == 2}
    FIELDS[kind] = ({} if kind in NAMED_BESIDE else FACTS[kind]) | refs | FIELDS[kind]
ROLE_OF = {"contracts": "contract", "policies": "policy", "results": "result", "sources": "source",
           "subjects": "subject"}
COHERENT = {  # what a plan has not it explains, and it explains nothing else
    "plan": lambda plan: ("name" in plan) != ("nonce" in plan) and plan["none"].keys() == {
        part for part in ("config", "code", "data", "environment", "base") if not plan.get(part)},
    "code": lambda code: (not code["files"] and "diff" not in code if code["dirt"] == "clean"
                          else code["dirt"] == "dirty" or "reason" in code),
}

def read_record(kind, content):
    """A record of that kind. Where fields are reserved, nothing beyond `v` is checked."""
    record = decode(content)
    said = [record.get("kind"), record.get("v")] if fits(dict, record) else []
    require(fits(({kind}, ONE), said), f"no {kind} of version 1")
    if kind in FIELDS:  # ids of trees, sums and tensors are to depend on content alone, so they have no `ext`
        aside = {"kind", "v"} if kind in BARE or not fits(dict, record.get("ext")) else {"kind", "v", "ext"}
        own = {name: value for name, value in record.items() if name not in aside}
        require(fits(FIELDS[kind], own), f"the fields are not those of a {kind}")
        require(COHERENT.get(kind, bool)(record), f"the fields of this {kind} contradict each other")
    for role, to, _ in references(record):
        require(not role or to in TABLE[kind].links[role].kinds, f"its {role} is a {to}")
    return record

def references(record):
    """(role, kind, id) of all that the bytes of a record refer to, but for the files of trees."""
    kind, found = record["kind"], []
    if kind == "tree":
        found = [each[2] for each in record.get("entries", ()) if each[0] == 2]
        return [("", "tree", node) for node in found + [node for _, node in record.get("split", ())]]
    if kind == "sums":
        return [("", "tree", record["tree"])] + [("", "sums", below) for below in record["below"]]
    for name, value in record.items() if kind in FIELDS else ():
        role = ROLE_OF.get(name, name)
        if role in TABLE[kind].links:
            several = [value["file"]] if name in ("lock", "installed") else [value] if fits(REF, value) else value
            found += [(role, *(each[1] if name in ("data", "base") else each)) for each in several]
    return found

def facts_of(record):
    """What the claim of a record repeats of it."""
    names = [name.rstrip("_") for name in FACTS[record["kind"]]]
    return {name: record["first" if name == "holder" else name] for name in names if name in record}
