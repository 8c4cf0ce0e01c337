//! Are all pods up, and what keeps those that are not? All or nothing: no rank begins before every pod is there (GANG-1).

use super::{Run, bind};
use shoal_core::follow::Seen;
use shoal_core::kubernetes::gang::objects::Stage;
use shoal_core::kubernetes::gang::{script, stand_in};
use shoal_core::kubernetes::pool::seen::Stage as OfPod;
use shoal_core::outcome::Ending;
use shoal_core::rank::Rank;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is usual at a start is not worth telling.
const USUAL_MS: u64 = 5_000;
/// A request that failed is made again after so long.
pub(super) const AGAIN: Duration = Duration::from_secs(2);

impl Run<'_> {
    pub(super) fn gather_up(&mut self) {
        let mut addresses = BTreeMap::new();
        for (rank, member) in &mut self.members {
            if member.address.is_none() {
                member.address = self.placed.volume.address(*rank);
            }
            if let Some(address) = &member.address {
                addresses.insert(stand_in::host_name(self.placed.gang.run, *rank), address.clone());
            }
        }
        if addresses.len() == self.members.len() {
            return self.begin(addresses);
        }
        let mut missing: Vec<(Rank, &super::Member)> =
            self.members.iter().filter(|(_, m)| m.address.is_none()).map(|(rank, member)| (*rank, member)).collect();
        // Those that cannot come say more than those that are on their way.
        missing.sort_by_key(|(_, member)| !is_kept(member.stage.as_ref()));
        let missing: Vec<(Rank, String)> =
            missing.into_iter().map(|(rank, member)| (rank, why(member.stage.as_ref()))).collect();
        let waited_s = self.placed.wish.wait_s;
        if self.now() < waited_s * 1000 {
            return self.say_what_is_missing(&missing);
        }
        for (rank, why) in missing {
            let why = format!("not all pods of the gang were up within {waited_s} s; {why}");
            self.over(rank, Ending::NotStarted { why });
        }
        self.hints.extend(self.members.keys().map(|rank| {
            (
                *rank,
                "ask for less, wait until there is room (--wait), or look at the pool's nodes; no rank has begun"
                    .to_string(),
            )
        }));
    }

    fn say_what_is_missing(&mut self, missing: &[(Rank, String)]) {
        let Some((rank, why)) = missing.first().filter(|_| self.now() >= USUAL_MS) else { return };
        let text = format!("waiting for {} of {} pods: {rank}: {why}", missing.len(), self.members.len());
        if self.told.as_ref() != Some(&text) {
            self.screen.say(&text);
            self.told = Some(text);
        }
    }

    /// Everybody is there: what they run is written down, and then they may.
    fn begin(&mut self, addresses: BTreeMap<String, String>) {
        let volume = self.placed.volume;
        let bin = volume.bin.to_string_lossy();
        let begun =
            bind(self.placed.plan, addresses, &self.placed.gang.pool.name).map_err(|e| e.why()).and_then(|job| {
                let write =
                    |rank: &shoal_core::job::RankJob| volume.write_program(rank.rank, &script::program(rank, &bin));
                job.ranks.iter().try_for_each(write).and_then(|()| volume.go()).map_err(|e| e.to_string())
            });
        if let Err(why) = begun {
            let why = format!("{}: {why}", volume.folder.display());
            return self.over(Rank::Worker(0), Ending::NotStarted { why });
        }
        self.gone = Some(self.now());
        for rank in self.members.keys().copied().collect::<Vec<_>>() {
            self.gather.begin(rank);
            self.see(Seen::Started { rank });
        }
    }

    /// The server need not end it any more.
    pub(super) fn lift(&mut self) {
        if self.gone.is_none() || self.lifted || self.stop.is_some() || Instant::now() < self.again_at {
            return;
        }
        match self.server.advance(self.placed.gang, Stage::Goes, &self.uid) {
            Ok(()) => self.lifted = true,
            Err(_) => self.again_at = Instant::now() + AGAIN,
        }
    }
}

/// By something that time alone does not change.
fn is_kept(stage: Option<&OfPod>) -> bool {
    match stage {
        Some(OfPod::Unplaced(_) | OfPod::Stuck(_) | OfPod::Leaves { .. } | OfPod::Over(_)) => true,
        Some(OfPod::Waits(_) | OfPod::Runs) | None => false,
    }
}

fn why(stage: Option<&OfPod>) -> String {
    match stage {
        Some(OfPod::Waits(why) | OfPod::Unplaced(why) | OfPod::Stuck(why)) => why.clone(),
        Some(OfPod::Runs) => {
            "its pod runs and leaves no word on the volume; is `here` the same volume, and may this user write there?"
                .into()
        }
        Some(OfPod::Leaves { .. }) => "its pod was taken away by somebody else".into(),
        Some(OfPod::Over(_)) => "its pod is over".into(),
        None => "the cluster has not said anything of its pod".into(),
    }
}
