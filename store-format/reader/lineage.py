"""What a checkpoint came from, in the words of `ledger trace`; the ledger has been checked before."""
import shlex

from records import read_record, typed

BELOW = {"checkpoint": ("start", "parent"), "start": ("plan", "environment"),
         "plan": ("config", "code", "environment")}
LABELS = {
    "checkpoint": lambda record: [record.get("path"), f"step {record['step']}" if "step" in record else ""],
    "plan": lambda record: [record.get("name"), record["status"], f"`{shlex.join(record.get('argv', []))}`"],
    "code": lambda record: [f"commit {record.get('commit', '')[:8]}"],
    "environment": lambda record: [" ".join(map(record.get("interpreter", {}).get, ("name", "version")))
                                   if "interpreter" in record else "", record.get("lock", {}).get("name")],
    "end": lambda record: [record.get("status")],
}

def lineage(ledger, what, role="", path=None, depth="", told=()):
    """Its lines. An object that was told before is not told again."""
    told, kind, state = told or set(), what[0], ledger.fold.state
    def record_of(what):
        content = ledger.objects.get(what[1])
        return read_record(what[0], content) if content is not None else {}
    record, paths = record_of(what), {}
    if kind == "plan":  # where its inputs lay stands beside the claim, since that is about a machine
        record["status"] = state.status(what)
        claims = [claim for statement in state.statements if statement for claim in statement.claims]
        beside = [claim.to["private"] for claim in claims if claim.what == what and "private" in claim.to]
        paths = record_of(beside[0]).get("paths", {}) if beside else {}
    label = LABELS.get(kind, lambda record: [path])(record)
    said = [role, typed(*what)[:-56], ", ".join(filter(None, label)), "(as above)" if what in told else ""]
    yield depth + "  ".join(filter(None, said))
    if what not in told:
        told.add(what)
        yield from (f"{depth}  {part}  none ({why})" for part, why in record.get("none", {}).items())
        below = [(part, record[part], f"{part} 0") for part in BELOW.get(kind, ()) if part in record]
        for part in ("data", "base") if kind == "plan" else ():
            below += [(f"{part} {word}", other, f"{part} {word}") for word, other in record.get(part, ())]
        for part, other, at in below:
            yield from lineage(ledger, tuple(other), part, paths.get(at), depth + "  ", told)
        if kind == "start" and state.attempts[what].end:
            yield from lineage(ledger, state.attempts[what].end, "end", None, depth + "  ", told)
