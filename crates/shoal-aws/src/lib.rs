//! A cluster's machines on AWS. `shoal` starts this as a program of its own and talks to it in lines of JSON (`shoal_core::cluster::cloud::protocol`);
//! credentials are found, used and forgotten in here.
//!
//! What is decided is decided in `shoal-core::cluster::cloud`; these files ask, make, wait and remove. One question a file.

mod address;
mod book;
mod clients;
mod cloud;
mod efs;
mod end;
mod ensure;
mod failure;
mod fields;
mod find;
mod group;
mod image;
mod instances;
mod key;
mod network;
mod node_config;
mod placement;
pub mod serve;
mod stop;
