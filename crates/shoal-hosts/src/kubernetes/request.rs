//! How is one question asked, within a bound? A server that is busy (429, 503) says when to come again, and the client does; the bound holds for
//! all of its tries together.

use super::connection::Connection;
use super::explain::{Failure, Trouble, explain, of_way};
use super::resource::Resource;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams};
use kube::core::Request;
use serde_json::Value;
use std::time::Duration;

/// The longest that one question may take.
pub const BOUND: Duration = Duration::from_secs(30);
/// Objects of one answer: longer lists come in pages.
const PAGE: u32 = 500;
/// Who applies: the server remembers whose each field is.
pub const MANAGER: &str = "shoal";

/// Which objects of a resource.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    pub labels: Option<String>,
    pub fields: Option<String>,
    /// Names, labels and annotations will do.
    pub metadata_only: bool,
}

impl Selection {
    pub fn labels(labels: impl Into<String>) -> Selection {
        Selection { labels: Some(labels.into()), ..Selection::default() }
    }
}

type Built<R> = Result<R, kube::core::request::Error>;

/// Asks, and waits for the answer no longer than the bound.
pub(super) async fn ask<T>(
    connection: &Connection,
    asking: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(BOUND, asking).await {
        Ok(answer) => answer.map_err(|error| explain(&error, &connection.server)),
        Err(elapsed) => Err(of_way(&elapsed.to_string(), &connection.server)),
    }
}

pub(super) fn built<R>(request: Built<R>) -> Result<R, Failure> {
    request.map_err(|error| {
        Failure::new(Trouble::Other, format!("no request could be made: {error}"), "check names and labels")
    })
}

/// `None`: there is no such object.
pub async fn get(connection: &Connection, of: &Resource, name: &str) -> Result<Option<Value>, Failure> {
    let request = built(Request::new(&of.path).get(name, &GetParams::default()))?;
    match ask(connection, connection.client.request::<Value>(request)).await {
        Ok(object) => Ok(Some(object)),
        Err(failure) if matches!(failure.trouble, Trouble::NotThere | Trouble::NoNamespace) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// All of them, and the version that the list is of.
pub async fn list(connection: &Connection, of: &Resource, which: &Selection) -> Result<(Vec<Value>, String), Failure> {
    let mut all = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let params = ListParams {
            label_selector: which.labels.clone(),
            field_selector: which.fields.clone(),
            limit: Some(PAGE),
            continue_token: next.take(),
            ..ListParams::default()
        };
        let request = Request::new(&of.path);
        let request = if which.metadata_only { request.list_metadata(&params) } else { request.list(&params) };
        let mut page = ask(connection, connection.client.request::<Value>(built(request)?)).await?;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            all.extend(items);
        }
        let text = |field: &str| page["metadata"][field].as_str().filter(|text| !text.is_empty()).map(String::from);
        next = text("continue");
        if next.is_none() {
            return Ok((all, text("resourceVersion").unwrap_or_default()));
        }
    }
}

/// Server-side apply; never by force, so what others have set stays theirs. With `try_only` the server checks everything and keeps nothing.
pub async fn apply(connection: &Connection, of: &Resource, object: &Value, try_only: bool) -> Result<Value, Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let params = PatchParams { dry_run: try_only, ..PatchParams::apply(MANAGER).validation_strict() };
    let request = built(Request::new(&of.path).patch(name, &params, &Patch::Apply(object)))?;
    ask(connection, connection.client.request::<Value>(request)).await
}

/// Deletes one object, if it is still the one that was seen (`uid`); that it is gone already is no error.
pub async fn delete(
    connection: &Connection,
    of: &Resource,
    object: &Value,
    params: &DeleteParams,
) -> Result<(), Failure> {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let uid = metadata["uid"].as_str().map(String::from);
    let preconditions = kube::api::Preconditions { uid, ..kube::api::Preconditions::default() };
    let params = params.clone().preconditions(preconditions);
    let request = built(Request::new(&of.path).delete(name, &params))?;
    match ask(connection, connection.client.request::<Value>(request)).await {
        Ok(_) => Ok(()),
        // Another of the same name has come since: that one is not ours to delete, and whoever looks again sees it.
        Err(failure) if matches!(failure.trouble, Trouble::NotThere | Trouble::Conflict) => Ok(()),
        Err(failure) => Err(failure),
    }
}
