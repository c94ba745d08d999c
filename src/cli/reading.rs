//! How commands read the files that they digest: the flags, and where digests are kept between two commands.

use crate::capture::cache::Kept;
use crate::capture::walk::Reading;

use super::settings::Context;

/// How files are read.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct Reads {
    /// Map large files instead of reading them, where BLAKE3 alone is made; one that is cut off meanwhile ends this
    /// command
    #[arg(long, hide_short_help = true)]
    mmap: bool,
    /// Read every file, also those that were read before and have not been touched since
    #[arg(long, hide_short_help = true)]
    no_cache: bool,
}

/// Folder of digests in the user's cache.
const DIGESTS: &str = "digests";

impl Context {
    /// Returns how files are to be read; a user without a cache directory has all of them read.
    pub(super) fn reading(&self, flags: Reads) -> Reading {
        let kept = |dir: std::path::PathBuf| Kept { dir: dir.join(DIGESTS), now: self.now };
        Reading {
            is_mapped: flags.mmap,
            cache: if flags.no_cache { None } else { self.home().cache.map(kept) },
        }
    }
}
