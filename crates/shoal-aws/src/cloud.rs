//! What every part needs at hand: the clients, the cluster, the ledger, a mouth and an ear.

use crate::book::Book;
use crate::clients::Clients;
use crate::failure::{Outcome, failure};
use crate::stop::Stop;
use aws_sdk_ec2::types::{ResourceType, Tag, TagSpecification};
use shoal_core::cluster::cloud::protocol::{Cause, Event};
use shoal_core::cluster::cloud::{Kind, Tags, tags};
use shoal_core::cluster::{Aws, Cluster};
use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub struct Cloud {
    pub ec2: aws_sdk_ec2::Client,
    pub efs: aws_sdk_efs::Client,
    pub cluster: Cluster,
    pub aws: Aws,
    /// Its folder: the ledger and the key.
    pub folder: PathBuf,
    pub book: RefCell<Book>,
    pub stop: Stop,
    pub take_over: bool,
}

/// How long things may take. Tests have less patience: SHOAL_AWS_PATIENCE_S, and SHOAL_AWS_POLL_MS between two looks.
pub const MINUTES_10: Duration = Duration::from_secs(600);
pub const HOUR: Duration = Duration::from_secs(3600);

pub fn patience(usual: Duration) -> Duration {
    number("SHOAL_AWS_PATIENCE_S").map_or(usual, Duration::from_secs)
}

fn poll() -> Duration {
    Duration::from_millis(number("SHOAL_AWS_POLL_MS").unwrap_or(1000))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

impl Cloud {
    pub fn new(
        clients: Clients,
        (cluster, aws): (Cluster, Aws),
        folder: PathBuf,
        book: Book,
        stop: Stop,
        take_over: bool,
    ) -> Cloud {
        let Clients { ec2, efs } = clients;
        Cloud { ec2, efs, cluster, aws, folder, book: RefCell::new(book), stop, take_over }
    }

    pub fn tell(&self, text: impl Into<String>) {
        say(&Event::Tell { text: text.into() });
    }

    pub fn name(&self) -> &str {
        &self.cluster.name
    }

    pub fn tags(&self, part: &str) -> Tags {
        tags(self.name(), &self.book.borrow().ledger, part)
    }

    /// Writes down what is about to be made, unless this program was asked to stop.
    pub fn will(&self, kind: Kind, name: &str) -> Outcome<u32> {
        self.stop.check()?;
        self.book.borrow_mut().will(kind, name)
    }

    pub fn made(&self, n: u32, id: &str) -> Outcome<()> {
        self.book.borrow_mut().made(n, id)
    }

    pub fn gone(&self, n: u32) -> Outcome<()> {
        self.book.borrow_mut().gone(n)
    }

    /// Looks until `look` gives a value. `what` names what is waited for, `hint` what to do when it does not come.
    pub async fn until<T>(
        &self,
        bound: Duration,
        what: impl Fn() -> String,
        hint: &str,
        mut look: impl AsyncFnMut() -> Outcome<Option<T>>,
    ) -> Outcome<T> {
        let bound = patience(bound);
        let end = Instant::now() + bound;
        loop {
            let last = Instant::now() >= end;
            if let Some(value) = look().await? {
                return Ok(value);
            }
            if last {
                let text = format!("waited {} s for {}", bound.as_secs(), what());
                return Err(failure(Cause::Late, text, hint));
            }
            self.stop.sleep(poll()).await?;
        }
    }
}

pub fn say(event: &Event) {
    let mut text = serde_json::to_string(event).unwrap_or_default();
    text.push('\n');
    // A reader that is gone has also closed our input: that is where we notice.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

pub fn specification(kind: ResourceType, tags: &Tags) -> TagSpecification {
    let tags = tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build());
    TagSpecification::builder().resource_type(kind).set_tags(Some(tags.collect())).build()
}

pub fn tag_map(tags: &[Tag]) -> Tags {
    tags.iter().filter_map(|tag| Some((tag.key()?.to_string(), tag.value().unwrap_or_default().to_string()))).collect()
}
