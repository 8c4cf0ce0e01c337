//! Who is let in, and what is taken in.

mod queue_daemon;

use queue_daemon::*;
use shoal_core::queue::line::JSON_LIMIT;
use shoal_core::queue::request::{Answer, Request};
use shoal_daemon::queue::client::{Client, ClientError, Where, connect_or_start};
use shoal_daemon::queue::framing;
use shoal_daemon::queue::places::Store;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

#[test]
fn a_second_daemon_is_told_who_the_first_is() {
    let folder = tempfile::tempdir().unwrap();
    let how = How::at(&folder.path().join("q")).env("FAKE_AGENT", "/nowhere");
    let first = how.start();
    let mut second = how.spawn();
    let mut said = String::new();
    second.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!second.wait().unwrap().success());
    assert!(said.contains(&format!("process {} on ", first.child.id())), "{said}");
    assert!(first.try_client().is_ok(), "and is not disturbed");
}

#[test]
fn the_store_is_the_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = How::at(&folder.path().join("q")).env("FAKE_AGENT", "/nowhere").start();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&daemon.store.root), 0o700);
    for path in [daemon.store.socket(), daemon.store.journal(), daemon.store.log()] {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

fn raw(store: &Store) -> UnixStream {
    let stream = UnixStream::connect(store.socket()).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream
}

fn heard(stream: &mut UnixStream) -> Answer {
    framing::read_message::<Answer>(stream).unwrap().expect("an answer").0
}

#[test]
fn what_is_too_long_or_not_understood_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = How::at(&folder.path().join("q")).env("FAKE_AGENT", "/nowhere").start();
    let mut stream = raw(&daemon.store);
    let hello = framing::encode(&Request::Hello { version: 1 }, &[]).unwrap();
    stream.write_all(&hello).unwrap();
    assert!(matches!(heard(&mut stream), Answer::Hello { .. }));
    let length = (JSON_LIMIT as u32 + 1).to_le_bytes();
    stream.write_all(&[&length[..], &[0; 4]].concat()).unwrap();
    let Answer::Refused { why, .. } = heard(&mut stream) else { panic!() };
    assert!(why.contains(&(JSON_LIMIT + 1).to_string()) && why.contains("limit"), "{why}");
    assert!(matches!(framing::read_message::<Answer>(&mut stream), Ok(None)), "then it is closed");

    let mut stream = raw(&daemon.store);
    stream.write_all(&framing::encode(&Request::Hosts, &[]).unwrap()).unwrap();
    assert!(matches!(heard(&mut stream), Answer::Refused { why, .. } if why.contains("hello")));
    let mut stream = raw(&daemon.store);
    stream.write_all(&framing::encode(&Request::Hello { version: 99 }, &[]).unwrap()).unwrap();
    assert!(matches!(heard(&mut stream), Answer::Refused { why, .. } if why.contains("version 99")));
    let mut stream = raw(&daemon.store);
    stream.write_all(&framing::encode(&"what?", &[]).unwrap()).unwrap();
    assert!(matches!(heard(&mut stream), Answer::Refused { why, .. } if why.contains("cannot be understood")));

    // The client's own side refuses before it sends.
    let mut client = daemon.client();
    let mut long = sweep("long", 1);
    long.command.argv.push("x".repeat(JSON_LIMIT));
    assert!(matches!(submit(&mut client, &long), Err(ClientError::Wrong(_))));
    assert!(submit(&mut client, &sweep("short", 1)).is_ok(), "and the connection is still good");
}

#[test]
fn a_sweep_whose_files_are_not_there_is_refused_until_they_are() {
    use sha2::{Digest, Sha256};
    let folder = tempfile::tempdir().unwrap();
    let daemon = How::at(&folder.path().join("q")).env("FAKE_AGENT", "/nowhere").start();
    let mut client = daemon.client();
    let plain = b"a tar".repeat(200_000);
    let digest = shoal_daemon::queue::places::hex(&Sha256::digest(&plain));
    let mut with = sweep("files", 1);
    with.command.trees = vec![shoal_core::queue::work::Tree { digest: digest.clone(), at: String::new() }];
    assert!(why_refused(submit(&mut client, &with)).contains(&digest));
    let lacks = Request::Lacks { digests: vec![digest.clone(), "x".into()] };
    let Answer::Lacks { digests } = client.ask(&lacks, &[]).unwrap().0 else { panic!() };
    assert_eq!(digests, [digest.clone(), "x".into()]);
    let packed = zstd::stream::encode_all(&plain[..], 1).unwrap();
    let (one, two) = packed.split_at(packed.len() / 2);
    let piece = |at: usize, last: bool| Request::Tree { digest: digest.clone(), at: at as u64, last };
    client.ask(&piece(0, false), one).unwrap();
    client.ask(&piece(one.len(), true), two).unwrap();
    assert!(submit(&mut client, &with).is_ok());
    let Answer::Lacks { digests } = client.ask(&lacks, &[]).unwrap().0 else { panic!() };
    assert_eq!(digests, ["x".to_string()]);
    // One that is not what it says.
    let wrong = "0".repeat(64);
    let answer = client.ask(&Request::Tree { digest: wrong, at: 0, last: true }, &packed).map(|(answer, _)| answer);
    assert!(why_refused(answer).contains("is not the tree"));
}

/// A queue of this machine alone would take everything in and start nothing until its daemon is started again.
#[test]
fn the_only_host_is_not_removed_if_it_is_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = How::at(&folder.path().join("q")).env("FAKE_AGENT", "/nowhere").start();
    let mut client = daemon.client();
    let mut names = || match client.ask(&Request::Hosts, &[]).unwrap().0 {
        Answer::Hosts { hosts } => hosts.into_iter().map(|host| host.name).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let before = names();
    assert_eq!(before.len(), 1);
    let remove = Request::RemoveHost { name: before[0].clone(), lost: true };
    let why = why_refused(daemon.client().ask(&remove, &[]).map(|(answer, _)| answer));
    assert!(why.contains("the only host"), "{why}");
    assert_eq!(names(), before);
}

#[test]
fn ten_clients_at_once_start_one_daemon_which_leaves_when_there_is_nothing_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(&folder.path().join("q"));
    // Read by the daemon that they start.
    // SAFETY: set before any thread of this test reads it; other tests pass it to their children by value.
    unsafe {
        std::env::set_var("IDLE_MS", "1500");
        std::env::set_var("FAKE_AGENT", "/nowhere");
    }
    let clients: Vec<_> = (0..10)
        .map(|_| {
            let place = Where::Here(store.clone());
            std::thread::spawn(move || connect_or_start(&place, &program()).map(|client| client.store))
        })
        .collect();
    let stores: Vec<String> = clients.into_iter().map(|client| client.join().unwrap().unwrap()).collect();
    assert!(stores.iter().all(|id| *id == stores[0] && !id.is_empty()));
    let log = std::fs::read_to_string(store.log()).unwrap();
    assert_eq!(log.matches("serves ").count(), 1, "{log}");
    until("its end", || shoal_daemon::queue::serve::holder(&store).is_none().then_some(()));
    assert!(matches!(Client::connect(&Where::Here(store.clone())), Err(ClientError::NotRunning(_))));
    // And again, with what was there.
    let mut client = connect_or_start(&Where::Here(store.clone()), &program()).unwrap();
    assert_eq!(client.store, stores[0]);
    client.ask(&Request::Shutdown { stop_runs: false }, &[]).unwrap();
    until("its end", || shoal_daemon::queue::serve::holder(&store).is_none().then_some(()));
    let bad = connect_or_start(&Where::Here(store), std::path::Path::new("/bin/false"));
    assert!(matches!(bad, Err(ClientError::NotStarted { .. })), "{bad:?}");
}

/// It is not taken for a daemon that is not there: another would be started for nothing.
#[test]
fn one_client_too_many_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = How::at(&folder.path().join("q")).env("FAKE_AGENT", "/nowhere").start();
    let hello = framing::encode(&Request::Hello { version: 1 }, &[]).unwrap();
    let mut many = Vec::new();
    let why = until("the one too many", || {
        let mut stream = raw(&daemon.store);
        stream.write_all(&hello).unwrap();
        match heard(&mut stream) {
            Answer::Hello { .. } => many.push(stream),
            Answer::Refused { why, .. } => return Some(why),
            other => panic!("{other:?}"),
        }
        None
    });
    assert!(many.len() >= 200 && why.contains("256"), "{} {why}", many.len());
    let refused = connect_or_start(&Where::Here(daemon.store.clone()), std::path::Path::new("/bin/false"));
    assert!(matches!(&refused, Err(ClientError::Refused { why, .. }) if why.contains("256")), "{refused:?}");
    drop(many);
    until("room again", || daemon.try_client().ok());
}
