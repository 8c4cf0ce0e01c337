//! What each program of the plane is told. All listen on loopback alone; what is tuned is tuned for planes that live for seconds.

use super::certificates::Pair;
use super::place::{Place, Port};
use std::path::Path;

/// Who the server and its tokens say they are.
const ISSUER: &str = "https://kubernetes.default.svc";
/// Of services; nothing routes it.
const SERVICES: &str = "10.79.0.0/24";
/// The address of the service `kubernetes` in that range.
pub const FIRST_SERVICE: &str = "10.79.0.1";

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

pub fn etcd(place: &Place) -> Vec<String> {
    let url = |port| format!("http://127.0.0.1:{}", place.port(port));
    vec![
        flag("data-dir", place.folder().join("etcd").display()),
        flag("listen-client-urls", url(Port::Etcd)),
        flag("advertise-client-urls", url(Port::Etcd)),
        flag("listen-peer-urls", url(Port::EtcdPeer)),
        flag("initial-advertise-peer-urls", url(Port::EtcdPeer)),
        flag("initial-cluster", format!("default={}", url(Port::EtcdPeer))),
        // Nothing of it outlives the test.
        flag("unsafe-no-fsync", true),
        flag("snapshot-count", 10_000),
        flag("logger", "zap"),
        flag("log-level", "warn"),
    ]
}

pub struct ApiServer<'a> {
    pub authority: &'a Path,
    pub serving: &'a Pair,
    /// Who the server is to kubelets.
    pub kubelets: &'a Pair,
    pub tokens: &'a Pair,
}

impl ApiServer<'_> {
    pub fn flags(&self, place: &Place) -> Vec<String> {
        vec![
            flag("etcd-servers", format!("http://127.0.0.1:{}", place.port(Port::Etcd))),
            flag("bind-address", "127.0.0.1"),
            flag("advertise-address", "127.0.0.1"),
            // The service `kubernetes` has no endpoints: loopback may not be one.
            flag("endpoint-reconciler-type", "none"),
            flag("secure-port", place.port(Port::Api)),
            flag("tls-cert-file", self.serving.certificate.display()),
            flag("tls-private-key-file", self.serving.key.display()),
            flag("client-ca-file", self.authority.display()),
            flag("authorization-mode", "Node,RBAC"),
            flag("enable-admission-plugins", "NodeRestriction"),
            flag("service-account-issuer", ISSUER),
            flag("service-account-key-file", self.tokens.certificate.display()),
            flag("service-account-signing-key-file", self.tokens.key.display()),
            flag("service-cluster-ip-range", SERVICES),
            flag("kubelet-client-certificate", self.kubelets.certificate.display()),
            flag("kubelet-client-key", self.kubelets.key.display()),
            flag("kubelet-certificate-authority", self.authority.display()),
            flag("kubelet-preferred-address-types", "InternalIP"),
            flag("allow-privileged", true),
            // Pods of a node that is gone are given up after seconds, not after five minutes.
            flag("default-not-ready-toleration-seconds", 10),
            flag("default-unreachable-toleration-seconds", 10),
            // A server that is told to end ends at once.
            flag("shutdown-delay-duration", "0s"),
            flag("shutdown-send-retry-after", true),
        ]
    }
}

pub fn controller_manager(kubeconfig: &Path, authority: &Path, tokens: &Pair) -> Vec<String> {
    vec![
        flag("kubeconfig", kubeconfig.display()),
        flag("service-account-private-key-file", tokens.key.display()),
        flag("root-ca-file", authority.display()),
        flag("use-service-account-credentials", true),
        flag("leader-elect", false),
        flag("secure-port", 0),
        // A node that says nothing is lost after seconds, not after most of a minute.
        flag("node-monitor-period", "1s"),
        flag("node-monitor-grace-period", "8s"),
        flag("terminated-pod-gc-threshold", 0),
        flag("kube-api-qps", 200),
        flag("kube-api-burst", 400),
    ]
}

pub fn scheduler(kubeconfig: &Path) -> Vec<String> {
    vec![
        flag("kubeconfig", kubeconfig.display()),
        flag("leader-elect", false),
        flag("secure-port", 0),
        flag("kube-api-qps", 200),
        flag("kube-api-burst", 400),
    ]
}
