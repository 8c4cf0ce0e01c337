//! What do people see while files are on their way, and how do they stop it?

use super::transfer::Party;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use shoal_core::outcome::STOPPED;
use shoal_hosts::files::{Progress, Stage};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const TURN: Duration = Duration::from_millis(20);
/// How often a line is printed where there is no terminal.
pub const PLAIN: Duration = Duration::from_secs(5);

/// For people.
pub fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Does `work` while somebody may say stop. Nodes give up by themselves what is under way: their input ends with us.
pub fn attended<R: Send>(program: &str, stop: &dyn Fn() -> u32, screen: &Screen, work: impl FnOnce() -> R + Send) -> R {
    attended_with(program, stop, screen, &|| {}, work)
}

/// As `attended`; `at_stop` clears away what would stay when this program is gone.
pub fn attended_with<R: Send>(
    program: &str,
    stop: &dyn Fn() -> u32,
    screen: &Screen,
    at_stop: &dyn Fn(),
    work: impl FnOnce() -> R + Send,
) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        while !thread.is_finished() {
            if stop() > 0 {
                screen.close();
                at_stop();
                eprintln!("{program}: stopped; what is complete stays, the rest is not there");
                std::process::exit(i32::from(STOPPED));
            }
            screen.turn();
            std::thread::sleep(TURN);
        }
        screen.close();
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Bars on a terminal, a line now and then elsewhere.
pub struct Screen {
    program: String,
    names: Vec<String>,
    bars: Option<MultiProgress>,
    state: Mutex<State>,
}

struct State {
    began: Instant,
    said: Instant,
    bars: HashMap<usize, ProgressBar>,
    sent: HashMap<usize, (u64, u64)>,
    told: u64,
}

impl Screen {
    pub fn new(program: &str, party: &Party) -> Screen {
        let terminal = std::io::stderr().is_terminal();
        let bars = terminal.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8)));
        let now = Instant::now();
        let state = State { began: now, said: now, bars: HashMap::new(), sent: HashMap::new(), told: 0 };
        Screen { program: program.into(), names: party.names(), bars, state: Mutex::new(state) }
    }

    pub fn took(&self) -> Duration {
        self.state.lock().unwrap_or_else(|e| e.into_inner()).began.elapsed()
    }

    pub fn tell(&self, node: usize, progress: Progress) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let name = self.names.get(node).map_or("", String::as_str);
        let words = match progress.stage {
            Stage::Note(note) => {
                match &self.bars {
                    Some(bars) => drop(bars.println(format!("{}: {note}", self.program))),
                    None => eprintln!("{}: {note}", self.program),
                }
                return;
            }
            Stage::Connecting => "connecting",
            Stage::Looking => "looking",
            Stage::Sending => "",
            Stage::Done => "done",
        };
        if progress.stage == Stage::Sending {
            state.sent.insert(node, (progress.sent, progress.total));
        }
        let Some(bars) = &self.bars else { return };
        let bar = state.bars.entry(node).or_insert_with(|| {
            let form = "{prefix:16!} {bar:20} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} {msg}";
            let style = ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar());
            bars.add(ProgressBar::new(0).with_style(style).with_prefix(name.to_string()))
        });
        if progress.stage == Stage::Sending {
            bar.set_length(progress.total.max(progress.sent));
            bar.set_position(progress.sent);
        }
        if progress.stage == Stage::Done {
            bar.finish();
        }
        bar.set_message(words);
    }

    /// A line for those who have no bars.
    fn turn(&self) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        if self.bars.is_some() || state.said.elapsed() < PLAIN {
            return;
        }
        let (sent, total) = state.sent.values().fold((0, 0), |(s, t), (sent, total)| (s + sent, t + total));
        if total > 0 {
            let rate = (sent.saturating_sub(state.told)) as f64 / state.said.elapsed().as_secs_f64();
            let left = if rate > 0.0 {
                format!(", about {:.0} s left", (total.saturating_sub(sent)) as f64 / rate)
            } else {
                String::new()
            };
            let rate = size(rate as u64);
            eprintln!("{}: {} of {} sent, {rate}/s{left}", self.program, size(sent), size(total));
        }
        state.said = Instant::now();
        state.told = sent;
    }

    fn close(&self) {
        if let Some(bars) = &self.bars {
            let _ = bars.clear();
        }
    }
}
