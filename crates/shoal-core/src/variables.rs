//! Which environment variables does a run give to its ranks? All names, in one place.

/// Where the run's master listens, as `tcp://HOST:PORT`.
pub const MASTER_ADDRESS: &str = "SHOAL_MASTER_ADDRESS";
/// The worker's number.
pub const CLIENT_ID: &str = "SHOAL_CLIENT_ID";
pub const NUM_WORKERS: &str = "SHOAL_NUM_WORKERS";
pub const DISTRIBUTED: &str = "SHOAL_DISTRIBUTED";
/// The run's secret (SEC-2).
pub const TOKEN: &str = "SHOAL_TOKEN";
/// The run's id.
pub const RUN: &str = "SHOAL_RUN";

// The names that torchrun gives, which PyTorch, JAX wrappers and many scripts read.
pub const RANK: &str = "RANK";
pub const WORLD_SIZE: &str = "WORLD_SIZE";
pub const LOCAL_RANK: &str = "LOCAL_RANK";
pub const LOCAL_WORLD_SIZE: &str = "LOCAL_WORLD_SIZE";
pub const MASTER_ADDR: &str = "MASTER_ADDR";
pub const MASTER_PORT: &str = "MASTER_PORT";

const SET_BY_THE_PLAN: [&str; 12] = [
    MASTER_ADDRESS,
    CLIENT_ID,
    NUM_WORKERS,
    DISTRIBUTED,
    TOKEN,
    RUN,
    RANK,
    WORLD_SIZE,
    LOCAL_RANK,
    LOCAL_WORLD_SIZE,
    MASTER_ADDR,
    MASTER_PORT,
];

/// Whether a variable is the plan's to set. Setting it by hand would make ranks disagree about the run they are in.
pub fn is_set_by_the_plan(name: &str) -> bool {
    SET_BY_THE_PLAN.contains(&name)
}
