//! A server that takes a request and then says nothing more: nobody may claim what they have not seen. No plane is needed for that.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Answers as an API server does, until something was changed there.
fn answer(mut line: &TcpStream, changed: &AtomicBool) -> Option<()> {
    let mut reader = BufReader::new(line);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        let low = header.to_lowercase();
        length = low.strip_prefix("content-length:").and_then(|n| n.trim().parse().ok()).unwrap_or(length);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (method, path) = first.split_once(' ')?;
    let job = json!({"metadata": {"name": "a", "uid": "1", "labels": {}, "resourceVersion": "5"}});
    let items = if path.contains("/jobs") { vec![job] } else { Vec::new() };
    let (code, said) = match method {
        "GET" if changed.load(Ordering::SeqCst) => (503, json!({"kind": "Status", "code": 503, "message": "busy"})),
        "GET" if path.contains("labelSelector=") || path.contains("/lab/") => {
            (200, json!({"metadata": {"resourceVersion": "7"}, "items": items}))
        }
        "GET" => (200, json!({"metadata": {"name": "lab"}})),
        _ => {
            changed.fetch_or(!path.contains("dryRun"), Ordering::SeqCst);
            (200, serde_json::from_slice::<Value>(&body).ok().filter(|_| method == "PATCH").unwrap_or(json!({})))
        }
    };
    let text = said.to_string();
    let length = text.len();
    let head = format!("HTTP/1.1 {code} Said\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
    line.write_all(format!("{head}Connection: close\r\n\r\n{text}").as_bytes()).ok()
}

/// What `shoal k8s` says to such a server.
fn shoal(verb: &[&str]) -> (Option<i32>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let changed = Arc::new(AtomicBool::new(false));
    std::thread::spawn(move || {
        for line in listener.incoming() {
            let (line, changed) = (line.expect("a line"), changed.clone());
            std::thread::spawn(move || answer(&line, &changed));
        }
    });
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}],
    });
    let kubeconfig = file("kubeconfig", &kubeconfig.to_string());
    file(
        "template.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: workers}\nspec:\n  containers: [{name: w, image: i, command: [x]}]\n",
    );
    file("runs.yaml", "runs: [{name: a, seeds: 1}]\n");
    let out = Command::new(env!("CARGO_BIN_EXE_shoal"))
        .arg("k8s")
        .args(verb)
        .args(["--yes", "--timeout", "3", "--kubeconfig"])
        .arg(&kubeconfig)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .output()
        .expect("shoal");
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn destroy_does_not_say_that_nothing_is_left_without_having_looked() {
    let (code, said) = shoal(&["destroy", "--name", "workers"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("did not say what is there within") && !said.contains("nothing of launch"), "{said}");
}

#[test]
fn launch_does_not_say_that_runs_have_started_without_having_looked() {
    let (code, said) = shoal(&["launch", "--file", "template.yaml", "--runs", "runs.yaml", "--name", "workers-b"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("did not say what is there within"), "{said}");
}
