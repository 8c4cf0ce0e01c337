//! Where does a run leave its results, and does it stay there?

use super::template::Mount;

/// Without doubled or trailing slashes and `.`; `None`: not absolute, or it climbs with `..`.
pub fn tidy(path: &str) -> Option<String> {
    let rest = path.strip_prefix('/')?;
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.contains(&"..")).then(|| format!("/{}", parts.join("/")))
}

/// Whether it is on a volume: what is written anywhere else goes with the pod.
pub fn is_kept(path: &str, mounts: &[Mount]) -> bool {
    mounts.iter().filter_map(|mount| tidy(&mount.path)).any(|mount| {
        let below = path.strip_prefix(mount.trim_end_matches('/'));
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// What a run gets that was not given a path: below the first volume claim, under names that no other launch of the namespace has.
pub fn usual(mounts: &[Mount], launch: &str, name: &str, seed: u64) -> Option<String> {
    let mount = mounts.iter().find(|mount| mount.claim.is_some())?;
    tidy(&format!("{}/{launch}/{name}/seed-{seed}", mount.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_tidied() {
        for (path, wanted) in
            [("/mnt//a/./b/", Some("/mnt/a/b")), ("/", Some("/")), ("mnt", None), ("/mnt/../etc", None), ("", None)]
        {
            assert_eq!(tidy(path).as_deref(), wanted, "{path}");
        }
    }

    #[test]
    fn only_what_is_on_a_volume_stays() {
        let mounts = [Mount { path: "/mnt/".into(), claim: Some("data".into()) }];
        for (path, kept) in [("/mnt/a", true), ("/mnt", true), ("/mntx/a", false), ("/data/a", false)] {
            assert_eq!(is_kept(path, &mounts), kept, "{path}");
        }
        assert!(is_kept("/anything", &[Mount { path: "/".into(), claim: None }]));
        assert_eq!(usual(&mounts, "w", "random", 3).as_deref(), Some("/mnt/w/random/seed-3"));
        assert_eq!(usual(&[Mount { path: "/mnt".into(), claim: None }], "w", "random", 3), None);
    }
}
