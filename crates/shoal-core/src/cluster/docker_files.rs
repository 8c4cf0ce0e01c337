//! How do files get into the container of a node, and out of it (pure)? A path below a file mount lies on the node itself; any other goes through a folder
//! of the node's, and from there in by tar, so that it belongs to the container's user.

use super::docker::{host_place, in_container};
use super::{Docker, Mount};
use crate::quote::{join, quote};
use sha2::{Digest, Sha256};

/// Makes `p` of the first argument, as a login in the container would understand it.
const PATH: &str = "p=$1; case $p in '~') p=$HOME;; '~/'*) p=$HOME/${p#??};; /*) ;; *) p=$HOME/$p;; esac; ";

/// Where a path of the container is on its node, if a file mount binds it there. A slash behind it stays.
pub fn bound(cluster: &str, mounts: &[Mount], path: &str) -> Option<String> {
    let parts = |path: &str| -> Vec<String> {
        path.split('/').enumerate().filter(|(i, part)| *i == 0 || !part.is_empty()).map(|(_, p)| p.into()).collect()
    };
    let wanted = parts(path);
    // `..` may lead out of the mount.
    if wanted.iter().any(|part| part == ".." || part == ".") {
        return None;
    }
    let inside = |mount: &&Mount| wanted.starts_with(&parts(mount.remote.trim_end_matches('/')));
    let slash = if path.ends_with('/') { "/" } else { "" };
    mounts.iter().find(inside).map(|_| host_place(cluster, path) + slash)
}

/// The folder of the node for what goes to `target` of its container. What is left out decides what lies there: other rules, another folder.
pub fn stage<'r>(cluster: &str, target: &str, rules: impl Iterator<Item = &'r String>) -> String {
    let said = rules.fold(target.to_string(), |said, rule| format!("{said}\0{rule}"));
    let digest =
        Sha256::digest(said.as_bytes()).iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    host_place(cluster, &format!(".sent/{digest}"))
}

/// One for what comes out of it, for this time only.
pub fn taken(cluster: &str, time: &str) -> String {
    host_place(cluster, &format!(".taken/{time}"))
}

/// Puts what is in the folder `stage` of the node into the folder `target` of the container.
pub fn put_folder(docker: &Docker, stage: &str, target: &str) -> String {
    let take = format!("{PATH}mkdir -p -- \"$p\" && exec tar -C \"$p\" -xof -");
    let stage = quote(stage);
    // Not the folder itself: the target keeps its mode.
    format!(
        "cd {stage} && find . -mindepth 1 -maxdepth 1 -print0 | tar --null -T - -cf - | {}",
        inside(docker, &take, target)
    )
}

/// Puts a file of the node into the container: into `target`, if that is a folder, else under that name. In place where it is a mount of its own, which cannot
/// be replaced.
pub fn put_file(docker: &Docker, file: &str, target: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or_default();
    let take = format!(
        "{PATH}n=$2; m=$3; case $1 in */) mkdir -p -- \"$p\";; esac; if [ -d \"$p\" ]; then p=${{p%/}}/$n; fi; \
         mkdir -p -- \"$(dirname -- \"$p\")\" && t=$p.arriving.$$ && cat > \"$t\" && chmod \"$m\" \"$t\" && \
         {{ mv -f -- \"$t\" \"$p\" 2>/dev/null || {{ cat \"$t\" > \"$p\" && rm -f -- \"$t\"; }}; }} || {{ rm -f -- \"$t\"; exit 1; }}"
    );
    let words: Vec<String> = ["sh", "-c", &take, "sh", target, name].map(Into::into).into();
    let file = quote(file);
    format!("{} \"$(stat -c %a {file})\" < {file}", join(in_container(docker, &words, false)))
}

/// Puts a path of the container into the folder `stage` of the node: what is in it where a slash is behind it, else itself.
pub fn take_out(docker: &Docker, source: &str, stage: &str) -> String {
    let give = match source.ends_with('/') || source == "~" {
        true => format!("{PATH}cd -- \"$p\" && exec tar -cf - ."),
        false => format!("{PATH}cd -- \"$(dirname -- \"$p\")\" && exec tar -cf - -- \"$(basename -- \"$p\")\""),
    };
    let stage = quote(stage);
    format!("mkdir -p -- {stage} && {} | tar -C {stage} -xf -", inside(docker, &give, source))
}

fn inside(docker: &Docker, script: &str, argument: &str) -> String {
    let words: Vec<String> = ["sh", "-c", script, "sh", argument].map(Into::into).into();
    join(in_container(docker, &words, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_mounts_are_on_the_node() {
        let mounts = ["~/data", "/code/"].map(|remote| Mount { remote: remote.into(), local: "/x".into() });
        for (path, place) in [
            ("~/data", Some("/tmp/ray_tmp_mount/lab/home/data")),
            ("~/data/", Some("/tmp/ray_tmp_mount/lab/home/data/")),
            ("~/data/a/b", Some("/tmp/ray_tmp_mount/lab/home/data/a/b")),
            ("/code//sub/", Some("/tmp/ray_tmp_mount/lab/code//sub/")),
            ("~/database", None),
            ("~", None),
            ("/code/../etc", None),
            ("data", None),
        ] {
            assert_eq!(bound("lab", &mounts, path).as_deref(), place, "{path}");
        }
    }

    /// What is rendered is run, with a container program that runs its command right here.
    #[test]
    fn files_arrive_in_a_container_and_come_out_of_it() {
        let folder = std::env::temp_dir().join(format!("shoal-docker-files-{}", std::process::id()));
        let (bin, home) = (folder.join("bin"), folder.join("home"));
        for path in [&bin, &home, &folder.join("stage/sub")] {
            std::fs::create_dir_all(path).expect("a folder");
        }
        std::fs::write(bin.join("podman"), "#!/bin/sh\nshift 3; export HOME=$FAKE; exec \"$@\"\n").expect("a program");
        let docker = Docker { container_name: "it's".into(), use_podman: true, ..Docker::default() };
        let sh = |line: &str| {
            let path = format!("{}:/usr/bin:/bin", bin.display());
            let mut sh = std::process::Command::new("sh");
            let out = sh.args(["-c", line]).env("PATH", path).env("FAKE", &home).output().expect("sh");
            assert!(out.status.success(), "{line}\n{}", String::from_utf8_lossy(&out.stderr));
        };
        sh(&format!("chmod +x {}", bin.join("podman").display()));
        std::fs::write(folder.join("stage/a b"), "one").expect("a file");
        std::fs::write(folder.join("stage/sub/.hid"), "two").expect("a file");
        let stage = folder.join("stage").display().to_string();
        let read = |path: &str| std::fs::read_to_string(home.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        sh(&put_folder(&docker, &stage, "~/to here"));
        assert_eq!((read("to here/a b"), read("to here/sub/.hid")), ("one".into(), "two".into()));
        // A file: under its own name into a folder, else under the new one.
        let file = format!("{stage}/a b");
        for (target, arrives) in [("~/to here/sub", "to here/sub/a b"), ("~/new/", "new/a b"), ("x/$y", "x/$y")] {
            sh(&put_file(&docker, &file, target));
            assert_eq!(read(arrives), "one", "{target}");
        }
        let out = folder.join("out").display().to_string();
        sh(&take_out(&docker, "~/to here", &out));
        sh(&take_out(&docker, "~/new/", &out));
        assert!(folder.join("out/to here/sub/.hid").is_file() && folder.join("out/a b").is_file());
        std::fs::remove_dir_all(&folder).expect("it goes");
    }
}
