//! What Shoal's tests share.
//!
//! * [`Hosts`]: machines to reach over the real OpenSSH, made of network namespaces on this one, with links of a chosen speed.
//! * [`cloud::Cloud`]: moto on loopback, and test hosts in the place of its instances.
//! * [`kubernetes::ControlPlane`]: a real Kubernetes on loopback, with nodes whose pods really run.
//! * [`binary`]: the path of a built program.
//! * [`wait::until`]: poll for a condition with a bound, instead of a sleep that hopes.
//! * [`Ledger`]: what runs of the queue write down of themselves, compared with what was asked for.
//! * [`Drive`]: a drive that can be full, away or read-only.
//! * [`rounds`]: how often tests that kill something do so.
//! * [`skip`]: say why a test cannot run here; with `CI=true` that is a failure.

mod binaries;
pub mod cloud;
mod drive;
pub mod hosts;
pub mod kubernetes;
mod ledger;
mod rounds;
mod skip;
pub mod wait;

pub use binaries::binary;
pub use drive::Drive;
pub use hosts::{Host, Hosts, HostsSpec, SharedDrive};
pub use ledger::{Again, Count, Ledger};
pub use rounds::{Dice, FIGURES, figures, rounds, spread};
pub use skip::{SKIPPED, skip};
