//! `shoal plan` behind its command line: a model as a list of layers ([`model`], from [`file`], [`known`] or [`python`]), quantities
//! ([`amount`]), and what people see ([`table`]). The prediction itself is `shoal_sync::scheme`.

pub mod amount;
pub mod file;
pub mod known;
pub mod model;
pub mod python;
pub mod table;
