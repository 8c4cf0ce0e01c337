//! Which names came lately? In bounded room.

use std::collections::HashSet;

/// Names that came lately: so many at least, twice as many at most.
#[derive(Default)]
pub struct Lately {
    new: HashSet<String>,
    old: HashSet<String>,
}

const LATELY: usize = 4096;

impl Lately {
    pub fn insert(&mut self, name: String) {
        if self.new.len() >= LATELY {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(name);
    }

    pub fn contains(&self, name: &str) -> bool {
        self.new.contains(name) || self.old.contains(name)
    }

    pub fn remove(&mut self, name: &str) {
        self.new.remove(name);
        self.old.remove(name);
    }
}
