//! How does a verb talk to the queue, and which queue is it?

use crate::commands::run::{NotBegun, parcel_for};
use shoal_core::queue::request::{Answer, Filter, HostRow, Request, RunRow, SweepRow};
use shoal_daemon::queue::client::{Client, ClientError, Where, connect_or_start};
use shoal_daemon::queue::places::Store;
use shoal_daemon::queue::serve::{ServeError, holder, last_holder};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How long a daemon that was told to end may take: hosts hear of it first.
const ENDING: Duration = Duration::from_secs(90);

/// Whether a daemon is started where none runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    IfNeeded,
    /// Only if there is a store: without one, there is nothing to ask for.
    IfStore,
}

pub struct Queue {
    client: Client,
}

/// Whether a queue of this machine was used before. One elsewhere has no store here.
pub fn has_journal() -> bool {
    matches!(Where::usual(), Ok(Where::Here(store)) if store.journal().exists())
}

/// Where people elsewhere reached the queue's last daemon, if none runs now.
fn missed(store: &Store) -> Vec<String> {
    match holder(store) {
        Some(_) => Vec::new(),
        None => last_holder(store).map(|last| last.listens).unwrap_or_default(),
    }
}

/// The store of this machine, if nobody says otherwise.
pub fn usual_store() -> Result<Store, NotBegun> {
    let nowhere = || NotBegun::Here("there is no place for a queue: neither SHOAL_STORE nor HOME is set".into());
    Store::usual().ok_or_else(nowhere)
}

impl Queue {
    /// The queue of this command. Started if need be.
    pub fn open(start: Start) -> Result<Queue, NotBegun> {
        let place = Where::usual().map_err(unreached)?;
        if start == Start::IfStore
            && let Where::Here(store) = &place
            && !store.journal().exists()
            && holder(store).is_none()
        {
            let hint = "`shoal sweep` starts one; SHOAL_QUEUE names one elsewhere";
            return Err(NotBegun::CannotStart(format!("there is no queue here yet\n  hint: {hint}")));
        }
        let missed = if let Where::Here(store) = &place { missed(store) } else { Vec::new() };
        let client = connect_or_start(&place, &parcel_for(false)?.path).map_err(unreached)?;
        if !missed.is_empty() {
            eprintln!(
                "shoal: the daemon that listened on {} is gone; one for this machine alone serves the queue until `shoal serve --listen` \
                 takes over",
                missed.join(", ")
            );
        }
        Ok(Queue { client })
    }

    /// The queue, if it runs. Nothing is started.
    pub fn found() -> Result<Option<Queue>, NotBegun> {
        // Without a home there is no queue, and nobody asked for one.
        if Store::usual().is_none() {
            return Ok(None);
        }
        Queue::at(&Where::usual().map_err(unreached)?)
    }

    /// The daemon of a store of this machine, if it runs.
    pub fn of(store: &Store) -> Result<Option<Queue>, NotBegun> {
        Queue::at(&Where::Here(store.clone()))
    }

    fn at(place: &Where) -> Result<Option<Queue>, NotBegun> {
        match Client::connect(place) {
            Ok(client) => Ok(Some(Queue { client })),
            Err(ClientError::NotRunning(_)) => Ok(None),
            Err(e) => Err(unreached(e)),
        }
    }

    /// Whom the daemon takes us for.
    pub fn user(&self) -> &str {
        &self.client.user
    }

    /// The id of its store, which its objects on clusters are known by.
    pub fn store(&self) -> &str {
        &self.client.store
    }

    pub fn is_local(&self) -> bool {
        self.client.is_local()
    }

    /// One request, one answer. What the daemon refuses is an error of this command.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, NotBegun> {
        self.send(request, &[])
    }

    pub fn send(&mut self, request: &Request, body: &[u8]) -> Result<Answer, NotBegun> {
        self.client.ask(request, body).map(|(answer, _)| answer).map_err(unreached)
    }

    /// A request with many answers, until the daemon says that it is done, or whoever listens has enough.
    pub fn stream(
        &mut self,
        request: &Request,
        take: impl FnMut(Answer, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), NotBegun> {
        self.client.stream(request, take).map_err(unreached)
    }

    /// For requests that only have to be done.
    pub fn done(&mut self, request: &Request) -> Result<(), NotBegun> {
        match self.ask(request)? {
            Answer::Done | Answer::Counted { .. } => Ok(()),
            other => Err(self.odd(request, &other)),
        }
    }

    /// For requests that say how many runs they meant.
    pub fn counted(&mut self, request: &Request) -> Result<u64, NotBegun> {
        match self.ask(request)? {
            Answer::Counted { runs } => Ok(runs),
            other => Err(self.odd(request, &other)),
        }
    }

    pub fn lacks(&mut self, digests: Vec<String>) -> Result<Vec<String>, NotBegun> {
        if digests.is_empty() {
            return Ok(digests);
        }
        let request = Request::Lacks { digests };
        match self.ask(&request)? {
            Answer::Lacks { digests } => Ok(digests),
            other => Err(self.odd(&request, &other)),
        }
    }

    pub fn sweeps(&mut self, all: bool) -> Result<Vec<SweepRow>, NotBegun> {
        let request = Request::Sweeps { all };
        match self.ask(&request)? {
            Answer::Sweeps { sweeps } => Ok(sweeps),
            other => Err(self.odd(&request, &other)),
        }
    }

    pub fn sweep(&mut self, name: &str) -> Result<SweepRow, NotBegun> {
        let rows = self.sweeps(true)?;
        let names = || rows.iter().map(|row| row.name.as_str());
        let row = rows.iter().find(|row| row.name == name).cloned();
        row.ok_or_else(|| NotBegun::Wrong(super::target::no_sweep(name, names())))
    }

    pub fn runs(&mut self, filter: &Filter, from: u32, limit: u32) -> Result<(Vec<RunRow>, u64), NotBegun> {
        let request = Request::Runs { filter: filter.clone(), from, limit };
        match self.ask(&request)? {
            Answer::Runs { runs, total } => Ok((runs, total)),
            other => Err(self.odd(&request, &other)),
        }
    }

    pub fn hosts(&mut self) -> Result<Vec<HostRow>, NotBegun> {
        match self.ask(&Request::Hosts)? {
            Answer::Hosts { hosts } => Ok(hosts),
            other => Err(self.odd(&Request::Hosts, &other)),
        }
    }

    /// An answer to another question.
    pub fn odd(&self, request: &Request, answer: &Answer) -> NotBegun {
        let word = |text: String| text.split([' ', '{', '(']).next().unwrap_or_default().to_string();
        NotBegun::CannotStart(format!(
            "the queue answered {} with {}: it is of another version\n  hint: use the same shoal on both sides",
            word(format!("{request:?}")),
            word(format!("{answer:?}"))
        ))
    }
}

fn unreached(error: ClientError) -> NotBegun {
    match error {
        ClientError::Refused { why, hint: Some(hint) } => NotBegun::Here(format!("{why}\n  hint: {hint}")),
        ClientError::Refused { why, hint: None } => NotBegun::Here(why),
        other => NotBegun::CannotStart(other.to_string()),
    }
}

/// Why a daemon does not serve.
pub fn serving(error: ServeError) -> NotBegun {
    match error {
        ServeError::Held(why) => NotBegun::CannotStart(why),
        other => NotBegun::Here(other.to_string()),
    }
}

/// Waits until nobody serves the store any more.
pub fn until_gone(store: &Store) -> Result<(), NotBegun> {
    let end = Instant::now() + ENDING;
    while let Some(holder) = holder(store) {
        if Instant::now() > end {
            let why = format!(
                "the daemon of {} was told to end and has not after {} s",
                store.root.display(),
                ENDING.as_secs()
            );
            return Err(NotBegun::Here(format!("{why} ({holder:?})")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
