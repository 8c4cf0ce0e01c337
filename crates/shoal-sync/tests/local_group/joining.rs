//! Who may join, who may not, and that nobody waits forever for either.

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

use shoal_sync::local::*;

use super::harness::*;

fn dial(name: &str) -> UnixStream {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(300)
}

#[test]
fn who_does_not_come_is_named_at_the_deadline() {
    let hosting = Hosting::bind().unwrap();
    // A peer that says nothing, and one that says nonsense.
    let _silent = dial(hosting.name());
    dial(hosting.name()).write_all(&[9; 200]).unwrap();
    let began = Instant::now();
    match hosting.accept_all(&[2, 5, 9], 2, &SECRET, Options::default(), soon()) {
        Err(LocalError::Missing { ranks, .. }) => assert_eq!(ranks, [5, 9]),
        other => panic!("{:?}", other.err()),
    }
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_silent_stranger_keeps_nobody_waiting() {
    let hosting = Hosting::bind().unwrap();
    let silent: Vec<UnixStream> = (0..50).map(|_| dial(hosting.name())).collect();
    let name = hosting.name().to_owned();
    let (a, b) = std::thread::scope(|s| {
        let other = s.spawn(|| LocalGroup::connect(&name, &[0, 1], 1, &SECRET, Instant::now() + LONG));
        let host = hosting.accept_all(&[0, 1], 0, &SECRET, Options::default(), Instant::now() + LONG);
        (host.unwrap(), other.join().unwrap().unwrap())
    });
    assert_eq!((a.members(), b.members()), (&[0u32, 1][..], &[0u32, 1][..]));
    drop(silent);
}

#[test]
fn the_wrong_secret_is_refused_and_the_right_one_is_still_awaited() {
    let hosting = Hosting::bind().unwrap();
    let name = hosting.name().to_owned();
    std::thread::scope(|s| {
        let others = s.spawn(|| {
            let wrong = LocalGroup::connect(&name, &[0, 1], 1, &[1; 32], Instant::now() + LONG);
            assert!(matches!(wrong, Err(LocalError::Refused { rank: 1, .. })), "{:?}", wrong.err());
            let stranger = LocalGroup::connect(&name, &[0, 7], 7, &SECRET, Instant::now() + LONG);
            assert!(matches!(stranger, Err(LocalError::Refused { rank: 7, .. })), "{:?}", stranger.err());
            LocalGroup::connect(&name, &[0, 1], 1, &SECRET, Instant::now() + LONG).unwrap()
        });
        hosting.accept_all(&[0, 1], 0, &SECRET, Options::default(), Instant::now() + LONG).unwrap();
        others.join().unwrap();
    });
}

#[test]
fn a_host_that_never_answers_is_given_up_at_the_deadline() {
    let hosting = Hosting::bind().unwrap();
    let began = Instant::now();
    let failed = LocalGroup::connect(hosting.name(), &[0, 1], 1, &SECRET, soon());
    assert!(matches!(failed, Err(LocalError::Io { .. })), "{:?}", failed.err());
    assert!(began.elapsed() < Duration::from_secs(20));
    drop(hosting);
}

#[test]
fn member_lists_are_checked() {
    for members in [&[1u32, 0][..], &[0, 0], &[1, 2], &(0..40).collect::<Vec<_>>()] {
        let hosted = Hosting::bind().unwrap().accept_all(members, 0, &SECRET, Options::default(), soon());
        assert!(matches!(hosted, Err(LocalError::BadGroup { .. })), "{members:?}");
    }
}

#[test]
fn a_host_that_forbids_reaching_into_processes_is_found_at_joining() {
    let hosting = Hosting::bind().unwrap();
    let mut child = start("forbidden", hosting.name(), 1, 2);
    let joined = hosting.accept_all(&[0, 1], 0, &SECRET, Options::default(), Instant::now() + LONG);
    match joined {
        Err(LocalError::NotPermitted { rank: 1, peer: 0, call: "read", errno: libc::EPERM }) => {}
        other => panic!("{:?}", other.err()),
    }
    assert!(wait_for(|| child.try_wait().unwrap()).success());
}

/// The other rank of the test above: as in a container whose filter refuses the call.
pub fn forbidden(socket: &str, rank: u32) {
    forbid(libc::SYS_process_vm_readv as u32);
    let joined = LocalGroup::connect(socket, &[0, 1], rank, &SECRET, Instant::now() + LONG);
    assert!(matches!(joined, Err(LocalError::NotPermitted { rank: 1, .. })), "{:?}", joined.err());
}

fn forbid(call: u32) {
    let code = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call, 0, 1),
        code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program lives across the calls and concerns this thread only.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(done, "{}", std::io::Error::last_os_error());
}
