//! What is the mean of some numbers, how sure is it, and how are both written?

/// Student's t for 95 %, two-sided, by degrees of freedom from 1.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// Of more, as of infinitely many.
const T_BEYOND: f64 = 1.96;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    pub n: usize,
    pub mean: f64,
    /// Half the width of the 95 % interval around the mean; one number says nothing of it.
    pub half: Option<f64>,
}

/// `None` for no numbers.
pub fn summary(numbers: &[f64]) -> Option<Summary> {
    let n = numbers.len();
    let mean = mean(numbers)?;
    let half = n.checked_sub(1).filter(|freedom| *freedom > 0).map(|freedom| {
        let squares: f64 = numbers.iter().map(|number| (number - mean) * (number - mean)).sum();
        let t = T.get(freedom - 1).copied().unwrap_or(T_BEYOND);
        t * (squares / freedom as f64).sqrt() / (n as f64).sqrt()
    });
    Some(Summary { n, mean, half })
}

fn mean(numbers: &[f64]) -> Option<f64> {
    let sum: f64 = numbers.iter().sum();
    match numbers.len() {
        0 => None,
        n if sum.is_finite() => Some(sum / n as f64),
        // Too large to be added up, or one of them is no number.
        n => Some(numbers.iter().map(|number| number / n as f64).sum()),
    }
}

/// With so many digits that count, and no more characters than needed: `0.1235`, `12000`, `1.5e-07`.
pub fn digits(number: f64, significant: usize) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "nan".into()
        } else if number > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    if number == 0.0 {
        return "0".into();
    }
    let significant = significant.max(1);
    let scientific = format!("{number:.*e}", significant - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-5..=9).contains(&exponent) {
        return format!("{}e{exponent:+03}", trimmed(mantissa));
    }
    let decimals = usize::try_from(significant as i32 - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{number:.decimals$}")).into()
}

fn trimmed(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// `0.912 ± 0.014`: as many digits as the interval leaves meaning to.
pub fn written(summary: &Summary) -> String {
    let Summary { mean, half, .. } = *summary;
    let Some(half) = half.filter(|half| half.is_finite() && mean.is_finite()) else { return digits(mean, 5) };
    if half == 0.0 {
        return format!("{} ± 0", digits(mean, 5));
    }
    let place = half.abs().log10().floor() as i32;
    let largest = mean.abs().max(half).log10().floor() as i32;
    if !(-5..=9).contains(&largest) || place < -9 {
        return format!("{} ± {}", digits(mean, 4), digits(half, 2));
    }
    let decimals = usize::try_from(1 - place).unwrap_or(0);
    format!("{mean:.decimals$} ± {half:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_textbook() {
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[3.0]), Some(Summary { n: 1, mean: 3.0, half: None }));
        // R: t.test(c(1, 2, 3, 4))$conf.int is 0.4457 to 4.5543.
        let four = summary(&[1.0, 2.0, 3.0, 4.0]).expect("numbers");
        assert!((four.mean - 2.5).abs() < 1e-12 && four.half.is_some_and(|half| (half - 2.0543).abs() < 1e-3));
        let same = summary(&[0.1; 7]).expect("numbers");
        assert!(same.half.is_some_and(|half| half < 1e-12));
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(summary(&many).is_some_and(|s| s.half.is_some_and(|half| (half - 1.96 * 2.9011).abs() < 1e-2)));
        let huge = summary(&[f64::MAX, f64::MAX]).expect("numbers");
        assert_eq!(huge.mean, f64::MAX);
        assert!(summary(&[1.0, f64::NAN]).is_some_and(|s| s.mean.is_nan()));
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (0.123456, "0.12346"),
            (12.0, "12"),
            (123456.0, "123456"),
            (1234567.0, "1234567"),
            (0.0001, "0.0001"),
            (1.5e-7, "1.5e-07"),
            (2e12, "2e+12"),
            (-0.5, "-0.5"),
            (99.99999, "100"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(digits(number, 5), text);
        }
        for (mean, half, text) in [
            (0.91234, 0.0141, "0.912 ± 0.014"),
            (1234.5, 56.0, "1234 ± 56"),
            (0.5, 0.0, "0.5 ± 0"),
            (2.0, 120.0, "2 ± 120"),
            (3e-9, 1e-10, "3e-09 ± 1e-10"),
            (0.0, 0.5, "0.00 ± 0.50"),
        ] {
            assert_eq!(written(&Summary { n: 3, mean, half: Some(half) }), text);
        }
    }
}
