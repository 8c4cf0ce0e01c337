//! What may things on Kubernetes be called?

/// Who made an object: every object of ours has it, with the value `shoal`.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const MANAGER: &str = "shoal";
/// The launch that an object is of.
pub const LAUNCH: &str = "shoal/launch";
/// The one run that an object is for; no other object has its value, so it selects.
pub const RUN: &str = "shoal/run";
/// Annotations of an object: what was asked for, and what one wants to read in a table.
pub const APPLIED: &str = "shoal/applied";
pub const NAME: &str = "shoal/name";
pub const SEED: &str = "shoal/seed";
pub const GPU: &str = "shoal/gpu";
pub const NODE: &str = "shoal/node";
pub const SAVE_PATH: &str = "shoal/save-path";

/// The longest name of a Job: it becomes the value of a label, and those end here.
pub const LONGEST: usize = 63;

/// Why a text is no name of an object (a DNS label: RFC 1123), and what to do about it.
pub fn label_fault(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let meant: String = text.to_lowercase().chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let meant = meant.trim_matches('-').to_string();
    if text.is_empty() {
        return Some("it is empty".into());
    }
    if text.len() > LONGEST {
        return Some(format!("it has {} characters, and {LONGEST} is the most", text.len()));
    }
    if text.chars().all(|c| fits(c) || c == '-') && !text.starts_with('-') && !text.ends_with('-') {
        return None;
    }
    let help = if meant.is_empty() { String::new() } else { format!("; `{meant}` would do") };
    Some(format!("only lower-case letters, digits and `-` may be in it, and `-` at neither end{help}"))
}

/// A part of an object's name, from something with a form of its own: a node's name has dots, a GPU's id capitals.
pub fn part(text: &str) -> String {
    let fits = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let text: String = text.to_ascii_lowercase().chars().map(fits).collect();
    text.trim_matches('-').to_string()
}

/// An object's name: launch, run, GPU, node and seed, as far as the run has them.
pub fn object(launch: &str, name: &str, gpu: Option<&str>, node: Option<&str>, seed: u64) -> String {
    // `GPU-1f2e3d4c-...`: its first group tells the GPUs of one node apart.
    let gpu = gpu.map(|id| id.strip_prefix("GPU-").map_or(id, |id| id.split('-').next().unwrap_or(id)));
    let given = [Some(launch), Some(name), gpu, node].into_iter().flatten().map(part);
    let mut parts: Vec<String> = given.filter(|part| !part.is_empty()).collect();
    parts.push(format!("s{seed}"));
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        for (text, says) in [
            ("worker-pods", None),
            ("0", None),
            ("", Some("empty")),
            ("Worker_Pods", Some("`worker-pods` would do")),
            ("-a", Some("`a` would do")),
            ("a.b", Some("`a-b` would do")),
            ("ü", Some("lower-case")),
            (&"a".repeat(63), None),
            (&"a".repeat(64), Some("64 characters")),
        ] {
            let fault = label_fault(text);
            match says {
                None => assert_eq!(fault, None, "{text}"),
                Some(says) => assert!(fault.as_deref().is_some_and(|f| f.contains(says)), "{text}: {fault:?}"),
            }
        }
    }

    #[test]
    fn an_object_is_named_by_what_tells_it_apart() {
        for (gpu, node, wanted) in [
            (Some("0"), Some("phortx1"), "workers-random-0-phortx1-s7"),
            (Some("GPU-1F2e-99"), Some("n1.lab.example"), "workers-random-1f2e-n1-lab-example-s7"),
            (None, None, "workers-random-s7"),
        ] {
            assert_eq!(object("workers", "random", gpu, node, 7), wanted);
        }
    }
}
