//! What does a path of this machine mean that begins with `~` or has `$NAME` in it?
//!
//! Ray replaces `~` alone and then fails to find `$DATA/set`; what else could have been meant by that?

use crate::quote::is_variable_name;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// As it is written, and its name.
    Variable {
        piece: String,
        name: String,
    },
    Home {
        piece: String,
    },
}

/// The path, with `$NAME`, `${NAME}` and a leading `~` replaced; `$$` is a `$`.
pub fn expand(path: &str, env: &BTreeMap<String, String>, home: Option<&str>) -> Result<String, Unknown> {
    let mut out = String::new();
    let mut rest = path;
    if let Some(behind) = path.strip_prefix('~') {
        let user = behind.split('/').next().unwrap_or_default();
        match home {
            Some(home) if user.is_empty() => out.push_str(home.trim_end_matches('/')),
            // The homes of others are for this machine's system to know, not for us.
            _ => return Err(Unknown::Home { piece: format!("~{user}") }),
        }
        rest = behind;
    }
    while let Some(start) = rest.find('$') {
        out.push_str(&rest[..start]);
        let behind = &rest[start + 1..];
        if let Some(after) = behind.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let (name, length) = match behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, name.len() + 2),
            None => {
                let end = behind.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(behind.len());
                (&behind[..end], end)
            }
        };
        if !is_variable_name(name) {
            out.push('$');
            rest = behind;
            continue;
        }
        let piece = &rest[start..start + 1 + length];
        match env.get(name) {
            Some(value) => out.push_str(value),
            None => return Err(Unknown::Variable { piece: piece.into(), name: name.into() }),
        }
        rest = &behind[length..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_completed() {
        let env = BTreeMap::from([("DATA".to_string(), "/data".to_string()), ("N".to_string(), "1".to_string())]);
        for (path, wanted) in [
            ("~", "/home/me"),
            ("~/x", "/home/me/x"),
            ("a~b", "a~b"),
            ("$DATA/x${N}y$N", "/data/x1y1"),
            ("a$$b$", "a$b$"),
            ("$1", "$1"),
            (".", "."),
        ] {
            assert_eq!(expand(path, &env, Some("/home/me")).as_deref(), Ok(wanted), "{path}");
        }
        let missing = |piece: &str, name: &str| Err(Unknown::Variable { piece: piece.into(), name: name.into() });
        assert_eq!(expand("/x/${NO_SUCH}/y", &env, None), missing("${NO_SUCH}", "NO_SUCH"));
        assert_eq!(expand("~bob/x", &env, Some("/home/me")), Err(Unknown::Home { piece: "~bob".into() }));
        assert_eq!(expand("~/x", &env, None), Err(Unknown::Home { piece: "~".into() }));
    }
}
