//! How did attempts end? Kept on disk only; found by an index.

use super::{Journal, JournalError};
use rusqlite::{Connection, OptionalExtension, params};
use shoal_core::queue::event::Event;
use shoal_core::queue::work::Ended;
use shoal_core::queue::{Attempt, RunId};

/// An end and the host it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct EndRow {
    pub host: String,
    pub ended: Ended,
}

/// A page of the runs of a sweep that succeeded, in the order of configurations and reps.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    pub rows: Vec<EndRow>,
    pub total: u64,
}

/// Beside every `Ended` event, in its transaction.
pub(super) fn index(db: &Connection, seq: i64, event: &Event) -> rusqlite::Result<()> {
    match event {
        Event::Ended { ended, .. } => {
            // An attempt ends once; should a second one get here, the first stands (QUEUE-2).
            let insert = "INSERT OR IGNORE INTO ended (sweep, cell, rep, number, rank, success, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let (run, number) = (&ended.attempt.run, ended.attempt.number);
            db.prepare_cached(insert)?.execute(params![
                run.sweep,
                run.cell,
                run.rep,
                number,
                ended.rank,
                ended.ending.success(),
                seq
            ])?;
        }
        // A name that is free again must not find the ends of the former one.
        Event::Forgotten { name, .. } => {
            db.prepare_cached("DELETE FROM ended WHERE sweep = ?1")?.execute([name])?;
        }
        _ => {}
    }
    Ok(())
}

impl Journal {
    /// How an attempt ended, as rank 0 saw it, or the rank that is asked for.
    pub fn end_of(&self, attempt: &Attempt, rank: u32) -> Result<Option<EndRow>, JournalError> {
        let select = "SELECT e.json FROM ended x JOIN events e ON e.seq = x.seq \
                      WHERE x.sweep = ?1 AND x.cell = ?2 AND x.rep = ?3 AND x.number = ?4 AND x.rank = ?5";
        let RunId { sweep, cell, rep } = &attempt.run;
        let find = || {
            let mut select = self.db.prepare_cached(select)?;
            select.query_row(params![sweep, cell, rep, attempt.number, rank], |row| row.get::<_, String>(0)).optional()
        };
        let found = find().map_err(|e| JournalError::of(&self.path, e))?;
        found.map(|json| self.row(&json)).transpose()
    }

    /// Runs that succeeded. Of a gang, `ranks` processes have to have; its first one speaks for it.
    pub fn finished(&self, sweep: &str, ranks: u32, from: u32, limit: u32) -> Result<Finished, JournalError> {
        let fail = |e| JournalError::of(&self.path, e);
        // A bare column is of the row that has the least: of rank 0, whoever of them ended first.
        let whole = "SELECT seq, min(rank) FROM ended INDEXED BY succeeded WHERE success AND sweep = ?1 \
                     GROUP BY cell, rep, number HAVING count(*) >= ?2";
        let single = "SELECT seq FROM ended INDEXED BY succeeded WHERE success AND sweep = ?1 AND ?2 = 1";
        let which = if ranks > 1 { whole } else { single };
        let count = format!("SELECT count(*) FROM ({which})");
        let mut count = self.db.prepare_cached(&count).map_err(fail)?;
        let total: i64 = count.query_row(params![sweep, ranks], |row| row.get(0)).map_err(fail)?;
        let order = if ranks > 1 { "ORDER BY cell, rep, number" } else { "ORDER BY cell, rep, number, rank" };
        let page = format!("SELECT e.json FROM ({which} {order} LIMIT ?3 OFFSET ?4) x JOIN events e ON e.seq = x.seq");
        let mut page = self.db.prepare_cached(&page).map_err(fail)?;
        let mut found = page.query(params![sweep, ranks, limit, from]).map_err(fail)?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().map_err(fail)? {
            rows.push(self.row(&row.get::<_, String>(0).map_err(fail)?)?);
        }
        // A join need not keep the order of what it joins.
        rows.sort_by(|a, b| a.ended.attempt.cmp(&b.ended.attempt));
        Ok(Finished { rows, total: total.max(0) as u64 })
    }

    fn row(&self, json: &str) -> Result<EndRow, JournalError> {
        match serde_json::from_str(json) {
            Ok(Event::Ended { host, ended, .. }) => Ok(EndRow { host, ended: *ended }),
            _ => Err(JournalError::corrupt(&self.path, "its index of ends points to something else".into())),
        }
    }
}
