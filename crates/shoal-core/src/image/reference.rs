//! What is an image called? `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `None`: an image of this machine, or one that the engine's own settings lead to.
    pub registry: Option<String>,
    pub path: String,
    pub tag: Option<String>,
    pub digest: Option<String>,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(registry) = &self.registry {
            write!(f, "{registry}/")?;
        }
        f.write_str(&self.path)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

const LONGEST_NAME: usize = 255;
const LONGEST_TAG: usize = 128;
/// What engines take where nobody names a tag.
pub const LATEST: &str = "latest";

impl Reference {
    /// The error says what is wrong with the name, and what would do.
    pub fn parse(text: &str) -> Result<Reference, String> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        // A colon before a slash is a port's.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        let (registry, path) = match name.split_once('/') {
            Some((first, path)) if is_host(first) => (Some(first), path),
            _ => (None, name),
        };
        let wrong = |why: String| format!("`{text}` cannot be an image's name: {why}");
        let fault = registry.and_then(host_fault).or_else(|| path_fault(path)).or_else(|| tag.and_then(tag_fault));
        if let Some(why) = fault.or_else(|| digest.and_then(digest_fault)) {
            return Err(wrong(why));
        }
        if name.len() > LONGEST_NAME {
            return Err(wrong(format!("it has {} characters, and {LONGEST_NAME} is the most", name.len())));
        }
        let own = |part: Option<&str>| part.map(str::to_string);
        Ok(Reference { registry: own(registry), path: path.into(), tag: own(tag), digest: own(digest) })
    }

    /// `-n NAME -t TAG`: the tag may be in the name, but not another one.
    pub fn named(name: &str, tag: Option<&str>) -> Result<Reference, String> {
        let mut named = Reference::parse(name)?;
        if named.digest.is_some() {
            return Err(format!("`{name}` names a content, not an image that could be made; leave out `@...`"));
        }
        match (&named.tag, tag) {
            (Some(one), Some(other)) if one != other => {
                return Err(format!("`{name}` has the tag `{one}`, and -t says `{other}`; give one of them"));
            }
            (_, Some(tag)) => {
                if let Some(why) = tag_fault(tag) {
                    return Err(format!("`{tag}` cannot be a tag: {why}"));
                }
                named.tag = Some(tag.into());
            }
            (None, None) => named.tag = Some(LATEST.into()),
            (Some(_), None) => {}
        }
        Ok(named)
    }

    /// Where it goes: REGISTRY is `HOST[:PORT][/PATH]`, to which the image's name is added; or the whole name it is to have there.
    pub fn in_registry(&self, registry: &str) -> Result<Reference, String> {
        let plain = registry.strip_prefix("https://").or_else(|| registry.strip_prefix("http://")).unwrap_or(registry);
        let plain = plain.trim_end_matches('/');
        let (host, path) = plain.split_once('/').unwrap_or((plain, ""));
        if !is_host(host) {
            let hint = format!("give HOST[:PORT]/PATH, such as registry.example.org/{plain}");
            return Err(format!("`{registry}` names no registry: `{host}` is no host\n  hint: {hint}"));
        }
        if let Some(why) = host_fault(host) {
            return Err(format!("`{registry}` names no registry: {why}"));
        }
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
        let tagged = path.contains(':');
        if tagged || (!path.is_empty() && last(path) == last(&self.path)) {
            let mut whole = Reference::parse(plain)?;
            whole.tag = whole.tag.or_else(|| self.tag.clone());
            return Ok(whole);
        }
        let path = if path.is_empty() { self.path.clone() } else { format!("{path}/{}", self.path) };
        let tag = self.tag.as_ref().map(|tag| format!(":{tag}")).unwrap_or_default();
        Reference::parse(&format!("{host}/{path}{tag}"))
    }
}

/// Whether the first part of a name is a machine's: as engines decide it.
fn is_host(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':'])
}

/// Whether nobody else can be on the way to a registry: there plain http is no risk.
pub fn is_loopback(registry: &str) -> bool {
    let bare = registry.strip_prefix('[').and_then(|rest| rest.split(']').next());
    let host = bare.unwrap_or_else(|| registry.split(':').next().unwrap_or_default());
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn host_fault(host: &str) -> Option<String> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Some(format!("`{}` is no port", port.unwrap_or_default()));
    }
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let good = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.chars().all(fits) && !name.starts_with(['-', '.']),
    };
    (!good).then(|| format!("`{name}` is no host"))
}

fn path_fault(path: &str) -> Option<String> {
    if path.is_empty() {
        return Some("there is nothing where the name should be".into());
    }
    if path.split('/').all(is_component) {
        return None;
    }
    let meant: Vec<String> = path.split('/').map(component_meant).filter(|part| !part.is_empty()).collect();
    let help = if meant.is_empty() { String::new() } else { format!("; `{}` would do", meant.join("/")) };
    Some(format!("only lower-case letters and digits may be in it, with single . _ - / between them{help}"))
}

fn is_component(part: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let ends_well = part.starts_with(fits) && part.ends_with(fits);
    // `__` and any number of `-` may stand between, no other pair.
    let runs = part.split(fits).filter(|run| !run.is_empty());
    let separates = |run: &str| matches!(run, "." | "_" | "__") || run.chars().all(|c| c == '-');
    ends_well && runs.into_iter().all(separates)
}

fn component_meant(part: &str) -> String {
    let fits = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let text: String = part.to_ascii_lowercase().chars().map(fits).collect();
    text.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

fn tag_fault(tag: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let good = !tag.is_empty() && tag.chars().all(fits) && !tag.starts_with(['.', '-']);
    if !good {
        return Some(format!(
            "the tag `{tag}` may have letters, digits and _ . - in it, and begins with neither . nor -"
        ));
    }
    (tag.len() > LONGEST_TAG).then(|| format!("its tag has {} characters, and {LONGEST_TAG} is the most", tag.len()))
}

fn digest_fault(digest: &str) -> Option<String> {
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    let good = hex.len() == 64 && hex.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    (!good).then(|| "after `@` stands sha256: and 64 digits of a digest".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_four_parts() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, registry, path, tag) in [
            ("l2r-base", None, "l2r-base", None),
            ("lab/l2r-node:2", None, "lab/l2r-node", Some("2")),
            ("registry.example.org/jamesher/l2r-base", Some("registry.example.org"), "jamesher/l2r-base", None),
            ("127.0.0.1:5000/a:b", Some("127.0.0.1:5000"), "a", Some("b")),
            ("[::1]:5000/a", Some("[::1]:5000"), "a", None),
            ("localhost/a__b--c.d", Some("localhost"), "a__b--c.d", None),
        ] {
            let own = |part: Option<&str>| part.map(str::to_string);
            let wanted = Reference { registry: own(registry), path: path.into(), tag: own(tag), digest: None };
            assert_eq!(Reference::parse(text), Ok(wanted.clone()));
            assert_eq!(wanted.to_string(), text);
            let fixed = format!("{text}@{digest}");
            assert_eq!(Reference::parse(&fixed).map(|name| name.to_string()), Ok(fixed));
        }
    }

    #[test]
    fn what_is_no_name_is_explained() {
        for (text, says) in [
            ("L2R Node", "`l2r-node` would do"),
            ("a//b", "`a/b` would do"),
            ("a..b", "`a-b` would do"),
            ("-a", "`a` would do"),
            ("", "nothing where the name should be"),
            (":1", "nothing where the name should be"),
            ("ü", "lower-case"),
            ("a:", "the tag ``"),
            ("a:.b", "the tag `.b`"),
            (&format!("a:{}", "t".repeat(129)), "129 characters"),
            (&"a".repeat(256), "256 characters"),
            ("a@sha256:12", "64 digits"),
            ("host:port/a", "`port` is no port"),
            ("-h.x/a", "`-h.x` is no host"),
        ] {
            let why = Reference::parse(text).expect_err(text);
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn a_tag_is_said_once() {
        let named = |name: &str, tag: Option<&str>| Reference::named(name, tag).map(|name| name.to_string());
        assert_eq!(named("a", None), Ok("a:latest".into()));
        assert_eq!(named("a", Some("2")), Ok("a:2".into()));
        assert_eq!(named("a:2", Some("2")), Ok("a:2".into()));
        assert!(named("a:1", Some("2")).is_err_and(|why| why.contains("-t says `2`")));
        assert!(named("a", Some("b c")).is_err_and(|why| why.contains("cannot be a tag")));
        assert!(named(&format!("a@sha256:{}", "0".repeat(64)), None).is_err_and(|why| why.contains("a content")));
    }

    #[test]
    fn where_an_image_goes() {
        let image = Reference::named("l2r-node", Some("3")).expect("a name");
        for (registry, target) in [
            ("registry.example.org/jamesher", "registry.example.org/jamesher/l2r-node:3"),
            ("https://registry.example.org/jamesher/", "registry.example.org/jamesher/l2r-node:3"),
            ("localhost:5000", "localhost:5000/l2r-node:3"),
            // Who gives the whole name means it.
            ("registry.example.org/jamesher/l2r-node", "registry.example.org/jamesher/l2r-node:3"),
            ("registry.example.org/jamesher/other:7", "registry.example.org/jamesher/other:7"),
        ] {
            assert_eq!(image.in_registry(registry).map(|name| name.to_string()), Ok(target.into()));
        }
        for (registry, says) in [
            ("jamesher", "registry.example.org/jamesher"),
            ("", "no host"),
            ("a.b:x/c", "no port"),
            ("a.b/C", "lower-case"),
        ] {
            let why = image.in_registry(registry).expect_err(registry);
            assert!(why.contains(says), "{registry}: {why}");
        }
        // An image with a registry in its name can go to another one.
        let pulled = Reference::parse("one.example/lab/base:1").expect("a name");
        assert_eq!(pulled.in_registry("two.example").map(|name| name.to_string()), Ok("two.example/lab/base:1".into()));
    }

    #[test]
    fn nobody_else_is_on_loopback() {
        for (registry, is) in [
            ("localhost", true),
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("127.9.9.9", true),
            ("[::1]:5000", true),
            ("10.0.0.1:5000", false),
            ("localhost.example.org", false),
            ("127.example.org", false),
        ] {
            assert_eq!(is_loopback(registry), is, "{registry}");
        }
    }
}
