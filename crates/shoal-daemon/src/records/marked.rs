//! Who is left of a run when its keepers are gone? Everything a rank starts inherits `SHOAL_RUN`; its keeper and warden end
//! it, unless both were killed. What bears the mark then is ended here (GANG-1).

use crate::proc::{self, Stat};
use crate::sweep::{STEP, Sweep, Swept};
use shoal_core::variables::RUN;
use std::time::{Duration, Instant};

/// Everybody with the run's mark, except us and those we descend from: a rank may stop its own run.
fn marked(run: &str) -> Vec<Stat> {
    let all = proc::scan();
    let mut ours = vec![std::process::id()];
    while let Some(parent) = all.iter().find(|s| Some(&s.process.pid) == ours.last()).map(|s| s.parent)
        && parent > 1
        && !ours.contains(&parent)
    {
        ours.push(parent);
    }
    let mark = format!("{RUN}={run}");
    let bears = |stat: &Stat| {
        // Other users' cannot be read; they are not ours to end either.
        let environ = std::fs::read(format!("/proc/{}/environ", stat.process.pid)).unwrap_or_default();
        environ.split(|b| *b == 0).any(|v| v == mark.as_bytes())
    };
    all.into_iter().filter(|s| !ours.contains(&s.process.pid) && bears(s)).collect()
}

/// Ends them: asked first, made to after the grace. `Err`: these do not end.
pub fn end(run: &str, grace: Duration) -> Result<(), Vec<u32>> {
    let mut sweep = Sweep::new(Instant::now(), Duration::ZERO, grace);
    loop {
        match sweep.step(Instant::now(), &marked(run)) {
            Swept::Going => std::thread::sleep(STEP * 2),
            Swept::Clean => return Ok(()),
            Swept::Stuck(pids) => return Err(pids),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_bears_the_mark_ends_and_others_stay() {
        let run = format!("marked-{}", std::process::id());
        let start = |run: &str| Command::new("sleep").arg("1000").env(RUN, run).spawn().unwrap();
        let (mut one, mut other) = (start(&run), start(&format!("{run}0")));
        end(&run, Duration::from_secs(5)).unwrap();
        assert!(!one.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
