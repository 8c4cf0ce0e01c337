//! What does a cluster cost, about?

use serde::Deserialize;
use std::collections::BTreeMap;

/// On-demand prices of Linux instances in dollars an hour. They ship with the program, so they age: a line says of when they are.
const TABLE: &str = include_str!("prices.json");

#[derive(Debug, Deserialize)]
struct Table {
    as_of: String,
    /// Region -> type -> dollars an hour.
    regions: BTreeMap<String, BTreeMap<String, f64>>,
}

/// One instance that costs something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter<'m> {
    pub instance_type: &'m str,
    pub spot: bool,
    /// Since when it runs, in seconds since 1970.
    pub since: u64,
}

/// Dollars an hour, if the table knows it.
pub fn price(region: &str, instance_type: &str) -> Option<f64> {
    table().regions.get(region)?.get(instance_type).copied()
}

/// Of when the prices are.
pub fn as_of() -> String {
    table().as_of
}

fn table() -> Table {
    // A test reads it; a table that could not be read would only mean that no price is known.
    serde_json::from_str(TABLE).unwrap_or(Table { as_of: "never".into(), regions: BTreeMap::new() })
}

/// One line for `status`; `None` if nothing runs.
pub fn line(region: &str, meters: &[Meter<'_>], now: u64) -> Option<String> {
    if meters.is_empty() {
        return None;
    }
    let table = table();
    let prices = table.regions.get(region);
    let mut counts: BTreeMap<(&str, bool), u32> = BTreeMap::new();
    let (mut hourly, mut so_far, mut unknown) = (0.0, 0.0, Vec::new());
    for meter in meters {
        *counts.entry((meter.instance_type, meter.spot)).or_default() += 1;
        match prices.and_then(|prices| prices.get(meter.instance_type)) {
            Some(price) => {
                hourly += price;
                #[allow(clippy::cast_precision_loss, reason = "seconds of a cluster's life")]
                let seconds = now.saturating_sub(meter.since) as f64;
                so_far += price * seconds / 3600.0;
            }
            None if !unknown.contains(&meter.instance_type) => unknown.push(meter.instance_type),
            None => {}
        }
    }
    let spot = meters.iter().any(|meter| meter.spot);
    let kinds = counts.iter().map(|((kind, spot), n)| format!("{n} x {kind}{}", if *spot { " (spot)" } else { "" }));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    if unknown.len() == counts.len() {
        return Some(format!("cost: not known for {} in {region}", unknown.join(", ")));
    }
    let mut text = format!("cost: {}about ${hourly:.2} an hour", if spot { "at most " } else { "" });
    text += &format!(", ${so_far:.2} since the start ({kinds}; {region}, on-demand prices of {}", table.as_of);
    if !unknown.is_empty() {
        text += &format!("; without {}, whose price is not known", unknown.join(", "));
    }
    Some(text + "; disks and traffic not counted)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_one() {
        let table: Table = serde_json::from_str(TABLE).unwrap();
        for region in ["us-west-2", "us-east-1", "eu-west-1", "eu-central-1"] {
            assert!(table.regions[region].len() > 40, "{region}");
        }
        assert!(table.regions.values().flat_map(|prices| prices.values()).all(|price| (0.001..200.0).contains(price)));
        assert_eq!(price("us-west-2", "p3.2xlarge"), Some(3.06));
        assert_eq!(price("mars-1", "p3.2xlarge"), None);
    }

    #[test]
    fn the_line_says_what_is_known() {
        let meter = |instance_type, spot| Meter { instance_type, spot, since: 0 };
        let as_of = table().as_of;
        let two = line("us-west-2", &[meter("p3.2xlarge", false), meter("p3.2xlarge", false)], 1800).unwrap();
        let wanted = format!(
            "cost: about $6.12 an hour, $3.06 since the start (2 x p3.2xlarge; us-west-2, on-demand prices of {as_of}; \
             disks and traffic not counted)"
        );
        assert_eq!(two, wanted);
        let mixed = line("us-west-2", &[meter("p3.2xlarge", true), meter("x9.huge", false)], 0).unwrap();
        assert!(mixed.starts_with("cost: at most about $3.06 an hour"), "{mixed}");
        assert!(mixed.contains("1 x p3.2xlarge (spot), 1 x x9.huge"), "{mixed}");
        assert!(mixed.contains("without x9.huge, whose price is not known"), "{mixed}");
        assert_eq!(
            line("mars-1", &[meter("p3.2xlarge", false)], 0).unwrap(),
            "cost: not known for p3.2xlarge in mars-1"
        );
        assert_eq!(line("us-west-2", &[], 0), None);
    }
}
