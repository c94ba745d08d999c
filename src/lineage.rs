//! Lineage: what something came from and what came from it, as questions over the ledger's content.
//!
//! Answers are read from the folded state, the log and the records in the store: no clock, and of what lies
//! outside of the ledger only the index, which is asked where in the log to look. Whether any of it deserves
//! belief is for `verify`; here a record that is not in the store is a node that says so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::codec::MAX_RECORD;
use crate::id::ObjectId;
use crate::ledger::{Error, Ledger, Search, Stated};
use crate::model::{
    self, Benchmark, Checkpoint, Claimed, Code, Dirt, Environment, Eval, Facts, Import, Kind, Note, Plan,
    Private, TypedId, content,
};
use crate::state::DigestRole;

/// Nodes after which a lineage is cut, so that no ledger makes a question endless.
pub const MAX_NODES: usize = 100_000;

/// One step between two nodes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Edge {
    /// In which role; inputs of a run carry the user's word, as `data train`.
    pub role: String,
    /// To what.
    pub to: TypedId,
}

/// One thing in a lineage.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its id.
    pub id: TypedId,
    /// A few words for people: path and step, name, commit, status.
    pub label: String,
    /// Its first claim, if it was claimed.
    pub claim: Option<Stated>,
    /// Whether its record could be read.
    pub is_available: bool,
    /// What a plan says to have none of, and why.
    pub none: BTreeMap<String, String>,
    /// The next nodes, in the order in which they are told.
    pub edges: Vec<Edge>,
}

/// A part of the graph of everything that is recorded, from one node on.
#[derive(Clone, Debug)]
pub struct Lineage {
    /// Where it begins.
    pub root: TypedId,
    /// All nodes.
    pub nodes: BTreeMap<TypedId, Node>,
    /// Whether [`MAX_NODES`] was reached and more is left out.
    pub is_cut: bool,
    /// Why the log was read instead of an index, where one would have helped.
    pub without_index: Option<String>,
}

impl Lineage {
    fn of(root: TypedId, node: Node) -> Self {
        Self { root, nodes: BTreeMap::from([(root, node)]), is_cut: false, without_index: None }
    }

    /// Leaves what lies on the way to a thing; `None` if the lineage does not hold it.
    #[must_use]
    pub fn to(mut self, to: TypedId) -> Option<Self> {
        let mut into: BTreeMap<TypedId, Vec<TypedId>> = BTreeMap::new();
        for node in self.nodes.values() {
            node.edges.iter().for_each(|edge| into.entry(edge.to).or_default().push(node.id));
        }
        let mut kept = BTreeSet::new();
        let mut open = vec![to];
        while let Some(id) = open.pop() {
            if kept.insert(id) {
                open.extend(into.get(&id).into_iter().flatten());
            }
        }
        self.nodes.retain(|id, _| kept.contains(id));
        for node in self.nodes.values_mut() {
            // What follows the thing itself is not on the way to it.
            node.edges.retain(|edge| kept.contains(&edge.to) && node.id != to);
        }
        (self.nodes.contains_key(&to) && self.nodes.contains_key(&self.root)).then_some(self)
    }

    /// Leaves the root and the nodes of one kind, each below the nearest that is left of those above it.
    #[must_use]
    pub fn only(mut self, kind: Kind) -> Self {
        let root = self.root;
        let is_kept = |id: &TypedId| *id == root || id.kind == kind;
        let kept: Vec<TypedId> = self.nodes.keys().copied().filter(is_kept).collect();
        let below: Vec<Vec<Edge>> = kept.iter().map(|id| self.nearest(*id, &is_kept)).collect();
        self.nodes.retain(|id, _| is_kept(id));
        for (id, edges) in kept.iter().zip(below) {
            if let Some(node) = self.nodes.get_mut(id) {
                node.edges = edges;
            }
        }
        self
    }

    /// Returns the first nodes that are kept on every way down from one, each once, in the order of telling.
    fn nearest(&self, from: TypedId, is_kept: &dyn Fn(&TypedId) -> bool) -> Vec<Edge> {
        let edges = |id: &TypedId| self.nodes.get(id).into_iter().flat_map(|node| node.edges.iter().rev());
        let mut found: Vec<Edge> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut open: Vec<&Edge> = edges(&from).collect();
        while let Some(edge) = open.pop() {
            if !self.nodes.contains_key(&edge.to) || !seen.insert(edge.to) {
                continue;
            }
            if is_kept(&edge.to) {
                found.push(edge.clone());
            } else {
                open.extend(edges(&edge.to));
            }
        }
        found
    }
    /// Returns the nodes in depth-first order with their depth and the edge that led there.
    ///
    /// A node that is reached again is listed without what follows it; the flag says so.
    pub fn walk(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        let mut told = BTreeSet::new();
        let mut open: Vec<(usize, Option<&Edge>, TypedId)> = vec![(0, None, self.root)];
        while let Some((depth, edge, id)) = open.pop() {
            let Some(node) = self.nodes.get(&id) else { continue };
            let is_repeat = !told.insert(id);
            steps.push(Step { depth, role: edge.map_or("", |edge| &edge.role), node, is_repeat });
            if !is_repeat {
                open.extend(node.edges.iter().rev().map(|edge| (depth + 1, Some(edge), edge.to)));
            }
        }
        steps
    }
}

/// One line of a lineage that is told as a tree.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Edges from the root.
    pub depth: usize,
    /// Role of the edge that led here; empty for the root.
    pub role: &'a str,
    /// The node.
    pub node: &'a Node,
    /// Whether the node has been told before, with what follows it.
    pub is_repeat: bool,
}

/// Returns everything that something came from.
pub fn ancestors(ledger: &Ledger, id: TypedId) -> Result<Lineage, Error> {
    let mut lineage = Lineage { root: id, nodes: BTreeMap::new(), is_cut: false, without_index: None };
    let mut open = VecDeque::from([id]);
    let mut paths = BTreeMap::new();
    while let Some(id) = open.pop_front() {
        if lineage.nodes.contains_key(&id) {
            continue;
        }
        if lineage.nodes.len() >= MAX_NODES {
            lineage.is_cut = true;
            break;
        }
        let claim = ledger.claim_of(id)?;
        let mut node = node(ledger, id, claim);
        node.edges = edges(ledger, &node, id == lineage.root)?;
        if let Some(path) = paths.get(&id) {
            node.label =
                if node.label.is_empty() { String::clone(path) } else { format!("{}, {path}", node.label) };
        }
        paths.extend(input_paths(ledger, &node));
        open.extend(node.edges.iter().map(|edge| edge.to));
        lineage.nodes.insert(id, node);
    }
    Ok(lineage)
}

/// Returns everything that came from something: claims that link to it, and claims that link to those.
pub fn descendants(ledger: &Ledger, id: TypedId) -> Result<Lineage, Error> {
    let mut search = ledger.search(is_lineage)?;
    loop {
        let had_index = search.without_index().is_none();
        let mut lineage = descend(ledger, id, &mut search)?;
        lineage.without_index = search.without_index().map(str::to_owned);
        // An index that proved to be damaged on the way may have kept silent about something before.
        if had_index == lineage.without_index.is_none() {
            return Ok(lineage);
        }
    }
}

/// Goes down from a thing, all that came directly from what was found last at a time.
fn descend(ledger: &Ledger, id: TypedId, search: &mut Search<'_>) -> Result<Lineage, Error> {
    let mut lineage = Lineage::of(id, node(ledger, id, ledger.claim_of(id)?));
    let mut last = vec![id];
    // An evaluation names the weights as content, so that it may come before the checkpoint's record.
    let mut stands_for: BTreeMap<TypedId, TypedId> = BTreeMap::new();
    while !last.is_empty() && !lineage.is_cut {
        let mut sources: BTreeMap<TypedId, TypedId> = BTreeMap::new();
        for id in last.drain(..) {
            sources.insert(id, id);
            if let Some(weights) = weights_of(ledger, &lineage, id)? {
                sources.insert(weights, *stands_for.entry(weights).or_insert(id));
            }
        }
        let ids: Vec<ObjectId> = sources.keys().map(|id| id.id).collect();
        for stated in search.linking_to(&ids)? {
            last.extend(take_descendant(ledger, &mut lineage, &sources, stated));
        }
    }
    Ok(lineage)
}

/// Adds a claim below what it links to, and returns its object if it is new.
fn take_descendant(
    ledger: &Ledger,
    lineage: &mut Lineage,
    sources: &BTreeMap<TypedId, TypedId>,
    stated: Stated,
) -> Option<TypedId> {
    let id = stated.object;
    let mut above: Vec<(TypedId, String)> = Vec::new();
    for (role, target) in stated.links.iter().filter(|(role, _)| is_lineage(role)) {
        let Some(source) = sources.get(target).filter(|source| **source != id) else { continue };
        if !above.iter().any(|(told, _)| told == source) {
            above.push((*source, role.clone()));
        }
    }
    if above.is_empty() {
        return None;
    }
    let is_new = !lineage.nodes.contains_key(&id);
    if is_new {
        if lineage.nodes.len() >= MAX_NODES {
            lineage.is_cut = true;
            return None;
        }
        lineage.nodes.insert(id, node(ledger, id, Some(stated)));
    }
    for (source, role) in above {
        let edge = Edge { role, to: id };
        if let Some(node) = lineage.nodes.get_mut(&source)
            && !node.edges.contains(&edge)
        {
            node.edges.push(edge);
        }
    }
    is_new.then_some(id)
}

/// Returns the content that stands for a checkpoint: the weights that its first claim names.
fn weights_of(ledger: &Ledger, lineage: &Lineage, id: TypedId) -> Result<Option<TypedId>, Error> {
    if id.kind != Kind::Checkpoint {
        return Ok(None);
    }
    let told = lineage.nodes.get(&id).and_then(|node| node.claim.as_ref());
    if let Some(first) = told.filter(|stated| ledger.state().claim(id) == Some(stated.place)) {
        return Ok(first.link("weights"));
    }
    Ok(ledger.claim_of(id)?.and_then(|stated| stated.link("weights")))
}

/// Roles through which one thing leads to another; the others describe the thing itself.
fn is_lineage(role: &str) -> bool {
    !matches!(
        role,
        "private" | "about" | "sums" | "manifest" | "untracked" | "full" | "weights" | "tensors" | "files"
    )
}

/// Says a few words about one thing.
pub fn describe(ledger: &Ledger, id: TypedId) -> Result<Node, Error> {
    Ok(node(ledger, id, ledger.claim_of(id)?))
}

fn node(ledger: &Ledger, id: TypedId, claim: Option<Stated>) -> Node {
    let bytes = ledger.store().get(id.id, MAX_RECORD).ok();
    let mut none = BTreeMap::new();
    if id.kind == Kind::Plan
        && let Some(plan) = bytes.as_ref().and_then(|bytes| model::decode::<Plan>(bytes).ok())
    {
        none = plan.none;
    }
    let label = label(ledger, id, claim.as_ref(), bytes.as_deref().unwrap_or_default());
    Node { id, label, claim, is_available: bytes.is_some(), none, edges: Vec::new() }
}

fn label(ledger: &Ledger, id: TypedId, claim: Option<&Stated>, bytes: &[u8]) -> String {
    let mut words: Vec<String> = Vec::new();
    match claim.map(|claim| &claim.facts) {
        Some(Facts::Named { name: Some(name) }) => words.push(name.to_string()),
        Some(Facts::End { status }) => words.push(status.to_string()),
        Some(Facts::Genesis { parent: Some((parent, size, _)), .. }) => {
            words.push(format!("goes on from ledger {} at {size} statements", &parent.to_hex()[..8]));
        }
        _ => {}
    }
    match id.kind {
        Kind::Plan => {
            words.extend(ledger.state().run_status(id.id).map(|status| status.to_string()));
            words.extend(model::decode::<Plan>(bytes).ok().map(|plan| format!("`{}`", plan.argv.join(" "))));
        }
        Kind::Start => {
            let attempt = ledger.state().attempt(id.id);
            words.extend(attempt.filter(|row| row.lost && row.ended.is_none()).map(|_| "lost".to_owned()));
        }
        Kind::Checkpoint => {
            if let Ok(checkpoint) = model::decode::<Checkpoint>(bytes) {
                words.extend(checkpoint.path);
                words.extend(checkpoint.step.map(|step| format!("step {step}")));
            }
        }
        Kind::Code => {
            if let Ok(code) = model::decode::<Code>(bytes) {
                words.push(format!("commit {}", code.commit.get(..8).unwrap_or(&code.commit)));
                words.extend((code.dirt != Dirt::Clean).then(|| {
                    if code.dirt == Dirt::Dirty { "dirty".to_owned() } else { "dirt unknown".to_owned() }
                }));
            }
        }
        Kind::Environment => {
            if let Ok(environment) = model::decode::<Environment>(bytes) {
                words
                    .extend(environment.interpreter.map(|found| format!("{} {}", found.name, found.version)));
                words.extend(environment.lock.map(|lock| lock.name));
            }
        }
        Kind::Benchmark => {
            words.extend(model::decode::<Benchmark>(bytes).ok().map(|benchmark| benchmark.name));
        }
        Kind::Eval => {
            if let Ok(eval) = model::decode::<Eval>(bytes) {
                let name = ledger.record::<Benchmark>(eval.benchmark.id).ok().map(|benchmark| benchmark.name);
                words.extend(name);
                let first = eval.metrics.iter().take(3);
                words.extend(first.map(|metric| format!("{} {}", metric.name, metric.value)));
                words.extend(eval.partial.map(|_| "partial".to_owned()));
                words.extend(eval.reported_by.map(|_| "self-reported".to_owned()));
            }
        }
        Kind::Import => {
            if let Ok(import) = model::decode::<Import>(bytes) {
                words.push(format!("claimed by a {}", import.format));
                let said = |claim: &Claimed| {
                    format!(
                        "{}{}",
                        claim.metric.as_ref().map_or(String::new(), |m| format!("{m} ")),
                        claim.value
                    )
                };
                words.extend(import.claims.iter().take(3).map(said));
            }
        }
        Kind::Note => words.extend(model::decode::<Note>(bytes).ok().map(|note| note.text)),
        _ => {}
    }
    // What is said comes from records and may hold anything; one line of it is shown.
    content::escape(words.join(", ").as_bytes())
}

/// Returns the steps from one thing to what it came from.
fn edges(ledger: &Ledger, node: &Node, is_root: bool) -> Result<Vec<Edge>, Error> {
    let mut edges = Vec::new();
    let mut add = |role: &str, to: TypedId| edges.push(Edge { role: role.to_owned(), to });
    let claim = node.claim.as_ref();
    match (node.id.kind, claim) {
        (Kind::Plan, claim) => {
            if let Ok(plan) = ledger.record::<Plan>(node.id.id) {
                plan.config.iter().for_each(|to| add("config", *to));
                plan.code.iter().for_each(|to| add("code", *to));
                plan.environment.iter().for_each(|to| add("environment", *to));
                plan.data.iter().for_each(|(role, to)| add(&format!("data {role}"), *to));
                plan.base.iter().for_each(|(role, to)| add(&format!("base {role}"), *to));
                plan.contracts.iter().for_each(|to| add("contract", *to));
                plan.policies.iter().for_each(|to| add("policy", *to));
            } else if let Some(claim) = claim {
                // Without the record the claim still names the inputs, by their fixed roles.
                let inputs = claim.links.iter().filter(|(role, _)| is_lineage(role));
                inputs.for_each(|(role, to)| add(role, *to));
            }
            if let Some(from) = claim.and_then(|claim| claim.link("from")) {
                add("from", from);
            }
        }
        (Kind::Start, Some(claim)) => {
            claim.all("plan").for_each(|to| add("plan", to));
            claim.all("environment").for_each(|to| add("environment", to));
            if let Some((_, place)) = ledger.state().attempt(node.id.id).and_then(|row| row.ended) {
                add("end", ledger.stated(place)?.object);
            }
        }
        // An end hangs on its start, from which it was reached unless it was asked about.
        (Kind::End, _) if !is_root => {}
        (Kind::Eval, Some(claim)) => {
            match (claim.link("of"), claim.link("subject")) {
                (Some(of), _) => add("subject", of),
                (None, Some(subject)) => {
                    add("subject", weights_holder(ledger, subject)?.unwrap_or(subject));
                }
                (None, None) => {}
            }
            claim.all("benchmark").for_each(|to| add("benchmark", to));
            claim.all("start").for_each(|to| add("start", to));
        }
        (_, Some(claim)) => {
            let leads = |role: &str, to: &TypedId| {
                is_lineage(role) && !matches!(to.kind, Kind::Blob | Kind::Tree | Kind::Holder)
            };
            claim.links.iter().filter(|(role, to)| leads(role, to)).for_each(|(role, to)| add(role, *to));
        }
        (_, None) => {}
    }
    Ok(edges)
}

/// Returns where a plan's config, data and base models lay, as far as its private record tells.
fn input_paths(ledger: &Ledger, plan: &Node) -> BTreeMap<TypedId, String> {
    let private =
        plan.claim.as_ref().filter(|_| plan.id.kind == Kind::Plan).and_then(|claim| claim.link("private"));
    let Some(private) = private.and_then(|id| ledger.record::<Private>(id.id).ok()) else {
        return BTreeMap::new();
    };
    let of = |edge: &Edge| {
        let texts: Vec<&String> = match edge.role.as_str() {
            "config" => (0..).map_while(|n| private.paths.get(&format!("config {n}"))).collect(),
            role => private.paths.get(role).into_iter().collect(),
        };
        let text = texts.into_iter().cloned().collect::<Vec<_>>().join(", ");
        (!text.is_empty()).then_some((edge.to, text))
    };
    plan.edges.iter().filter_map(of).collect()
}

/// Returns the first checkpoint that was recorded with these weights.
fn weights_holder(ledger: &Ledger, weights: TypedId) -> Result<Option<TypedId>, Error> {
    let found = ledger.state().with_digest(weights.id);
    let first = found.iter().rev().find(|(role, _)| *role == DigestRole::Weights);
    first.map(|(_, place)| ledger.stated(*place).map(|stated| stated.object)).transpose()
}
