//! What runs where? From a fleet and a wish to a plan that leaves nothing to choose (PLAN-1).

pub mod bind;
pub mod command_list;
pub mod gang;
mod place;
pub mod render;
pub mod secret;
pub mod spec;
pub mod template;

pub use bind::{BindError, Reserved};
pub use gang::{GangPlan, LinePlan, PlanError, RankPlan, gang};
pub use place::MOST_WORKERS;
pub use secret::Secret;
pub use spec::{Logs, RunSpec};
pub use template::{Address, Port, Template};
