//! What is run on which nodes? The file's lists, with what is for all nodes in front of what is for one role.

use super::{start, take};
use crate::document::reader::{Fields, Reader};

#[derive(Debug, Default)]
pub struct Commands {
    pub initialization: Vec<String>,
    pub head_setup: Vec<String>,
    pub worker_setup: Vec<String>,
    pub head_start: Vec<String>,
    pub worker_start: Vec<String>,
}

pub fn read(reader: &mut Reader, fields: Fields) -> Commands {
    let list = |reader: &mut Reader, name: &str| take::texts(reader, fields, name, "commands").unwrap_or_default();
    let all = list(reader, "setup_commands");
    let behind_all = |own: Vec<String>| all.iter().cloned().chain(own).collect::<Vec<_>>();
    for name in ["upscaling_speed", "idle_timeout_minutes", "target_utilization_fraction"] {
        take::check_number(reader, fields, name);
    }
    let initialization = list(reader, "initialization_commands");
    let head_setup = behind_all(list(reader, "head_setup_commands"));
    let worker_setup = behind_all(list(reader, "worker_setup_commands"));
    let worker_start = list(reader, "worker_start_ray_commands");
    let mut head_start = list(reader, "head_start_ray_commands");
    let mut left_out = false;
    for command in &mut head_start {
        if let Some(without) = start::without_autoscaler(command) {
            *command = without;
            left_out = true;
        }
    }
    if let (true, Some(at)) = (left_out, fields.key("head_start_ray_commands")) {
        let help = "all workers are started by `shoal up`; `shoal up --min-workers N` starts more";
        reader.warn(at, "`--autoscaling-config` is left out: Ray does not start workers by itself", help);
    }
    Commands { initialization, head_setup, worker_setup, head_start, worker_start }
}
