//! Under which path does the server keep a kind of object (pure)?

use shoal_core::kubernetes::template::Kind;

/// All objects of one kind, in one namespace or outside of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// As paths and rights call it: `jobs`.
    pub plural: &'static str,
    pub path: String,
}

/// `group_version`: `v1`, or `batch/v1`.
pub fn of(group_version: &str, plural: &'static str, namespace: Option<&str>) -> Resource {
    let root = if group_version.contains('/') { "apis" } else { "api" };
    let inside = namespace.map_or_else(String::new, |namespace| format!("/namespaces/{namespace}"));
    Resource { plural, path: format!("/{root}/{group_version}{inside}/{plural}") }
}

pub fn of_kind(kind: Kind, namespace: &str) -> Resource {
    of(kind.api_version(), kind.plural(), Some(namespace))
}

pub fn pods(namespace: &str) -> Resource {
    of_kind(Kind::Pod, namespace)
}

pub fn jobs(namespace: &str) -> Resource {
    of_kind(Kind::Job, namespace)
}

pub fn services(namespace: &str) -> Resource {
    of("v1", "services", Some(namespace))
}

pub fn secrets(namespace: &str) -> Resource {
    of("v1", "secrets", Some(namespace))
}

pub fn events(namespace: &str) -> Resource {
    of("v1", "events", Some(namespace))
}

pub fn nodes() -> Resource {
    of("v1", "nodes", None)
}

pub fn namespaces() -> Resource {
    of("v1", "namespaces", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_the_servers() {
        assert_eq!(of_kind(Kind::Job, "lab").path, "/apis/batch/v1/namespaces/lab/jobs");
        assert_eq!(pods("lab").path, "/api/v1/namespaces/lab/pods");
        assert_eq!(nodes().path, "/api/v1/nodes");
    }
}
