//! A process that survives SIGKILL, as one does that hangs on a dead network drive: it is said, its seat stays taken, and its end is told when it
//! comes. Here a tracer holds it at its last step.

mod queue_host;

use queue_host::*;
use shoal_core::queue::line::{FromHost, ToHost};
use shoal_core::queue::work::Ending;
use std::sync::mpsc::{Sender, channel};

/// Holds a process until it is dropped; nothing if that is not allowed.
struct Held {
    _until: Sender<()>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Held {
    fn hold(pid: u32) -> Option<Held> {
        let (until, over) = channel::<()>();
        let (tell, told) = channel();
        let hold = move || {
            // SAFETY: numbers only; the process is of this test's own keeper. What a thread traces is let go when it ends.
            let done =
                unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid as i32, 0usize, libc::PTRACE_O_TRACEEXIT as usize) };
            let _ = tell.send(done == 0);
            let _ = over.recv();
        };
        let thread = std::thread::spawn(hold);
        told.recv().ok().filter(|held| *held).map(|_| Held { _until: until, thread: Some(thread) })
    }

    fn let_go(mut self) {
        let thread = self.thread.take();
        drop(self);
        thread.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_first_process_that_does_not_end_is_said_and_its_end_told_when_it_comes() {
    let place = Place::new();
    let mut line = Line::open(&place);
    line.start(vec![sh(0, "exec sleep 1000")]);
    line.wait_alive(&attempt(0, 1));
    let pid = until("its process", || place.left().first().copied());
    let Some(held) = Held::hold(pid) else {
        return shoal_testkit::skip("no process may be traced here");
    };
    line.say(&ToHost::Stop { attempt: attempt(0, 1), checkpoint_first: false, grace_seconds: 0 });
    let trouble = |line: &mut Line, wanted: bool| {
        line.wait("trouble", |line| {
            line.seen.iter().find_map(|(m, _)| match m {
                FromHost::Trouble { what, over, .. } if *over == wanted => Some(what.clone()),
                _ => None,
            })
        })
    };
    let what = trouble(&mut line, false);
    assert!(what.contains(&format!("process {pid} of s_0.0_1 does not end, not even by SIGKILL")), "{what}");
    assert!(line.ended.is_empty(), "it is not over");
    assert!(exists(pid));
    // Others are none the worse, and it stays said while they come and go.
    assert_eq!(line.run(argv(1, &["true"])).ending, Ending::Exited(0));
    assert!(!line.seen.iter().any(|(m, _)| matches!(m, FromHost::Trouble { over: true, .. })));
    held.let_go();
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Stopped);
    assert_eq!(trouble(&mut line, true), what);
}
