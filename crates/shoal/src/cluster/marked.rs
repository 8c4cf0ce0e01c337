//! Where do a command's own outputs begin and end? Between its marks: what comes before is the login's, what comes after is of processes
//! that it left behind. Pure: bytes in, bytes out.

/// What is kept of a login's words; it may print for ever.
const MOST_KEPT: usize = 64 << 10;
/// More digits than an exit code has.
const LONGEST_CODE: usize = 4;

pub struct Marked {
    mark: Vec<u8>,
    /// The mark at the end, up to the exit code.
    last: Vec<u8>,
    state: State,
    before: Vec<u8>,
    /// Bytes that may be the beginning of the last mark.
    held: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Before,
    /// With what stood behind the first mark on its line.
    Within(String),
    After(u8),
    /// The shell ended before the command began.
    Never(u8),
}

impl Marked {
    pub fn new(mark: &str) -> Marked {
        let last = format!("{mark} over ").into_bytes();
        Marked { mark: mark.into(), last, state: State::Before, before: Vec::new(), held: Vec::new() }
    }

    /// The part of these bytes that is the command's.
    pub fn own(&mut self, bytes: &[u8]) -> Vec<u8> {
        match &self.state {
            State::After(_) | State::Never(_) => Vec::new(),
            State::Within(_) => self.within(bytes),
            State::Before => {
                self.before.extend_from_slice(bytes);
                let Some((start, end)) = self.first_line() else {
                    if self.before.len() > MOST_KEPT {
                        // Enough to still see a mark that has begun.
                        self.before.drain(..self.before.len() - MOST_KEPT / 2);
                    }
                    return Vec::new();
                };
                let words = String::from_utf8_lossy(&self.before[start + self.mark.len()..end]).trim().to_string();
                let rest = self.before.split_off(end + 1);
                self.before.truncate(start);
                if let Some(code) = words.strip_prefix("over ") {
                    self.state = State::Never(code.parse().unwrap_or(255));
                    return Vec::new();
                }
                self.state = State::Within(words);
                self.within(&rest)
            }
        }
    }

    /// The first mark's place: from it up to its line break.
    fn first_line(&self) -> Option<(usize, usize)> {
        let start = find(&self.before, &self.mark)?;
        let end = self.before[start..].iter().position(|byte| *byte == b'\n')?;
        Some((start, start + end))
    }

    fn within(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(at) = find(&self.held[from..], &self.last).map(|at| from + at) {
            let digits = &self.held[at + self.last.len()..];
            match digits.iter().position(|byte| !byte.is_ascii_digit()) {
                Some(length) if digits[length] == b'\n' => {
                    let code = std::str::from_utf8(&digits[..length]).ok().and_then(|code| code.parse().ok());
                    self.state = State::After(code.unwrap_or(255));
                    self.held.truncate(at);
                    return std::mem::take(&mut self.held);
                }
                // It is still on its way.
                None if digits.len() < LONGEST_CODE => return self.release(at),
                // Somebody else's words that look like ours.
                _ => from = at + 1,
            }
        }
        let tail = (1..self.last.len().min(self.held.len() + 1)).rev().find(|n| self.held.ends_with(&self.last[..*n]));
        self.release(self.held.len() - tail.unwrap_or(0))
    }

    /// Gives what lies before `at`, and holds the rest.
    fn release(&mut self, at: usize) -> Vec<u8> {
        let rest = self.held.split_off(at);
        std::mem::replace(&mut self.held, rest)
    }

    /// What was held, when nothing more comes.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// What stood behind the first mark, once it came.
    pub fn begun(&self) -> Option<&str> {
        match &self.state {
            State::Before | State::Never(_) => None,
            State::Within(words) => Some(words),
            State::After(_) => Some(""),
        }
    }

    /// The exit code behind the last mark.
    pub fn over(&self) -> Option<u8> {
        if let State::After(code) = self.state { Some(code) } else { None }
    }

    /// The shell's exit code, if the last mark came without the first.
    pub fn never(&self) -> Option<u8> {
        if let State::Never(code) = self.state { Some(code) } else { None }
    }

    /// What the login said.
    pub fn before(&self) -> String {
        String::from_utf8_lossy(&self.before).into_owned()
    }
}

/// By the first byte: most output has it rarely, and this is all the work there is for a byte of output.
fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == what[0]).map(|at| from + at) {
        if bytes[at..].starts_with(what) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the bytes are cut.
    #[test]
    fn output_lies_between_the_marks() {
        let all =
            b"Welcome!\nno newline<MARK> 4711\nown\0bytes <MARK> 1 <MARK> over x <MARK> ov<MARK> over 12\nof another";
        for cut in 1..=all.len() {
            let mut marked = Marked::new("<MARK>");
            let mut begun = None;
            let mut own = Vec::new();
            for chunk in all.chunks(cut) {
                own.extend(marked.own(chunk));
                begun = begun.or_else(|| marked.begun().filter(|words| !words.is_empty()).map(String::from));
            }
            assert_eq!(own, b"own\0bytes <MARK> 1 <MARK> over x <MARK> ov", "cut {cut}");
            assert_eq!(marked.over(), Some(12));
            assert_eq!(marked.before(), "Welcome!\nno newline");
            assert!(cut > 30 || begun.as_deref() == Some("4711"));
        }
    }

    #[test]
    fn a_shell_may_end_before_the_command_begins() {
        let mut marked = Marked::new("<MARK>");
        assert!(marked.own(b"licence expired\n<MARK> over 9\n").is_empty());
        assert_eq!((marked.begun(), marked.over(), marked.never()), (None, None, Some(9)));
        assert_eq!(marked.before(), "licence expired\n");
    }

    #[test]
    fn output_that_only_begins_like_the_mark_is_not_lost() {
        let mut marked = Marked::new("<MARK>");
        assert_eq!(marked.own(b"<MARK>\nabc<MA"), b"abc");
        assert_eq!(marked.rest(), b"<MA");
        assert_eq!(marked.over(), None);
    }

    #[test]
    fn a_login_that_prints_for_ever_is_not_kept_for_ever() {
        let mut marked = Marked::new("<MARK>");
        for _ in 0..1000 {
            assert!(marked.own(&[b'x'; 1000]).is_empty());
        }
        assert!(marked.before().len() <= MOST_KEPT);
        assert_eq!(marked.own(b"<MARK>\nhere"), b"here");
        assert_eq!(marked.begun(), Some(""));
    }
}
