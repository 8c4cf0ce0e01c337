//! How does a command run on all nodes at once, and what came of it on each?

use super::nodes::Nodes;
use super::remote::{self, Input, Order, Stream};
use crate::launch::program::Broken;
use serde::Serialize;
use shoal_core::cluster::{Docker, Node, Role};
use shoal_core::outcome::LOST;
use shoal_hosts::ssh::Settings;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Nodes that are dealt with at the same time.
const AT_ONCE: usize = 64;
/// What is kept of a node's output where it is not printed at once.
const MOST_KEPT: usize = 4 << 20;

/// How output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Line by line as it comes, behind the node's name.
    Lines,
    /// A node at a time, when all have ended.
    Whole,
    /// Not at all: it is part of the result.
    Nothing,
}

/// How it went on one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ended {
    pub node: String,
    pub role: Role,
    /// 255 if it was not reached.
    pub exit_code: u8,
    pub seconds: f64,
    /// Why it did not run, or is not known to have ended, and what to do.
    pub trouble: Option<String>,
    pub hint: Option<String>,
    pub stdout: String,
    pub stderr: String,
    /// Which of all nodes was the n-th to end.
    #[serde(skip)]
    pub place: usize,
}

/// Runs it on every node; the results in the nodes' order.
pub fn run(
    nodes: &Nodes,
    command: &str,
    container: Option<&Docker>,
    show: Show,
    asked: &(dyn Fn() -> u32 + Sync),
) -> Vec<Ended> {
    let ssh = Settings::from_env();
    let width = nodes.list.iter().map(|node| node.host.name.chars().count()).max().unwrap_or(0);
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<Ended>>> = nodes.list.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..nodes.list.len().min(AT_ONCE) {
            scope.spawn(|| {
                while let Some(node) = nodes.list.get(next.fetch_add(1, Ordering::SeqCst)).filter(|_| asked() == 0) {
                    let order = Order {
                        fleet: &nodes.fleet,
                        host: &node.host,
                        ssh: &ssh,
                        command,
                        env: &[],
                        container,
                        forwards: &[],
                    };
                    let mut result = on(node, &order, show, width, asked);
                    result.place = ended.fetch_add(1, Ordering::SeqCst);
                    let at = nodes.list.iter().position(|other| std::ptr::eq(other, node)).unwrap_or_default();
                    if let Ok(mut slot) = results[at].lock() {
                        *slot = Some(result);
                    }
                }
            });
        }
    });
    let stopped = |node: &Node| Ended {
        trouble: Some("stopped before it began".into()),
        exit_code: shoal_core::outcome::STOPPED,
        place: usize::MAX,
        ..Ended::new(node)
    };
    let taken = results.into_iter().map(|slot| slot.into_inner().ok().flatten());
    taken.zip(&nodes.list).map(|(result, node)| result.unwrap_or_else(|| stopped(node))).collect()
}

impl Ended {
    fn new(node: &Node) -> Ended {
        Ended {
            node: node.host.name.clone(),
            role: node.role,
            exit_code: LOST,
            seconds: 0.0,
            trouble: None,
            hint: None,
            stdout: String::new(),
            stderr: String::new(),
            place: 0,
        }
    }
}

fn on(node: &Node, order: &Order, show: Show, width: usize, asked: &(dyn Fn() -> u32 + Sync)) -> Ended {
    let began = Instant::now();
    let mut output = Output { out: Vec::new(), err: Vec::new() };
    let name = &node.host.name;
    let mut sink = |stream: Stream, bytes: &[u8]| {
        let buffer = output.of(stream);
        match show {
            Show::Lines => {
                buffer.extend_from_slice(bytes);
                let whole = buffer.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                // A line that does not end is shown before it takes all memory.
                let whole = if buffer.len() > MOST_KEPT { buffer.len() } else { whole };
                let lines: Vec<u8> = buffer.drain(..whole).collect();
                print(stream, name, width, &lines)
            }
            Show::Whole | Show::Nothing => {
                let room = MOST_KEPT.saturating_sub(buffer.len());
                buffer.extend_from_slice(&bytes[..bytes.len().min(room)]);
                true
            }
        }
    };
    let ended = remote::run(order, Input::Nothing, &mut sink, asked);
    let mut result = Ended { seconds: began.elapsed().as_secs_f64(), ..Ended::new(node) };
    match ended {
        Ok(code) => result.exit_code = code,
        Err(Broken { what, hint }) => (result.trouble, result.hint) = (Some(what), Some(hint)),
    }
    if show == Show::Lines {
        print(Stream::Out, name, width, &output.out);
        print(Stream::Err, name, width, &output.err);
    } else {
        result.stdout = String::from_utf8_lossy(&output.out).into_owned();
        result.stderr = String::from_utf8_lossy(&output.err).into_owned();
    }
    result
}

struct Output {
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Output {
    fn of(&mut self, stream: Stream) -> &mut Vec<u8> {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }
}

/// Lines behind the node's name, all of them at once: those of two nodes do not mix.
fn print(stream: Stream, name: &str, width: usize, lines: &[u8]) -> bool {
    let mut text = Vec::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        text.extend_from_slice(format!("{name:width$} | ").as_bytes());
        text.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            text.push(b'\n');
        }
    }
    match stream {
        Stream::Out => std::io::stdout().lock().write_all(&text).is_ok(),
        Stream::Err => std::io::stderr().lock().write_all(&text).is_ok(),
    }
}

/// The exit code of the whole: that of the first to fail.
pub fn exit_code(results: &[Ended]) -> u8 {
    results
        .iter()
        .filter(|ended| ended.exit_code != 0)
        .min_by_key(|ended| ended.place)
        .map_or(0, |ended| ended.exit_code)
}

/// Each node, its exit code, how long it took, and why where there is a why (pure).
pub fn table(results: &[Ended]) -> String {
    let width = results.iter().map(|ended| ended.node.chars().count()).max().unwrap_or(0).max(4);
    let mut text = format!("{:width$}  exit     time\n", "node");
    for Ended { node, exit_code, seconds, trouble, .. } in results {
        let why = trouble.as_ref().map_or_else(String::new, |why| format!("  {why}"));
        let _ = writeln!(text, "{node:width$}  {exit_code:>4}  {seconds:>5.1} s{why}");
    }
    let failed = results.iter().filter(|ended| ended.exit_code != 0).count();
    let _ = match failed {
        0 => writeln!(text, "all {} nodes ended well", results.len()),
        _ => writeln!(text, "{failed} of {} nodes failed", results.len()),
    };
    let mut hints: Vec<&String> = results.iter().filter_map(|ended| ended.hint.as_ref()).collect();
    hints.dedup();
    for hint in hints {
        let _ = writeln!(text, "  hint: {hint}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(node: &str, exit_code: u8, place: usize, trouble: Option<&str>) -> Ended {
        Ended {
            node: node.into(),
            role: Role::Worker,
            exit_code,
            seconds: 0.25,
            trouble: trouble.map(Into::into),
            hint: trouble.map(|_| "switch it on".into()),
            stdout: String::new(),
            stderr: String::new(),
            place,
        }
    }

    #[test]
    fn the_first_to_fail_decides() {
        let results = [ended("a", 255, 2, Some("it does not answer")), ended("b", 0, 0, None), ended("c", 3, 1, None)];
        assert_eq!(exit_code(&results), 3);
        assert_eq!(exit_code(&results[1..2]), 0);
        let wanted = "\
node  exit     time
a      255    0.2 s  it does not answer
b        0    0.2 s
c        3    0.2 s
2 of 3 nodes failed
  hint: switch it on
";
        assert_eq!(table(&results), wanted);
    }
}
