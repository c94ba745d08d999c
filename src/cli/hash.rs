//! `ledger hash`: the digests under which this program knows a file, a directory or a set of tensors.
//!
//! No ledger is opened; what is printed agrees with `b3sum` and `sha256sum`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::capture::walk::{self, Options, Root};
use crate::capture::weights;
use crate::id::Digests;
use crate::model::content::{Tensor, Tensors, escape};

use super::error::Failure;
use super::settings::Context;
use super::ui::{Answer, Exit};

/// Print the digest of a file, a directory or its tensors
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger hash model.safetensors            as b3sum prints it\n  \
                         ledger hash --tensors out/step-300")]
pub(super) struct Args {
    /// A file or directory
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Which digests of the bytes
    #[arg(long, value_name = "WHICH", default_value = "blake3")]
    digests: Which,
    /// Digest the tensors of safetensors files, whatever files hold them
    #[arg(long, conflicts_with = "digests")]
    tensors: bool,
    #[command(flatten)]
    reading: super::reading::Reads,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Which {
    /// BLAKE3 only
    Blake3,
    /// BLAKE3 and SHA-256
    All,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let digests = if args.digests == Which::All { Digests::All } else { Digests::Blake3 };
    let progress = context.ui.progress("hashed", None);
    let options = Options::new(digests).reading(&context.reading(args.reading));
    let tree = walk::observe(&args.path, &options, &|bytes| progress.add(bytes))?;
    drop(progress);
    let shown = args.path.display().to_string();
    let mut answer = Answer::new("ledger.hash/1");
    answer.set("path", shown.clone());
    answer.set("size", tree.bytes);
    if args.tensors {
        return tensors(args, &tree, answer);
    }
    if let (Root::File { .. }, [file]) = (tree.root, tree.files.as_slice()) {
        answer.set("blake3", file.blake3.to_hex());
        answer.set("sha256", file.sha256.map(|digest| digest.to_hex()));
        if let Some(sha256) = file.sha256 {
            answer.line(format!("blake3:{}  {shown}", file.blake3));
            answer.line(format!("sha256:{sha256}  {shown}"));
        } else {
            answer.line(format!("{}  {shown}", file.blake3));
        }
        return Ok(answer);
    }
    answer.set("tree", tree.id.to_hex());
    answer.line(format!("tree:{}  {shown}", tree.id));
    if let Some((sums, _)) = tree.sums {
        answer.set("sums", sums.to_hex());
        answer.line(format!("sums:{sums}  {shown}"));
    }
    if !context.ui.is_json() {
        return Ok(answer);
    }
    let files = tree.files.iter().map(|file| {
        json!({
            "path": escape(&file.path),
            "size": file.size,
            "blake3": file.blake3.to_hex(),
            "sha256": file.sha256.map(|digest| digest.to_hex()),
        })
    });
    answer.set("files", files.collect::<Vec<_>>());
    Ok(answer)
}

fn tensors(args: &Args, tree: &walk::Tree, mut answer: Answer) -> Result<Answer, Failure> {
    let shown = args.path.display().to_string();
    let found = weights::observe(tree, &args.path)?;
    let Some(set) = found.tensors else {
        let message = format!("`{shown}` has no tensors that can be digested one by one");
        let failure =
            Failure::new("bad-data", Exit::Usage, message).fact(format!("format  {}", found.format));
        let problems = found.problems.iter().map(weights::Problem::text);
        return Err(problems.fold(failure, Failure::fact));
    };
    let list = Tensors::decode(&set.bytes)?;
    answer.line(format!("tensors:{}  {shown}", set.id));
    answer.set("id", format!("tensors:{}", set.id));
    answer.set("tensors", list.tensors.iter().map(tensor).collect::<Vec<_>>());
    Ok(answer)
}

fn tensor(tensor: &Tensor) -> Value {
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "blake3": tensor.id.to_hex(),
    })
}
