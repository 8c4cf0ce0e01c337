//! What people see while hosts are examined: who is not done yet, on a terminal, once it takes longer than a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(1);

pub struct Progress {
    began: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { began: Instant::now(), bar: None }
    }

    pub fn show(&mut self, under_way: impl Iterator<Item = String>) {
        if self.began.elapsed() < SOON || !std::io::stderr().is_terminal() {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8))
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
                .with_elapsed(self.began.elapsed())
        });
        bar.set_message(under_way.collect::<Vec<_>>().join(", "));
        bar.tick();
    }

    pub fn close(&mut self) {
        self.bar.take().iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.close();
    }
}
