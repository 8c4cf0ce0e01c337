//! The SDK, set up: region, credentials by its own chain, patience, one TLS stack.

use crate::failure::{Outcome, failure};
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::provider::ProvideCredentials;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use shoal_core::cluster::cloud::protocol::Cause;
use std::time::Duration;

/// A throttled call is tried again after 1, 2, 4, ... seconds (with jitter), at most 20: about a minute in all.
const ATTEMPTS: u32 = 8;
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
const CONNECT: Duration = Duration::from_secs(10);
const ATTEMPT: Duration = Duration::from_secs(60);
/// All tries of a call together.
const OPERATION: Duration = Duration::from_secs(240);
/// Asking a machine for its role, signing in: bounded, so that a broken chain says so.
const CREDENTIALS: Duration = Duration::from_secs(30);

pub const TLS: Provider = Provider::Rustls(CryptoMode::Ring);

pub struct Clients {
    pub ec2: aws_sdk_ec2::Client,
    pub efs: aws_sdk_efs::Client,
}

pub async fn of(region: &str) -> Outcome<Clients> {
    let config = aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new(region.to_string()))
        .http_client(Builder::new().tls_provider(TLS).build_https())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS).with_max_backoff(LONGEST_PAUSE))
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(CONNECT)
                .operation_attempt_timeout(ATTEMPT)
                .operation_timeout(OPERATION)
                .build(),
        )
        .load()
        .await;
    let hint =
        "run `aws configure` or `aws sso login`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
    let missing = |why: String| failure(Cause::Credentials, format!("no AWS credentials: {why}"), hint);
    let provider = config.credentials_provider().ok_or_else(|| missing("none are set up".into()))?;
    // Asked for now: later, a call that lacks them would fail with less to say. What is found is not kept here.
    match tokio::time::timeout(CREDENTIALS, provider.provide_credentials()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(missing(reason(&error))),
        Err(_) => return Err(missing(format!("nothing answered within {} s", CREDENTIALS.as_secs()))),
    }
    Ok(Clients { ec2: aws_sdk_ec2::Client::new(&config), efs: aws_sdk_efs::Client::new(&config) })
}

/// The innermost reason; the outer ones only repeat that there are none.
fn reason(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(inner) = last.source() {
        last = inner;
    }
    last.to_string()
}
