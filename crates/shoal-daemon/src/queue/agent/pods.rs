//! How does an agent have its runs done by a Kubernetes cluster instead of by this machine?
//!
//! For the keeper, a run of a pool is a process that waits for the run's end and passes on what it prints (`shoal host pod`). Everything around it
//! is as on any host: room, trees, records, output, numbers, results. What the cluster is to do lies in a folder of the run's own, `pods/NAME`, and
//! whoever speaks with the cluster leaves the end there. The agent's folder is on a volume that pods see under the same path.

use super::note::{Note, name};
use super::room::Cannot;
use super::session::Session;
use crate::queue::keeper::folder::{Folder, make};
use crate::queue::keeper::words::{Over, Run};
use shoal_core::fleet::pool::{Pool, node_of};
use shoal_core::kubernetes::pool::ask::{Ask, End};
use shoal_core::kubernetes::pool::script::{self, Inside};
use shoal_core::kubernetes::pool::{ASK, END, PODS, SCRIPT, job};
use shoal_core::queue::host::HostFacts;
use shoal_core::queue::work::{Ending, Start};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// Beyond a run's grace: a signal takes its way through the server and its node, and so does the answer.
pub const SLACK_MS: u64 = 15_000;

/// What is wrong with a run that is not over, or with the pool; none: nothing any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub run: Option<String>,
    pub trouble: Option<String>,
}

/// Nodes of the pool that take nothing now: nobody is to be told to go there.
pub type Shut = Arc<Mutex<BTreeSet<String>>>;

/// Speaks with the cluster, in a thread of the agent's process, for as long as that lives. It is told the agent's folder.
pub type Beside = Box<dyn FnOnce(PathBuf, Sender<Word>) + Send>;

/// What makes an agent that of a pool.
pub struct Pods {
    pub pool: Pool,
    pub shut: Shut,
    pub beside: Beside,
}

/// The folder of a run's own.
pub fn notes(folder: &Folder, name: &str) -> PathBuf {
    folder.root().join(PODS).join(name)
}

/// What the pool says of itself counts, not what this machine is like; but where this machine was booted anew, nobody waits for runs any more.
/// GPUs of a node that takes nothing are as if others used them.
pub fn facts(pool: &Pool, shut: &Shut, of_this_machine: HostFacts) -> HostFacts {
    let shut = shut.lock().unwrap_or_else(PoisonError::into_inner);
    let mut gpus = pool.gpus();
    gpus.iter_mut().for_each(|gpu| gpu.foreign_processes = shut.contains(node_of(&gpu.uuid)).into());
    HostFacts {
        cpus: pool.cpus(),
        memory_bytes: pool.memory_bytes(),
        gpus,
        load1: 0.0,
        idle_seconds: None,
        users: Vec::new(),
        ..of_this_machine
    }
}

/// Where and as what it is to run.
pub struct Made<'a> {
    pub room: &'a str,
    pub cwd: &'a str,
    pub ours: Vec<String>,
    pub argv: &'a [String],
    pub env: Vec<(String, String)>,
    pub virtualenv: Option<&'a str>,
    pub requirements: Option<String>,
    pub environment: u32,
}

/// Writes down what the cluster is to do, and gives the keeper the process that waits for it.
pub fn run(pool: &Pool, folder: &Folder, start: &Start, made: Made) -> Result<Run, Cannot> {
    let name = name(&start.attempt, start.rank);
    if start.hosts.len() > 1 {
        return Err("processes of a gang have to reach each other, which those of a pool cannot yet; say `on:` with hosts alone".into());
    }
    let devices = start.devices.iter().filter_map(|held| pool.is_too_small(held.milli)).next();
    if let Some(why) = devices {
        return Err(why.into());
    }
    let notes = notes(folder, &name);
    let text = notes.to_str().ok_or("the queue's folder on the volume has a name that is not text")?;
    // What a pod holds is known to its Job; the numbers of this queue mean nothing there.
    let env: Vec<(String, String)> = made.env.into_iter().filter(|(name, _)| !job::is_of_the_pod(name)).collect();
    let inside = Inside {
        notes: text,
        room: made.room,
        cwd: made.cwd,
        ours: &made.ours,
        env: &env,
        virtualenv: made.virtualenv,
        setup: &start.setup,
        argv: made.argv,
        limit: start.time_limit_seconds.map(|seconds| (seconds, start.grace_seconds)),
    };
    if let Some(why) = script::fault(&inside) {
        return Err(why.into());
    }
    let ask = serde_json::to_string(&Ask::of(start, &name)).map_err(|e| e.to_string())?;
    write(&notes, &ask, &script::of(&inside)).map_err(|e| {
        let why = format!("{}: {e}", notes.display());
        if matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) { Cannot::Now(why) } else { Cannot::Ever(why) }
    })?;
    let program = std::env::current_exe().map_err(|e| format!("this program is not to be found: {e}"))?;
    let note = Note::of(start, made.ours, made.requirements);
    Ok(Run {
        name,
        note: serde_json::to_string(&note).map_err(|e| e.to_string())?,
        program: program.to_string_lossy().into_owned(),
        argv: ["shoal", "host", "pod", text].map(Into::into).into(),
        environment: made.environment,
        env: Vec::new(),
        cwd: "/".into(),
        after: start.after.as_ref().map(|after| super::note::name(after, start.rank)),
        // Time and memory are the pod's: its script and the cluster hold it to them.
        time_limit_ms: None,
        grace_ms: u64::from(start.grace_seconds) * 1000 + SLACK_MS,
        memory_bytes: None,
        prepared: None,
        refused: None,
        // It is not here: whatever became of the keeper, it was not the run.
        guarded: false,
    })
}

/// Of one that was prepared and never handed over nothing is left.
fn write(notes: &Path, ask: &str, script: &str) -> io::Result<()> {
    super::room::remove(notes)?;
    make(notes)?;
    for (name, content) in [(SCRIPT, script), (ASK, ask)] {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(notes.join(name))?;
        file.write_all(content.as_bytes())?;
    }
    Ok(())
}

/// What the cluster said of its end is the better word than how the process that waited for it went.
pub fn settle(folder: &Folder, over: &mut Over) {
    if matches!(over.ending, Ending::NotStarted { .. }) {
        return;
    }
    let end =
        fs::read(notes(folder, &over.name).join(END)).ok().and_then(|text| serde_json::from_slice::<End>(&text).ok());
    match end {
        // We asked it to end: how exactly it did is nobody's business.
        Some(end) if over.ending == Ending::Stopped && !end.ending.success() => {}
        Some(End { ending, began, ended }) => {
            over.ending = ending;
            over.ended = ended.unwrap_or(over.ended);
            over.began = began.unwrap_or(over.began).min(over.ended);
        }
        None => match &mut over.ending {
            Ending::Stopped => {}
            // Whatever killed the keeper, it was none of these: they are elsewhere.
            Ending::Lost { felled, .. } => *felled = false,
            other => *other = Ending::lost("the process that waited for its pod is gone"),
        },
    }
}

impl Session {
    pub fn pods_say(&mut self, word: Word) {
        let Word { run, trouble } = word;
        let key = run.as_ref().map_or_else(|| "pool".to_string(), |run| format!("pod: {run}"));
        let attempt =
            run.as_ref().and_then(|run| self.attempts.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned());
        match trouble {
            Some(_) if run.is_some() && attempt.is_none() => {}
            Some(what) => self.trouble(&key, attempt.as_ref(), what),
            None => self.no_more_trouble(&key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::gather;
    use super::super::gpus::Gpus;
    use super::super::net::Net;
    use super::super::tests::start;
    use super::*;
    use crate::queue::keeper::words::Over;

    const POOL: &str = r#"{"name":"p","slots":2,"kubernetes":{"image":"i","volumes":[{"claim":"c","at":"/mnt","here":"/hot"}],"gpus":{"share":"whole","count":1,"runs":1,"resource":"nvidia.com/gpu"}}}"#;

    #[test]
    fn a_run_of_a_pool_is_a_process_that_waits_and_a_script() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::below(base.path(), "0123").unwrap();
        let pool: Pool = serde_json::from_str(POOL).unwrap();
        let argv = ["python".to_string(), "train.py".into()];
        let env = || vec![("A".to_string(), "b".into()), ("CUDA_VISIBLE_DEVICES".into(), "p/0".into())];
        let made = |argv| Made {
            room: "/r",
            cwd: "/r",
            ours: vec!["train.py".into()],
            argv,
            env: env(),
            virtualenv: None,
            requirements: None,
            environment: 0,
        };
        let mut start = start("s", 4);
        let run = super::run(&pool, &folder, &start, made(&argv)).unwrap();
        let notes = notes(&folder, &run.name);
        assert_eq!(run.argv[1..3], ["host", "pod"]);
        let script = fs::read_to_string(notes.join(SCRIPT)).unwrap();
        assert!(script.contains("export A=b\n") && script.contains("\npython train.py "), "{script}");
        assert!(!script.contains("CUDA_VISIBLE_DEVICES"), "{script}");
        let ask: Ask = serde_json::from_slice(&fs::read(notes.join(ASK)).unwrap()).unwrap();
        assert_eq!(ask.attempt, start.attempt);
        start.hosts = vec!["p".into(), "q".into()];
        assert!(
            matches!(super::run(&pool, &folder, &start, made(&argv)), Err(Cannot::Ever(why)) if why.contains("gang"))
        );
        start.hosts.truncate(1);
        start.devices = vec![shoal_core::queue::host::Held { uuid: "p/0".into(), milli: 500 }];
        assert!(
            matches!(super::run(&pool, &folder, &start, made(&argv)), Err(Cannot::Ever(why)) if why.contains("0.5 of a GPU"))
        );
    }

    #[test]
    fn gpus_of_a_node_that_takes_nothing_are_not_free() {
        let base = tempfile::tempdir().unwrap();
        let text = POOL.replace("whole", "pinned").replace(r#""gpus""#, r#""nodes":["n1","n2"],"gpus""#);
        let pool: Pool = serde_json::from_str(&text).unwrap();
        let shut = Shut::default();
        let this_machine = || gather(base.path(), &mut Gpus::default(), 0, &Net::default());
        let used = || -> Vec<(String, u32)> {
            let facts = facts(&pool, &shut, this_machine());
            facts.gpus.into_iter().map(|gpu| (gpu.uuid, gpu.foreign_processes)).collect()
        };
        assert_eq!(used(), [("n1/0".to_string(), 0), ("n2/0".to_string(), 0)]);
        shut.lock().unwrap().insert("n2".into());
        assert_eq!(used(), [("n1/0".to_string(), 0), ("n2/0".to_string(), 1)]);
    }

    #[test]
    fn what_the_cluster_says_is_the_end() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::below(base.path(), "0123").unwrap();
        fs::create_dir_all(notes(&folder, "a")).unwrap();
        let settled = |ending: Ending, end: Option<&str>| {
            let file = notes(&folder, "a").join(END);
            let _ = fs::remove_file(&file);
            end.iter().for_each(|end| fs::write(&file, end).unwrap());
            let mut over = Over {
                name: "a".into(),
                note: String::new(),
                ending,
                began: 1,
                ended: 9,
                cpu_ms: 0,
                peak_memory_bytes: 0,
                output: None,
            };
            settle(&folder, &mut over);
            (over.ending, over.began, over.ended)
        };
        let oom = r#"{"ending":"out_of_memory","began":3,"ended":5}"#;
        assert_eq!(settled(Ending::Exited(1), Some(oom)), (Ending::OutOfMemory, 3, 5));
        assert_eq!(settled(Ending::Stopped, Some(oom)).0, Ending::Stopped);
        assert_eq!(settled(Ending::Stopped, Some(r#"{"ending":{"exited":0}}"#)).0, Ending::Exited(0));
        assert!(matches!(settled(Ending::Exited(0), None).0, Ending::Lost { .. }));
        let felled = Ending::Lost { why: "the keeper was killed".into(), felled: true };
        assert_eq!(settled(felled, None).0, Ending::lost("the keeper was killed"));
        let not = Ending::NotStarted { why: "x".into() };
        assert_eq!(settled(not.clone(), None).0, not);
    }
}
