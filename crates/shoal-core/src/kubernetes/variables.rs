//! `${NAME}` in a text: what stands for it?

/// Why a text cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nobody says what it is.
    Unknown(String),
    /// `${` without its `}`, or with no name between.
    Open,
}

/// Fills in `${NAME}` and `$NAME`; `$$` is one `$`.
pub fn fill(text: &str, value: &dyn Fn(&str) -> Option<String>) -> Result<String, Fault> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            filled.push('$');
            rest = after;
            continue;
        }
        let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, after) = match rest.strip_prefix('{') {
            Some(inner) => inner.split_once('}').ok_or(Fault::Open)?,
            None => rest.split_at(rest.find(|c| !in_name(c)).unwrap_or(rest.len())),
        };
        if name.is_empty() || !name.chars().all(in_name) {
            return Err(Fault::Open);
        }
        filled.push_str(&value(name).ok_or_else(|| Fault::Unknown(name.into()))?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in() {
        let known = |name: &str| (name == "USER").then(|| "ada".to_string());
        for (text, wanted) in [
            ("/mnt/${USER}/x", Ok("/mnt/ada/x")),
            ("$USER/$$USER", Ok("ada/$USER")),
            ("plain", Ok("plain")),
            ("${NOBODY}", Err(Fault::Unknown("NOBODY".into()))),
            ("${USER", Err(Fault::Open)),
            ("a$", Err(Fault::Open)),
            ("${A-b}", Err(Fault::Open)),
        ] {
            assert_eq!(fill(text, &known), wanted.map(Into::into), "{text}");
        }
    }
}
