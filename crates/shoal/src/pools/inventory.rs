//! What has Shoal in the namespace of a pool, and which of that is ours? Asked once.

use super::visit::wanted;
use crate::commands::run::NotBegun;
use crate::k8s::reach::not_begun;
use crate::queue::connect::{Queue, Start, has_journal};
use crate::queue::pool;
use serde_json::Value;
use shoal_core::fleet::pool::Pool;
use shoal_core::kubernetes::inventory::{Asked, Count, What, count, selector};
use shoal_core::kubernetes::pool::job;
use shoal_hosts::kubernetes::request::Selection;
use shoal_hosts::kubernetes::resource::Resource;
use shoal_hosts::kubernetes::{Connection, request, resource};
use std::collections::BTreeMap;

/// The queue that this machine's user speaks with, if there is one.
pub fn queue() -> Result<Option<Queue>, NotBegun> {
    match has_journal() {
        true => Queue::open(Start::IfStore).map(Some),
        false => Queue::found(),
    }
}

/// A pool whose cluster answers.
pub struct Looked {
    pub connection: Connection,
    owner: Option<String>,
    root: String,
    pool: String,
}

impl Looked {
    pub fn at(pool: &Pool, queue: Option<&Queue>) -> Result<Looked, NotBegun> {
        let connection = Connection::open(&wanted(pool)).map_err(not_begun)?;
        let root = pool::folder(pool).map_err(NotBegun::Wrong)?.to_string_lossy().into_owned();
        let owner = queue.map(|queue| job::owner(queue.store(), &pool.name));
        Ok(Looked { connection, owner, root, pool: pool.name.clone() })
    }

    pub fn asked(&self) -> Asked<'_> {
        let user = rustix::process::getuid().as_raw();
        Asked { pool: &self.pool, owner: self.owner.as_deref(), root: &self.root, user }
    }

    pub fn things(&self) -> Result<BTreeMap<(What, bool), Count>, NotBegun> {
        let namespace = &self.connection.namespace;
        let (jobs, pods) = (self.list(&resource::jobs(namespace))?, self.list(&resource::pods(namespace))?);
        Ok(count(&jobs, &pods, &self.asked()))
    }

    pub fn list(&self, of: &Resource) -> Result<Vec<Value>, NotBegun> {
        let which = Selection::labels(selector());
        let listed = self.connection.block_on(request::list(&self.connection, of, &which));
        listed.map(|(objects, _)| objects).map_err(not_begun)
    }
}
