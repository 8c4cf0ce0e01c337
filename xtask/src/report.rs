//! How an error is told: what failed, why, and at the end what to do. No backtrace: these are the user's errors, not ours.

/// The chain of causes, with the lines that begin with `hint: ` moved to the end.
pub fn told(error: &anyhow::Error) -> String {
    let chain = error.chain().map(ToString::to_string).collect::<Vec<_>>().join("\ncaused by: ");
    let (hints, lines): (Vec<&str>, Vec<&str>) = chain.lines().partition(|line| line.starts_with("hint: "));
    format!("error: {}", [lines, hints].concat().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn hints_come_last() {
        let cause = anyhow!("no route\nto the mirror");
        let error = Err::<(), _>(cause).context("cannot install\nhint: check the network").unwrap_err();
        assert_eq!(told(&error), "error: cannot install\ncaused by: no route\nto the mirror\nhint: check the network");
    }
}
