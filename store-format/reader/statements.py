"""Statements, from their bytes to the state (statements.md; trust.md, Key claims). No object is read here."""
import re
from collections import defaultdict
from types import SimpleNamespace as Thing

from encoding import ONE, U16, U64, Refused, ascending, decode, encode, fit_for_use, fits, key_id, leaf_hash
from encoding import require, signed_by, to_be_signed
from log import Tree
from records import NAMED_BESIDE, TABLE, faults_of_facts, typed

MEDIA_TYPE = "application/vnd.lineage-ledger.%s+cbor"
HEADER = {1: range(-8, -7), 3: {MEDIA_TYPE % "statement"}, 4: 32,
          15: {1: re.compile("h:[0-9a-f]{64}"), 2: re.compile("[^:]*:[0-9a-f]{64}", re.DOTALL), 6: U64}}
CLAIM = dict(kind=str, prev_=(32, U16), size=U64, facts=dict, links=ascending((str, str, 32)), object=32,
             sha256=32)
PAYLOAD = dict(v=ONE, req_=16, seen_=(range(1, 1 << 64), 32), claims=[CLAIM], ledger_=32)
# Claims of these kinds compare and swap: each names the claim that is current in the register of these facts.
REGISTERS = {"key": ["key"], "format": [], "channel": ["channel"], "promotion": ["channel"],
             "deployment": ["target"], "name": ["kind", "name"]}
JUDGED = {  # the table *Facts that are judged*, by facts, links and state; `end` and `key` are judged below
    "genesis": (lambda facts, to, state: facts["rules"] == 1, "unknown"),
    "format": (lambda facts, to, state: facts["rules"] > state.rules, "bad-form"),
    "promotion": (lambda facts, to, state: facts["action"] != "enter" or "verdict" in to, "bad-form"),
    "deployment": (lambda facts, to, state: (facts["action"] != "off") == ("subject" in to), "bad-form"),
    "revocation": (lambda facts, to, state: facts["target"][0] != "claim"
                   or facts["target"][1] in state.accepted, "link-not-accepted"),
    "name": (lambda facts, to, state: (facts["action"] == "assign") == ("to" in to)
             and to.get("to", [facts["kind"]])[0] == facts["kind"], "bad-form"),
}
OTHERS = {"log", "recovery"}  # roles whose keys order or rescue, and state no facts
NOTHING = Thing(plan=None, end=None)

def read_statement(content):
    """A statement in its one byte form, which is the first check of the fold."""
    require(len(content) <= 65535 and content[:1] == b"\xd2", "no COSE_Sign1, or too long")
    envelope = decode(content[1:])
    require(fits((bytes, {}, bytes, 64), envelope), "not the four parts of an envelope")
    header, payload = decode(envelope[0], keys=int), decode(envelope[2])
    require(fits(HEADER, header) and fits(PAYLOAD, payload), "not a header, or not a payload")
    claims, (issuer, subject, _) = [claim_of(**each) for each in payload["claims"]], header[15].values()
    require(claims and subject.endswith(claims[0].what[1].hex()), "its subject is another object")
    require(sum(len(claim.links) for claim in claims) <= 1000, "too many links")
    require(("seen" in payload) == ("ledger" in payload), "one of `seen` and `ledger`")
    return Thing(identity=leaf_hash(content), kid=header[4], issuer=issuer, subject=subject, claims=claims,
                 seen=payload.get("seen"), ledger=payload.get("ledger"), signature=envelope[3],
                 signed=to_be_signed(envelope[0], envelope[2]))

def claim_of(kind, object, links, prev=(), **rest):
    links = [(role, (to, identity)) for role, to, identity in links]
    return Thing(kind=kind, what=(kind, object), links=links, to=dict(links), prev=tuple(prev), **rest)

def faults_of(claim):
    """Why a claim is not understood: "unknown" where newer rules may have it, "bad-form" where none would."""
    yield claim.kind not in TABLE and "unknown"
    links, roles = TABLE[claim.kind].links, [role for role, _ in claim.links]
    for role, (to, _) in claim.links:
        yield (role not in links or to not in TABLE) and "unknown"
        yield to not in links[role].kinds and "bad-form"
    yield any(roles.count(role) not in link.count for role, link in links.items()) and "bad-form"
    yield from faults_of_facts(claim.kind, claim.facts)

def said_by(claim):
    """The links and facts that a claim has of its record; one with the same about one object is a repeat."""
    links = {(role, *what) for role, what in claim.links if not TABLE[claim.kind].links[role].beside}
    aside = {"name"} if claim.kind in NAMED_BESIDE else set()
    return links, {name: fact for name, fact in claim.facts.items() if name not in aside}

def register_of(claim):
    return claim.kind in REGISTERS and (claim.kind, *(claim.facts[fact] for fact in REGISTERS[claim.kind]))

class State:
    """What accepted statements have said; a ledger that goes on from another begins with that one's state."""
    def __init__(self):
        self.rules, self.accepted, self.names, self.marks, self.erased = 1, set(), {}, [], set()
        self.keys = {}  # key id -> facts of its last claim: key, holder, roles
        self.registers = {}  # (kind, facts) -> (statement id, position) of the current claim
        self.authors = {}  # key id, statement id, (kind, object) -> holder, of the first claim
        self.claimants, self.said = defaultdict(set), defaultdict(list)  # (kind, object) -> holders; words
        self.runs, self.attempts = {}, {}  # plan -> its starts, latest first; start -> plan, end, status
        self.standings, self.statements, self.first_at = [], [], {}  # by place; statement id -> place

    def status(self, plan):
        return self.attempts[self.runs[plan][0]].status if self.runs[plan] else "planned"

def fold(entries, before=None):
    """The fold of one log, from the empty state or from the fold of the log that it goes on from."""
    log = Fold(before)
    for content in entries:
        log.add(content)
    return log

class Fold:
    def __init__(self, before):
        self.state, size = (before.state, len(before.tree.leaves)) if before else (State(), 0)
        self.parent = before and [before.ledger, size, before.tree.root(size)]  # which its genesis must name
        self.ledger, self.tree, self.log_keys = None, Tree(), [{}]  # size -> who may sign its head, by key id

    def add(self, content):
        state, statement, standing = self.state, None, "accepted"
        index, place, identity = len(self.tree.leaves), len(state.standings), leaf_hash(content)
        again = state.first_at.setdefault(identity, place)
        try:
            statement = read_statement(content)
            if again == place:
                self.judge(index, statement)
                self.take_effect(place, statement)
        except Refused as refused:
            standing = str(refused) if statement else "bad-form"
            state = self.state = state if index else State()  # without a genesis nothing is taken over
        if again == place and statement and statement.kid in state.keys:
            state.authors[identity] = state.keys[statement.kid]["holder"]
        # The same bytes have the answer of the first ones, whatever has changed since.
        state.standings.append(standing if again == place else state.standings[again])
        state.statements.append(statement)
        self.ledger = self.ledger or identity
        self.log_keys.append({kid: key["key"] for kid, key in state.keys.items() if "log" in key["roles"]})
        self.tree.leaves.append(identity)

    def judge(self, index, statement):
        """The checks of the page under their numbers; the first that fails decides."""
        state, claims = self.state, statement.claims
        require((statement.ledger is None) == (index == 0), "bad-form")  # 2
        size, root = statement.seen or (0, self.tree.root(0))
        require(statement.ledger == self.ledger, "foreign-ledger")  # 3
        require(size <= index and self.tree.root(size) == root, "other-history")  # 4
        require(state.rules == 1, "unknown")  # 5
        faults = [next(filter(None, faults_of(claim)), None) for claim in claims]
        understood = [claim for claim, fault in zip(claims, faults) if not fault]
        new = {key_id(claim.facts["key"]): claim.facts for claim in understood[::-1] if claim.kind == "key"}
        signer = (state.keys if index or self.parent else new).get(statement.kid)
        require(signer, "unknown-key")  # 6
        require(signer["roles"], "role-not-allowed")  # 7
        require(signed_by(signer["key"], statement.signed, statement.signature), "bad-signature")  # 8
        require(statement.issuer == f"h:{signer['holder'].hex()}", "bad-form")  # 9
        require(faults[0] or statement.subject == typed(*claims[0].what), "bad-form")  # 10
        require("bad-form" not in faults, "bad-form")  # 11
        kinds = [claim.kind for claim in understood]
        alone = [claim.kind for claim in claims] == ["genesis"]
        opens = alone if self.parent else kinds[:1] == ["genesis"] and set(kinds[1:]) <= {"key"}
        require(index or opens, "bad-form")  # 12
        self.now = Thing(index=index, holder=signer["holder"], roles=set(signer["roles"]), moved=set(),
                         here={claim.what for claim in claims}, keys={},
                         context=self.ledger or understood and understood[0].facts["nonce"])
        for claim in understood:  # 13
            self.judge_claim(claim)
        if new:  # 14
            roles = {role for key in {**state.keys, **self.now.keys}.values() for role in key["roles"]}
            require("log" in roles and roles & {"owner", "recovery"}, "would-lock-out")
        require(len(understood) == len(claims), "unknown")  # 15

    def judge_claim(self, claim):
        kind, facts, state, now, register = claim.kind, claim.facts, self.state, self.now, register_of(claim)
        require(TABLE[kind].stated_by != "never", "bad-form")
        require(self.may_state(claim), "role-not-allowed")
        for role, what in claim.links:
            known = what in state.claimants or what in now.here and what != claim.what
            require(known or not TABLE[kind].links[role].kinds[what[0]], "link-not-accepted")
        opened = state.registers.get(("channel", facts["channel"]), ()) if kind == "promotion" else ()
        require(opened or kind != "promotion", "link-not-accepted")
        require(register or not claim.prev, "bad-form")
        current = state.registers.get(register, opened)
        require(register not in now.moved and claim.prev == current, "lost-race")
        now.moved.update([register] if register else [])
        holds, answer = JUDGED.get(kind, (lambda *_: True, None))
        require(holds(facts, claim.to, state), answer)
        if kind == "genesis":
            is_other = "parent" in facts and self.parent and facts["parent"][0] != self.parent[0]
            require(facts.get("parent") == self.parent, "foreign-ledger" if is_other else "other-history")
        if kind == "end":
            ended = claim.to["start"] in now.moved or state.attempts.get(claim.to["start"], NOTHING).end
            require(not ended or said_by(claim) in state.said[claim.what], "already-ended")
            now.moved.add(claim.to["start"])
        if kind == "key":
            self.judge_key(facts)

    def may_state(self, claim):
        """*Stated by* in the table of kinds: some roles, or one of the rules below it."""
        facts, state, now, start = claim.facts, self.state, self.now, claim.to.get("start")
        owner, speaks = "owner" in now.roles, not now.roles & OTHERS
        match TABLE[claim.kind].stated_by:
            case "first statement":
                return now.index == 0 and (owner or self.parent and "recovery" in now.roles)
            case "key rules":
                known = state.keys.get(key_id(facts["key"]), {"holder": None, "roles": []})
                given = {*facts["roles"], *known["roles"]}
                if now.index == 0 or "recovery" in given:
                    return now.index == 0 and owner
                return (owner or "recovery" in now.roles and "owner" in given
                        or speaks and not facts["roles"] and known["holder"] == facts["holder"] == now.holder)
            case "revocation rules":
                what, *on = facts["target"]
                author = state.authors.get(on[0])
                holders = state.claimants.get(tuple(on), ()) if what == "object" else {author}
                other = "recovery" if what == "key" else "evaluator"
                return owner or other in now.roles or speaks and now.holder in holders
            case "run or owner" | "author of run" if start:
                plan = state.attempts.get(start, NOTHING).plan
                holders = {*state.claimants.get(start, ()), *state.claimants.get(plan, ())}
                return (owner or speaks and (now.holder in holders or start in now.here)
                        or not plan and "author" in now.roles)
            case roles:
                return now.roles & set(roles.removesuffix(" of run").split(", "))

    def judge_key(self, facts):
        """The rules of trust.md from the second on; the first is above, the last is check 14."""
        identity, keys, now = key_id(facts["key"]), self.state.keys, self.now
        alone = len(facts["roles"]) == 1 or not OTHERS & {*facts["roles"]}
        require(fit_for_use(facts["key"]) and alone, "bad-form")  # 2
        if identity in keys:
            require(facts["holder"] == keys[identity]["holder"] and "proof" not in facts, "bad-form")  # 3
        else:
            holders = {identity, *(key["holder"] for key in (*keys.values(), *now.keys.values()))}
            require(facts["holder"] in holders, "bad-form")  # 4
            possession = to_be_signed(encode({1: -8, 3: MEDIA_TYPE % "possession"}), encode(
                {"ctx": now.context, "key": facts["key"], "holder": facts["holder"]}))
            require(signed_by(facts["key"], possession, facts.get("proof", b"")), "bad-signature")  # 5
        now.keys[identity] = facts

    def take_effect(self, place, statement):
        state, holder = self.state, self.now.holder
        state.accepted.add(statement.identity)
        state.keys.update(self.now.keys)
        state.authors.update({kid: key["holder"] for kid, key in self.now.keys.items()})
        order = list(TABLE).index
        for position, claim in sorted(enumerate(statement.claims), key=lambda each: order(each[1].kind)):
            if register_of(claim):
                state.registers[register_of(claim)] = (statement.identity, position)
            state.authors.setdefault(claim.what, holder)
            state.claimants[claim.what].add(holder)
            if said_by(claim) not in state.said[claim.what]:
                state.said[claim.what].append(said_by(claim))
                self.move(place, claim, claim.what, claim.facts, claim.to)
            if "name" in claim.facts:  # with a repeat too: it is what the author says for itself
                self.name(claim, claim.facts, holder)

    def move(self, place, claim, what, facts, to):
        state, attempts = self.state, self.state.attempts
        if claim.kind == "start":
            for other in (attempts.get(other, NOTHING) for role, other in claim.links if role == "lost"):
                if other.plan == to["plan"] and not other.end:
                    other.status = "lost"
            if what not in attempts:
                attempts[what] = Thing(plan=to["plan"], end=None, status="started")
                state.runs[to["plan"]].insert(0, what)
        elif claim.kind == "end" and not attempts[to["start"]].end:
            vars(attempts[to["start"]]).update(end=what, status=facts["status"])
        elif claim.kind == "plan":
            state.runs.setdefault(what, [])
        elif claim.kind == "revocation":
            state.marks.append((facts["target"], facts.get("since", 0), place))
        state.rules = facts["rules"] if claim.kind == "format" else state.rules
        state.erased.update(facts["objects"] if claim.kind == "erasure" else ())

    def name(self, claim, facts, holder):
        moved, (kind, what) = claim.kind == "name", (claim.kind, claim.what)
        if moved:
            kind, what = facts["kind"], claim.to.get("to")
        new = Thing(holder=holder, closed=False, versions=[])
        name = self.state.names.setdefault((kind, facts["name"]), new)
        if moved:
            name.closed, name.holder = not what, self.state.authors.get(what, name.holder)
        owns = any(key["holder"] == holder and "owner" in key["roles"] for key in self.state.keys.values())
        further = kind != "plan" and (holder == name.holder or owns) and name.versions[-1:] != [what]
        if not name.closed and (moved or further or not name.versions):
            name.versions.append(what)
