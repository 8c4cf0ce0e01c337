//! SIGTERM and SIGINT become a flag; the second one ends the program at once.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, flag.clone())?;
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(flag)
}

/// How often somebody asked for an end so far (Ctrl-C, SIGTERM, a closed terminal), as a question to ask at any time.
pub fn count() -> std::io::Result<impl Fn() -> u32> {
    let asked = Arc::new(AtomicU32::new(0));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        let asked = asked.clone();
        let more = move || {
            asked.fetch_add(1, Ordering::SeqCst);
        };
        // SAFETY: all the handler does is to add to an atomic number.
        unsafe { signal_hook::low_level::register(signal, more) }?;
    }
    Ok(move || asked.load(Ordering::SeqCst))
}

/// As `count`, for those who have started another program that a terminal speaks to as well.
pub struct Asked {
    all: Arc<AtomicU32>,
    by_others: Arc<AtomicU32>,
}

impl Asked {
    /// How often somebody asked for an end so far.
    pub fn at_all(&self) -> u32 {
        self.all.load(Ordering::SeqCst)
    }

    /// How often it was a process that asked, not the terminal: what this program has started did not hear it.
    pub fn by_others(&self) -> u32 {
        self.by_others.load(Ordering::SeqCst)
    }
}

pub fn asked() -> std::io::Result<Asked> {
    let mut signals = SignalsInfo::<WithRawSiginfo>::new([SIGTERM, SIGINT, SIGHUP])?;
    let asked = Asked { all: Arc::default(), by_others: Arc::default() };
    let (all, by_others) = (asked.all.clone(), asked.by_others.clone());
    std::thread::spawn(move || {
        for info in signals.forever() {
            // What the kernel sends for a terminal has a code above 0; what `kill` and its like send has not.
            if info.si_code <= 0 {
                by_others.fetch_add(1, Ordering::SeqCst);
            }
            all.fetch_add(1, Ordering::SeqCst);
        }
    });
    Ok(asked)
}
