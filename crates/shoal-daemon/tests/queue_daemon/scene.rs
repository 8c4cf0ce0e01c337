//! Daemon, agent, keeper and runs, all of them real, on this machine.

use super::*;
use std::ops::ControlFlow;

pub struct Scene {
    pub folder: tempfile::TempDir,
    pub how: How,
}

pub fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let how = How::at(&folder.path().join("q")).env("SHOAL_HOST_DIR", folder.path().join("host"));
    Scene { how, folder }
}

impl Scene {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Agents and keepers of this test's host folder, by their environment.
    pub fn processes(&self, word: &str) -> Vec<u32> {
        let mark = format!("SHOAL_HOST_DIR={}", self.path("host").display());
        let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| {
            let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            let has = |bytes: Vec<u8>, word: &str| bytes.split(|b| *b == 0).any(|v| v == word.as_bytes());
            has(read("environ"), &mark) && has(read("cmdline"), word)
        })
        .collect()
    }

    pub fn signal(&self, word: &str, signal: i32) {
        for pid in self.processes(word) {
            // SAFETY: it bears the mark of this test's own folder.
            unsafe { libc::kill(pid as i32, signal) };
        }
    }

    /// How often a host has said hello to a daemon of this store.
    pub fn hellos(&self, daemon: &Daemon) -> usize {
        daemon.log().matches(" is there: ").count()
    }

    /// Ends what this test's daemons left, and waits for it.
    pub fn clear(&self, daemon: Daemon) {
        let _ = daemon.client().ask(&Request::Shutdown { stop_runs: true }, &[]);
        drop(daemon);
        // Agents first: one that lives would start another keeper.
        for word in ["agent", "queue-keeper"] {
            until("their end", || {
                self.signal(word, libc::SIGTERM);
                self.processes(word).is_empty().then_some(())
            });
        }
    }
}

pub fn sh(name: &str, cells: u32, script: &str) -> Sweep {
    let mut sweep = sweep(name, cells);
    sweep.command.argv = vec!["/bin/sh".into(), "-c".into(), script.into()];
    sweep
}

/// Runs of a sweep of [`sweep`].
pub fn names(sweep: &str, cells: u32) -> impl Iterator<Item = String> + use<'_> {
    (0..cells).map(move |cell| format!("{sweep}:{cell}.0"))
}

pub fn done(daemon: &Daemon, name: &str) -> SweepRow {
    let mut last = None;
    let mut client = daemon.client();
    let waited = client.stream(&Request::Wait { sweep: name.into() }, |answer, _| {
        if let Answer::Sweeps { sweeps } = answer {
            last = sweeps.into_iter().next();
        }
        ControlFlow::Continue(())
    });
    waited.unwrap_or_else(|e| panic!("{e}; {}", daemon.log()));
    last.unwrap()
}

/// Folders of results by run, all pages.
pub fn folders(client: &mut Client, sweep: &str) -> BTreeMap<String, PathBuf> {
    let mut all = BTreeMap::new();
    loop {
        let ask = Request::Results { sweep: sweep.into(), from: all.len() as u32, limit: 1000 };
        let Answer::Results { rows, total, .. } = client.ask(&ask, &[]).unwrap().0 else { panic!("no results") };
        let none = rows.is_empty();
        for row in rows {
            let folder = row.folder.unwrap_or_else(|| panic!("{} has no folder", row.run));
            assert!(all.insert(row.run.to_string(), folder.into()).is_none(), "{} is there twice", row.run);
        }
        if none || all.len() as u64 >= total {
            return all;
        }
    }
}
