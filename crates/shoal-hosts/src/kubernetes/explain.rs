//! What does a complaint of the server, or of the way there, mean, and what can be done about it?

use serde_json::Value;
use std::error::Error as _;
use thiserror::Error;

/// Kinds of failure that want different remedies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    NoKubeconfig,
    /// It is there, and does not say what is needed.
    BadKubeconfig,
    Unreachable,
    /// Somebody answers whose certificate is not the cluster's.
    Untrusted,
    /// The server does not know us: a token or certificate has expired, or is another cluster's.
    Unknown,
    Forbidden,
    Quota,
    NoNamespace,
    NotThere,
    /// Somebody else has it otherwise, or has had it before.
    Conflict,
    Invalid,
    /// What was seen of the past is no longer kept: look anew.
    TooOld,
    Busy,
    /// It, or something that it asks, has failed: that may pass.
    Faulty,
    Other,
}

#[derive(Debug, Clone, Error, PartialEq)]
#[error("{what}\n  hint: {hint}")]
pub struct Failure {
    pub trouble: Trouble,
    pub what: String,
    pub hint: String,
    /// What the server answered, where it did.
    pub status: Value,
}

impl Failure {
    pub fn new(trouble: Trouble, what: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { trouble, what: what.into(), hint: hint.into(), status: Value::Null }
    }

    /// The server has not told what is there, for as long as somebody was willing to wait.
    pub fn no_answer(server: &str, waited: std::time::Duration) -> Failure {
        let what = format!("{server} did not say what is there within {} s", waited.as_secs());
        Failure::new(Trouble::Unreachable, what, "nothing is known of what is left; try again when it answers")
    }

    /// Whether trying again may help.
    pub fn passes(&self) -> bool {
        matches!(self.trouble, Trouble::Unreachable | Trouble::Busy | Trouble::Faulty)
    }
}

/// What a client's error means. `server` is its address.
pub fn explain(error: &kube::Error, server: &str) -> Failure {
    match error {
        kube::Error::Api(status) => of_status(&serde_json::to_value(status).unwrap_or_default()),
        kube::Error::Auth(error) => {
            let hint = "log in again the way your cluster has it, and see whether `kubectl get pods` works";
            Failure::new(Trouble::Unknown, format!("no proof of who you are could be had: {error}"), hint)
        }
        other => of_way(&chain(other), server),
    }
}

/// The innermost words say it; the outer ones repeat where they were heard.
fn chain(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut inner = error.source();
    while let Some(error) = inner {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        inner = error.source();
    }
    text
}

/// The server was not reached.
pub fn of_way(said: &str, server: &str) -> Failure {
    let low = said.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| low.contains(word));
    if has(&["certificate", "unknownissuer", "notvalidforname"]) && !has(&["connection refused"]) {
        let what = format!("{server} shows a certificate that your kubeconfig does not vouch for: {}", last(said));
        let hint = "is it the right server? The kubeconfig may be old: get a new one from whoever runs the cluster";
        return Failure::new(Trouble::Untrusted, what, hint);
    }
    let why = match () {
        () if has(&["connection refused"]) => "nobody listens there".to_string(),
        () if has(&["lookup", "dns", "name or service"]) => "its name is unknown".into(),
        () if has(&["timed out", "deadline", "elapsed"]) => "it does not answer".into(),
        () => last(said).to_string(),
    };
    let what = format!("the API server {server} cannot be reached: {why}");
    let hint = "is the address in your kubeconfig right, is the VPN up, and does the cluster run? `kubectl version` asks the same server";
    Failure::new(Trouble::Unreachable, what, hint)
}

fn last(said: &str) -> &str {
    said.rsplit(": ").next().unwrap_or(said)
}

/// The server said no.
pub fn of_status(status: &Value) -> Failure {
    let said = status["message"].as_str().unwrap_or_default();
    let reason = status["reason"].as_str().unwrap_or_default();
    let code = status["code"].as_u64().unwrap_or_default();
    let (trouble, what, hint) = match (code, reason) {
        (401, _) => (
            Trouble::Unknown,
            "the server does not know you: your token or certificate has expired, or is another cluster's".into(),
            "log in again, or get a new kubeconfig from whoever runs the cluster".into(),
        ),
        (403, _) if said.contains("exceeded quota") => (
            Trouble::Quota,
            said.to_string(),
            "ask for less, wait until others are done, or have the namespace's quota raised".into(),
        ),
        (403, _) => forbidden(said),
        (404, _) if said.starts_with("namespaces ") => {
            let name = said.split('"').nth(1).unwrap_or_default();
            return no_namespace(name);
        }
        (404, _) => (Trouble::NotThere, said.to_string(), "somebody else may have deleted it".into()),
        (410, _) | (_, "Expired") => (Trouble::TooOld, said.to_string(), "ask again".into()),
        (409, _) => (Trouble::Conflict, said.to_string(), "somebody else changes the same objects; ask again".into()),
        (429 | 503 | 504, _) => (Trouble::Busy, format!("the server is busy: {said}"), "try again in a while".into()),
        (400 | 422, _) => (Trouble::Invalid, said.to_string(), "correct the template or the runs".into()),
        (500, _) if said.contains("failed to create typed patch object") => {
            (Trouble::Invalid, said.to_string(), "correct the template or the runs".into())
        }
        (500 | 502, _) => (
            Trouble::Faulty,
            format!("the server answers {code}: {said}"),
            "try again in a while; its log says more".into(),
        ),
        _ => (Trouble::Other, format!("the server answers {code}: {said}"), "its log says more".into()),
    };
    Failure { trouble, what, hint, status: status.clone() }
}

pub fn no_namespace(name: &str) -> Failure {
    let what = format!("there is no namespace `{name}`");
    let hint = "`kubectl get namespaces` shows those there are; say which with --namespace, or in the context of your kubeconfig";
    Failure::new(Trouble::NoNamespace, what, hint)
}

/// `jobs.batch is forbidden: User "ann" cannot list resource "jobs" in API group "batch" in the namespace "mine"`.
fn forbidden(said: &str) -> (Trouble, String, String) {
    let quoted: Vec<&str> = said.split('"').skip(1).step_by(2).collect();
    let verb = said.split("cannot ").nth(1).and_then(|rest| rest.split(' ').next());
    // The object's own name, where there is one, comes before the user.
    let user_at = said.split('"').collect::<Vec<_>>().iter().position(|part| part.ends_with("User ")).map(|at| at / 2);
    match (verb, user_at.and_then(|at| quoted.get(at..))) {
        (Some(verb), Some([user, resource, group, rest @ ..])) => {
            let of = if group.is_empty() { String::new() } else { format!(".{group}") };
            let place =
                rest.first().map_or_else(|| "of the whole cluster".into(), |name| format!("in namespace `{name}`"));
            let what = format!("`{user}` may not {verb} {resource}{of} {place}");
            let hint = format!(
                "ask whoever runs the cluster for a role with the verb `{verb}` on `{resource}` {place}; `kubectl auth can-i {verb} {resource}{of}` asks whether you have it"
            );
            (Trouble::Forbidden, what, hint)
        }
        _ => (Trouble::Forbidden, said.to_string(), "ask whoever runs the cluster for the right to do this".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_have_a_meaning_and_a_remedy() {
        let right = "jobs.batch \"a\" is forbidden: User \"ann\" cannot patch resource \"jobs\" in API group \"batch\" in the namespace \"mine\"";
        let cluster =
            "nodes is forbidden: User \"ann\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
        for (code, message, trouble, says) in [
            (401, "Unauthorized", Trouble::Unknown, "expired"),
            (403, right, Trouble::Forbidden, "`ann` may not patch jobs.batch in namespace `mine`"),
            (403, cluster, Trouble::Forbidden, "`ann` may not list nodes of the whole cluster"),
            (403, "pods \"x\" is forbidden: exceeded quota: q", Trouble::Quota, "exceeded quota"),
            (404, "namespaces \"nope\" not found", Trouble::NoNamespace, "no namespace `nope`"),
            (404, "jobs.batch \"a\" not found", Trouble::NotThere, "jobs.batch"),
            (410, "too old resource version", Trouble::TooOld, "too old"),
            (429, "slow down", Trouble::Busy, "slow down"),
            (422, "Job is invalid", Trouble::Invalid, "invalid"),
            (500, "failed to create typed patch object (a)", Trouble::Invalid, "typed"),
            (500, "etcd", Trouble::Faulty, "500: etcd"),
            (502, "bad gateway", Trouble::Faulty, "502: bad"),
            (418, "teapot", Trouble::Other, "418: teapot"),
        ] {
            let failure = of_status(&json!({"code": code, "message": message}));
            assert_eq!(failure.trouble, trouble, "{message}");
            assert!(failure.what.contains(says), "{failure:?}");
            assert!(!failure.hint.is_empty());
            let passes = matches!(trouble, Trouble::Busy | Trouble::Faulty);
            assert_eq!(failure.passes(), passes, "{message}");
        }
        for (said, trouble, says) in [
            (
                "client error: tcp connect error: Connection refused (os error 111)",
                Trouble::Unreachable,
                "nobody listens",
            ),
            ("dns error: failed to lookup address information", Trouble::Unreachable, "name is unknown"),
            ("deadline has elapsed", Trouble::Unreachable, "does not answer"),
            ("client error: invalid peer certificate: UnknownIssuer", Trouble::Untrusted, "UnknownIssuer"),
        ] {
            let failure = of_way(said, "https://10.0.0.1:6443");
            assert_eq!(failure.trouble, trouble, "{said}");
            assert!(failure.what.contains(says) && failure.what.contains("https://10.0.0.1:6443"), "{failure:?}");
        }
    }
}
