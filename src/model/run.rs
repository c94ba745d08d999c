//! Records of a run: the plan, the start of an attempt, and its end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::words;
use super::{Facts, Kind, Link, Name, Nonce, Record, Status, TypedId};

/// What a run will be made of. Its digest is the run's id, so no time, host or absolute path is in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Keeps two unnamed runs of equal inputs apart; absent when the run is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Nonce>,
    /// The run's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The frozen configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<TypedId>,
    /// The state of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<TypedId>,
    /// The declared environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<TypedId>,
    /// Data sets by the user's roles, sorted by role.
    pub data: Vec<(String, TypedId)>,
    /// Base models or checkpoints by the user's roles, sorted by role.
    pub base: Vec<(String, TypedId)>,
    /// Contracts that the run must satisfy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contracts: Vec<TypedId>,
    /// Policies that were named before the result existed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<TypedId>,
    /// A specification document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<TypedId>,
    /// For each of config, code, data, environment and base that has no link: why it has none.
    pub none: BTreeMap<String, String>,
    /// The command, with paths under the project made relative and others as `<path>`.
    pub argv: Vec<String>,
    /// The seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The study that the run belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<String>,
    /// The arm of the study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
}

impl Record for Plan {
    const KIND: Kind = Kind::Plan;

    fn links(&self) -> Vec<Link> {
        let one = |role, target: &Option<TypedId>| target.map(|target| Link::new(role, target));
        let singles = [
            one("config", &self.config),
            one("code", &self.code),
            one("environment", &self.environment),
            one("spec", &self.spec),
        ];
        let mut links: Vec<Link> = singles.into_iter().flatten().collect();
        links.extend(self.data.iter().map(|(_, target)| Link::new("data", *target)));
        links.extend(self.base.iter().map(|(_, target)| Link::new("base", *target)));
        links.extend(self.contracts.iter().map(|target| Link::new("contract", *target)));
        links.extend(self.policies.iter().map(|target| Link::new("policy", *target)));
        links
    }

    fn facts(&self) -> Facts {
        Facts::Named { name: self.name.as_deref().and_then(Name::parse) }
    }

    fn check(&self) -> Result<(), &'static str> {
        let role = |(role, _): &(String, TypedId)| role.clone();
        if self.nonce.is_some() == self.name.is_some() {
            return Err("a plan has a name or a nonce, and not both");
        }
        if self.name.as_deref().is_some_and(|name| Name::parse(name).is_none()) {
            return Err("the name is not one");
        }
        if !super::ascending(&self.data, role) || !super::ascending(&self.base, role) {
            return Err("roles are not in ascending order");
        }
        let linked = [
            ("config", self.config.is_some()),
            ("code", self.code.is_some()),
            ("environment", self.environment.is_some()),
            ("data", !self.data.is_empty()),
            ("base", !self.base.is_empty()),
        ];
        // Each of the five is linked, or the plan says why it is not: nothing is left open.
        let stated = linked.iter().all(|(what, is_linked)| self.none.contains_key(*what) != *is_linked);
        if stated && self.none.len() == linked.iter().filter(|(_, is_linked)| !is_linked).count() {
            Ok(())
        } else {
            Err("`none` does not name exactly what has no link")
        }
    }
}

words! {
    /// How a start compared the inputs with what was frozen.
    StartCheck {
        /// Frozen and started in one command, so nothing could drift between.
        Frozen = "frozen",
        /// Config, code and lock file read again; data and base models by name, size and time.
        Quick = "quick",
        /// Everything read again.
        Full = "full",
    }
}

/// Begins an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Keeps two attempts two.
    pub nonce: Nonce,
    /// The run.
    pub plan: TypedId,
    /// The environment that the start met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<TypedId>,
    /// Attempts that are presumed lost because they never ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<TypedId>,
    /// How inputs were compared, a word of [`StartCheck`].
    pub check: String,
}

impl Record for Start {
    const KIND: Kind = Kind::Start;

    fn links(&self) -> Vec<Link> {
        let mut links = vec![Link::new("plan", self.plan)];
        links.extend(self.environment.map(|target| Link::new("environment", target)));
        links.extend(self.lost.iter().map(|target| Link::new("lost", *target)));
        links
    }

    fn check(&self) -> Result<(), &'static str> {
        StartCheck::from_word(&self.check).map(|_| ()).ok_or("`check` is not a word of this version")
    }
}

/// Ends an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Keeps two ends two.
    pub nonce: Nonce,
    /// The attempt.
    pub start: TypedId,
    /// How it ended, a word of [`Status`].
    pub status: String,
    /// Exit code of the command, when it ran under `ledger run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// Name of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

impl Record for End {
    const KIND: Kind = Kind::End;

    fn links(&self) -> Vec<Link> {
        vec![Link::new("start", self.start)]
    }

    fn facts(&self) -> Facts {
        match Status::from_word(&self.status) {
            Some(status) => Facts::End { status },
            None => Facts::None,
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        Status::from_word(&self.status).map(|_| ()).ok_or("`status` is not a word of this version")
    }
}
