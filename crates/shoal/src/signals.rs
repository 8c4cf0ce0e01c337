//! SIGTERM and SIGINT become a flag; the second one ends the program at once.

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
