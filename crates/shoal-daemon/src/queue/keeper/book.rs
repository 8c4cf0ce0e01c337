//! Whose turn is it? Pure.
//!
//! A run may be told to start when another is over, on its seat. Chains of these are decided beforehand, so that short runs follow each
//! other without anybody being asked.

use std::collections::{HashMap, VecDeque};

pub struct Book<T> {
    waiting: HashMap<String, Waiting<T>>,
    /// Those that wait for this one, in the order in which they came.
    followers: HashMap<String, Vec<String>>,
    ready: VecDeque<String>,
    /// Begun, and not over.
    begun: HashMap<String, ()>,
}

struct Waiting<T> {
    what: T,
    after: Option<String>,
}

impl<T> Default for Book<T> {
    fn default() -> Book<T> {
        Book { waiting: HashMap::new(), followers: HashMap::new(), ready: VecDeque::new(), begun: HashMap::new() }
    }
}

impl<T> Book<T> {
    pub fn knows(&self, name: &str) -> bool {
        self.waiting.contains_key(name) || self.begun.contains_key(name)
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.begun.is_empty()
    }

    pub fn waiting(&self) -> impl Iterator<Item = (&str, &T)> {
        self.waiting.iter().map(|(name, waiting)| (name.as_str(), &waiting.what))
    }

    /// Whether somebody's turn has come.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// False if the name is known already.
    pub fn accept(&mut self, name: &str, what: T, after: Option<String>) -> bool {
        if self.knows(name) {
            return false;
        }
        let after = after.filter(|after| self.knows(after));
        match &after {
            Some(after) => self.followers.entry(after.clone()).or_default().push(name.into()),
            None => self.ready.push_back(name.into()),
        }
        self.waiting.insert(name.into(), Waiting { what, after });
        true
    }

    /// The next whose turn has come; it counts as begun until it is over.
    pub fn next(&mut self) -> Option<(String, T)> {
        // Names of runs that were cancelled may still be in the list.
        loop {
            let name = self.ready.pop_front()?;
            if let Some(waiting) = self.waiting.remove(&name) {
                self.begun.insert(name.clone(), ());
                return Some((name, waiting.what));
            }
        }
    }

    /// It could not begin yet: the next again.
    pub fn unget(&mut self, name: String, what: T) {
        self.begun.remove(&name);
        self.waiting.insert(name.clone(), Waiting { what, after: None });
        self.ready.push_front(name);
    }

    pub fn over(&mut self, name: &str) {
        self.begun.remove(name);
        for next in self.followers.remove(name).unwrap_or_default() {
            if let Some(waiting) = self.waiting.get_mut(&next) {
                waiting.after = None;
            }
            self.ready.push_back(next);
        }
    }

    /// Takes out one that waits. Those that would have followed it wait for whom it waited for: the seat is not free yet.
    pub fn cancel(&mut self, name: &str) -> Option<T> {
        let gone = self.waiting.remove(name)?;
        let orphans = self.followers.remove(name).unwrap_or_default();
        for orphan in &orphans {
            if let Some(waiting) = self.waiting.get_mut(orphan) {
                waiting.after = gone.after.clone();
            }
        }
        match gone.after {
            Some(after) => {
                let list = self.followers.entry(after).or_default();
                list.retain(|n| n != name);
                list.extend(orphans);
            }
            None => {
                self.ready.retain(|n| n != name);
                self.ready.extend(orphans);
            }
        }
        Some(gone.what)
    }

    #[cfg(test)]
    fn is_begun(&self, name: &str) -> bool {
        self.begun.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn started(book: &mut Book<u32>) -> Vec<String> {
        std::iter::from_fn(|| book.next().map(|(name, _)| name)).collect()
    }

    #[test]
    fn a_chain_goes_on_when_each_is_over_and_over_those_that_are_cancelled() {
        let mut book = Book::default();
        for (name, after) in [("a", None), ("b", Some("a")), ("c", Some("b")), ("d", Some("c")), ("x", Some("gone"))] {
            assert!(book.accept(name, 0, after.map(String::from)));
            assert!(!book.accept(name, 0, None), "known");
        }
        assert_eq!(started(&mut book), ["a", "x"]);
        assert_eq!(book.cancel("a"), None, "it has begun");
        assert!(book.cancel("b").is_some() && book.cancel("c").is_some());
        assert_eq!(started(&mut book), [""; 0], "d waits for a: the seat is taken");
        book.over("a");
        assert_eq!(started(&mut book), ["d"]);
        book.over("d");
        book.over("x");
        assert!(book.is_empty());
    }

    #[test]
    fn one_that_cannot_begin_yet_is_the_next_again() {
        let mut book = Book::default();
        book.accept("a", 1, None);
        book.accept("b", 2, None);
        let (name, what) = book.next().unwrap();
        book.unget(name, what);
        assert_eq!(started(&mut book), ["a", "b"]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Accept(u8, Option<u8>),
        Next,
        Over(u8),
        Cancel(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u8..12, proptest::option::of(0u8..12)).prop_map(|(a, b)| Step::Accept(a, b)),
            Just(Step::Next),
            (0u8..12).prop_map(Step::Over),
            (0u8..12).prop_map(Step::Cancel),
        ]
    }

    proptest! {
        /// Every accepted run begins exactly once or is cancelled, and never two of one seat at once.
        #[test]
        fn nobody_is_lost_and_no_seat_is_taken_twice(steps in proptest::collection::vec(step(), 0..120)) {
            let mut book = Book::default();
            let mut seat_of: HashMap<String, u32> = HashMap::new();
            let mut on_seat: HashMap<u32, String> = HashMap::new();
            let (mut accepted, mut begun, mut cancelled, mut seats) = (0u32, 0u32, 0u32, 0u32);
            let over = |book: &mut Book<u32>, on_seat: &mut HashMap<u32, String>, name: &str, seat: u32| {
                book.over(name);
                if on_seat.get(&seat).is_some_and(|n| n == name) {
                    on_seat.remove(&seat);
                }
            };
            // A name is used for one run at a time; a follower has the seat of the one before, as far as that is still known.
            let mut generation = 0u32;
            let mut names: HashMap<u8, String> = HashMap::new();
            for step in steps {
                match step {
                    Step::Accept(a, after) => {
                        let known = names.get(&a).is_some_and(|n| book.knows(n));
                        if known { continue }
                        generation += 1;
                        let name = format!("{a}-{generation}");
                        let after = after.and_then(|b| names.get(&b).cloned()).filter(|n| book.knows(n));
                        // One follower a run: that is what a seat's chain is.
                        let taken = after.as_ref().is_some_and(|p| book.followers.get(p).is_some_and(|f| !f.is_empty()));
                        if taken { continue }
                        let seat = after.as_ref().and_then(|p| seat_of.get(p).copied()).unwrap_or_else(|| { seats += 1; seats });
                        seat_of.insert(name.clone(), seat);
                        prop_assert!(book.accept(&name, seat, after));
                        names.insert(a, name);
                        accepted += 1;
                    }
                    Step::Next => if let Some((name, seat)) = book.next() {
                        begun += 1;
                        prop_assert!(!on_seat.contains_key(&seat), "{} begins while {:?} has the seat", name, on_seat.get(&seat));
                        on_seat.insert(seat, name);
                    },
                    Step::Over(a) => if let Some(name) = names.get(&a).cloned() && book.is_begun(&name) {
                        over(&mut book, &mut on_seat, &name, seat_of[&name]);
                    },
                    Step::Cancel(a) => if let Some(name) = names.get(&a).cloned() {
                        cancelled += u32::from(book.cancel(&name).is_some());
                    },
                }
            }
            for _ in 0..1000 {
                while let Some((name, seat)) = book.next() {
                    begun += 1;
                    prop_assert!(!on_seat.contains_key(&seat));
                    on_seat.insert(seat, name);
                }
                let Some((&seat, name)) = on_seat.iter().next() else { break };
                let name = name.clone();
                over(&mut book, &mut on_seat, &name, seat);
            }
            prop_assert_eq!(accepted, begun + cancelled);
            prop_assert!(book.is_empty());
        }
    }
}
