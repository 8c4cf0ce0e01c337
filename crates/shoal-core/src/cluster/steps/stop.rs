//! What ends what the start commands started (pure)?

/// What stops Ray where the start commands start it: the same words up to `ray start`, so that it is the same Ray.
pub fn stop_command(start_commands: &[String]) -> Option<String> {
    const START: &str = "ray start";
    let stops = |command: &&String| command.contains("ray stop") && !command.contains(START);
    let starts = || start_commands.iter().find_map(|command| Some((command, command.find(START)?)));
    let (command, at) = starts()?;
    // What the file itself stops it with is best; else the words before `ray start` are kept: a path, an environment, a limit.
    match start_commands.iter().find(stops) {
        Some(own) => Some(own.clone()),
        None => Some(format!("{}ray stop", &command[..at])),
    }
}

#[cfg(test)]
mod tests {
    use super::stop_command;

    #[test]
    fn ray_is_stopped_the_way_it_was_started() {
        for (commands, stop) in [
            (&["ray stop", "ray start --head"][..], Some("ray stop")),
            (&["ulimit -n 65536; ray start --head --port=6379"], Some("ulimit -n 65536; ray stop")),
            (&["ray stop; ray start --head"], Some("ray stop; ray stop")),
            (&["/opt/venv/bin/ray start --address=$RAY_HEAD_IP:6379"], Some("/opt/venv/bin/ray stop")),
            (&["nohup ./serve &"], None),
            (&["ray stop"], None),
            (&[], None),
        ] {
            let commands: Vec<String> = commands.iter().map(|c| (*c).to_string()).collect();
            assert_eq!(stop_command(&commands).as_deref(), stop, "{commands:?}");
        }
    }
}
