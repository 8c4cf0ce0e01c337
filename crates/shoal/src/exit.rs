//! Exit codes with meanings (they are part of the programs' interface), and the one place that prints an error.

use shoal_sync::SyncError;
use std::process::ExitCode;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Success = 0,
    RunFailed = 1,
    Usage = 2,
    CannotStart = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The code for an error of the engine.
pub fn code_of(error: &SyncError) -> Exit {
    match error {
        SyncError::Setting { .. } | SyncError::Usage { .. } => Exit::Usage,
        SyncError::Version { .. }
        | SyncError::Token { .. }
        | SyncError::DuplicateId { .. }
        | SyncError::Refused { .. }
        | SyncError::Unreachable { .. }
        | SyncError::Timeout { .. } => Exit::CannotStart,
        SyncError::Dead { .. }
        | SyncError::Aborted { .. }
        | SyncError::Mismatch { .. }
        | SyncError::Deadlock { .. }
        | SyncError::Finished { .. }
        | SyncError::Protocol { .. }
        | SyncError::ShutDown
        | SyncError::System { .. } => Exit::RunFailed,
    }
}

/// Prints `program: error` and gives the code to exit with.
pub fn report(program: &str, outcome: Result<(), SyncError>) -> ExitCode {
    match outcome {
        Ok(()) => Exit::Success.into(),
        Err(error) => {
            eprintln!("{program}: {error}");
            code_of(&error).into()
        }
    }
}
