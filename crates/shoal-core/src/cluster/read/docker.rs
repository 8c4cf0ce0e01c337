//! In which container do the commands run, if in any?

use super::take;
use crate::cluster::{Docker, TypeDocker};
use crate::document::node::Node;
use crate::document::reader::{Fields, Reader};

pub const FIELDS: [&str; 11] = [
    "image",
    "container_name",
    "pull_before_run",
    "run_options",
    "head_image",
    "head_run_options",
    "worker_image",
    "worker_run_options",
    "disable_automatic_runtime_detection",
    "disable_shm_size_detection",
    "use_podman",
];
pub const TYPE_FIELDS: [&str; 3] = ["pull_before_run", "worker_image", "worker_run_options"];

/// What the container is called that has no name; Ray insists on one.
const USUAL_NAME: &str = "ray_container";

pub struct Both {
    pub docker: Docker,
    /// Of head and workers alike: types put theirs behind them.
    pub shared: Vec<String>,
}

/// `None` without containers: no block, an empty one, or one whose image is empty, as Ray's examples have it.
pub fn read(reader: &mut Reader, fields: Fields) -> Option<Both> {
    let node = take::present(fields, "docker")?;
    let docker = reader.fields(node, "`docker`", &FIELDS)?;
    let image = take::text(reader, docker, "image");
    let head = take::text(reader, docker, "head_image").or_else(|| image.clone());
    let worker = take::text(reader, docker, "worker_image").or(image);
    let name = take::text(reader, docker, "container_name");
    let options = |reader: &mut Reader, name: &str| {
        take::texts(reader, docker, name, "options of `docker run`").unwrap_or_default()
    };
    let shared = options(reader, "run_options");
    let with_shared = |own: Vec<String>| shared.iter().cloned().chain(own).collect::<Vec<_>>();
    let head_run_options = with_shared(options(reader, "head_run_options"));
    let worker_run_options = with_shared(options(reader, "worker_run_options"));
    let flag = |reader: &mut Reader, name: &str, usual: bool| take::boolean(reader, docker, name).unwrap_or(usual);
    let (pull_before_run, use_podman) = (flag(reader, "pull_before_run", true), flag(reader, "use_podman", false));
    let detect_runtime = !flag(reader, "disable_automatic_runtime_detection", false);
    let detect_shm_size = !flag(reader, "disable_shm_size_detection", false);
    let (head_image, worker_image) = match (head, worker, &name) {
        (Some(head), Some(worker), _) => (head, worker),
        (None, None, None) => return None,
        (head, _, _) => {
            let role = if head.is_some() { "workers" } else { "head" };
            let wrong = reader.at(node.at, format!("`docker` names no image for the {role}"));
            reader.report(wrong.help("add `image`, or both `head_image` and `worker_image`; or remove the block"));
            return None;
        }
    };
    let container_name = name.unwrap_or_else(|| USUAL_NAME.into());
    if !is_container_name(&container_name) {
        if let Some(node) = docker.get("container_name") {
            reader.mismatch(
                node,
                "`container_name`",
                "letters, digits, `.`, `_` and `-`, starting with a letter or digit",
            );
        }
        return None;
    }
    let docker = Docker {
        head_image,
        worker_image,
        container_name,
        pull_before_run,
        head_run_options,
        worker_run_options,
        detect_runtime,
        detect_shm_size,
        use_podman,
    };
    Some(Both { docker, shared })
}

fn is_container_name(text: &str) -> bool {
    let first = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    first && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// The block of one type. Its `run_options` are complete: those of all nodes in front of its own, or of the workers'
/// where it has none.
pub fn of_type(reader: &mut Reader, node: &Node, both: Option<&Both>) -> Option<TypeDocker> {
    let fields = reader.fields(node, "`docker` of a node type", &TYPE_FIELDS)?;
    let image = take::text(reader, fields, "worker_image");
    let own = take::texts(reader, fields, "worker_run_options", "options of `docker run`");
    let pull_before_run = take::boolean(reader, fields, "pull_before_run");
    let Some(both) = both else {
        if !fields.entries().is_empty() {
            reader.warn(
                node.at,
                "this `docker` is not used: the file has no `docker` of its own",
                "add one with an `image`",
            );
        }
        return None;
    };
    if fields.entries().is_empty() {
        return None;
    }
    let run_options = match own {
        Some(own) => both.shared.iter().cloned().chain(own).collect(),
        None => both.docker.worker_run_options.clone(),
    };
    Some(TypeDocker { image, run_options, pull_before_run })
}
