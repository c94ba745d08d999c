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
}
