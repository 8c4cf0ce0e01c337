//! What the measurements between hosts mean for each host: can it reach the others, and is its link as good as theirs?

use super::compare::duration;
use super::network::Pair;
use super::{Check, Finding};
use crate::fleet::range;
use std::time::Duration;

/// Slower: a bad cable, a port that fell back to 100 Mbit/s, a wireless link.
pub const SLOW_BITS: u64 = 200_000_000;
/// A link with less than this part of the usual one stands out, unless it is fast anyway.
const PART_OF_USUAL: u64 = 4;
const FAST_ANYWAY: u64 = 1_000_000_000;
/// Farther: not in the same building.
pub const FAR: Duration = Duration::from_millis(10);

/// The finding of `host`, from all pairs of the fleet. `ports`: where its free ports come from.
pub fn host(host: &str, pairs: &[Pair], ports: Option<(u16, u16)>) -> Option<Finding> {
    let mine: Vec<&Pair> = pairs.iter().filter(|pair| pair.from == host || pair.to == host).collect();
    if mine.is_empty() {
        return None;
    }
    let out = || mine.iter().filter(|pair| pair.from == host);
    let unreached: Vec<&str> = out().filter(|pair| pair.round_trip_ns.is_err()).map(|pair| pair.to.as_str()).collect();
    if !unreached.is_empty() {
        let why = out().find_map(|pair| pair.round_trip_ns.as_ref().err()).map_or("", String::as_str);
        let (low, high) = ports.unwrap_or((32768, 60999));
        return Some(Finding::red(
            Check::Peers,
            format!("{} of {}", out().count() - unreached.len(), out().count()),
            format!("it cannot reach {}: {why}", range::fold(unreached.iter().copied()).join(", ")),
            format!(
                "does a firewall stand between (ufw, firewalld, a security group)? Allow TCP {low}-{high} from host to host; or a route is missing"
            ),
        ));
    }
    // Those that cannot reach this host are red themselves; the hint belongs to one end.
    let (count, slowest) =
        (out().count(), mine.iter().filter_map(|pair| Some((pair.bits_per_s?, *pair))).min_by_key(|(bits, _)| *bits));
    let farthest =
        mine.iter().filter_map(|pair| Some((*pair.round_trip_ns.as_ref().ok()?, *pair))).max_by_key(|(ns, _)| *ns);
    let other = |pair: &Pair| if pair.from == host { pair.to.clone() } else { pair.from.clone() };
    if let Some((bits, pair)) = slowest.filter(|(bits, _)| is_slow(*bits, pairs)) {
        return Some(Finding::yellow(
            Check::Peers,
            rate(bits),
            format!("only {} between it and {}", rate(bits), other(pair)),
            "cable, port or switch fallen back to 100 Mbit/s (`ethtool` there), wireless, or somebody else's traffic?",
        ));
    }
    if let Some((ns, pair)) = farthest.filter(|(ns, _)| Duration::from_nanos(*ns) > FAR) {
        let far = duration(Duration::from_nanos(ns));
        return Some(Finding::yellow(
            Check::Peers,
            far.clone(),
            format!("a round trip of {far} between it and {}", other(pair)),
            "every step of a training waits for such trips; are they in one place, is there a VPN in between?",
        ));
    }
    let reaches = if count == 1 { "reaches the other".into() } else { format!("reaches all {count} others") };
    let speed = slowest.map_or_else(String::new, |(bits, _)| format!(", {} or more", rate(bits)));
    let trip = farthest
        .map_or_else(String::new, |(ns, _)| format!(", round trips up to {}", duration(Duration::from_nanos(ns))));
    Some(Finding::green(Check::Peers, "ok", format!("{reaches}{speed}{trip}")))
}

fn is_slow(bits: u64, pairs: &[Pair]) -> bool {
    let mut all: Vec<u64> = pairs.iter().filter_map(|pair| pair.bits_per_s).collect();
    all.sort_unstable();
    let usual = all.get(all.len() / 2).copied().unwrap_or(0);
    bits < SLOW_BITS || (bits < FAST_ANYWAY && bits < usual / PART_OF_USUAL)
}

/// For people: `940 Mb/s`.
pub(super) fn rate(bits_per_s: u64) -> String {
    let value = bits_per_s as f64;
    match value {
        v if v >= 9.95e9 => format!("{:.0} Gb/s", v / 1e9),
        v if v >= 1e9 => format!("{:.1} Gb/s", v / 1e9),
        v if v >= 1e6 => format!("{:.0} Mb/s", v / 1e6),
        v => format!("{:.0} kb/s", v / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level::{self, Green, Red, Yellow};
    use super::*;

    fn pair(from: &str, to: &str, round_trip_ns: Result<u64, &str>, mbit: Option<u64>) -> Pair {
        Pair {
            from: from.into(),
            to: to.into(),
            round_trip_ns: round_trip_ns.map_err(Into::into),
            bits_per_s: mbit.map(|m| m * 1_000_000),
        }
    }

    fn levels(pairs: &[Pair]) -> [Level; 3] {
        ["a", "b", "c"].map(|name| {
            let finding = host(name, pairs, None).expect("a finding");
            assert_eq!(finding.hint.is_some(), finding.level > Level::Unknown);
            finding.level
        })
    }

    #[test]
    fn the_end_that_cannot_dial_is_red() {
        let ms = 1_000_000;
        let good = |from: &str, to: &str| pair(from, to, Ok(ms / 5), (from < to).then_some(940));
        let all = ["ab", "ba", "ac", "ca", "bc", "cb"].map(|p| good(&p[..1], &p[1..]));
        assert_eq!(levels(&all), [Green, Green, Green]);
        let change = |i: usize, new: Pair| {
            let mut pairs = all.to_vec();
            pairs[i] = new;
            pairs
        };
        assert_eq!(levels(&change(1, pair("b", "a", Err("timed out"), None))), [Green, Red, Green]);
        assert_eq!(levels(&change(0, pair("a", "b", Ok(ms), Some(94)))), [Yellow, Yellow, Green]);
        assert_eq!(levels(&change(0, pair("a", "b", Ok(ms), Some(230)))), [Yellow, Yellow, Green]);
        assert_eq!(levels(&change(0, pair("a", "b", Ok(40 * ms), Some(900)))), [Yellow, Yellow, Green]);
        // On a fast network a link of 2.5 Gbit/s is nothing to complain about.
        assert_eq!(levels(&change(0, pair("a", "b", Ok(ms), Some(2500)))), [Green, Green, Green]);
        let red = host("b", &change(1, pair("b", "a", Err("timed out"), None)), Some((40_000, 50_000))).expect("one");
        assert_eq!((red.cell.as_str(), red.text.as_str()), ("1 of 2", "it cannot reach a: timed out"));
        assert!(red.hint.is_some_and(|hint| hint.contains("40000-50000")));
    }

    #[test]
    fn a_host_alone_has_nothing_to_say() {
        assert_eq!(host("a", &[], None), None);
    }
}
