//! Kubeconfig files: who one is, and where the server is. Written as JSON, which every reader of YAML reads.

use super::certificates::Pair;
use super::error::{IoContext, Result};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How one shows who one is.
pub enum Identity<'a> {
    Certificate(&'a Pair),
    Token(&'a str),
}

pub fn write(file: &Path, url: &str, authority: &Path, identity: &Identity, namespace: &str) -> Result<()> {
    let text = format!("{:#}\n", document(url, authority, identity, namespace));
    let mut out =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file).context("make", file)?;
    out.write_all(text.as_bytes()).context("write", file)
}

fn document(url: &str, authority: &Path, identity: &Identity, namespace: &str) -> Value {
    let user = match identity {
        Identity::Certificate(pair) => json!({"client-certificate": pair.certificate, "client-key": pair.key}),
        Identity::Token(token) => json!({"token": token}),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "me", "namespace": namespace}}],
        "current-context": "test",
    })
}
