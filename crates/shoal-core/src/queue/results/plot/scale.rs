//! Where is a value on an axis, and which values are written at it?

use crate::queue::results::numbers::digits;

/// Values that span more than this many decades are spread by their logarithm.
const DECADES: f64 = 2.0;

#[derive(Debug, Clone)]
pub struct Scale {
    from: f64,
    to: f64,
    pub is_log: bool,
    pub ticks: Vec<(f64, String)>,
}

impl Scale {
    /// An axis on which all of `values` are; logarithmic where the `means` among them are positive and far apart.
    pub fn over(values: &[f64], means: &[f64]) -> Scale {
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_log = least(means) > 0.0 && (most(means) / least(means)).log10() > DECADES;
        let positive: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite() && (!is_log || *value > 0.0)).collect();
        let mut from = least(&positive);
        let mut to = most(&positive);
        if is_log {
            // An interval that nearly reaches zero would take all the room.
            from = from.max(least(means) / 10.0);
            let room = 0.02 + (to.log10() - from.log10()) / 25.0;
            let (from, to) = (from.log10() - room, to.log10() + room);
            return Scale { from, to, is_log, ticks: log_ticks(from, to) };
        }
        if from == to {
            let room = if from == 0.0 { 1.0 } else { from.abs() / 2.0 };
            (from, to) = (from - room, to + room);
        } else {
            let room = (to / 20.0) - (from / 20.0);
            (from, to) = (from - room, to + room);
        }
        Scale { from, to, is_log, ticks: even_ticks(from, to) }
    }

    /// Names side by side.
    pub fn named(names: &[String]) -> Scale {
        let ticks = names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect();
        Scale { from: -0.5, to: names.len() as f64 - 0.5, is_log: false, ticks }
    }

    /// The values themselves are written at the axis, where they are few and have room.
    pub fn naming(mut self, values: &[f64]) -> Scale {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let apart = values.windows(2).all(|pair| self.at(pair[1]) - self.at(pair[0]) > 0.07);
        if apart && values.len() <= 12 {
            self.ticks = values.into_iter().map(|value| (value, digits(value, 6))).collect();
        }
        self
    }

    /// From 0 to 1; what lies beyond is at the end.
    pub fn at(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let part = (value - self.from) / (self.to - self.from);
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.5 }
    }
}

fn even_ticks(from: f64, to: f64) -> Vec<(f64, String)> {
    let rough = (to / 7.0) - (from / 7.0);
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * decade).find(|step| *step >= rough);
    let step = step.unwrap_or(decade * 10.0);
    let first = (from / step).ceil();
    let ticks = (0..20).map(|n| (first + f64::from(n)) * step).take_while(|tick| *tick <= to);
    // Enough digits to tell neighbours apart.
    let largest = from.abs().max(to.abs());
    let significant = ((largest / step).log10().floor().max(0.0) as usize + 2).min(15);
    let zero = |tick: f64| if tick.abs() < step / 1e6 { 0.0 } else { tick };
    ticks.map(|tick| (zero(tick), digits(zero(tick), significant))).collect()
}

/// Powers of ten; between few of them, also their doubles and fivefolds.
fn log_ticks(from: f64, to: f64) -> Vec<(f64, String)> {
    let (first, last) = (from.ceil() as i32, to.floor() as i32);
    let every = ((last - first) / 8 + 1).max(1);
    let factors: &[f64] = if last - first < 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = (first - 1..=last).filter(|decade| (decade - first).rem_euclid(every) == 0);
    let ticks = decades.flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)));
    ticks.filter(|tick| (from..=to).contains(&tick.log10())).map(|tick| (tick, digits(tick, 2))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64]) -> (bool, Vec<String>) {
        let scale = Scale::over(values, values);
        (scale.is_log, scale.ticks.into_iter().map(|(_, label)| label).collect())
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&[0.0, 1.0]), (false, ["0", "0.2", "0.4", "0.6", "0.8", "1"].map(String::from).into()));
        assert_eq!(labels(&[1e-4, 1e-1]).1, ["0.0001", "0.001", "0.01", "0.1"]);
        assert!(labels(&[1e-4, 1e-1]).0 && !labels(&[1.0, 50.0]).0 && !labels(&[-1.0, 1e6]).0);
        for values in [&[5.0][..], &[0.0], &[-3.0, -3.0], &[1e300, -1e300], &[1e-300, 1e300], &[0.998, 0.9985]] {
            let scale = Scale::over(values, values);
            assert!(scale.ticks.len() >= 2, "{values:?}: {scale:?}");
            assert!(values.iter().all(|value| (0.0..=1.0).contains(&scale.at(*value))));
            let mut names: Vec<&str> = scale.ticks.iter().map(|(_, name)| name.as_str()).collect();
            names.dedup();
            assert_eq!(names.len(), scale.ticks.len(), "{scale:?}");
        }
    }
}
