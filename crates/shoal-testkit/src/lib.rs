//! What Shoal's tests share.
//!
//! * [`Hosts`]: machines to reach over the real OpenSSH, made of network namespaces on this one, with links of a chosen speed.
//! * [`cloud::Cloud`]: moto on loopback, and test hosts in the place of its instances.
//! * [`binary`]: the path of a built program.
//! * [`wait::until`]: poll for a condition with a bound, instead of a sleep that hopes.
//! * [`skip`]: say why a test cannot run here; with `CI=true` that is a failure.

mod binaries;
pub mod cloud;
pub mod hosts;
mod skip;
pub mod wait;

pub use binaries::binary;
pub use hosts::{Drive, Host, Hosts, HostsSpec};
pub use skip::{SKIPPED, skip};
