"""What a checkpoint came from, in the words of `ledger trace`; the ledger has been checked before."""
import shlex

from records import TABLE, read_record

BELOW = {"checkpoint": ("start", "parent"), "start": ("plan", "environment"), "plan": ("config", "code", "environment")}

class Lineage:
    def __init__(self, ledger):
        self.objects, self.fold, self.told, self.lines = ledger.objects, ledger.fold, set(), []

    def record(self, kind, identity):
        content = self.objects.get(identity)
        return read_record(kind, content) if content is not None else {}

    def paths(self, plan):
        """Where its inputs lay. It stands beside the claim, since it says something about a machine."""
        claims = [claim for statement in self.fold.statements if statement for claim in statement.claims]
        links = [link for claim in claims if claim["object"] == plan for link in claim["links"]]
        beside = [other for role, _, other in links if role == "private"]
        return self.record("private", beside[0]).get("paths", {}) if beside else {}

    def label(self, kind, identity, record, path):
        if kind == "checkpoint":
            return [record.get("path"), f"step {record['step']}" if "step" in record else ""]
        if kind == "plan":
            return [record.get("name"), self.fold.status(identity), f"`{shlex.join(record.get('argv', []))}`"]
        if kind == "code":
            return [f"commit {record.get('commit', '')[:8]}"]
        if kind == "environment":
            tool = record.get("interpreter")
            return [f"{tool['name']} {tool['version']}" if tool else "", record.get("lock", {}).get("name")]
        return [record.get("status") if kind == "end" else path]

    def tell(self, depth, role, kind, identity, path=None):
        record, again = self.record(kind, identity), "(as above)" if identity in self.told else ""
        label = ", ".join(filter(None, self.label(kind, identity, record, path)))
        said = [role, f"{TABLE[kind].prefix}:{identity.hex()[:8]}", label, again]
        self.lines.append("  " * depth + "  ".join(filter(None, said)))
        if again:
            return
        self.told.add(identity)
        paths = self.paths(identity) if kind == "plan" else {}
        for part, why in record.get("none", {}).items():
            self.lines.append("  " * (depth + 1) + f"{part}  none ({why})")
        for below in BELOW.get(kind, ()):
            if below in record:
                self.tell(depth + 1, below, *record[below], paths.get(f"{below} 0"))
        for sort in ("data", "base") if kind == "plan" else ():
            for word, other in record.get(sort, ()):
                self.tell(depth + 1, f"{sort} {word}", *other, paths.get(f"{sort} {word}"))
        if kind == "start" and self.fold.attempts[identity].end:
            self.tell(depth + 1, "end", "end", self.fold.attempts[identity].end)
