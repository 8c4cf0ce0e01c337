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

/// `ray stop` with options, and nothing that a shell would make more of.
pub fn only_stops_ray(command: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./~ ".contains(c);
    let mut words = command.split_whitespace();
    let is_ray = |program: &str| program.rsplit('/').next() == Some("ray");
    command.chars().all(is_plain) && words.next().is_some_and(is_ray) && words.next() == Some("stop")
}

/// Whether `ray stop` might look for a process with this command line. Rather once too often: then it runs, as the file says.
pub fn may_be_ray(command_line: &str) -> bool {
    const PARTS: [&str; 6] = ["ray", "gcs_server", "redis-server", "default_worker", "monitor.py", "dashboard"];
    let lower = command_line.to_ascii_lowercase();
    PARTS.iter().any(|part| lower.contains(part))
}

/// One of the two processes without which there is no node of Ray.
pub fn is_of_ray(command_line: &str) -> bool {
    let program = command_line.split_whitespace().next().unwrap_or_default();
    matches!(program.rsplit('/').next(), Some("gcs_server" | "raylet"))
}

/// A node of Ray says farewell to this one before it ends, and waits half a minute for it if it is gone.
pub fn ends_last(command_line: &str) -> bool {
    let program = command_line.split_whitespace().next().unwrap_or_default();
    program.rsplit('/').next() == Some("gcs_server")
}

#[cfg(test)]
mod tests {
    use super::{ends_last, is_of_ray, may_be_ray, only_stops_ray, stop_command};

    #[test]
    fn what_only_stops_ray_is_told_from_what_does_more() {
        for (command, only) in [
            ("ray stop", true),
            ("/opt/venv/bin/ray stop --force", true),
            ("ray stop; ./clean.sh", false),
            ("ray stop && ray start --head", false),
            ("ray start --head", false),
            ("conda activate x; ray stop", false),
            ("xray stop", false),
            ("ray stop $OPTIONS", false),
            ("", false),
        ] {
            assert_eq!(only_stops_ray(command), only, "{command}");
        }
    }

    #[test]
    fn processes_of_ray_are_known_by_their_words() {
        for (line, ray, last) in [
            ("/venv/lib/python3.11/site-packages/ray/core/src/ray/gcs/gcs_server --redis_port=0", true, true),
            ("/venv/lib/ray/core/src/ray/raylet/raylet --head=gcs_server:6379", true, false),
            ("ray::IDLE", true, false),
            ("python /x/ray/_private/log_monitor.py", true, false),
            ("redis-server *:6379", true, false),
            ("sshd: ann [priv]", false, false),
            ("/home/ann/.cache/shoal/bin/1/shoal host setup", false, false),
            ("", false, false),
        ] {
            assert_eq!((may_be_ray(line), ends_last(line)), (ray, last), "{line}");
            assert_eq!(is_of_ray(line), last || line.contains("raylet/raylet"), "{line}");
        }
    }

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
