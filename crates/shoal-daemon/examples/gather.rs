//! How fast are logs gathered? Four ranks write 125 MB each; against `cat` of as many bytes through the same way.
//!
//! `gather [MB per rank] [words of a way to the host, such as: ssh box]`. Run with `--release`, after `shoal_host`.

use shoal_core::job::{HostJob, JOB_VERSION, Prepare, Program, RankJob};
use shoal_core::rank::Rank;
use shoal_daemon::frame;
use shoal_daemon::protocol::{self, FromWarden, ToWarden};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

const RANKS: u32 = 4;

fn command(via: &[String], words: &[String]) -> Command {
    let all: Vec<&String> = via.iter().chain(words).collect();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn cat(via: &[String], file: &str) -> Result<f64, Box<dyn std::error::Error>> {
    let begun = Instant::now();
    let words: Vec<String> = std::iter::once("cat").chain([file; RANKS as usize]).map(Into::into).collect();
    let mut child = command(via, &words).spawn()?;
    let mut buf = vec![0u8; 256 << 10];
    let mut stdout = child.stdout.take().ok_or("no stdout")?;
    while stdout.read(&mut buf)? > 0 {}
    child.wait()?;
    Ok(begun.elapsed().as_secs_f64())
}

fn gather(via: &[String], file: &str, folder: &str) -> Result<(f64, u64), Box<dyn std::error::Error>> {
    let host = std::env::current_exe()?.with_file_name("shoal_host").to_string_lossy().into_owned();
    let words = [&host, "warden", "--silence-ms", "600000", "--state", folder].map(String::from);
    let begun = Instant::now();
    let mut child = command(via, &words).spawn()?;
    let (mut stdin, mut stdout) = (child.stdin.take().ok_or("no stdin")?, child.stdout.take().ok_or("no stdout")?);
    let ranks = (0..RANKS).map(|k| RankJob {
        rank: Rank::Worker(k),
        program: Program::Argv(vec!["cat".into(), file.into()]),
        env: Default::default(),
        cwd: None,
        log: format!("{folder}/worker{k}.log"),
        prepare: Prepare::default(),
    });
    let job = HostJob {
        version: JOB_VERSION,
        run: format!("gather-{}", std::process::id()),
        host: "here".into(),
        detached: false,
        grace_ms: 1000,
        ranks: ranks.collect(),
        gang: None,
    };
    stdin.write_all(&protocol::encode_to_warden(&ToWarden::Start(job)))?;
    protocol::read_preamble(&mut stdout)?;
    let (mut body, mut bytes) = (Vec::new(), 0);
    while let Some(kind) = frame::read(&mut stdout, frame::FROM_WARDEN_LIMIT, &mut body)? {
        if kind == frame::OUTPUT {
            bytes += protocol::decode_output(&body)?.2.len() as u64;
        } else if protocol::decode_from_warden(kind, &body)? == FromWarden::Bye {
            break;
        }
    }
    child.wait()?;
    Ok((begun.elapsed().as_secs_f64(), bytes))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let megabytes: u64 = args.next().map_or(Ok(125), |a| a.parse())?;
    let via: Vec<String> = args.collect();
    let folder = std::env::temp_dir().join(format!("shoal-gather-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let shown = folder.to_string_lossy().into_owned();
    let file = folder.join("lines");
    let line = "epoch 3 step 1200 loss 0.693147 accuracy 0.512 lr 0.001 images/s 812.4\n";
    std::fs::write(&file, line.repeat((megabytes as usize * 1_000_000) / line.len() + 1))?;
    let file = file.to_string_lossy().into_owned();
    let total = RANKS as f64 * std::fs::metadata(&file)?.len() as f64 / 1e6;
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for round in 0..8 {
        let cat = cat(&via, &file)?;
        let (seconds, bytes) = gather(&via, &file, &shown)?;
        assert_eq!(bytes as f64 / 1e6, total);
        for k in 0..RANKS {
            std::fs::remove_file(folder.join(format!("worker{k}.log")))?;
        }
        // The first is a warm-up.
        if round > 0 {
            plain.push(total / cat);
            ours.push(total / seconds);
        }
    }
    plain.sort_by(f64::total_cmp);
    ours.sort_by(f64::total_cmp);
    let (p, o) = (plain[plain.len() / 2], ours[ours.len() / 2]);
    println!(
        "cat {p:.0} MB/s ({:.0}..{:.0}), warden {o:.0} MB/s ({:.0}..{:.0}), ratio {:.2}",
        plain[0],
        plain[6],
        ours[0],
        ours[6],
        o / p
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
