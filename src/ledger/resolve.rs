//! What people type for a thing: an id, a short id, a name with or without a version, `@`, or a path.
//!
//! A path stands for what has its digest, which takes reading it; so this file only says that a text is a
//! path, and the caller hashes. Answers come from the state and, where kinds are not claimed, from the store.

use crate::id::{ObjectId, Prefix};
use crate::model::{Kind, Name, TypedId};

use super::{Error, Ledger};

/// Why a text names nothing, or too much.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// Nothing here has that id.
    #[error("nothing in this ledger is `{0}`")]
    Nothing(String),
    /// Several have.
    #[error("`{text}` fits {} things", found.len())]
    Ambiguous {
        /// What was typed.
        text: String,
        /// What it fits.
        found: Vec<TypedId>,
    },
    /// Another kind was wanted.
    #[error("`{text}` is a {}, a {} is wanted here", found.kind, wanted.word())]
    WrongKind {
        /// What was typed.
        text: String,
        /// What it is.
        found: TypedId,
        /// What is wanted.
        wanted: Kind,
    },
    /// Not an id in any form.
    #[error("`{text}` is not an id")]
    NotAnId {
        /// What was typed.
        text: String,
        /// What is wrong with it.
        #[source]
        source: crate::id::Error,
    },
    /// `@` without a current run.
    #[error("there is no current run: `@` stands for the run in `LEDGER_RUN`")]
    NoCurrentRun,
    /// The ledger could not be read.
    #[error(transparent)]
    Ledger(#[from] Box<Error>),
}

/// What a caller can use.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// Anything.
    Any,
    /// One kind; bare hex and names are taken as of this kind.
    Kind(Kind),
}

impl Ledger {
    /// Resolves a text. `current` is the run in `LEDGER_RUN`.
    pub fn resolve(
        &self,
        text: &str,
        wanted: Wanted,
        current: Option<&str>,
    ) -> Result<TypedId, ResolveError> {
        if text == "@" {
            let run = current.filter(|run| *run != "@").ok_or(ResolveError::NoCurrentRun)?;
            return self.resolve(run, Wanted::Kind(Kind::Plan), None);
        }
        let (prefix, rest) = match text.split_once(':') {
            Some((prefix, rest)) => (Some(prefix), rest),
            None => (None, text),
        };
        let kind = match prefix {
            Some(prefix) => {
                Some(Kind::from_prefix(prefix).ok_or_else(|| ResolveError::Nothing(text.to_owned()))?)
            }
            None => None,
        };
        let found = match (kind, wanted) {
            (Some(kind), _) | (None, Wanted::Kind(kind)) => self.of_kind(kind, rest, text)?,
            (None, Wanted::Any) => self.of_any_kind(rest, text)?,
        };
        match wanted {
            Wanted::Kind(wanted) if found.kind != wanted => {
                Err(ResolveError::WrongKind { text: text.to_owned(), found, wanted })
            }
            _ => Ok(found),
        }
    }

    fn of_kind(&self, kind: Kind, rest: &str, text: &str) -> Result<TypedId, ResolveError> {
        if let Ok(id) = ObjectId::from_hex(rest) {
            let id = TypedId::new(kind, id);
            return if self.is_known(id)? { Ok(id) } else { Err(ResolveError::Nothing(text.to_owned())) };
        }
        if let Some(id) = self.named(kind, rest) {
            return Ok(id);
        }
        match Prefix::parse(rest) {
            Ok(prefix) => self.one(self.with_prefix(kind, &prefix)?, text),
            // Six letters of hex or none: a text that is a possible name and nobody's is simply unknown.
            Err(_)
                if Name::parse(rest.split('@').next().unwrap_or(rest)).is_some() && !looks_like_hex(rest) =>
            {
                Err(ResolveError::Nothing(text.to_owned()))
            }
            Err(source) => Err(ResolveError::NotAnId { text: text.to_owned(), source }),
        }
    }

    fn of_any_kind(&self, rest: &str, text: &str) -> Result<TypedId, ResolveError> {
        let mut found = Vec::new();
        for kind in [Kind::Plan, Kind::Checkpoint, Kind::Dataset, Kind::Model] {
            found.extend(self.named(kind, rest));
        }
        if found.is_empty()
            && let Ok(prefix) = Prefix::parse(rest)
        {
            for kind in Kind::ALL {
                found.extend(self.with_prefix(kind, &prefix)?);
            }
        }
        found.sort_unstable();
        found.dedup();
        self.one(found, text)
    }

    #[expect(clippy::unused_self, reason = "reads as a step of resolving")]
    fn one(&self, found: Vec<TypedId>, text: &str) -> Result<TypedId, ResolveError> {
        match found.as_slice() {
            [] => Err(ResolveError::Nothing(text.to_owned())),
            [one] => Ok(*one),
            _ => Err(ResolveError::Ambiguous { text: text.to_owned(), found }),
        }
    }

    /// Finds `name` (its latest version) or `name@2`.
    fn named(&self, kind: Kind, text: &str) -> Option<TypedId> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let name = Name::parse(name)?;
        // A name that is only reserved stands for nothing yet.
        let row = self.state().name(kind, &name).filter(|row| row.versions > 0)?;
        let object = match version {
            Some(version) => self.state().version(kind, &name, version)?.0,
            None => row.object,
        };
        Some(TypedId::new(kind, object))
    }

    fn is_known(&self, id: TypedId) -> Result<bool, ResolveError> {
        Ok(self.state().claim(id).is_some()
            || self.store().contains(id.id).map_err(|error| Box::new(Error::from(error)))?)
    }

    fn with_prefix(&self, kind: Kind, prefix: &Prefix) -> Result<Vec<TypedId>, ResolveError> {
        let claimed = self.state().claimed_with_prefix(kind, prefix);
        if !claimed.is_empty() || kind.stated_by() != crate::model::StatedBy::Nobody {
            return Ok(claimed);
        }
        // Objects that are never claimed are found in the store by what their bytes say they are.
        let ids = self.store().matching(prefix).map_err(|error| Box::new(Error::from(error)))?;
        let of_kind = |id: &ObjectId| {
            let stated = self.bytes(*id).ok().and_then(|bytes| crate::model::stated_kind(&bytes));
            stated == Some(kind) || (kind == Kind::Blob && stated.is_none())
        };
        Ok(ids.into_iter().filter(of_kind).map(|id| TypedId::new(kind, id)).collect())
    }
}

fn looks_like_hex(text: &str) -> bool {
    text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
