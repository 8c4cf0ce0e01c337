//! What changed, and when is it quiet enough to send it? Which files changed is found out by looking: an event only says that it is time to.

use notify::{RecursiveMode, Watcher};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// An editor saves in several steps; this long nothing may happen.
const QUIET: Duration = Duration::from_millis(200);
/// Something that writes all the time is sent all the same.
const LONGEST: Duration = Duration::from_secs(2);

/// Whether it is time to send, for changes that began and last happened then (pure).
pub fn is_due(began: Instant, last: Instant, now: Instant) -> bool {
    now.duration_since(last) >= QUIET || now.duration_since(began) >= LONGEST
}

pub struct Watch {
    /// Holds at most one: many changes are one reason to look.
    changes: Receiver<()>,
    _watcher: notify::RecommendedWatcher,
}

impl Watch {
    pub fn over(paths: &[PathBuf]) -> Result<Watch, String> {
        let (send, changes) = sync_channel(1);
        let told = move |event: notify::Result<notify::Event>| {
            // Reading changes nothing; whatever is odd is a reason to look.
            if event.is_ok_and(|event| event.kind.is_access()) {
                return;
            }
            let _ = send.try_send(());
        };
        let mut watcher = notify::recommended_watcher(told).map_err(|e| format!("files cannot be watched: {e}"))?;
        for path in paths {
            watcher.watch(watched(path), RecursiveMode::Recursive).map_err(|e| {
                format!(
                    "{} cannot be watched: {e}\n  hint: is fs.inotify.max_user_watches large enough?",
                    path.display()
                )
            })?;
        }
        Ok(Watch { changes, _watcher: watcher })
    }

    /// Waits until something has changed and it is quiet again. False: `stop` said so.
    pub fn wait(&self, stop: &dyn Fn() -> bool) -> bool {
        let mut since: Option<(Instant, Instant)> = None;
        loop {
            if stop() {
                return false;
            }
            if self.changes.recv_timeout(QUIET / 4).is_ok() {
                let now = Instant::now();
                since = Some((since.map_or(now, |(began, _)| began), now));
            }
            if since.is_some_and(|(began, last)| is_due(began, last, Instant::now())) {
                return true;
            }
        }
    }
}

/// A file that is replaced is another one afterwards; its folder stays.
fn watched(path: &Path) -> &Path {
    if path.is_dir() { path } else { path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_or_too_long() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert!(!is_due(at(0), at(0), at(100)));
        assert!(is_due(at(0), at(0), at(200)));
        assert!(!is_due(at(0), at(1900), at(1950)));
        assert!(is_due(at(0), at(1990), at(2000)));
    }
}
