//! One request from stdin, events to stdout, then the end.

use crate::book::Book;
use crate::cloud::{Cloud, patience, say};
use crate::failure::{Outcome, failure, here, wrong};
use crate::stop::{self, Stop};
use crate::{clients, end, ensure, find, image};
use shoal_core::cluster::Provider;
use shoal_core::cluster::cloud::protocol::{Ask, Cause, Event, Failure, Request, VERSION};
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long a call may go on when this program was asked to stop.
const LAST_CALL: Duration = Duration::from_secs(20);
/// Longer requests are not ours.
const LONGEST: u64 = 16 << 20;

pub fn main() -> ExitCode {
    let outcome = match request() {
        Ok(request) => run(request),
        Err(failure) => Err(failure),
    };
    match outcome {
        Ok(event) => {
            say(&event);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say(&Event::Failed(failure));
            ExitCode::FAILURE
        }
    }
}

fn request() -> Outcome<Request> {
    let mut line = String::new();
    let read = std::io::stdin().lock().take(LONGEST).read_line(&mut line);
    read.map_err(|e| here(format!("cannot read the request: {e}")))?;
    let request: serde_json::Value = serde_json::from_str(&line)
        .map_err(|_| wrong("shoal-aws is started by shoal: it expects a request on its input", ""))?;
    let version = request.get("version").and_then(serde_json::Value::as_u64).unwrap_or_default();
    if version != u64::from(VERSION) {
        let text = format!("shoal speaks version {version} to shoal-aws, which knows version {VERSION}");
        return Err(wrong(text, "install shoal and shoal-aws of one release"));
    }
    serde_json::from_value(request).map_err(|e| wrong(format!("shoal-aws does not understand the request: {e}"), ""))
}

fn run(request: Request) -> Outcome<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| here(format!("cannot start: {e}")))?;
    let (asker, stop) = stop::pair();
    runtime.block_on(async move {
        let asker = std::sync::Arc::new(asker);
        let at_end = asker.clone();
        std::thread::spawn(move || {
            // Nothing more is said to us; the end is.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            at_end.ask();
        });
        let signals = [tokio::signal::unix::SignalKind::terminate(), tokio::signal::unix::SignalKind::interrupt()];
        for kind in signals {
            let mut signal =
                tokio::signal::unix::signal(kind).map_err(|e| here(format!("cannot listen for signals: {e}")))?;
            let asker = asker.clone();
            tokio::spawn(async move {
                signal.recv().await;
                asker.ask();
            });
        }
        let last_call = async {
            stop.asked().await;
            tokio::time::sleep(patience(LAST_CALL).min(LAST_CALL)).await;
        };
        tokio::select! {
            outcome = answer(request, stop.clone()) => outcome,
            () = last_call => Err(unheard()),
        }
    })
}

/// A call under way is given the time to end, so that the ledger hears how; but no more where there is no network.
fn unheard() -> Failure {
    failure(
        Cause::Stopped,
        "stopped; AWS did not answer the last call in time",
        "what it was asked for is in the ledger: `shoal down` looks for it and removes it, `shoal up` goes on",
    )
}

async fn answer(request: Request, stop: Stop) -> Outcome<Event> {
    let Request { cluster, folder, by, take_over, ask, .. } = request;
    let Provider::Aws(aws) = cluster.provider.clone() else {
        return Err(wrong("this cluster is not on AWS", ""));
    };
    let folder = PathBuf::from(folder);
    let writes = !matches!(ask, Ask::Nodes | Ask::Scan | Ask::Preview);
    let book = if writes {
        Book::open(&folder, &cluster.name, &aws.region, &by)?
    } else {
        Book::peek(&folder, &cluster.name, &aws.region)?
    };
    let mut aws = aws;
    if book.ledger.region != aws.region && book.ledger.open().next().is_some() {
        match ask {
            // Where things are is where they are looked for and removed, whatever the file says by now.
            Ask::Nodes | Ask::End { .. } | Ask::Scan => aws.region = book.ledger.region.clone(),
            Ask::Ensure { .. } | Ask::Preview | Ask::Bake { .. } => return Err(two_regions(&book, &aws.region)),
        }
    }
    let clients = clients::of(&aws.region).await?;
    let cloud = Cloud::new(clients, (cluster, aws), folder, book, stop, take_over);
    match ask {
        Ask::Nodes => ensure::nodes(&cloud).await,
        Ask::Ensure { replace } => ensure::ensure(&cloud, replace).await,
        Ask::Preview => ensure::preview(&cloud).await,
        Ask::End { how } => end::end(&cloud, how).await,
        Ask::Scan => find::scan(&cloud).await,
        Ask::Bake { name, reboot } => image::bake(&cloud, &name, reboot).await,
    }
}

fn two_regions(book: &Book, wanted: &str) -> Failure {
    let cluster = &book.ledger.cluster;
    let there: Vec<String> = book.ledger.open().map(|item| item.kind.to_string()).collect();
    failure(
        Cause::InTheWay,
        format!(
            "cluster `{cluster}` is in {}, and the file now says {wanted}; there are still {} objects of it ({})",
            book.ledger.region,
            there.len(),
            there.join(", ")
        ),
        "`shoal down` removes them there; or give the new cluster another name (-n)",
    )
}
