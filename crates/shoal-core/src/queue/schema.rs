//! What may stand in a sweep's file, in the words that editors understand: JSON Schema.
//!
//! It knows the shape only; what fits together is checked by reading the file. Fields are those the reader knows, which
//! `tests/sweep_schema.rs` holds.

use serde_json::{Value, json};

pub const SCHEMA_ID: &str = "shoal-sweep-1";

const SWEEP_NAME: &str = "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$";
const PARAMETER_NAME: &str = "^[A-Za-z_][A-Za-z0-9_.-]{0,99}$";
const VARIABLE_NAME: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
const RANGE: &str = "\\.\\.";
const ABSOLUTE: &str = "^/";
const ON_HOSTS: &str = "^(/|~$|~/)";

pub fn sweep_json_schema() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": SCHEMA_ID,
        "title": "Shoal sweep",
        "description": "One program with many configurations, each as often as you like.",
        "type": "object",
        "additionalProperties": false,
        "required": ["command"],
        "properties": {
            "version": {"description": "Of this format.", "type": "integer", "minimum": 1, "maximum": 1},
            "name": sweep_name("Submitting under the same name tops up. Without it, the file's name; of `sweep.yaml`, the folder's."),
            "command": {
                "description": "The program and its words, with {name} of parameters, {seed}, {rep}, {run} and {run_dir}. No shell is between.",
                "oneOf": [word(), {"type": "array", "minItems": 1, "items": {"type": ["string", "number", "boolean"]}}],
            },
            "grid": axes("Parameters and the values each takes; all combinations. The last turns fastest."),
            "zip": {
                "description": "Parameters that move together; a list of such maps for several groups.",
                "oneOf": [axes(""), {"type": "array", "items": axes("")}],
            },
            "list": {
                "description": "Configurations one by one, beside the product of `grid` and `zip`.",
                "type": "array",
                "minItems": 1,
                "items": config(""),
            },
            "params": config("The same in every configuration, unless the others say otherwise."),
            "when": {
                "description": "Conditions on the product of `grid` and `zip`, all of which have to hold.",
                "oneOf": [{"type": ["string", "boolean"]}, {"type": "array", "items": {"type": ["string", "boolean"]}}],
            },
            "duplicates": {"description": "What to do with a configuration that is there twice.", "enum": ["refuse", "merge"]},
            "reps": whole("Until every configuration has finished so often.", 1, 1_000_000),
            "seed": whole("The first seed: copy k of every configuration gets this plus k.", 0, i64::MAX),
            "pass": {
                "description": "How parameters reach the program, beside {name} in its command.",
                "oneOf": [way(), {"type": "array", "items": way()}],
            },
            "env": {
                "description": "Variables for every run.",
                "type": "object",
                "propertyNames": {"pattern": VARIABLE_NAME},
                "additionalProperties": {"type": ["string", "number", "boolean"]},
            },
            "source": folders("What is copied when you submit, without what .gitignore leaves out; `none` copies nothing."),
            "data": folders("Folders or files that runs find under their names."),
            "folder": on_hosts("Instead of `source`: a folder that the hosts have, in which runs start."),
            "environment": environment(),
            "resources": resources(),
            "time_limit": time("A run may take so long."),
            "grace": time("From asking a run to end to ending it."),
            "retries": whole("Further attempts for a run that fails. A host that dies costs none.", 0, 1000),
            "stop_after_failures": {
                "description": "So many different runs failed and none succeeded: the sweep stops starting runs.",
                "oneOf": [{"enum": ["never"]}, {"type": "integer", "minimum": 1, "maximum": 1_000_000_000}],
            },
            "fatal_codes": {
                "description": "Exit codes after which a run is not tried again.",
                "oneOf": [code(), {"type": "array", "items": code()}],
            },
            "priority": whole("Higher goes first.", -1000, 1000),
            "after": {
                "description": "Sweeps that have to be complete before.",
                "oneOf": [sweep_name(""), {"type": "array", "items": sweep_name("")}],
            },
            "results": {"description": "A folder that all hosts see, for what runs leave.", "type": "string", "pattern": ABSOLUTE},
        },
    })
}

fn resources() -> Value {
    json!({
        "description": "For one run, or for each rank of a gang.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "cpus": amount("CPUs; parts such as 0.5."),
            "memory": size("Memory: 4GiB."),
            "gpus": amount("Whole devices, or a part of one: 0.25."),
            "gpu_memory": size("Memory on each device."),
            "ranks": whole("Processes; more than one make a gang.", 1, 4096),
            "on": texts("Only on these hosts or groups."),
        },
    })
}

fn environment() -> Value {
    json!({
        "description": "What runs find on the hosts.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "virtualenv": on_hosts("The root of a virtualenv."),
            "conda": text("A conda environment."),
            "modules": texts("For `module load`."),
            "setup": texts("Shell lines that run before the command, in its shell."),
            "requirements": text("A lock file, of which each host makes an environment once."),
        },
    })
}

/// Whatever YAML and JSON can write alike.
fn value() -> Value {
    json!({"type": ["string", "number", "boolean", "null", "array", "object"]})
}

fn axes(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object",
        "propertyNames": {"pattern": PARAMETER_NAME},
        "additionalProperties": {"oneOf": [
            {"type": "array", "minItems": 1, "items": value()},
            {"description": "A range: 1..10, 0.1..0.5:5, 1e-4..1e-1:4log.", "type": "string", "pattern": RANGE},
        ]},
    })
}

fn config(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object",
        "propertyNames": {"pattern": PARAMETER_NAME},
        "additionalProperties": value(),
    })
}

fn folders(description: &str) -> Value {
    let one = json!({"oneOf": [
        word(),
        {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "path": text("A path, from the file's folder on."),
                "at": {"description": "Where runs find it.", "type": ["string", "number"]},
                "ignore": texts("What stays here, as lines of a .gitignore."),
            },
        },
    ]});
    json!({"description": description, "anyOf": [one, {"type": "array", "items": one}]})
}

fn way() -> Value {
    json!({"enum": ["flags", "env", "file", "none"]})
}

fn code() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 255})
}

fn word() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string", "minLength": 1})
}

fn texts(description: &str) -> Value {
    json!({"description": description, "oneOf": [word(), {"type": "array", "items": word()}]})
}

fn sweep_name(description: &str) -> Value {
    json!({"description": description, "type": "string", "pattern": SWEEP_NAME})
}

fn on_hosts(description: &str) -> Value {
    json!({"description": description, "type": "string", "pattern": ON_HOSTS})
}

fn time(description: &str) -> Value {
    json!({"description": format!("{description} 90s, 30m, 1h30m, 2d, 12:00:00."), "type": ["string", "integer"], "minimum": 1})
}

fn size(description: &str) -> Value {
    json!({"description": description, "type": ["string", "integer"], "minimum": 1})
}

fn amount(description: &str) -> Value {
    json!({"description": description, "type": ["number", "string"], "minimum": 0})
}

fn whole(description: &str, least: i64, most: i64) -> Value {
    json!({"description": description, "type": "integer", "minimum": least, "maximum": most})
}
