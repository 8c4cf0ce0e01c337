//! What do `0.25`, `4G` and `30m` on a command line mean? The same as in a file. (pure)

use shoal_core::fleet::size;
use shoal_core::queue::read::amounts;

/// Thousandths of CPUs: `0.25` is 250.
pub fn cpus(text: &str) -> Result<u32, String> {
    let wrong = || "expected a number above 0 such as 4 or 0.5".to_string();
    amounts::milli(text).filter(|milli| *milli > 0).ok_or_else(wrong)
}

/// Thousandths of GPUs: parts of one, or whole ones.
pub fn gpus(text: &str) -> Result<u32, String> {
    let wrong = || "expected whole devices, or a part of one, such as 2 or 0.25".to_string();
    amounts::milli(text).filter(|milli| *milli < 1000 || milli.is_multiple_of(1000)).ok_or_else(wrong)
}

pub fn bytes(text: &str) -> Result<u64, String> {
    size::parse(text).filter(|bytes| *bytes > 0).ok_or_else(|| "expected a size such as 512M or 4GiB".into())
}

pub fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "expected a time such as 90s, 30m, 12h or 1h30m".to_string();
    amounts::seconds(text).filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        assert_eq!((cpus("0.5"), gpus("0.25"), gpus("2"), gpus("0")), (Ok(500), Ok(250), Ok(2000), Ok(0)));
        assert_eq!((bytes("2G"), seconds("1h30m")), (Ok(2 << 30), Ok(5400)));
        assert!(cpus("0").is_err() && gpus("1.5").is_err() && bytes("0").is_err() && seconds("0").is_err());
    }
}
