"""What the statements of a log say (statements.md, The fold; trust.md, Key claims). It reads no object, clock or disk."""
from collections import defaultdict
from types import SimpleNamespace as Thing

from encoding import Malformed, encode, fit_for_use, key_id, sha256, signed_by, to_be_signed
from records import TABLE, fault_of_facts, typed
from statements import leaf_hash, read_statement

# Claims of these kinds compare and swap: each names the claim that is current in the register of these facts.
REGISTERS = {"key": ["key"], "format": [], "channel": ["channel"], "promotion": ["channel"], "deployment": ["target"],
             "name": ["kind", "name"]}
NAMED_BESIDE = ("dataset", "model", "checkpoint")  # their records have no name, so the name is the claim's own
OTHERS = {"log", "recovery"}  # roles whose keys order or rescue, and state no facts

class Judged(Exception):
    """The answer of the first check that fails."""

def check(holds, answer):
    if not holds:
        raise Judged(answer)

class Fold:
    def __init__(self):
        self.standings, self.statements = [], []
        self.first_at, self.authors = {}, {}  # statement id -> index; statement id and (kind, object) -> holder
        self.roots, self.peaks = [sha256(b"")], []  # the root at each size; full subtrees from the left
        self.ledger, self.rules = None, 1
        self.keys = {}  # key id -> public, holder, roles
        self.log_keys = [{}]  # at each size, who may sign a head: key id -> public
        self.registers = {}  # (kind, facts) -> [statement id, position] of the current claim
        self.claimants = defaultdict(set)  # (kind, object) -> holders who have claimed it
        self.said = defaultdict(set)  # (kind, object) -> what claims have said of it, to know a repeat
        self.runs, self.attempts = {}, {}  # plan -> its starts, latest first; start -> plan, end, status
        self.names, self.votes, self.marks, self.erased, self.requests = {}, {}, [], set(), {}

    def add(self, content: bytes) -> str:
        index, identity, statement = len(self.standings), leaf_hash(content), None
        again = self.first_at.get(identity, index)
        try:
            statement = read_statement(content)
            if again == index:
                self.judge(index, statement)
            standing = "accepted"
        except Malformed:
            standing = "bad-form"
        except Judged as judged:
            standing = judged.args[0]
        if again < index:  # the same bytes: the answer of the first ones, whatever has changed since
            standing = self.standings[again]
        elif standing == "accepted":
            self.take_effect(index, statement)
        self.ledger = self.ledger or identity
        self.standings.append(standing)
        self.statements.append(statement)
        self.first_at[identity] = again
        if again == index and statement and statement.kid in self.keys:
            self.authors[identity] = self.keys[statement.kid].holder
        self.grow(1, identity)
        self.log_keys.append({kid: key.public for kid, key in self.keys.items() if "log" in key.roles})
        return standing

    def grow(self, size, root):
        while self.peaks and self.peaks[-1][0] == size:
            size, root = 2 * size, sha256(b"\1", self.peaks.pop()[1], root)
        self.peaks.append((size, root))
        for _, left in self.peaks[-2::-1]:
            root = sha256(b"\1", left, root)
        self.roots.append(root)

    def judge(self, index, statement):
        """The checks of statements.md under their numbers; the first is that the bytes have the form."""
        payload, claims = statement.payload, statement.claims
        check(("ledger" in payload) == (index > 0), "bad-form")  # 2
        if index:
            size, root = payload["seen"]
            check(payload["ledger"] == self.ledger, "foreign-ledger")  # 3
            check(size <= index and self.roots[size] == root, "other-history")  # 4
        check(self.rules == 1, "unknown")  # 5
        faults = [fault(claim) for claim in claims]
        understood = [claim for claim, wrong in zip(claims, faults) if not wrong]
        keys = self.keys if index else {
            key_id(claim["facts"]["key"]): key_of(claim) for claim in understood[::-1] if claim["kind"] == "key"}
        signer = keys.get(statement.kid)
        check(signer, "unknown-key")  # 6
        check(signer.roles, "role-not-allowed")  # 7
        check(signed_by(signer.public, statement.signed, statement.signature), "bad-signature")  # 8
        check(statement.issuer == f"h:{signer.holder.hex()}", "bad-form")  # 9
        check(faults[0] or statement.subject == typed(claims[0]["kind"], claims[0]["object"]), "bad-form")  # 10
        check("bad-form" not in faults, "bad-form")  # 11
        kinds = [claim["kind"] for claim in understood]
        check(index or kinds[:1] == ["genesis"] and set(kinds[1:]) <= {"key"}, "bad-form")  # 12
        # For links what the statement itself claims counts, wherever in it that stands.
        here = {(claim["kind"], claim["object"]) for claim in claims}
        self.now = Thing(index=index, signer=signer, here=here, moved=set(), ended=set(), keys={}, nonce=None)
        for claim in understood:  # 13
            self.judge_claim(claim)
        if any(claim["kind"] == "key" for claim in claims):  # 14
            roles = set().union(*(key.roles for key in {**self.keys, **self.now.keys}.values()))
            check("log" in roles and roles & {"owner", "recovery"}, "would-lock-out")
        check(len(understood) == len(claims), "unknown")  # 15

    def judge_claim(self, claim):
        kind, facts, now = claim["kind"], claim["facts"], self.now
        check(TABLE[kind].stated_by != "never", "bad-form")
        check(self.may_state(claim), "role-not-allowed")
        for role, *target in claim["links"]:
            if TABLE[kind].links[role].kinds[target[0]]:
                beside = tuple(target) in now.here and target != [kind, claim["object"]]
                check(tuple(target) in self.claimants or beside, "link-not-accepted")
        check(kind in REGISTERS or "prev" not in claim, "bad-form")
        if kind in REGISTERS:
            register = register_of(claim)
            opened = self.registers.get(("channel", facts["channel"])) if kind == "promotion" else None
            check(opened or kind != "promotion", "link-not-accepted")
            check(register not in now.moved and claim.get("prev") == self.registers.get(register, opened), "lost-race")
            now.moved.add(register)
        self.judge_facts(claim, kind, facts, {role: target for role, *target in claim["links"]})

    def may_state(self, claim):
        rule, facts, signer, now = TABLE[claim["kind"]].stated_by, claim["facts"], self.now.signer, self.now
        roles = set(signer.roles)
        speaks = not roles & OTHERS
        start = next((target for role, _, target in claim["links"] if role == "start"), None)
        if rule == "first statement":
            return now.index == 0 and "owner" in roles
        if rule == "key rules":
            known = self.keys.get(key_id(facts["key"])) or Thing(holder=None, roles=[])
            if now.index == 0 or "recovery" in facts["roles"] or "recovery" in known.roles:
                return now.index == 0 and "owner" in roles
            return ("owner" in roles or "recovery" in roles and ("owner" in facts["roles"] or "owner" in known.roles)
                    or speaks and not facts["roles"] and known.holder == facts["holder"] == signer.holder)
        if rule == "revocation rules":
            what, *target = facts["target"]
            holders = [self.keys[target[0]].holder] if what == "key" and target[0] in self.keys else []
            if what == "object":
                holders = self.claimants.get(tuple(target), [])
            if what == "claim" and target[0] in self.first_at:
                holders = [self.authors.get(target[0])]
            return roles & {"owner", "recovery" if what == "key" else "evaluator"} or speaks and signer.holder in holders
        if rule == "run or owner" or rule == "author of run" and start:
            known = self.attempts.get(start)
            plan = known and known.plan
            mine = self.claimants.get(("start", start), set()) | self.claimants.get(("plan", plan), set())
            return ("owner" in roles or speaks and (signer.holder in mine or ("start", start) in now.here)
                    or not known and "author" in roles)
        return roles & set(rule.split())

    def is_accepted(self, identity):
        return identity in self.first_at and self.standings[self.first_at[identity]] == "accepted"

    def judge_facts(self, claim, kind, facts, links):
        if kind == "genesis":
            check(facts["rules"] == 1, "unknown")
            self.now.nonce = facts["nonce"]
        elif kind == "format":
            check(facts["rules"] > self.rules, "bad-form")
        elif kind == "key":
            self.judge_key(facts, key_of(claim))
        elif kind == "end":
            start = links["start"][1]
            ended = start in self.now.ended or start in self.attempts and self.attempts[start].end
            check(not ended or said_by(claim) in self.said["end", claim["object"]], "already-ended")
            self.now.ended.add(start)
        elif kind == "promotion":
            check(facts["action"] != "enter" or "verdict" in links, "bad-form")
        elif kind == "deployment":
            check((facts["action"] != "off") == ("subject" in links), "bad-form")
        elif kind == "revocation" and facts["target"][0] == "claim":
            check(self.is_accepted(facts["target"][1]), "link-not-accepted")
        elif kind == "name":
            check(links.get("to", [None])[0] == (facts["kind"] if facts["action"] == "assign" else None), "bad-form")

    def judge_key(self, facts, key):
        """The rules of trust.md from the second on."""
        identity, known, now = key_id(key.public), self.keys.get(key_id(key.public)), self.now
        check(fit_for_use(key.public) and (len(key.roles) == 1 or not OTHERS & set(key.roles)), "bad-form")  # 2
        if known:
            check(key.holder == known.holder and "proof" not in facts, "bad-form")  # 3
        else:
            holders = {other.holder for other in (*self.keys.values(), *now.keys.values())}
            check(key.holder in holders | {identity}, "bad-form")  # 4
            header = encode({1: -8, 3: "application/vnd.lineage-ledger.possession+cbor"})
            said = encode({"ctx": self.ledger if now.index else now.nonce, "key": key.public, "holder": key.holder})
            check(signed_by(key.public, to_be_signed(header, said), facts.get("proof", b"")), "bad-signature")  # 5
        now.keys[identity] = key

    def take_effect(self, index, statement):
        self.keys.update(self.now.keys)
        holder = self.now.signer.holder
        for position, claim in sorted(enumerate(statement.claims), key=lambda pair: TABLE[pair[1]["kind"]].order):
            kind, facts, what = claim["kind"], claim["facts"], (claim["kind"], claim["object"])
            if kind in REGISTERS:
                self.registers[register_of(claim)] = [statement.identity, position]
            to = {role: tuple(target) for role, *target in claim["links"]}
            self.authors.setdefault(what, holder)
            if said_by(claim) not in self.said[what]:
                self.move(index, kind, claim["object"], facts, to, claim["links"])
            # The rest moves with a repeat too: it is what the author says for itself.
            self.said[what].add(said_by(claim))
            self.claimants[what].add(holder)
            if kind in ("plan", *NAMED_BESIDE) and "name" in facts:
                self.grant(kind, facts["name"], what, holder)
            elif kind == "name":
                name = self.names.setdefault((facts["kind"], facts["name"]), Thing(holder=holder, closed=False, versions=[]))
                name.closed = facts["action"] != "assign"
                if not name.closed:
                    name.holder = self.authors.get(to["to"], name.holder)
                    name.versions.append(to["to"])
            elif kind == "approval":
                self.votes[holder, to["subject"]] = facts["decision"]
        if "req" in statement.payload:
            self.requests.setdefault((statement.kid, statement.payload["req"]), index)

    def move(self, index, kind, identity, facts, to, links):
        if kind == "format":
            self.rules = facts["rules"]
        elif kind == "plan":
            self.runs.setdefault(identity, [])
        elif kind == "start":
            plan = to["plan"][1]
            for other in (self.attempts.get(other) for role, _, other in links if role == "lost"):
                if other and other.plan == plan and not other.end:
                    other.status = "lost"
            if identity not in self.attempts:
                self.attempts[identity] = Thing(plan=plan, end=None, status="started")
                self.runs[plan].insert(0, identity)
        elif kind == "end" and not self.attempts[to["start"][1]].end:
            vars(self.attempts[to["start"][1]]).update(end=identity, status=facts["status"])
        elif kind == "revocation":
            self.marks.append((facts["target"], facts.get("since", 0), index))
        elif kind == "erasure":
            self.erased.update(facts["objects"])

    def grant(self, kind, word, what, holder):
        name = self.names.setdefault((kind, word), Thing(holder=holder, closed=False, versions=[]))
        is_owner = any(key.holder == holder and "owner" in key.roles for key in self.keys.values())
        further = kind != "plan" and (holder == name.holder or is_owner) and name.versions[-1:] != [what]
        if not name.closed and (further or not name.versions):
            name.versions.append(what)

    def status(self, plan):
        return self.attempts[self.runs[plan][0]].status if self.runs[plan] else "planned"

def key_of(claim):
    return Thing(public=claim["facts"]["key"], holder=claim["facts"]["holder"], roles=claim["facts"]["roles"])

def said_by(claim):
    """What makes a claim a repeat of another about the same object: all that its record says."""
    links = [link for link in claim["links"] if not TABLE[claim["kind"]].links[link[0]].beside]
    named_beside = claim["kind"] in NAMED_BESIDE
    return encode([links, {name: fact for name, fact in claim["facts"].items() if name != "name" or not named_beside}])

def register_of(claim):
    return (claim["kind"], *(claim["facts"][fact] for fact in REGISTERS[claim["kind"]]))

def fault(claim):
    """Why a claim is not understood: "unknown" for what newer rules may have, "bad-form" for what none would."""
    kind = TABLE.get(claim["kind"])
    if kind is None:
        return "unknown"
    for role, to, _ in claim["links"]:
        if role not in kind.links or to not in TABLE:
            return "unknown"
        if to not in kind.links[role].kinds:
            return "bad-form"
    roles = [role for role, *_ in claim["links"]]
    if not all(link.least <= roles.count(role) <= link.most for role, link in kind.links.items()):
        return "bad-form"
    return fault_of_facts(claim["kind"], claim["facts"])
