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
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Files on a volume are written by other machines: nobody tells of that, so one has to look. There may be hundreds who do: a run that has gone on
/// for long is looked at less often.
const LOOK: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(1);
/// A volume that cannot be read for so long is taken to be gone for good.
const BEARS: Duration = Duration::from_secs(60);
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

/// Until its end is there; or until its folder has not been for so long that somebody else must have removed it.
fn wait(notes: &Path) -> io::Result<Ending> {
    let asked = signals::count()?;
    // Programs may be told to save their work. There is no way to tell one in a pod: it goes on.
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, Default::default())?;
    let ask: Ask = serde_json::from_slice(&fs::read(notes.join(ASK))?)?;
    let go = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(notes.join(GO))?;
    // Held until this process ends, however it does: then nobody waits for the run any more.
    go.lock()?;
    let (mut out, mut patience) = (Output::default(), Patience::default());
    let mut told = false;
    let began = Instant::now();
    loop {
        let looked = look(notes, &mut out, &mut io::stdout().lock());
        if let Some(ending) = patience.bears(looked, Instant::now())? {
            return Ok(ending);
        }
        if !told && asked() > 0 {
            told = patience.bears(stop(notes, &ask).map(Some).map_err(Trouble::Volume), Instant::now())?.is_some();
        }
        rest((began.elapsed() / LATE).clamp(LOOK, SELDOM));
    }
}

fn stop(notes: &Path, ask: &Ask) -> io::Result<()> {
    fs::write(notes.join(STOP), ask.grace_seconds.to_string())
}

#[derive(Debug)]
enum Trouble {
    /// It may pass: the volume is another machine's.
    Volume(io::Error),
    /// Nobody takes what is passed on.
    Here(io::Error),
}

/// Its end, if it is there.
fn look(notes: &Path, out: &mut Output, to: &mut dyn Write) -> Result<Option<Ending>, Trouble> {
    // In this order: what was printed before the end is seen with it.
    let end = fs::read(notes.join(END));
    out.pass_on(&notes.join(OUT), to)?;
    match end {
        Ok(text) => {
            serde_json::from_slice::<End>(&text).map(|end| Some(end.ending)).map_err(|e| Trouble::Volume(e.into()))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => fs::metadata(notes).map(|_| None).map_err(Trouble::Volume),
        Err(e) => Err(Trouble::Volume(e)),
    }
}

/// How long a volume that cannot be read is believed in: whoever ends here ends its pod.
#[derive(Debug, Default)]
struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// Nothing, as long as it is borne.
    fn bears<T>(&mut self, looked: Result<Option<T>, Trouble>, now: Instant) -> io::Result<Option<T>> {
        match looked {
            Ok(seen) => {
                self.since = None;
                Ok(seen)
            }
            Err(Trouble::Volume(_)) if now - *self.since.get_or_insert(now) < BEARS => Ok(None),
            Err(Trouble::Volume(e) | Trouble::Here(e)) => Err(e),
        }
    }
}

/// A signal ends it early.
fn rest(time: Duration) {
    let time = Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() };
    let _ = nanosleep(&time);
}

#[derive(Debug, Default)]
struct Output {
    file: Option<File>,
    /// So far it was passed on.
    at: u64,
}

impl Output {
    fn pass_on(&mut self, path: &Path, to: &mut dyn Write) -> Result<(), Trouble> {
        let passed = self.read_on(path, to);
        if passed.is_err() {
            // It may be another when the volume is back.
            self.file = None;
        }
        passed
    }

    fn read_on(&mut self, path: &Path, to: &mut dyn Write) -> Result<(), Trouble> {
        if self.file.is_none() {
            match File::open(path) {
                Ok(mut file) => {
                    file.seek(SeekFrom::Start(self.at)).map_err(Trouble::Volume)?;
                    self.file = Some(file);
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(e) => return Err(Trouble::Volume(e)),
            }
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut piece = vec![0; 64 << 10];
        loop {
            match file.read(&mut piece).map_err(Trouble::Volume)? {
                0 => return to.flush().map_err(Trouble::Here),
                n => {
                    to.write_all(&piece[..n]).map_err(Trouble::Here)?;
                    self.at += n as u64;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_is_away_for_a_moment_ends_nothing() {
        let away = || Err(Trouble::Volume(io::ErrorKind::StaleNetworkFileHandle.into()));
        let (mut patience, begun) = (Patience::default(), Instant::now());
        let after = |seconds: u64| begun + Duration::from_secs(seconds);
        for (at, looked, ends) in [
            (0, away(), false),
            (59, away(), false),
            (59, Ok(None), false),
            (70, away(), false),
            (129, away(), false),
            (130, away(), true),
            (0, Err(Trouble::Here(io::ErrorKind::BrokenPipe.into())), true),
        ] {
            let said = format!("{looked:?} after {at} s");
            assert_eq!(patience.bears::<Ending>(looked, after(at)).is_err(), ends, "{said}");
        }
        assert_eq!(patience.bears(Ok(Some(Ending::Exited(3))), begun).expect("no error"), Some(Ending::Exited(3)));
    }

    #[test]
    fn what_was_printed_is_passed_on_once_whatever_becomes_of_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (notes, mut out, mut seen) = (folder.path().join("a"), Output::default(), Vec::new());
        assert!(matches!(look(&notes, &mut out, &mut seen), Err(Trouble::Volume(_))), "no folder");
        fs::create_dir(&notes).expect("a folder");
        fs::write(notes.join(OUT), "one\n").expect("written");
        assert!(matches!(look(&notes, &mut out, &mut seen), Ok(None)));
        // As after a failure: the file is opened anew.
        out.file = None;
        fs::write(notes.join(OUT), "one\ntwo\n").expect("written");
        fs::write(notes.join(END), r#"{"ending":{"exited":3}}"#).expect("written");
        assert!(matches!(look(&notes, &mut out, &mut seen), Ok(Some(Ending::Exited(3)))));
        assert_eq!(seen, b"one\ntwo\n");
    }
}
