//! Waits for a run of a pool: passes on what its pod prints, and ends as it does. For the keeper, this process is the run.
//!
//! All it knows is the run's folder on the volume (`shoal_core::kubernetes::pool`); who speaks with the cluster reads and writes there too. So either
//! may be killed and started anew, and neither has to find the other.

use crate::signals;
use rustix::thread::{Timespec, nanosleep};
use shoal_core::kubernetes::pool::ask::{Ask, End};
use shoal_core::kubernetes::pool::{ASK, END, GO, OUT, STOP};
use shoal_core::queue::work::Ending;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Files on a volume are written by other machines: nobody tells of that, so one has to look. There may be hundreds who do: a run that has gone on
/// for long is looked at less often.
const LOOK: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(1);
/// The part of a run's time that its end may be seen late.
const LATE: u32 = 20;

pub fn main(notes: &Path) -> ExitCode {
    match wait(notes) {
        Ok(ending) => match ending {
            Ending::Exited(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
            _ => ExitCode::FAILURE,
        },
        Err(e) => {
            eprintln!("shoal: its pod cannot be followed: {}: {e}", notes.display());
            ExitCode::FAILURE
        }
    }
}

/// Until its end is there; or until its folder is not any more, which somebody else must have removed.
fn wait(notes: &Path) -> io::Result<Ending> {
    let asked = signals::count()?;
    // Programs may be told to save their work. There is no way to tell one in a pod: it goes on.
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, Default::default())?;
    let ask: Ask = serde_json::from_slice(&fs::read(notes.join(ASK))?)?;
    let go = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(notes.join(GO))?;
    // Held until this process ends, however it does: then nobody waits for the run any more.
    go.lock()?;
    let mut out = Output { file: None };
    let mut told = false;
    let began = Instant::now();
    loop {
        // In this order: what was printed before the end is seen with it.
        let end = fs::read(notes.join(END));
        out.pass_on(&notes.join(OUT))?;
        match end {
            Ok(text) => return Ok(serde_json::from_slice::<End>(&text)?.ending),
            Err(e) if e.kind() == io::ErrorKind::NotFound && notes.is_dir() => {}
            Err(e) => return Err(e),
        }
        if !told && asked() > 0 {
            fs::write(notes.join(STOP), ask.grace_seconds.to_string())?;
            told = true;
        }
        rest((began.elapsed() / LATE).clamp(LOOK, SELDOM));
    }
}

/// A signal ends it early.
fn rest(time: Duration) {
    let time = Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() };
    let _ = nanosleep(&time);
}

struct Output {
    file: Option<File>,
}

impl Output {
    fn pass_on(&mut self, path: &Path) -> io::Result<()> {
        if self.file.is_none() {
            match File::open(path) {
                Ok(file) => self.file = Some(file),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let (mut piece, mut stdout) = (vec![0; 64 << 10], io::stdout().lock());
        loop {
            match file.read(&mut piece)? {
                0 => return stdout.flush(),
                n => stdout.write_all(&piece[..n])?,
            }
        }
    }
}
