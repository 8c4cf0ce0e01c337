//! How do signals become events?
//!
//! They are blocked in all threads and one thread waits for them: no code runs in a signal handler.

use std::io;
use std::mem::MaybeUninit;

/// Asked to end, and: a child changed.
pub const TO_END: [i32; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

fn set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set it is given; sigaddset gets an initialised one and valid signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Blocks what [`listen`] waits for. Must be called before the first thread is started: threads inherit it.
pub fn block() {
    let all = set(&[TO_END[0], TO_END[1], TO_END[2], libc::SIGCHLD]);
    // SAFETY: a valid set and no old set wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut()) };
    // An ignored SIGCHLD (inherited from some parents) would make the kernel reap our children unseen, and a write to
    // a log beyond a size limit is to be an error we report, not our death.
    // SAFETY: setting dispositions to constants.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Gives every signal to `tell` until that says false.
pub fn listen(tell: impl Fn(i32) -> bool + Send + 'static) -> io::Result<()> {
    let all = set(&[TO_END[0], TO_END[1], TO_END[2], libc::SIGCHLD]);
    std::thread::Builder::new().name("signals".into()).stack_size(64 << 10).spawn(move || {
        loop {
            let mut signal = 0;
            // SAFETY: a valid set, and a place for the number.
            if unsafe { libc::sigwait(&all, &mut signal) } == 0 && !tell(signal) {
                return;
            }
        }
    })?;
    Ok(())
}

/// Gives a new process the signals a program expects to find. For between fork and exec: only async-signal-safe calls.
pub fn reset_in_child() {
    let none = set(&[]);
    // SAFETY: setting constants in the only thread of the child; a signal number that has no handler is refused, which is fine.
    unsafe {
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}
