//! Lineage: what something came from and what came from it, as questions over the ledger's content.
//!
//! Answers are read from the folded state, a scan of the log and the records in the store, and nothing else: no
//! clock, no disk outside of the ledger. Whether any of it deserves belief is for `verify`; here a record that
//! is not in the store is a node that says so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;

use crate::codec::MAX_RECORD;
use crate::ledger::{Error, Ledger, Stated};
use crate::model::{
    self, Benchmark, Checkpoint, Code, Dirt, Environment, Eval, Facts, Kind, Note, Plan, Private, TypedId,
    content,
};
use crate::state::{DigestRole, Standing};

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
}

impl Lineage {
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
    let mut lineage = Lineage { root: id, nodes: BTreeMap::new(), is_cut: false };
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
    let mut lineage = Lineage { root: id, nodes: BTreeMap::new(), is_cut: false };
    lineage.nodes.insert(id, node(ledger, id, ledger.claim_of(id)?));
    // An evaluation names the weights as content, so that it may come before the checkpoint's record.
    let mut stands_for: BTreeMap<TypedId, TypedId> = BTreeMap::new();
    add_content(ledger, id, &mut stands_for)?;
    loop {
        let before = lineage.nodes.len();
        ledger.list::<Error>(0, &mut |listed| {
            let is_accepted = listed.standing == Standing::Accepted;
            for stated in listed.claims.into_iter().filter(|_| is_accepted) {
                take_descendant(ledger, &mut lineage, &mut stands_for, stated)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        // Links to claims point back in the log, so one pass finds nearly all; content may be claimed later.
        if lineage.nodes.len() == before || lineage.is_cut {
            return Ok(lineage);
        }
    }
}

fn take_descendant(
    ledger: &Ledger,
    lineage: &mut Lineage,
    stands_for: &mut BTreeMap<TypedId, TypedId>,
    stated: Stated,
) -> Result<(), Error> {
    let id = stated.object;
    let mut sources = Vec::new();
    for (role, target) in &stated.links {
        let target = stands_for.get(target).unwrap_or(target);
        let is_told = sources.iter().any(|(source, _)| source == target);
        if *target != id && is_lineage(role) && !is_told && lineage.nodes.contains_key(target) {
            sources.push((*target, Edge { role: role.clone(), to: id }));
        }
    }
    if sources.is_empty() {
        return Ok(());
    }
    if !lineage.nodes.contains_key(&id) {
        if lineage.nodes.len() >= MAX_NODES {
            lineage.is_cut = true;
            return Ok(());
        }
        lineage.nodes.insert(id, node(ledger, id, Some(stated)));
        add_content(ledger, id, stands_for)?;
    }
    for (source, edge) in sources {
        if let Some(node) = lineage.nodes.get_mut(&source)
            && !node.edges.contains(&edge)
        {
            node.edges.push(edge);
        }
    }
    Ok(())
}

/// Remembers that a checkpoint's weights, as content, stand for the checkpoint.
fn add_content(
    ledger: &Ledger,
    id: TypedId,
    stands_for: &mut BTreeMap<TypedId, TypedId>,
) -> Result<(), Error> {
    if id.kind == Kind::Checkpoint
        && let Some(weights) = ledger.claim_of(id)?.and_then(|stated| stated.link("weights"))
    {
        stands_for.entry(weights).or_insert(id);
    }
    Ok(())
}

/// Roles through which one thing leads to another; the others describe the thing itself.
fn is_lineage(role: &str) -> bool {
    !matches!(role, "private" | "about" | "sums" | "manifest" | "untracked" | "full" | "weights" | "tensors")
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
