//! WIRE-1: the shapes launchers and wardens of this version speak. A changed sample needs a changed `PROTOCOL_VERSION`.

use proptest::prelude::*;
use shoal_core::job::{GangLine, HostJob, JOB_VERSION, Prepare, Program, RankJob};
use shoal_core::rank::Rank;
use shoal_daemon::protocol::*;
use shoal_daemon::{Ending, How, frame};

fn sample(message: FromWarden, json: &str) {
    let bytes = encode_from_warden(&message);
    let (kind, body, len) = frame::split(&bytes, frame::FROM_WARDEN_LIMIT).unwrap().unwrap();
    assert_eq!((std::str::from_utf8(body).unwrap(), len), (json, bytes.len()));
    assert_eq!(decode_from_warden(kind, body).unwrap(), message);
}

#[test]
fn kept_samples_from_warden() {
    assert_eq!(PROTOCOL_VERSION, 1);
    let hello = Hello {
        version: 1,
        shoal_version: "0.1.0".into(),
        host: "h".into(),
        pid: 7,
        user: "ann".into(),
        ports: vec![40001],
        client: Some("10.0.0.1".into()),
        server: Some("10.0.0.2".into()),
    };
    sample(
        FromWarden::Hello(hello),
        r#"{"hello":{"version":1,"shoal_version":"0.1.0","host":"h","pid":7,"user":"ann","ports":[40001],"client":"10.0.0.1","server":"10.0.0.2"}}"#,
    );
    sample(FromWarden::Started { rank: Rank::Worker(3), pid: 9 }, r#"{"started":{"rank":"worker3","pid":9}}"#);
    sample(
        FromWarden::Usage { rank: Rank::Master, rss_bytes: 1, cpu_ms: 2, processes: 3 },
        r#"{"usage":{"rank":"master","rss_bytes":1,"cpu_ms":2,"processes":3}}"#,
    );
    let ended =
        |ending| FromWarden::Ended { rank: Rank::Server(0), ending, after_ms: 5, log_bytes: 6, tail: "x\n".into() };
    for (ending, json) in [
        (Ending::Exited(3), r#"{"exited":3}"#),
        (Ending::Signaled(11), r#"{"signaled":11}"#),
        (Ending::OutOfMemory, r#""out_of_memory""#),
        (Ending::NotStarted { why: "w".into(), hint: None }, r#"{"not_started":{"why":"w","hint":null}}"#),
        (Ending::Stopped(How::Signaled(15)), r#"{"stopped":{"signaled":15}}"#),
        (Ending::Lost { why: "w".into() }, r#"{"lost":{"why":"w"}}"#),
    ] {
        sample(
            ended(ending),
            &format!(r#"{{"ended":{{"rank":"server0","ending":{json},"after_ms":5,"log_bytes":6,"tail":"x\n"}}}}"#),
        );
    }
    sample(
        FromWarden::Trouble { rank: None, what: "w".into(), hint: Some("h".into()) },
        r#"{"trouble":{"rank":null,"what":"w","hint":"h"}}"#,
    );
    sample(FromWarden::Pong, r#""pong""#);
    sample(FromWarden::Detached, r#""detached""#);
    sample(FromWarden::Bye, r#""bye""#);
    let output = FromWarden::Output { rank: Rank::Worker(258), offset: 3, bytes: b"hi\n".to_vec() };
    assert_eq!(encode_from_warden(&output), b"\x11\0\0\0O\x02\x02\x01\0\0\x03\0\0\0\0\0\0\0hi\n");
}

#[test]
fn kept_samples_to_warden() {
    let job = HostJob {
        version: JOB_VERSION,
        run: "r".into(),
        host: "h".into(),
        detached: false,
        grace_ms: 5,
        ranks: vec![RankJob {
            rank: Rank::Worker(0),
            program: Program::Shell { line: "l".into(), append: vec!["a".into()] },
            env: [("K".to_string(), "V".to_string())].into(),
            cwd: None,
            log: "~/l".into(),
            prepare: Prepare::default(),
        }],
        gang: None,
    };
    let line = GangLine {
        head: "h".into(),
        address: "10.0.0.2".into(),
        port: 40002,
        token: "t".into(),
        silence_ms: 30_000,
        ranks: [(Rank::Worker(0), "h".to_string())].into(),
    };
    let detached = HostJob { detached: true, ranks: vec![], gang: Some(line), ..job.clone() };
    for (message, json) in [
        (
            ToWarden::Start(job),
            r#"{"start":{"version":1,"run":"r","host":"h","detached":false,"grace_ms":5,"ranks":[{"rank":"worker0","program":{"shell":{"line":"l","append":["a"]}},"env":{"K":"V"},"cwd":null,"log":"~/l","prepare":{"virtualenv":null,"conda":null,"modules":[],"setup":[]}}]}}"#,
        ),
        (
            ToWarden::Start(detached),
            r#"{"start":{"version":1,"run":"r","host":"h","detached":true,"grace_ms":5,"ranks":[],"gang":{"head":"h","address":"10.0.0.2","port":40002,"token":"t","silence_ms":30000,"ranks":{"worker0":"h"}}}}"#,
        ),
        (ToWarden::Stop { grace_ms: 5 }, r#"{"stop":{"grace_ms":5}}"#),
        (ToWarden::Kill, r#""kill""#),
        (ToWarden::Ping, r#""ping""#),
        (ToWarden::Detach, r#""detach""#),
    ] {
        let bytes = encode_to_warden(&message);
        assert_eq!(std::str::from_utf8(&bytes[5..]).unwrap(), json);
        assert_eq!(read_to_warden(&mut &bytes[..], &mut Vec::new()).unwrap(), Some(message));
    }
}

#[test]
fn a_login_that_prints_is_seen_through() {
    let mut bytes = b"Welcome!\n\0shoal\n".to_vec();
    bytes.extend_from_slice(PREAMBLE);
    bytes.extend_from_slice(&encode_from_warden(&FromWarden::Pong));
    let (noise, at) = after_preamble(&bytes).unwrap();
    assert_eq!((noise, &bytes[at..]), (&b"Welcome!\n\0shoal\n"[..], &encode_from_warden(&FromWarden::Pong)[..]));
    let mut from = &bytes[..];
    assert_eq!(read_preamble(&mut from).unwrap(), b"Welcome!\n\0shoal\n");
    assert_eq!(read_from_warden(&mut from, &mut Vec::new()).unwrap(), Some(FromWarden::Pong));
    let said = read_preamble(&mut &b"sh: shoal: not found"[..]).unwrap_err().to_string();
    assert!(said.contains("not found"), "{said}");
    assert!(read_preamble(&mut std::io::repeat(b'x')).is_err());
}

fn ranks() -> impl Strategy<Value = Rank> {
    prop_oneof![Just(Rank::Master), any::<u32>().prop_map(Rank::Server), any::<u32>().prop_map(Rank::Worker)]
}

proptest! {
    #[test]
    fn output_and_text_round_trip(rank in ranks(), offset: u64, bytes: Vec<u8>, tail: String, code: i32) {
        let messages = [
            FromWarden::Output { rank, offset, bytes },
            FromWarden::Ended { rank, ending: Ending::Exited(code), after_ms: offset, log_bytes: offset, tail: tail.clone() },
            FromWarden::Trouble { rank: Some(rank), what: tail, hint: None },
        ];
        let stream: Vec<u8> = messages.iter().flat_map(encode_from_warden).collect();
        let (mut from, mut body) = (&stream[..], Vec::new());
        for message in messages {
            prop_assert_eq!(read_from_warden(&mut from, &mut body).unwrap(), Some(message));
        }
        prop_assert_eq!(read_from_warden(&mut from, &mut body).unwrap(), None);
        // Cut anywhere, it is never a message too many nor a panic.
        for cut in 0..stream.len().min(40) {
            let mut from = &stream[..cut];
            while let Ok(Some(_)) = read_from_warden(&mut from, &mut body) {}
        }
    }

    #[test]
    fn garbage_is_refused_without_a_panic(bytes: Vec<u8>) {
        let mut body = Vec::new();
        let mut from = &bytes[..];
        while let Ok(Some(_)) = read_to_warden(&mut from, &mut body) {}
        let mut from = &bytes[..];
        while let Ok(Some(_)) = read_from_warden(&mut from, &mut body) {}
        let _ = frame::split(&bytes, 100);
        prop_assert!(body.capacity() <= frame::TO_WARDEN_LIMIT);
    }
}
