//! The contestants of a case while it runs: each with all its variants alive, and the best of them chosen anew for every size.

use super::Size;
use super::contestant::Variant;
use super::group::{Group, Hub, Measure, Order};
use super::iperf::Iperf;
use super::place::Place;
use super::report::cause;
use anyhow::{Context, Result, anyhow};
use shoal_testkit::hosts::Hosts;

/// Orders of a candidate before it is judged by the fastest: the first one warms up and verifies.
const TRIALS: usize = 3;

pub struct Field<'a> {
    hub: &'a Hub,
    place: &'a Place,
    quick: bool,
    /// Ours is the first.
    pub contestants: Vec<Contestant<'a>>,
}

pub struct Contestant<'a> {
    pub name: &'static str,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Workers {
        candidates: Vec<Candidate>,
        chosen: Option<Choice>,
    },
    Bound {
        iperf: Iperf<'a>,
        tensor_bytes: f64,
    },
    /// It did not start.
    Failed(String),
}

struct Candidate {
    label: &'static str,
    list_modes: &'static [&'static str],
    group: Group,
}

#[derive(Clone, Copy)]
struct Choice {
    candidate: usize,
    mode: &'static str,
    seconds: f64,
}

impl<'a> Field<'a> {
    pub fn new(hub: &'a Hub, place: &'a Place, quick: bool) -> Self {
        Self { hub, place, quick, contestants: Vec::new() }
    }

    /// Starts every variant (in a quick bench: the first); one that fails is named and left out.
    pub fn add(&mut self, name: &'static str, variants: Vec<Variant>) {
        let mut candidates = Vec::new();
        let mut failure = None;
        let count = if self.quick { 1 } else { variants.len() };
        for variant in variants.into_iter().take(count) {
            let Variant { label, list_modes, commands } = variant;
            let full = format!("{}/{name}/{}", self.place.interface(), label.replace(' ', "-"));
            match Group::start(self.hub, full.trim_end_matches('/'), commands) {
                Ok(group) => candidates.push(Candidate { label, list_modes, group }),
                Err(error) => {
                    let cause = cause(&error);
                    eprintln!("{cause}");
                    failure = Some(cause);
                }
            }
        }
        let kind = match failure {
            Some(failure) if candidates.is_empty() => Kind::Failed(failure),
            _ => Kind::Workers { candidates, chosen: None },
        };
        self.contestants.push(Contestant { name, kind });
    }

    pub fn add_failed(&mut self, name: &'static str, why: String) {
        self.contestants.push(Contestant { name, kind: Kind::Failed(why) });
    }

    pub fn add_bound(&mut self, name: &'static str, hosts: &'a Hosts) {
        let kind = match Iperf::start(hosts) {
            Ok(iperf) => Kind::Bound { iperf, tensor_bytes: 0.0 },
            Err(error) => Kind::Failed(cause(&error)),
        };
        self.contestants.push(Contestant { name, kind });
    }
}

impl Contestant<'_> {
    /// Warms up, verifies, and chooses the variant and mode for this size.
    pub fn prepare(&mut self, size: &Size) -> Result<()> {
        match &mut self.kind {
            Kind::Failed(why) => Err(anyhow!("{why}")),
            Kind::Bound { tensor_bytes, .. } => {
                let (amount, unit) = size.name.split_once(' ').context("a bound needs a size in bytes")?;
                *tensor_bytes = amount.parse::<f64>()? * if unit == "MB" { 1048576.0 } else { 1024.0 };
                Ok(())
            }
            Kind::Workers { candidates, chosen } => {
                *chosen = None;
                let mut failure = anyhow!("{} has no variant that works", self.name);
                for index in 0..candidates.len() {
                    for mode in modes(&candidates[index], size) {
                        match trial(&mut candidates[index].group, size, mode) {
                            Ok(seconds) if chosen.is_none_or(|best| seconds < best.seconds) => {
                                *chosen = Some(Choice { candidate: index, mode, seconds });
                            }
                            Ok(_) => {}
                            Err(error) => {
                                failure = error.context(format!("{}, {}", candidates[index].label, size.name));
                                eprintln!("{}", cause(&failure));
                                break;
                            }
                        }
                    }
                    // All variants together would hold more memory than a machine has.
                    candidates_but(candidates, *chosen).for_each(release);
                }
                if chosen.is_some() { Ok(()) } else { Err(failure) }
            }
        }
    }

    /// One measurement by the chosen variant.
    pub fn round(&mut self, size: &Size) -> Result<Measure> {
        match &mut self.kind {
            Kind::Failed(why) => Err(anyhow!("{why}")),
            Kind::Bound { iperf, tensor_bytes } => iperf.bound(*tensor_bytes),
            Kind::Workers { candidates, chosen } => {
                let Choice { candidate, mode, .. } = chosen.context("no variant was chosen")?;
                candidates[candidate].group.order(&order(size, mode, false))
            }
        }
    }

    /// The chosen variant, in words.
    pub fn how(&self) -> String {
        match &self.kind {
            Kind::Workers { candidates, chosen: Some(chosen) } => {
                let mode = if chosen.mode == "plain" { "" } else { chosen.mode };
                [candidates[chosen.candidate].label, mode].join(", ").trim_matches([',', ' ']).to_owned()
            }
            Kind::Bound { .. } => "2S(P-1)/P at its rate".to_owned(),
            Kind::Workers { .. } | Kind::Failed(_) => String::new(),
        }
    }

    pub fn release(&mut self) {
        if let Kind::Workers { candidates, chosen } = &mut self.kind {
            *chosen = None;
            candidates.iter_mut().for_each(|candidate| release(&mut candidate.group));
        }
    }
}

fn modes(candidate: &Candidate, size: &Size) -> &'static [&'static str] {
    if size.is_list { candidate.list_modes } else { &["plain"] }
}

fn candidates_but(candidates: &mut [Candidate], chosen: Option<Choice>) -> impl Iterator<Item = &mut Group> {
    let kept = chosen.map(|choice| choice.candidate);
    candidates.iter_mut().enumerate().filter(move |(index, _)| Some(*index) != kept).map(|(_, it)| &mut it.group)
}

fn trial(group: &mut Group, size: &Size, mode: &str) -> Result<f64> {
    group.order(&order(size, mode, true))?;
    let mut best = f64::INFINITY;
    for _ in 1..TRIALS {
        best = best.min(group.order(&order(size, mode, false))?.seconds);
    }
    Ok(best)
}

fn order<'a>(size: &Size, mode: &'a str, verify: bool) -> Order<'a> {
    Order { size: Some(size.name), mode, iterations: size.iterations, verify }
}

/// Drops the buffers. A group that cannot do even that shows it at the next order.
fn release(group: &mut Group) {
    if !group.is_lost() {
        let _ = group.order(&Order { size: None, mode: "", iterations: 0, verify: false });
    }
}
