//! Does somebody want a transfer to end? Looked at before every piece, and while we wait for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often whoever waits looks.
pub const LOOK: Duration = Duration::from_millis(100);
/// What a transfer that was asked to end says of itself.
pub const STOPPED: &str = "stopped";

/// Shared by who asks and who is asked.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
