//! Files from a node to here: rsync where both ends have it; else the node sends and this machine receives, in the words of `push`.

use super::line::{Trouble, say, start, trouble};
use super::manifest::{Manifest, Part};
use super::push::Sent;
use super::receive::{Served, serve};
use super::send::{self, Load};
use super::words::{Answer, MARK, Order, VERSION, hex, numbers};
use super::{Options, Progress, Rules, Stage, Stop, Way, choose::How, proof, rsync, tree};
use crate::process::Process;
use crate::ssh::Connection;
use serde::{Deserialize, Serialize};
use shoal_core::fleet::Reach;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::time::Duration;

const ASKING: Duration = Duration::from_secs(20);
/// It says something every two seconds.
const QUIET: Duration = Duration::from_secs(40);
const SIGN: Duration = Duration::from_secs(2);
/// Logins that print more than this before our program speaks are not waited for.
const NOISE: usize = 64 << 10;
const READY: &str = "@shoal-files ready";

/// What the node is asked for (WIRE-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    pub version: u32,
    pub source: String,
    /// Where it goes; absolute, for the receiving side to read.
    pub target: String,
    pub exclude: Vec<String>,
    pub filter: Vec<String>,
    pub delete: bool,
}

/// As `rsync SRC DST`: with a slash behind it, what is in SRC; else SRC itself into DST.
pub fn pull(
    way: &Way,
    source: &str,
    target: &Path,
    rules: &Rules,
    options: &Options,
    tell: &(dyn Fn(Progress) + Sync),
) -> Result<Sent, Trouble> {
    let node = way.host.name.as_str();
    tell(Progress::at(Stage::Connecting));
    let here = |e: io::Error| {
        let text = e.to_string();
        trouble(
            node,
            format!("{}: {}", target.display(), text.split(" (os error").next().unwrap_or(&text)),
            "look at that path here",
        )
    };
    let absolute = std::path::absolute(target).map_err(here)?;
    if way.through.is_none() && way.host.reach != Reach::Local && !options.no_rsync && rsync::is_here() {
        let of = |failure: crate::ssh::Failure| trouble(&failure.host, failure.what, failure.hint);
        let connection = Connection::open(way.fleet, way.host, way.settings).map_err(of)?;
        let said = connection.run("rsync --version", Vec::new(), ASKING).map_err(of)?;
        if said.exit == crate::process::Exit::Code(0) {
            if let Some(parent) = absolute.parent() {
                std::fs::create_dir_all(parent).map_err(here)?;
            }
            let source = from_home(source);
            let with_slash = target.as_os_str().to_string_lossy().ends_with('/');
            let target = if with_slash { absolute.join("") } else { absolute };
            let args =
                rsync::down(connection.control(), source, &target, &rules.exclude, &rules.filter, options.delete);
            let mut bytes = 0;
            let did = rsync::run(node, &args, Vec::new(), &Stop::default(), &mut |done| {
                bytes = done;
                tell(Progress::sending(done, 0));
            })?;
            if did.vanished > 0 {
                let what = if did.vanished == 1 { "1 file".into() } else { format!("{} files", did.vanished) };
                tell(Progress::note(format!("{node}: {what} vanished there meanwhile; everything else is here")));
            }
            tell(Progress::at(Stage::Done));
            let how = if did.files == 0 { How::Nothing } else { How::Rsync };
            return Ok(Sent { files: did.files, bytes, how, deleted: did.deleted });
        }
    }
    let target = absolute
        .into_os_string()
        .into_string()
        .map_err(|_| trouble(node, "the target's name is not UTF-8", "choose another"))?;
    let Rules { exclude, filter } = rules.clone();
    let wish = Wish { version: VERSION, source: source.into(), target, exclude, filter, delete: options.delete };
    take(way, &wish, tell)
}

/// A pipe that has to say something now and then.
struct Patient(std::io::PipeReader);

impl Read for Patient {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let bound = Timespec { tv_sec: QUIET.as_secs() as i64, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&bound))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing came for {} s", QUIET.as_secs())));
        }
        self.0.read(bytes)
    }
}

impl std::os::fd::AsFd for Patient {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn take(way: &Way, wish: &Wish, tell: &(dyn Fn(Progress) + Sync)) -> Result<Sent, Trouble> {
    let node = way.host.name.as_str();
    let (Process { mut to, from, errors: _errors, end: _end }, _) = start(way, "host files --send")?;
    let mut from = Patient(from);
    let lost = |e: io::Error| trouble(node, format!("the line to it broke: {e}"), "run the same command again");
    let text = serde_json::to_vec(wish).map_err(|e| lost(e.into()))?;
    to.write_all(&[&(text.len() as u32).to_le_bytes()[..], &text].concat()).map_err(lost)?;
    let mut line = Vec::new();
    let mut byte = [0];
    let mut noise = 0;
    loop {
        from.read_exact(&mut byte).map_err(lost)?;
        noise += 1;
        if byte[0] != b'\n' {
            line.push(byte[0]);
            if noise > NOISE {
                return Err(trouble(node, "its login prints without end", "what does its ~/.bashrc print?"));
            }
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        if text.ends_with(READY) {
            break;
        }
        if let Some(Ok(Answer::Failed { what, hint })) = Answer::read(&text) {
            return Err(trouble(node, what, hint));
        }
        line.clear();
    }
    tell(Progress::at(Stage::Looking));
    let told = |done, total| tell(Progress::sending(done, total));
    let served = serve(from, to, Path::new("/"), way.through.is_some(), &told).map_err(lost)?;
    match served {
        Served { failed: Some((what, hint)), .. } => Err(trouble("this machine", what, hint)),
        Served { changed, .. } if !changed.is_empty() => {
            let what = format!("{} changed while it was sent ({} files in all did)", changed[0], changed.len());
            Err(trouble(node, what, "run the same command again, or leave it out with --exclude"))
        }
        Served { finished: false, .. } => {
            Err(trouble(node, "the connection was lost", "run the same command again: what is here is not sent twice"))
        }
        Served { files, bytes, deleted, .. } => {
            tell(Progress::at(Stage::Done));
            let how = if files == 0 { How::Nothing } else { How::Stream };
            Ok(Sent { files, bytes, how, deleted })
        }
    }
}

/// The other end of `pull`: this machine is the node, and its stdin and stdout lead to who asks.
pub fn give(mut input: impl Read, mut output: impl Write, home: &Path) -> io::Result<()> {
    // First, so that whoever started us knows we are here.
    output.write_all(Answer::Hello { version: VERSION }.line().as_bytes())?;
    output.flush()?;
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let mut text = vec![0; (u32::from_le_bytes(length) as usize).min(super::words::LONGEST)];
    input.read_exact(&mut text)?;
    let wish: Wish = serde_json::from_slice(&text)?;
    let loaded = std::thread::scope(|scope| {
        let reading = scope.spawn(|| load(&wish, home));
        let mut said = std::time::Instant::now();
        while !reading.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
            if said.elapsed() > SIGN {
                said = std::time::Instant::now();
                output.write_all(Answer::Busy { bytes: 0 }.line().as_bytes())?;
            }
        }
        io::Result::Ok(reading.join().unwrap_or_else(|_| Err("it could not be read".into())))
    })?;
    let (load, under) = match loaded {
        Ok(loaded) => loaded,
        Err(what) => {
            let hint = "is the path spelt as it is there, and readable for who logs in?".into();
            return output.write_all(Answer::Failed { what, hint }.line().as_bytes());
        }
    };
    output.write_all(format!("{READY}\n").as_bytes())?;
    let plain = load.manifest.encode();
    let list = zstd::bulk::compress(&plain, 1)?;
    let (key, token) = (proof::random::<32>()?, proof::random::<32>()?);
    let prepare = Order::Prepare {
        version: VERSION,
        list: list.len(),
        unpressed: plain.len(),
        key: hex(&key),
        token: hex(&token),
        listen: false,
    };
    say(&mut output, &prepare)?;
    output.write_all(&list)?;
    output.flush()?;
    let mut input = io::BufReader::new(input);
    let Answer::Prepared { lacking, .. } = hear(&mut input)? else { return Ok(()) };
    let lacking = numbers(&lacking, load.len());
    if !lacking.is_empty() {
        say(&mut output, &Order::Receive { stream: 1, from_peer: false, forward: false, write_ms: 0, read_ms: 0 })?;
        send::stream(&load, &key, 1, &lacking, &mut output)?;
        output.flush()?;
        let Answer::Received { .. } = hear(&mut input)? else { return Ok(()) };
    }
    say(&mut output, &Order::Finish { delete: wish.delete, exclude: wish.exclude, filter: wish.filter, under })?;
    output.flush()?;
    hear(&mut input).map(drop)
}

/// The path from the home folder, where a login begins (pure). A `~` is nobody's business but ours: rsync gets its words as they are. Only
/// by itself or before a slash does it mean the home; `~bob` and `~old` are names like any other.
fn from_home(source: &str) -> &str {
    match source.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        None => source,
        Some(rest) => Some(rest.trim_start_matches('/')).filter(|rest| !rest.is_empty()).unwrap_or("./"),
    }
}

/// Whether what is in a folder is meant, and not the folder itself (pure).
pub fn means_what_is_inside(source: &str) -> bool {
    source == "~" || source.ends_with('/') || matches!(source.rsplit('/').next(), Some("." | ".."))
}

/// What is sent, and the name under which the rules see it.
fn load(wish: &Wish, home: &Path) -> Result<(Load, Option<String>), String> {
    let source = home.join(from_home(&wish.source));
    let whole = !means_what_is_inside(&wish.source) && source.is_dir();
    let name = source.file_name().map(|name| name.to_string_lossy().into_owned()).filter(|_| whole);
    let rules = Rules { exclude: wish.exclude.clone(), filter: wish.filter.clone() };
    let tree = tree::tree_under(&source, &rules, name.as_deref()).map_err(|e| e.to_string())?;
    let remote = match &name {
        Some(name) => format!("{}/{name}", wish.target.trim_end_matches('/')),
        None => wish.target.clone(),
    };
    let part = Part { remote, single: tree.single, entries: tree.entries };
    Ok((Load { manifest: Manifest { parts: vec![part] }, roots: vec![tree.root] }, name))
}

fn hear(input: &mut impl BufRead) -> io::Result<Answer> {
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match Answer::read(&line) {
            Some(Ok(Answer::Busy { .. } | Answer::Hello { .. })) | None => {}
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(what)) => return Err(io::Error::other(what)),
        }
    }
}

/// The mark is what both kinds of lines begin with.
const _: () = assert!(MARK.len() < READY.len());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_meant_only_by_a_tilde_alone() {
        for (source, from, inside) in [
            ("~", "./", true),
            ("~/", "./", true),
            ("~/x", "x", false),
            ("~//x", "x", false),
            ("~/x/", "x/", true),
            ("~bob/x", "~bob/x", false),
            ("~old", "~old", false),
            ("/a/~", "/a/~", false),
            ("x/.", "x/.", true),
            (".", ".", true),
            ("..", "..", true),
            ("x.", "x.", false),
        ] {
            assert_eq!((from_home(source), means_what_is_inside(source)), (from, inside), "{source}");
        }
    }

    #[test]
    fn the_kept_sample_reads_and_writes() {
        let sample = r#"{"version":1,"source":"~/x","target":"/y","exclude":["a"],"filter":[],"delete":false}"#;
        let wish: Wish = serde_json::from_str(sample).expect("the sample");
        assert_eq!(serde_json::to_string(&wish).expect("json"), sample);
    }
}
