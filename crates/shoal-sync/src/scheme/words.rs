//! Bytes, seconds and rates as people read them: three figures and a unit.

/// `575 MB`; decimal units, as links are sold.
pub fn bytes(count: f64) -> String {
    scaled(count, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// `1.25 s`, `43.0 ms`, `80.0 us`.
pub fn seconds(count: f64) -> String {
    match count {
        0.0 => "0 s".into(),
        c if c < 1e-3 => format!("{} us", three(c * 1e6)),
        c if c < 1.0 => format!("{} ms", three(c * 1e3)),
        c => format!("{} s", three(c)),
    }
}

/// `50.0 GFLOP/s`.
pub fn flops(rate: f64) -> String {
    scaled(rate, 1000.0, &["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"])
}

/// `1.00 Gbit/s` for bytes a second.
pub fn rate(bytes_per_second: f64) -> String {
    scaled(bytes_per_second * 8.0, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    if !value.is_finite() {
        return format!("{value} {}", units[0]);
    }
    let mut unit = 0;
    // 999.5 would be shown as 1000.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} {}", units[0]) } else { format!("{} {}", three(value), units[unit]) }
}

/// Three figures: more would pretend, fewer would hide.
fn three(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (value, text) in [(0.0, "0 B"), (999.0, "999 B"), (1000.0, "1.00 kB"), (574_668_960.0, "575 MB")] {
            assert_eq!(bytes(value), text);
        }
        for (value, text) in [(0.0, "0 s"), (8e-5, "80.0 us"), (0.043, "43.0 ms"), (1.25, "1.25 s"), (120.0, "120 s")] {
            assert_eq!(seconds(value), text);
        }
        assert_eq!(rate(125e6), "1.00 Gbit/s");
        assert_eq!(flops(5e10), "50.0 GFLOP/s");
        assert_eq!(rate(f64::INFINITY), "inf bit/s");
    }
}
