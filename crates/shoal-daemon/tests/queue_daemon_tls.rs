//! People and agents elsewhere: who gets in, as what, and what strangers learn (nothing).

mod queue_daemon;

use queue_daemon::*;
use shoal_core::queue::host::HostFacts;
use shoal_core::queue::line::{FromHost, LINE_VERSION, ToHost};
use shoal_core::queue::request::{Answer, Request, Role, RunState};
use shoal_core::queue::work::{Ending, Publish};
use shoal_core::queue::{Target, event::Pausable};
use shoal_daemon::queue::client::{Client, ClientError, Remote, Where};
use shoal_daemon::queue::door::{Kind, Token, Tokens, tls};
use shoal_daemon::queue::places::Store;
use std::io::{Read, Write};
use std::time::Duration;

struct Scene {
    _folder: tempfile::TempDir,
    daemon: Daemon,
    port: u16,
    print: String,
    expired: String,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("q");
    let store = Store::at(&root);
    store.make().unwrap();
    // One that was good for a day, long ago.
    let expired = Tokens::load(&store.tokens()).unwrap().add("old", Role::Admin, Some(1), 0).unwrap();
    let daemon = How::at(&root).env("FAKE_AGENT", "/nowhere").arg(&["--listen", "127.0.0.1:0"]).start();
    let log = daemon.log();
    let port = log.split("listens on 127.0.0.1:").nth(1).unwrap().split(';').next().unwrap().parse().unwrap();
    let print = tls::fingerprint(&daemon.store).unwrap();
    assert!(log.contains(&print));
    Scene { _folder: folder, daemon, port, print, expired }
}

impl Scene {
    fn token(&self, user: &str, role: Role) -> String {
        let ask = Request::AddToken { user: user.into(), role, days: None };
        match self.daemon.client().ask(&ask, &[]).unwrap().0 {
            Answer::Token { token, .. } => token,
            other => panic!("{other:?}"),
        }
    }

    fn place(&self, token: &str) -> Where {
        let queue = format!("shoal://127.0.0.1:{}#{}", self.port, self.print);
        Where::There(Remote::parse(&queue, token).unwrap())
    }

    fn enter(&self, token: &str) -> Result<Client, ClientError> {
        Client::connect(&self.place(token))
    }

    fn dial(&self, kind: Kind, token: &str) -> std::os::unix::net::UnixStream {
        let token = Token::new(token).unwrap();
        let stream = tls::dial("127.0.0.1", self.port, &self.print, kind, &token, BOUND).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream
    }
}

fn may_not<T: std::fmt::Debug>(result: Result<T, ClientError>, word: &str) {
    match result {
        Err(ClientError::Refused { why, .. }) => assert!(why.contains(word), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_role_does_what_it_may_and_sweeps_are_their_owners() {
    let scene = scene();
    let mut reader = scene.enter(&scene.token("alice", Role::Read)).unwrap();
    let mut bob = scene.enter(&scene.token("bob", Role::Submit)).unwrap();
    let mut carol = scene.enter(&scene.token("carol", Role::Submit)).unwrap();
    let mut boss = scene.enter(&scene.token("boss", Role::Admin)).unwrap();
    assert_eq!((bob.user.as_str(), bob.is_local()), ("bob", false));
    may_not(submit(&mut reader, &sweep("mlp", 2)), "alice may not");
    let mut wrong = sweep("mlp", 2);
    wrong.owner = "carol".into();
    submit(&mut bob, &wrong).unwrap();
    assert_eq!(row(&mut reader, "mlp").owner, "bob", "the token says whose it is, not the request");
    let stop = Request::Stop { target: Target::Sweep("mlp".into()), now: false, grace_seconds: None };
    may_not(carol.ask(&stop, &[]), "a sweep of bob");
    may_not(submit(&mut carol, &sweep("mlp", 3)), "a sweep of bob");
    may_not(bob.ask(&Request::Pause { what: Pausable::Host("x".into()) }, &[]), "bob may not");
    may_not(bob.ask(&Request::Tokens, &[]), "bob may not");
    boss.ask(&Request::Pause { what: Pausable::Sweep("mlp".into()) }, &[]).unwrap();
    assert!(row(&mut bob, "mlp").paused);
    assert!(matches!(bob.ask(&stop, &[]).unwrap().0, Answer::Counted { runs: 2 }));
    let Answer::Tokens { users } = boss.ask(&Request::Tokens, &[]).unwrap().0 else { panic!() };
    assert_eq!(users.len(), 5);
    // A token that is taken away ends what came in with it.
    boss.ask(&Request::RemoveToken { user: "bob".into() }, &[]).unwrap();
    may_not(bob.ask(&Request::Hosts, &[]), "not admitted");
}

#[test]
fn strangers_learn_nothing_and_are_written_down() {
    let scene = scene();
    let agent = scene.token("node3", Role::Host);
    let answer = |kind: Kind, token: &str| {
        let mut heard = Vec::new();
        scene.dial(kind, token).read_to_end(&mut heard).unwrap();
        heard
    };
    let unknown = answer(Kind::Client, &"0".repeat(64));
    assert!(String::from_utf8_lossy(&unknown).contains("not admitted"));
    let alice = scene.token("alice", Role::Admin);
    for (kind, token) in [(Kind::Client, &scene.expired), (Kind::Client, &agent), (Kind::Agent, &alice)] {
        assert_eq!(answer(kind, token), unknown, "the same answer to every mistake");
    }
    may_not(scene.enter(&"f".repeat(64)), "not admitted");
    let log = scene.daemon.log();
    assert!(log.contains("not admitted"), "{log}");
    for secret in [&agent, &alice, &scene.expired, &"0".repeat(64)] {
        assert!(!log.contains(secret.as_str()), "no token in the log");
    }
    let files = std::fs::read_to_string(scene.daemon.store.tokens()).unwrap();
    assert!(!files.contains(&alice));

    // No TLS at all, and TLS without a knock.
    let mut plain = std::net::TcpStream::connect(("127.0.0.1", scene.port)).unwrap();
    plain.set_read_timeout(Some(BOUND)).unwrap();
    let _ = plain.write_all(b"GET / HTTP/1.1\r\n\r\n");
    let mut heard = Vec::new();
    let _ = plain.read_to_end(&mut heard);
    assert!(!String::from_utf8_lossy(&heard).contains("shoal"), "{heard:?}");
    assert!(scene.enter(&alice).is_ok(), "and the door is still open");
}

#[test]
fn another_daemon_in_its_place_is_noticed() {
    let (one, other) = (scene(), scene());
    let token = one.token("alice", Role::Read);
    let queue = format!("shoal://127.0.0.1:{}#{}", other.port, one.print);
    let place = Where::There(Remote::parse(&queue, &token).unwrap());
    let error = Client::connect(&place).unwrap_err();
    assert!(error.to_string().contains("not the daemon that is expected"), "{error}");
    // The authority stays when the daemon comes back.
    let store = one.daemon.store.clone();
    let before = one.print.clone();
    let how = How::at(&store.root).env("FAKE_AGENT", "/nowhere").arg(&["--listen", "127.0.0.1:0"]);
    let folder = one._folder;
    one.daemon.kill();
    let again = how.start();
    assert_eq!(tls::fingerprint(&again.store).unwrap(), before);
    drop(folder);
}

/// Pieces of both come in turns, and each belongs into a folder of its own.
#[test]
fn processes_of_a_gang_on_one_host_have_a_place_each() {
    let scene = scene();
    let mut client = scene.daemon.client();
    let mut gang = sweep("gang", 1);
    gang.wants.ranks = 2;
    submit(&mut client, &gang).unwrap();
    let mut line = FakeLine { stream: scene.dial(Kind::Agent, &scene.token("node3", Role::Host)) };
    line.hear();
    line.hello("boot", 2, vec![], vec![]);
    let starts = line.starts_of(2);
    let tars: Vec<Vec<u8>> =
        starts.iter().map(|start| tar_of("mine", &vec![b'0' + start.rank as u8; 150_000])).collect();
    let piece = |line: &mut FakeLine, n: usize, from: usize, to: usize| {
        let (start, last) = (&starts[n], to == tars[n].len());
        let result = FromHost::Result { attempt: start.attempt.clone(), at: from as u64, last, rank: start.rank };
        line.say_with(&result, &tars[n][from..to]);
    };
    piece(&mut line, 0, 0, 100_000);
    piece(&mut line, 1, 0, 100_000);
    let results = scene.daemon.store.results();
    for n in [1, 0] {
        let Publish::Send(name) = starts[n].publish.clone() else { panic!("{:?}", starts[n].publish) };
        piece(&mut line, n, 100_000, tars[n].len());
        let heard = line.hear();
        let ToHost::Published { problem: None, rank, .. } = heard else { panic!("{heard:?}") };
        assert_eq!(rank, starts[n].rank);
        let mine = std::fs::read(results.join(&name).join("mine")).unwrap();
        assert!(mine.len() == 150_000 && mine.iter().all(|byte| *byte == b'0' + rank as u8), "{name}");
    }
}

fn tar_of(name: &str, content: &[u8]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, name, content).unwrap();
    tar.into_inner().unwrap()
}

#[test]
fn an_agent_calls_in_runs_and_sends_its_results() {
    let scene = scene();
    let mut client = scene.daemon.client();
    submit(&mut client, &sweep("mlp", 1)).unwrap();
    let mut line = FakeLine { stream: scene.dial(Kind::Agent, &scene.token("node3", Role::Host)) };
    let ToHost::Hello { host, .. } = line.hear() else { panic!() };
    assert_eq!(host, "node3", "the token says who it is");
    line.hello("boot", 1, vec![], vec![]);
    let start = line.starts().remove(0);
    let Publish::Send(name) = start.publish.clone() else { panic!("{:?}", start.publish) };
    let tar = tar_of("out/loss.csv", &vec![b'7'; 300_000]);
    let results = scene.daemon.store.results();
    // Twice: the word of the first time did not arrive.
    for time in 0..2 {
        let mut at = 0;
        for piece in tar.chunks(100_000) {
            let last = at + piece.len() == tar.len();
            line.say_with(
                &FromHost::Result { attempt: start.attempt.clone(), at: at as u64, last, rank: start.rank },
                piece,
            );
            at += piece.len();
            if !last && time == 0 {
                assert!(!results.join(&name).exists(), "complete or absent");
            }
        }
        let heard = line.hear();
        assert!(matches!(&heard, ToHost::Published { problem: None, .. }), "{heard:?}");
    }
    assert_eq!(std::fs::metadata(results.join(&name).join("out/loss.csv")).unwrap().len(), 300_000);
    assert!(results.join(&name).parent().unwrap().join("param2val.yaml").is_file());
    line.end(&start.attempt, Ending::Exited(0));
    line.acknowledged();
    assert_eq!(states(&mut client, "mlp"), [RunState::Finished]);
    // Of a run that it does not have.
    line.say_with(&FromHost::Result { attempt: attempt("mlp", 0, 7), at: 0, last: true, rank: 0 }, &tar);
    assert!(matches!(line.hear(), ToHost::Published { problem: Some(_), .. }));
    // Another line of the same host takes the place of the first.
    let token = scene.token("node3", Role::Host);
    let mut next = FakeLine { stream: scene.dial(Kind::Agent, &token) };
    next.hear();
    next.hello("boot", 1, vec![], vec![]);
    assert!(line.is_closed());
}

#[test]
fn who_says_nothing_does_not_keep_the_door() {
    let scene = scene();
    let stream = std::net::TcpStream::connect(("127.0.0.1", scene.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    // Closed by the daemon, without an answer.
    assert_eq!((&stream).read(&mut [0; 16]).unwrap_or(0), 0);
}

/// Two tokens on one machine and for one user: the second is told so by name, and the first is as it was.
#[test]
fn a_machine_that_is_there_already_is_refused_under_another_name() {
    let scene = scene();
    let mut client = scene.daemon.client();
    let dial = |name: &str| {
        let mut line = FakeLine { stream: scene.dial(Kind::Agent, &scene.token(name, Role::Host)) };
        line.hear();
        let facts = Box::new(HostFacts { place: Some("8:1:77".into()), ..facts("boot", 1) });
        let (alive, ended, trees, owed) = Default::default();
        line.say(&FromHost::Hello { version: LINE_VERSION, facts, alive, ended, trees, owed });
        line
    };
    let mut first = dial("node3");
    submit(&mut client, &sweep("mlp", 2)).unwrap();
    assert_eq!(first.starts()[0].attempt, attempt("mlp", 0, 1));
    let mut second = dial("node4");
    assert_eq!(second.hear(), ToHost::Leave { stop_runs: false }, "what runs there is of the first");
    drop(second);
    assert!(scene.daemon.log().contains("node4 is the same machine and user as node3"), "{}", scene.daemon.log());
    first.end(&attempt("mlp", 0, 1), Ending::Exited(0));
    first.acknowledged();
    assert_eq!(first.starts()[0].attempt, attempt("mlp", 1, 1));
}

/// Whoever does not keep to the rules loses its line, and nobody else does; what is too much for now is told to come later.
#[test]
fn results_of_one_host_that_cannot_be_taken_disturb_no_other() {
    let scene = scene();
    let mut client = scene.daemon.client();
    let dial = |name: &str| {
        let mut line = FakeLine { stream: scene.dial(Kind::Agent, &scene.token(name, Role::Host)) };
        line.hear();
        line.hello("boot", 1, vec![], vec![]);
        line
    };
    let (mut good, mut bad) = (dial("node3"), dial("node4"));
    submit(&mut client, &sweep("mlp", 2)).unwrap();
    let start = good.starts().remove(0);
    let piece = |cell: u32, at: u64, last: bool| FromHost::Result { attempt: attempt("x", cell, 1), at, last, rank: 0 };
    bad.starts();
    (0..257).for_each(|cell| bad.say_with(&piece(cell, 0, false), b"x"));
    let heard = bad.hear();
    let ToHost::Published { attempt: whose, later: true, problem: Some(why), .. } = heard else { panic!("{heard:?}") };
    assert!(whose == attempt("x", 256, 1) && why.contains("256"), "{why}");
    // What was on its way by then is passed over; and from its beginning on it is taken, when another has gone.
    bad.say_with(&piece(256, 1, true), b"x");
    bad.say_with(&piece(0, 1, true), b"x");
    assert!(matches!(bad.hear(), ToHost::Published { later: false, problem: Some(_), .. }), "nobody expects them");
    bad.say_with(&piece(256, 0, true), b"x");
    assert!(matches!(bad.hear(), ToHost::Published { later: false, problem: Some(_), .. }));
    bad.say_with(&piece(1, 5, false), b"x");
    assert!(bad.is_closed(), "out of order");
    good.end(&start.attempt, Ending::Exited(0));
    good.acknowledged();
    submit(&mut client, &sweep("more", 1)).unwrap();
}
