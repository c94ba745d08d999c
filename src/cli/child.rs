//! The command under `ledger run` and `ledger eval`: started, signalled, waited for.
//!
//! Signals that other processes send to us go on to the child, and tell how the attempt ended. What the
//! terminal sends it sends to both, so that is not sent on a second time.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;

use crate::acts::Ended;
use crate::model::Status;

use super::error::Failure;
use super::ui::Exit;

/// How the command ended.
#[derive(Debug)]
pub(super) struct Done {
    /// What a shell would see: the code, or 128 and the signal.
    pub(super) code: i32,
    /// The record of it.
    pub(super) ended: Ended,
}

/// Runs a command to its end with some more variables.
pub(super) fn supervise(words: &[OsString], vars: &[(&str, OsString)]) -> Result<Done, Failure> {
    let Some((program, args)) = words.split_first() else {
        return Err(Failure::usage("no command was given").hint("ledger run -- python train.py"));
    };
    // Handlers first: a signal between the start and the registration would end us and not the child.
    let mut signals = SignalsInfo::<WithOrigin>::new([SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP])
        .map_err(|error| Failure::new("io", Exit::Busy, "signals cannot be watched").because(error))?;
    let handle = signals.handle();
    let received = AtomicI32::new(0);
    let mut command = Command::new(program);
    command.args(args).envs(vars.iter().map(|(name, value)| (name, value)));
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(not_started(program, &error)),
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let status = std::thread::scope(|scope| {
        scope.spawn(|| {
            for origin in &mut signals {
                // The first one says why the attempt ends; later ones only hurry it.
                let _ = received.compare_exchange(0, origin.signal, Ordering::Relaxed, Ordering::Relaxed);
                let from_process = origin.process.is_some();
                if let (true, Some(pid), Some(signal)) = (from_process, pid, named(origin.signal)) {
                    let _ = kill_process(pid, signal);
                }
            }
        });
        let status = child.wait();
        handle.close();
        status
    });
    let status = status
        .map_err(|error| Failure::new("io", Exit::Busy, "the command cannot be waited for").because(error))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let ours = received.load(Ordering::Relaxed);
    let status_word = match ours {
        SIGINT => Status::Cancelled,
        SIGTERM | SIGUSR1 => Status::Preempted,
        _ if status.success() => Status::Completed,
        _ => Status::Failed,
    };
    let signal = status.signal().or((ours != 0).then_some(ours));
    let ended = Ended {
        status: status_word,
        code: status.code().map(i64::from),
        signal: signal.map(name),
        reason: None,
    };
    Ok(Done { code, ended })
}

/// Replaces this process by the command: on ranks that record nothing.
pub(super) fn become_command(words: &[OsString]) -> Failure {
    let Some((program, args)) = words.split_first() else { return Failure::usage("no command was given") };
    let error = Command::new(program).args(args).exec();
    Failure::new("no-command", Exit::Usage, format!("`{}` cannot be started", program.display()))
        .because(error)
}

fn not_started(program: &OsString, error: &io::Error) -> Done {
    let reason = format!("`{}` cannot be started: {error}", program.display());
    // As shells have it: 127 for a command that is not found, 126 for one that cannot be executed.
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let ended = Ended { status: Status::Failed, code: Some(code.into()), signal: None, reason: Some(reason) };
    Done { code, ended }
}

fn named(signal: i32) -> Option<Signal> {
    match signal {
        SIGTERM => Some(Signal::TERM),
        SIGINT => Some(Signal::INT),
        SIGUSR1 => Some(Signal::USR1),
        SIGUSR2 => Some(Signal::USR2),
        SIGHUP => Some(Signal::HUP),
        _ => None,
    }
}

fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}
