//! The few words of HTTP that the tests say to their own server on loopback.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(30);

pub fn get(port: u16, path: &str) -> Value {
    serde_json::from_str(&exchange(port, &format!("GET {path}"), "", "")).unwrap_or_default()
}

pub fn post(port: u16, path: &str, body: &Value) {
    exchange(port, &format!("POST {path}"), "Content-Type: application/json\r\n", &body.to_string());
}

/// A call of EC2's query form. Moto asks for no signature, only for the region in its place.
pub fn ec2(port: u16, region: &str, query: &str) -> String {
    let headers = format!("Content-Type: application/x-www-form-urlencoded\r\n{}", signed(region, "ec2"));
    exchange(port, "POST /", &headers, &format!("{query}&Version=2016-11-15"))
}

/// The list of file systems.
pub fn efs(port: u16, region: &str) -> Value {
    let answer = exchange(port, "GET /2015-02-01/file-systems", &signed(region, "elasticfilesystem"), "");
    serde_json::from_str(&answer).unwrap_or_default()
}

fn signed(region: &str, service: &str) -> String {
    let scope = format!("Credential=test/20260101/{region}/{service}/aws4_request, SignedHeaders=host, Signature=0");
    format!("Authorization: AWS4-HMAC-SHA256 {scope}\r\nX-Amz-Date: 20260101T000000Z\r\n")
}

fn exchange(port: u16, line: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the test's own cloud");
    stream.set_read_timeout(Some(BOUND)).expect("a bound");
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("the test's own cloud");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string()).unwrap_or_default()
}
