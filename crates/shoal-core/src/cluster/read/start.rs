//! How does a head start Ray without the autoscaler?
//!
//! The file that `--autoscaling-config=~/ray_bootstrap_config.yaml` names is made and copied by `ray up`, together
//! with the user's private key. `shoal up` copies neither, and sets up the workers itself: the option would name a
//! file that is not there.

const OPTION: &str = "--autoscaling-config";
const FILE: &str = "ray_bootstrap_config.yaml";

/// The command without the option, if it has it with Ray's own file.
pub fn without_autoscaler(command: &str) -> Option<String> {
    let start = command.find(OPTION)?;
    let behind = &command[start + OPTION.len()..];
    let value = behind.trim_start_matches(['=', ' ', '\t']);
    if value.len() == behind.len() {
        return None;
    }
    let end = value.find(|c: char| c.is_whitespace() || ";&|)".contains(c)).unwrap_or(value.len());
    if !value[..end].trim_matches(['"', '\'']).ends_with(FILE) {
        return None;
    }
    let (before, after) = (command[..start].trim_end(), value[end..].trim_start_matches([' ', '\t']));
    let gap = if after.is_empty() || after.starts_with([';', '\n', ')']) { "" } else { " " };
    Some(format!("{before}{gap}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_goes_and_the_rest_stays() {
        for (command, wanted) in [
            (
                "ulimit -n 65536; ray start --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml",
                Some("ulimit -n 65536; ray start --head --port=6379"),
            ),
            (
                "ray start --head --autoscaling-config ~/ray_bootstrap_config.yaml --port=1",
                Some("ray start --head --port=1"),
            ),
            ("ray start --autoscaling-config=\"/root/ray_bootstrap_config.yaml\"; x", Some("ray start; x")),
            ("ray start --autoscaling-config=~/ray_bootstrap_config.yaml && x", Some("ray start && x")),
            ("ray start --head --autoscaling-config=~/mine.yaml", None),
            ("ray start --head", None),
            ("ray start --autoscaling-config", None),
        ] {
            assert_eq!(without_autoscaler(command).as_deref(), wanted, "{command}");
        }
    }
}
