//! Was this program asked to stop? By SIGTERM, SIGINT, or the end of its input: whoever started it is gone.

use crate::failure::{Outcome, failure};
use shoal_core::cluster::cloud::protocol::{Cause, Failure};
use std::time::Duration;
use tokio::sync::watch;

#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

pub struct Asker(watch::Sender<bool>);

pub fn pair() -> (Asker, Stop) {
    let (send, receive) = watch::channel(false);
    (Asker(send), Stop(receive))
}

impl Asker {
    pub fn ask(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// To be called before anything is made: a call under way is never cut off, so that the ledger hears how it ended.
    pub fn check(&self) -> Outcome<()> {
        if *self.0.borrow() { Err(stopped()) } else { Ok(()) }
    }

    /// Until this program is asked to stop.
    pub async fn asked(&self) {
        let mut asked = self.0.clone();
        // Who could ask lives as long as this program.
        let _ = asked.wait_for(|asked| *asked).await;
    }

    pub async fn sleep(&self, time: Duration) -> Outcome<()> {
        let mut asked = self.0.clone();
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            _ = asked.wait_for(|asked| *asked) => Err(stopped()),
        }
    }
}

fn stopped() -> Failure {
    failure(
        Cause::Stopped,
        "stopped",
        "what was made so far is in the ledger: `shoal up` goes on, `shoal down` removes it",
    )
}
