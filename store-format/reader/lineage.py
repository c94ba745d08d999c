"""The lineage of a checkpoint, in the words of `ledger trace`. It answers from checked objects only."""
import shlex

from encoding import Malformed
from records import TABLE, read_record, typed

ORDER = ("start", "plan", "config", "code", "environment", "base", "data", "parent", "contract", "policy")


class Lineage:
    def __init__(self, ledger):
        self.ledger, self.fold, self.told, self.lines = ledger, ledger.fold, set(), []

    def record(self, kind, identity):
        content = self.ledger.objects.get(identity)
        try:
            return read_record(kind, content) if content is not None else {}
        except Malformed:
            return {}

    def private_paths(self, kind, identity):
        """Where inputs lay. It stands beside a claim, and may have been left out of a copy."""
        for statement in self.fold.statements:
            for claim in statement.claims if statement else ():
                if (claim["kind"], claim["object"]) == (kind, identity):
                    for role, _, other in claim["links"]:
                        if role == "private":
                            return self.record("private", other).get("paths", {})
        return {}

    def label(self, kind, identity, path):
        record = self.record(kind, identity)
        parts = []
        if kind == "checkpoint":
            parts = [record.get("path"), f"step {record['step']}" if "step" in record else None]
        elif kind == "plan":
            parts = [record.get("name"), self.fold.status(identity), f"`{shlex.join(record.get('argv', []))}`"]
        elif kind == "end":
            parts = [record.get("status")]
        elif kind == "code":
            parts = [f"commit {record.get('commit', '')[:8]}", record.get("dirt") if record.get("dirt") != "clean" else None]
        elif kind == "environment":
            tool = record.get("interpreter", {})
            parts = [f"{tool['name']} {tool['version']}" if tool else None, record.get("lock", {}).get("name")]
        else:
            parts = [path]
        return ", ".join(part for part in parts if part)

    def tell(self, role, kind, identity, depth, path=None):
        label = self.label(kind, identity, path)
        line = "  ".join(part for part in (role, f"{TABLE[kind].prefix}:{identity.hex()[:8]}", label) if part)
        again = (kind, identity) in self.told
        self.lines.append("  " * depth + line + ("  (as above)" if again else ""))
        if not again:
            self.told.add((kind, identity))
            self.below(kind, identity, self.record(kind, identity), depth + 1)

    def below(self, kind, identity, record, depth):
        if kind == "checkpoint":
            for role in ("start", "parent"):
                if role in record:
                    self.tell(role, *record[role], depth)
        if kind == "start":
            for role in ("plan", "environment"):
                if role in record:
                    self.tell(role, *record[role], depth)
            attempt = self.fold.attempts.get(identity)
            if attempt and attempt.end:
                self.tell("end", "end", attempt.end, depth)
        if kind == "plan":
            paths = self.private_paths(kind, identity)
            for part, reason in record.get("none", {}).items():
                self.lines.append("  " * depth + f"{part}  none ({reason})")
            for role in ("config", "code", "environment"):
                if role in record:
                    self.tell(role, *record[role], depth, paths.get("config 0"))
            for field in ("data", "base"):
                for word, other in record.get(field, []):
                    self.tell(f"{field} {word}", *other, depth, paths.get(f"{field} {word}"))


def lineage(ledger, identity) -> str:
    teller = Lineage(ledger)
    teller.tell("", "checkpoint", identity, 0)
    return "\n".join(teller.lines) + "\n"
