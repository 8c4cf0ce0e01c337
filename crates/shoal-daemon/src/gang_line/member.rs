//! Is the head of a detached run still there? (pure: time is passed in)

use super::GONE_MS;
use super::words::{LINE_VERSION, Order, Word};

pub struct Member {
    /// The head's host.
    head: String,
    silence_ms: u64,
    /// When it was last heard; at first, when the run began here.
    heard_ms: u64,
    /// Since when nobody listens there.
    nobody_ms: Option<u64>,
    /// Why it could not be reached the last time.
    trouble: Option<String>,
    joined: bool,
    order: Order,
    known: usize,
    grace_ms: u64,
    given_up: bool,
}

impl Member {
    pub fn new(head: &str, grace_ms: u64, silence_ms: u64) -> Member {
        Member {
            head: head.into(),
            silence_ms,
            heard_ms: 0,
            nobody_ms: None,
            trouble: None,
            joined: false,
            order: Order::GoOn,
            known: 0,
            grace_ms,
            given_up: false,
        }
    }

    /// The head has been heard.
    pub fn is_up(&self) -> bool {
        self.joined
    }

    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Whether nothing is left to tell: the head knows of this many ended ranks, or is no more.
    pub fn may_leave(&self, ended: usize) -> bool {
        self.given_up || self.known >= ended
    }

    pub fn hear(&mut self, word: Word, now_ms: u64) {
        if word.version != LINE_VERSION {
            self.trouble = Some(format!("it speaks version {} of the gang's line", word.version));
            return;
        }
        self.heard_ms = now_ms;
        (self.nobody_ms, self.trouble, self.joined) = (None, None, true);
        self.known = word.heard;
        if !self.given_up {
            self.order = word.order;
        }
    }

    /// The head could not be reached; `nobody`: its host is there, and nobody listens.
    pub fn failed(&mut self, why: String, nobody: bool, now_ms: u64) {
        self.trouble = Some(why);
        if nobody {
            self.nobody_ms.get_or_insert(now_ms);
        } else {
            self.nobody_ms = None;
        }
    }

    /// What keeps us from the head, while it does.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Time passes: a head that is gone ends the run here.
    pub fn tick(&mut self, now_ms: u64) {
        let silent = now_ms.saturating_sub(self.heard_ms);
        let nobody = self.nobody_ms.is_some_and(|at| now_ms.saturating_sub(at) >= GONE_MS.min(self.silence_ms));
        if self.given_up || (!nobody && silent < self.silence_ms) {
            return;
        }
        self.given_up = true;
        let how = match (nobody, self.joined) {
            (true, _) => "its warden is gone".to_string(),
            (false, true) => format!("it has not been heard for {} s", silent / 1000),
            (false, false) => format!("it could not be reached within {} s", silent / 1000),
        };
        let trouble = self.trouble.as_ref().map_or_else(String::new, |t| format!(" ({t})"));
        let why = format!("host {} was lost: {how}{trouble}", self.head);
        // An order that was given stands: it says better why.
        if self.order == Order::GoOn {
            self.order = Order::Stop { grace_ms: self.grace_ms, why: Some(why) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(order: Order, heard: usize) -> Word {
        Word { version: LINE_VERSION, order, heard }
    }

    fn why(member: &Member) -> &str {
        let Order::Stop { why: Some(why), .. } = member.order() else { panic!("{:?}", member.order()) };
        why
    }

    #[test]
    fn a_silent_head_ends_the_run_here_and_is_named() {
        let mut member = Member::new("a", 5_000, 30_000);
        member.hear(word(Order::GoOn, 0), 1_000);
        assert!(member.is_up() && !member.may_leave(1));
        member.failed("timed out".into(), false, 20_000);
        member.tick(30_999);
        assert_eq!(*member.order(), Order::GoOn);
        member.tick(31_000);
        assert_eq!(why(&member), "host a was lost: it has not been heard for 30 s (timed out)");
        assert!(member.may_leave(1));
    }

    #[test]
    fn a_head_that_nobody_keeps_is_gone_sooner() {
        let mut member = Member::new("a", 5_000, 30_000);
        member.hear(word(Order::GoOn, 0), 1_000);
        member.failed("refused".into(), true, 2_000);
        member.hear(word(Order::GoOn, 0), 3_000);
        member.failed("refused".into(), true, 4_000);
        member.failed("refused".into(), true, 6_000);
        member.tick(8_999);
        assert_eq!(*member.order(), Order::GoOn);
        member.tick(9_000);
        assert_eq!(why(&member), "host a was lost: its warden is gone (refused)");
    }

    #[test]
    fn an_order_stands_when_the_head_goes_after_it() {
        let mut member = Member::new("a", 5_000, 30_000);
        let stop = Order::Stop { grace_ms: 1, why: Some("worker1 on b: exited with code 3".into()) };
        member.hear(word(stop.clone(), 2), 0);
        assert!(member.may_leave(2));
        member.tick(60_000);
        assert_eq!(*member.order(), stop);
    }

    #[test]
    fn a_head_that_never_answers_is_said_not_to_be_reachable() {
        let mut member = Member::new("a", 5_000, 30_000);
        member.tick(29_999);
        assert_eq!(*member.order(), Order::GoOn);
        member.tick(30_000);
        assert_eq!(why(&member), "host a was lost: it could not be reached within 30 s");
    }
}
