//! What a report looks like, in narrow and wide terminals, of one host and of many.

use super::super::facts::tests::healthy;
use super::super::network::Pair;
use super::super::{Finding, REPORT_VERSION, judge, reach};
use super::*;

fn host(name: &str) -> HostReport {
    let mut report =
        HostReport { name: name.into(), address: name.into(), findings: Vec::new(), facts: Some(healthy()) };
    reach::entered(&mut report, false);
    let wants = judge::Wants { shoal: "0.1.0".into(), ..judge::Wants::default() };
    judge::host(&healthy(), &wants).into_iter().for_each(|finding| report.add(finding));
    report
}

fn dark(name: &str) -> HostReport {
    let mut report = HostReport { name: name.into(), address: name.into(), findings: Vec::new(), facts: None };
    reach::stopped(&mut report, reach::Gate::Ssh, "it does not answer: No route to host", "is it switched on?");
    report.fill(&Check::ALL[..16], "no connection");
    report
}

fn fleet(hosts: Vec<HostReport>, trip: Result<u64, &str>) -> Report {
    let up: Vec<String> = hosts.iter().filter(|host| host.facts.is_some()).map(|host| host.name.clone()).collect();
    let mut pairs = Vec::new();
    for (i, from) in up.iter().enumerate() {
        for (j, to) in up.iter().enumerate().filter(|(j, _)| *j != i) {
            let trip = if (i, j) == (1, 0) { trip.map_err(Into::into) } else { Ok(150_000 + 10_000 * j as u64) };
            let bits_per_s = (i < j && (i + j) % 4 != 0).then_some(930_000_000 + i as u64 * 1_000_000);
            pairs.push(Pair { from: from.clone(), to: to.clone(), round_trip_ns: trip, bits_per_s });
        }
    }
    Report { version: REPORT_VERSION, fleet: "lab".into(), hosts, pairs }
}

fn plain(width: usize) -> Look {
    Look { width, colour: false }
}

/// Hints hold commands, which may be longer than a narrow terminal; nothing else may be.
fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= width, "{} > {width}: {line}\n{text}", line.chars().count());
    }
}

#[test]
fn three_hosts_stand_beside_each_other() {
    let mut noisy = host("node02");
    noisy.add(reach::shell("Welcome to node02!\n", "", std::time::Duration::ZERO));
    let report = fleet(vec![host("node01"), noisy, dark("node03")], Ok(200_000));
    let text = render(&report, plain(80));
    assert_fits(&text, 80);
    let expected = "\
CHECK     node01   node02    node03
ssh       ok       ok        !! no answer
host-key  ok       ok        -
key       ok       ok        -
shell              !! noisy  -";
    let got: Vec<&str> = text.lines().take(5).collect();
    let expected: Vec<String> =
        expected.lines().map(|l| l.replace("shell     -        ", "shell              ")).collect();
    assert_eq!(got, expected, "{text}");
    assert!(
        text.contains("!! node03, ssh: it does not answer: No route to host\n   hint: is it switched on?\n"),
        "{text}"
    );
    assert!(text.ends_with("lab, 3 hosts: 2 red\n"), "{text}");
}

#[test]
fn sixteen_hosts_stand_below_each_other_and_every_width_is_kept() {
    let hosts: Vec<HostReport> =
        (0..16).map(|i| if i == 7 { dark("node07") } else { host(&format!("node{i:02}")) }).collect();
    let report = fleet(hosts, Ok(200_000));
    for width in [60, 80, 120] {
        let text = render(&report, plain(width));
        assert_fits(&text, width);
        assert!(text.starts_with("HOST    ssh"), "{text}");
        assert!(text.contains("\nnode07  !! no answer\n"), "{text}");
        assert!(text.contains("\nthe same on all: host-key ok, key ok, python 3.11.2,"), "{text}");
        assert!(text.contains("between hosts: 210 of 210 ways open"), "{text}");
        assert!(text.contains("  slowest: node00 to node01 930 Mb/s"), "{text}");
    }
}

/// What is not the same everywhere has a column, whatever the others have.
#[test]
fn differences_keep_their_columns() {
    let mut hosts: Vec<HostReport> = (0..16).map(|i| host(&format!("node{i:02}"))).collect();
    hosts[3].add(Finding::yellow(Check::Memory, "1.0 GiB", "1.0 GiB free", "hint"));
    hosts[4].add(Finding::red(Check::Python, "no venv", "missing", "make it"));
    let text = render(&fleet(hosts, Ok(200_000)), plain(80));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "HOST    python      memory", "{text}");
    assert_eq!(lines[4..6], ["node03  3.11.2      ! 1.0 GiB", "node04  !! no venv  60 GiB"], "{text}");
}

#[test]
fn one_host_gets_sentences() {
    let mut busy = host("localhost");
    busy.add(Finding::yellow(Check::Cpus, "busy", "8 CPUs, load 20.0", "see who it is"));
    let text = render(&fleet(vec![busy], Ok(1)), plain(60));
    assert!(text.contains("  cpus      ! 8 CPUs, load 20.0\n            hint: see who it is\n  gpus"), "{text}");
    let text = render(&fleet(vec![host("localhost")], Ok(1)), plain(60));
    assert_fits(&text, 60);
    assert!(text.contains("  disk      200 GiB of 500 GiB free in /home/me\n"), "{text}");
    assert!(text.ends_with("lab, 1 host: all green\n"), "{text}");
    assert!(!text.contains("between hosts"), "{text}");
}

#[test]
fn one_host_that_is_dark_is_told_shortly() {
    let text = render(&fleet(vec![dark("far")], Ok(1)), plain(60));
    let start = "far\n  ssh       !! it does not answer: No route to host\n            hint: is it switched on?\n  not looked at: host-key, key,";
    assert!(text.starts_with(start), "{text}");
    assert_fits(&text, 60);
}

#[test]
fn a_way_that_is_shut_is_seen_in_the_matrix() {
    let report = fleet(["a", "b", "c"].map(host).to_vec(), Err("timed out"));
    let text = render(&report, plain(80));
    assert!(text.contains("5 of 6 ways open"), "{text}");
    let row = text.lines().find(|line| line.starts_with("b ") && line.contains("none")).unwrap_or_default();
    assert_eq!(row, "b          !! none  .         931 Mb/s", "{text}");
}

#[test]
fn the_same_trouble_on_many_hosts_is_said_once() {
    let mut hosts = ["n1", "n2", "n3"].map(host).to_vec();
    for host in &mut hosts[..2] {
        host.add(Finding::yellow(Check::Sessions, "2", "only 2", "raise it"));
    }
    hosts[2].add(Finding::yellow(Check::Sessions, "3", "only 3", "raise it"));
    let text = render(&fleet(hosts, Ok(1)), plain(80));
    assert!(text.contains("! n[1-2], sessions: only 2\n! n3, sessions: only 3\n   hint: raise it\n"), "{text}");
    assert!(text.ends_with("lab, 3 hosts: fit to run; 3 yellow\n"), "{text}");
}

#[test]
fn colours_are_for_what_is_not_green() {
    let report = fleet(vec![host("a"), dark("b")], Ok(1));
    let text = render(&report, Look { width: 80, colour: true });
    assert!(text.contains("\x1b[31m!! no answer\x1b[0m"), "{text}");
    assert!(text.contains("\x1b[90m-\x1b[0m"), "{text}");
}
