//! Which file knows a registry? Only whether it does is of interest: what it knows stays in it (SEC-2).

use serde_json::Value;

/// Where logins are kept, in the order they are looked at: what podman's and docker's own `login` write.
pub fn places(var: &dyn Fn(&str) -> Option<String>, user: u32) -> Vec<String> {
    let var = |name: &str| var(name).filter(|value| !value.is_empty());
    let home = var("HOME");
    let below_home = |path: &str| home.as_ref().map(|home| format!("{home}/{path}"));
    let run = var("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/containers/{user}"));
    let run = if var("XDG_RUNTIME_DIR").is_some() { format!("{run}/containers") } else { run };
    let config = var("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
    let docker = var("DOCKER_CONFIG").or_else(|| below_home(".docker"));
    let all = [
        var("REGISTRY_AUTH_FILE"),
        Some(format!("{run}/auth.json")),
        config.map(|folder| format!("{folder}/containers/auth.json")),
        docker.map(|folder| format!("{folder}/config.json")),
    ];
    all.into_iter().flatten().collect()
}

/// Whether docker's own client looks at such a file.
pub fn is_dockers(place: &str) -> bool {
    place.ends_with("/config.json")
}

/// Whether a file has a login for a registry, or for a path in it. The error: it is not what it should be.
pub fn knows(text: &str, registry: &str, path: &str) -> Result<bool, String> {
    let file: Value = serde_json::from_str(text).map_err(|e| format!("it is no JSON: {e}"))?;
    let keys = |field: &str| file[field].as_object().into_iter().flat_map(|all| all.keys());
    let whole = format!("{registry}/{path}");
    let fits = |key: &String| {
        let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
        let key = key.trim_end_matches('/');
        let key = key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key);
        key == registry || whole == key || whole.strip_prefix(key).is_some_and(|rest| rest.starts_with('/'))
    };
    Ok(keys("auths").chain(keys("credHelpers")).any(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_places() {
        let with = |vars: &'static [(&str, &str)]| {
            places(&|name| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_string()), 7)
        };
        assert_eq!(
            with(&[("HOME", "/h")]),
            ["/run/containers/7/auth.json", "/h/.config/containers/auth.json", "/h/.docker/config.json"]
        );
        assert_eq!(
            with(&[
                ("HOME", "/h"),
                ("REGISTRY_AUTH_FILE", "/a.json"),
                ("XDG_RUNTIME_DIR", "/r"),
                ("XDG_CONFIG_HOME", "/c"),
                ("DOCKER_CONFIG", "/d"),
            ]),
            ["/a.json", "/r/containers/auth.json", "/c/containers/auth.json", "/d/config.json"]
        );
        assert_eq!(with(&[]), ["/run/containers/7/auth.json"]);
        assert!(is_dockers("/d/config.json") && !is_dockers("/r/containers/auth.json"));
    }

    #[test]
    fn who_is_known() {
        let file = r#"{"auths": {"a.example": {"auth": "eA=="}, "https://b.example/v1/": {}, "c.example/lab": {}},
                       "credHelpers": {"d.example": "pass"}}"#;
        for (registry, path, is) in [
            ("a.example", "x", true),
            ("b.example", "x", true),
            ("c.example", "lab/x", true),
            ("c.example", "label/x", false),
            ("d.example", "x", true),
            ("a.example:5000", "x", false),
            ("e.example", "x", false),
        ] {
            assert_eq!(knows(file, registry, path), Ok(is), "{registry}/{path}");
        }
        assert_eq!(knows("{}", "a.example", "x"), Ok(false));
        assert!(knows("{", "a.example", "x").is_err());
    }
}
