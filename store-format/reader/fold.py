"""What the statements of a log say (statements.md and trust.md). The fold reads no object, no clock and no disk."""
from collections import defaultdict
from types import SimpleNamespace

from encoding import Malformed, encode, fit_for_use, key_id, sha256, signed_by, to_be_signed
from records import TABLE, fault_of_facts, typed
from statements import leaf_hash, read_statement

# The claims of these kinds compare and swap: each names the claim that is current in its register.
REGISTERS = {"key": ("key",), "format": (), "channel": ("channel",), "promotion": ("channel",), "deployment": ("target",),
             "name": ("kind", "name")}
NAMED_BESIDE = ("dataset", "model", "checkpoint")  # their records have no name, so the name is the claim's own
UNKNOWN = "unknown"


class Judged(Exception):
    """The answer of the first check that fails."""


def fail(unless, answer):
    if not unless:
        raise Judged(answer)


class Fold:
    def __init__(self):
        self.roots = [sha256(b"")]  # the root at each size, which `seen` is compared with
        self.nodes = []  # (leaves, root) of the full subtrees, from the left
        self.standings, self.statements, self.first_at = [], [], {}
        self.ledger = self.nonce = None
        self.rules = 1
        self.keys = {}  # key id -> public, holder, roles
        self.log_keys = [{}]  # at each size, who may sign a head: key id -> public key
        self.registers = {}  # (kind, what it is about) -> (statement id, position)
        self.claimants = defaultdict(set)  # (kind, object) -> holders who have claimed it
        self.words = defaultdict(set)  # (kind, object) -> the claims made of it, to know a repeat
        self.runs, self.attempts = {}, {}  # plan -> its starts; start -> plan, end, status, lost
        self.names, self.votes, self.marks, self.erased, self.requests = {}, {}, [], set(), {}

    def add(self, content: bytes) -> str:
        index, identity = len(self.standings), leaf_hash(content)
        statement = None
        try:
            statement = read_statement(content)
            fail(identity not in self.first_at, None)  # the same bytes again: the answer of the first ones
            standing = self.judge(index, statement) or "accepted"
        except Malformed:
            standing = "bad-form"
        except Judged as judged:
            standing = judged.args[0]
        standing = self.standings[self.first_at[identity]] if identity in self.first_at else standing
        if index == 0:
            self.ledger = identity
        if standing == "accepted" and identity not in self.first_at:
            self.take_effect(index, statement)
        self.first_at.setdefault(identity, index)
        self.standings.append(standing)
        self.statements.append(statement)
        self.grow(identity)
        log_keys = {kid: key.public for kid, key in self.keys.items() if "log" in key.roles}
        self.log_keys.append(self.log_keys[-1] if log_keys == self.log_keys[-1] else log_keys)
        return standing

    def grow(self, leaf):
        size, self.nodes = 1, self.nodes + [(1, leaf)]
        while len(self.nodes) > 1 and self.nodes[-1][0] == self.nodes[-2][0]:
            (size, right), (_, left) = self.nodes.pop(), self.nodes.pop()
            self.nodes.append((2 * size, sha256(b"\1", left, right)))
        root = self.nodes[-1][1]
        for _, left in self.nodes[-2::-1]:
            root = sha256(b"\1", left, root)
        self.roots.append(root)

    # The checks, by their numbers in statements.md.

    def judge(self, index, statement):
        payload, claims = statement.payload, statement.claims
        fail(("ledger" in payload) == (index > 0), "bad-form")  # 2
        if index:
            size, root = payload["seen"]
            fail(payload["ledger"] == self.ledger, "foreign-ledger")  # 3
            fail(size <= index and self.roots[size] == root, "other-history")  # 4
        fail(self.rules == 1, UNKNOWN)  # 5
        faults = [self.fault(claim) for claim in claims]
        understood = [claim for claim, fault in zip(claims, faults) if not fault]
        keys = self.keys
        if index == 0:
            keys = {key_id(c["facts"]["key"]): SimpleNamespace(
                public=c["facts"]["key"], holder=c["facts"]["holder"], roles=c["facts"]["roles"])
                for c in reversed(understood) if c["kind"] == "key"}
        signer = keys.get(statement.kid)
        fail(signer, "unknown-key")  # 6
        fail(signer.roles, "role-not-allowed")  # 7
        fail(signed_by(signer.public, statement.signed, statement.signature), "bad-signature")  # 8
        fail(statement.issuer == f"h:{signer.holder.hex()}", "bad-form")  # 9
        first = claims[0]
        fail(faults[0] or statement.subject == typed(first["kind"], first["object"]), "bad-form")  # 10
        fail("bad-form" not in faults, "bad-form")  # 11
        if index == 0:  # 12
            fail([c["kind"] == "genesis" for c in understood] == [True] + [False] * (len(understood) - 1)
                 and all(c["kind"] in ("genesis", "key") for c in understood), "bad-form")
        # 13. What a claim is about counts for links of the same statement, wherever in it it stands.
        here = {(c["kind"], c["object"]) for c in claims if c["kind"] in TABLE}
        self.now = SimpleNamespace(index=index, signer=signer, kid=statement.kid, here=here, moved=set(), ended=set(), new={},
                                   holders=set())
        for claim in understood:
            self.judge_claim(claim)
        if any(claim["kind"] == "key" for claim in claims):  # 14
            after = [set(key.roles) for key in {**self.keys, **self.now.new}.values()]
            fail(any("log" in roles for roles in after), "would-lock-out")
            fail(any(roles & {"owner", "recovery"} for roles in after), "would-lock-out")
        fail(len(understood) == len(claims), UNKNOWN)  # 15

    def fault(self, claim):
        kind, counts = TABLE.get(claim["kind"]), defaultdict(int)
        if kind is None:
            return UNKNOWN
        for role, to, _ in claim["links"]:
            if role not in kind.links or to not in TABLE:
                return UNKNOWN
            if to not in kind.links[role].kinds:
                return "bad-form"
            counts[role] += 1
        if not all(link.least <= counts[role] <= link.most for role, link in kind.links.items()):
            return "bad-form"
        return fault_of_facts(claim["kind"], claim["facts"])

    def judge_claim(self, claim):
        kind, facts, links, now = claim["kind"], claim["facts"], claim["links"], self.now
        fail(TABLE[kind].stated_by != "never", "bad-form")
        fail(self.may_state(claim), "role-not-allowed")
        for role, to, identity in links:
            if TABLE[kind].links[role].kinds[to]:
                itself = (to, identity) == (kind, claim["object"])
                fail((to, identity) in self.claimants or (to, identity) in now.here and not itself, "link-not-accepted")
        if kind in REGISTERS:
            register = self.register(claim)
            current = self.registers.get(register)
            if kind == "promotion":
                opened = self.registers.get(("channel", facts["channel"]))
                fail(opened, "link-not-accepted")
                current = current or opened
            fail(register not in now.moved and claim.get("prev") == (current and list(current)), "lost-race")
            now.moved.add(register)
        fail(kind in REGISTERS or "prev" not in claim, "bad-form")
        self.judge_facts(kind, facts, {role: (to, identity) for role, to, identity in links}, claim)

    def register(self, claim):
        return (claim["kind"], *(claim["facts"][fact] for fact in REGISTERS[claim["kind"]]))

    def may_state(self, claim):
        rule, signer, now = TABLE[claim["kind"]].stated_by, self.now.signer, self.now
        roles, speaks = set(signer.roles), not set(signer.roles) & {"log", "recovery"}
        start = next((identity for role, _, identity in claim["links"] if role == "start"), None)
        if rule == "first statement":
            return now.index == 0 and "owner" in roles
        if rule == "key rules":
            facts, known = claim["facts"], self.keys.get(key_id(claim["facts"]["key"]))
            if now.index == 0:
                return "owner" in roles
            if "recovery" in facts["roles"] or known and "recovery" in known.roles:
                return False
            return ("owner" in roles or "recovery" in roles and ("owner" in facts["roles"] or known and "owner" in known.roles)
                    or speaks and not facts["roles"] and (known.holder if known else facts["holder"]) == signer.holder)
        if rule == "revocation rules":
            what, *target = claim["facts"]["target"]
            if what == "key":
                known = self.keys.get(target[0])
                return roles & {"owner", "recovery"} or speaks and known and known.holder == signer.holder
            at = self.first_at.get(target[0], 0) if what == "claim" else None
            holders = self.claimants.get(tuple(target), ()) if what == "object" else (
                [self.keys[self.statements[at].kid].holder] if target[0] in self.first_at and self.standings[at] == "accepted" else [])
            return roles & {"evaluator", "owner"} or speaks and signer.holder in holders
        if rule == "run or owner" or rule == "author of run" and start:
            known = self.attempts.get(start)
            mine = self.claimants.get(("start", start), set()) | (self.claimants.get(("plan", known.plan), set()) if known else set())
            return ("owner" in roles or speaks and (signer.holder in mine or ("start", start) in now.here)
                    or known is None and "author" in roles)
        return roles & set(rule.replace(" of run", "").split())

    def judge_facts(self, kind, facts, links, claim):
        now = self.now
        if kind == "genesis":
            fail(facts["rules"] == 1, UNKNOWN)
            now.nonce = facts["nonce"]
        if kind == "format":
            fail(facts["rules"] > self.rules, "bad-form")
        if kind == "key":
            self.judge_key(facts)
        if kind == "end":
            start = links["start"][1]
            again = ("end", claim["object"]) in self.claimants
            known = self.attempts.get(start)
            fail(again or start not in now.ended and not (known and known.end), "already-ended")
            now.ended.add(start)
        if kind == "promotion":
            fail(facts["action"] != "enter" or "verdict" in links, "bad-form")
        if kind == "deployment":
            fail((facts["action"] != "off") == ("subject" in links), "bad-form")
        if kind == "revocation" and facts["target"][0] == "claim":
            at = self.first_at.get(facts["target"][1])
            fail(at is not None and self.standings[at] == "accepted", "link-not-accepted")
        if kind == "name":
            fail(links["to"][0] == facts["kind"] if facts["action"] == "assign" and "to" in links
                 else facts["action"] != "assign" and "to" not in links, "bad-form")

    def judge_key(self, facts):
        now, identity, roles = self.now, key_id(facts["key"]), facts["roles"]
        fail(fit_for_use(facts["key"]) and (len(roles) == 1 or not {"log", "recovery"} & set(roles)), "bad-form")
        known = self.keys.get(identity)
        if known:
            fail(facts["holder"] == known.holder and "proof" not in facts, "bad-form")
        else:
            holders = {key.holder for key in self.keys.values()} | now.holders | {identity}
            fail(facts["holder"] in holders, "bad-form")
            header = encode({1: -8, 3: "application/vnd.lineage-ledger.possession+cbor"})
            context = self.ledger if now.index else now.nonce
            said = encode({"ctx": context, "key": facts["key"], "holder": facts["holder"]})
            fail("proof" in facts and signed_by(facts["key"], to_be_signed(header, said), facts["proof"]), "bad-signature")
        now.holders.add(facts["holder"])
        now.new[identity] = SimpleNamespace(public=facts["key"], holder=facts["holder"], roles=roles)

    # Effects of an accepted statement.

    def take_effect(self, index, statement):
        self.keys.update(self.now.new)
        holder = self.now.signer.holder
        order = sorted(enumerate(statement.claims), key=lambda item: (TABLE[item[1]["kind"]].order, item[0]))
        for position, claim in order:
            kind, facts = claim["kind"], claim["facts"]
            what = (kind, claim["object"])
            if kind in REGISTERS:
                self.registers[self.register(claim)] = (statement.identity, position)
            links = [link for link in claim["links"] if not TABLE[kind].links[link[0]].beside]
            said = encode([links, {k: v for k, v in facts.items() if k != "name" or kind not in NAMED_BESIDE}])
            repeat = said in self.words[what]
            self.words[what].add(said)
            self.claimants[what].add(holder)
            to = {role: (kind_to, identity) for role, kind_to, identity in links}
            if kind in ("plan", *NAMED_BESIDE) and "name" in facts:
                self.grant(kind, facts["name"], what, holder)
            if kind == "name":
                self.move_name(facts, to, holder)
            if kind == "approval":
                self.votes[holder, to["subject"]] = facts["decision"]
            if not repeat:
                self.move(index, what, facts, to, links)
        if "req" in statement.payload:
            self.requests.setdefault((statement.kid, statement.payload["req"]), index)

    def move(self, index, what, facts, to, links):
        kind, identity = what
        if kind == "format":
            self.rules = facts["rules"]
        elif kind == "plan":
            self.runs.setdefault(identity, [])
        elif kind == "start" and identity not in self.attempts:
            plan = to["plan"][1]
            self.attempts[identity] = SimpleNamespace(plan=plan, end=None, status="started")
            self.runs[plan].insert(0, identity)
            for role, _, other in links:
                lost = self.attempts.get(other)
                if role == "lost" and lost.plan == plan and not lost.end:
                    lost.status = "lost"
        elif kind == "end" and not self.attempts[to["start"][1]].end:
            vars(self.attempts[to["start"][1]]).update(end=identity, status=facts["status"])
        elif kind == "revocation":
            self.marks.append((facts["target"], facts.get("since", 0), index))
        elif kind == "erasure":
            self.erased.update(facts["objects"])

    def grant(self, kind, word, what, holder):
        name = self.names.setdefault((kind, word), SimpleNamespace(holder=holder, closed=False, versions=[]))
        owner = any(key.holder == holder and "owner" in key.roles for key in self.keys.values())
        versioned = kind != "plan" and (name.holder == holder or owner) and name.versions[-1:] != [what]
        if not name.closed and (not name.versions or versioned):
            name.versions.append(what)

    def move_name(self, facts, to, holder):
        name = self.names.setdefault((facts["kind"], facts["name"]), SimpleNamespace(holder=holder, closed=False, versions=[]))
        name.closed = facts["action"] != "assign"
        if not name.closed:
            name.holder = holder
            name.versions.append(to["to"])

    def status(self, plan):
        return self.attempts[self.runs[plan][0]].status if self.runs[plan] else "planned"
