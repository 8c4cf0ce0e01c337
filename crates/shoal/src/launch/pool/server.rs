//! What does a gang ask of the API server?

use crate::queue::pool::cluster::{Cluster, Seen};
use serde_json::Value;
use shoal_core::kubernetes::gang::objects::{self, Gang, Stage};
use shoal_core::kubernetes::meet::There;
use shoal_core::kubernetes::template::Kind;
use shoal_hosts::kubernetes::{Connection, Failure, Trouble, Wanted, request, resource};
use std::time::Duration;

pub struct Server {
    connection: Connection,
    wanted: Wanted,
}

impl Server {
    pub fn open(gang: &Gang) -> Result<Server, Failure> {
        let kubernetes = &gang.pool.kubernetes;
        let (context, namespace) = (kubernetes.context.clone(), kubernetes.namespace.clone());
        let wanted = Wanted { kubeconfig: None, context, namespace };
        Ok(Server { connection: Connection::open(&wanted)?, wanted })
    }

    pub fn follow(&self, run: &str) -> std::io::Result<Cluster> {
        Cluster::follow_labels(self.wanted.clone(), objects::selector(run))
    }

    /// Everything, in an order in which no pod misses anything. Gives the id that the others hang on.
    pub fn apply(&self, gang: &Gang, token: Option<&str>) -> Result<String, Failure> {
        let held = self.put(&objects::workers(gang, Stage::Held))?;
        let uid = held["metadata"]["uid"].as_str().unwrap_or_default().to_string();
        for object in objects::beside(gang, token, &uid) {
            self.put(&object)?;
        }
        self.advance(gang, Stage::Gathers, &uid)?;
        Ok(uid)
    }

    pub fn advance(&self, gang: &Gang, stage: Stage, uid: &str) -> Result<(), Failure> {
        for object in objects::helpers(gang, stage, uid) {
            self.put(&object)?;
        }
        self.put(&objects::workers(gang, stage)).map(drop)
    }

    fn put(&self, object: &Value) -> Result<Value, Failure> {
        let namespace = &self.connection.namespace;
        let of = match object["kind"].as_str() {
            Some("Service") => resource::services(namespace),
            Some("Secret") => resource::secrets(namespace),
            _ => resource::jobs(namespace),
        };
        self.connection.block_on(request::apply(&self.connection, &of, object, false))
    }

    /// Asks for the end of pods. 0 would take them off the list without waiting for their end.
    pub fn end_pods(&self, pods: &[Value], grace_s: u64) -> Result<(), Failure> {
        let pods: Vec<There> = pods.iter().map(|pod| There { kind: Kind::Pod, object: pod.clone() }).collect();
        let grace_s = u32::try_from(grace_s.max(1)).unwrap_or(u32::MAX);
        let failed = self.connection.end_pods(&pods.iter().collect::<Vec<_>>(), grace_s);
        failed
            .into_iter()
            .map(|(_, failure)| failure)
            .find(|failure| failure.trouble != Trouble::NotThere)
            .map_or(Ok(()), Err)
    }

    pub fn clear(&self, run: &str, bound: Duration, goes_on: &dyn Fn() -> bool) -> Result<Vec<String>, Failure> {
        self.connection.clear(&objects::selector(run), bound, goes_on)
    }
}

/// The pods of one rank, as they were seen last.
pub fn pods_of<'s>(seen: &'s Seen, run: &str, rank: shoal_core::rank::Rank) -> Vec<&'s Value> {
    let (role, index) = objects::seat(rank);
    seen.pods(&objects::job_name(run, role), index as usize)
}
