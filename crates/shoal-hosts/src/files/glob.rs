//! Does a name match a pattern with `*`, `**`, `?` and `[...]`, as rsync reads them (pure)?

/// `*` and `?` do not match a slash, `**` does; `\` takes the meaning away from what follows it.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let Some((&first, rest)) = pattern.split_first() else { return text.is_empty() };
    match first {
        b'*' => {
            let stars = pattern.iter().take_while(|b| **b == b'*').count();
            let rest = &pattern[stars..];
            // How far it may reach.
            let reach = if stars > 1 { text.len() } else { text.iter().take_while(|b| **b != b'/').count() };
            (0..=reach).any(|taken| matches(rest, &text[taken..]))
        }
        b'?' => text.first().is_some_and(|b| *b != b'/') && matches(rest, &text[1..]),
        b'[' => match (class(rest), text.first()) {
            (Some((set, length)), Some(&b)) if b != b'/' => set.has(b) && matches(&rest[length..], &text[1..]),
            _ => false,
        },
        b'\\' if !rest.is_empty() => text.first() == Some(&rest[0]) && matches(&rest[1..], &text[1..]),
        plain => text.first() == Some(&plain) && matches(rest, &text[1..]),
    }
}

struct Set<'a> {
    negated: bool,
    body: &'a [u8],
}

/// The set after a `[`, and how long it is with its `]`.
fn class(pattern: &[u8]) -> Option<(Set<'_>, usize)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    // A `]` that comes first is one of the set.
    let mut at = start + usize::from(pattern.get(start) == Some(&b']'));
    loop {
        match pattern.get(at)? {
            b']' => return Some((Set { negated, body: &pattern[start..at] }, at + 1)),
            b'[' if pattern.get(at + 1) == Some(&b':') => {
                let end = pattern[at + 2..].windows(2).position(|pair| pair == b":]")?;
                at += end + 4;
            }
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

impl Set<'_> {
    fn has(&self, b: u8) -> bool {
        let body = self.body;
        let (mut at, mut found) = (0, false);
        while at < body.len() {
            if body[at..].starts_with(b"[:")
                && let Some(end) = body[at + 2..].windows(2).position(|pair| pair == b":]")
            {
                found |= is_of(&body[at + 2..at + 2 + end], b);
                at += end + 4;
                continue;
            }
            let (low, after) = one(body, at);
            if body.get(after) == Some(&b'-') && after + 1 < body.len() {
                let (high, end) = one(body, after + 1);
                found |= (low..=high).contains(&b);
                at = end;
            } else {
                found |= low == b;
                at = after;
            }
        }
        found != self.negated
    }
}

fn one(body: &[u8], at: usize) -> (u8, usize) {
    match (body[at], body.get(at + 1)) {
        (b'\\', Some(&next)) => (next, at + 2),
        (plain, _) => (plain, at + 1),
    }
}

fn is_of(name: &[u8], b: u8) -> bool {
    match name {
        b"alnum" => b.is_ascii_alphanumeric(),
        b"alpha" => b.is_ascii_alphabetic(),
        b"digit" => b.is_ascii_digit(),
        b"lower" => b.is_ascii_lowercase(),
        b"upper" => b.is_ascii_uppercase(),
        b"space" => b.is_ascii_whitespace() || b == 0x0b,
        b"blank" => b == b' ' || b == b'\t',
        b"punct" => b.is_ascii_punctuation(),
        b"xdigit" => b.is_ascii_hexdigit(),
        b"cntrl" => b.is_ascii_control(),
        b"print" => b.is_ascii_graphic() || b == b' ',
        b"graph" => b.is_ascii_graphic(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn sets_and_stars() {
        for (pattern, text, yes) in [
            ("*", "abc", true),
            ("*", "a/c", false),
            ("**", "a/c", true),
            ("a*c*e", "abcde", true),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[[:digit:]]", "7", true),
            ("[[:digit:]x]", "x", true),
            ("[\\]]", "]", true),
            ("[a", "a", false),
            ("\\?", "?", true),
            ("\\?", "x", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), yes, "{pattern} {text}");
        }
    }
}
