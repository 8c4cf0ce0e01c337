//! What does this machine write down of a run whose ranks are where none of our programs keeps them, in a cluster's pods? The same as of its own,
//! by the launcher that follows them: so whoever lists runs, reads logs or stops a run finds it as any other. The launcher stands for warden and
//! keepers: as long as it lives, they do, and a signal to them is one to it.

use super::{RankRecord, prune, root, save_rank, save_run, save_warden};
use crate::ending::Ending;
use shoal_core::job::HostJob;
use shoal_core::rank::Rank;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Runs that are remembered.
const KEEP: usize = 200;

pub struct Elsewhere {
    folder: PathBuf,
    ranks: BTreeMap<Rank, RankRecord>,
}

impl Elsewhere {
    /// Whose logs will be where the job says.
    pub fn begin(job: &HostJob) -> io::Result<Elsewhere> {
        prune(&root(), KEEP);
        let folder = save_run(&root(), job)?;
        save_warden(&folder)?;
        let record = |rank: &shoal_core::job::RankJob| {
            (rank.rank, RankRecord::new(&job.run, &job.host, rank.rank, Path::new(&rank.log).to_path_buf()))
        };
        let ranks: BTreeMap<Rank, RankRecord> = job.ranks.iter().map(record).collect();
        ranks.values().try_for_each(|record| save_rank(&folder, record))?;
        Ok(Elsewhere { folder, ranks })
    }

    /// `bytes`: of its log.
    pub fn end(&mut self, rank: Rank, ending: Ending, bytes: u64) -> io::Result<()> {
        let Some(record) = self.ranks.get_mut(&rank) else { return Ok(()) };
        record.end(ending, bytes, 0);
        save_rank(&self.folder, record)
    }
}
