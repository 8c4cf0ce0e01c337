//! What does an engine's failure mean? From its last words to what happened, and what to do.

use super::Engine;
use super::dockerfile::Dockerfile;
use super::reference::is_loopback;

/// What was being done.
#[derive(Debug, Clone)]
pub enum Doing<'a> {
    Build {
        image: &'a str,
        dockerfile: &'a Dockerfile,
    },
    /// `login`: the file that has one for the registry.
    Push {
        target: &'a str,
        registry: &'a str,
        login: Option<&'a str>,
    },
    Pull {
        image: &'a str,
        registry: Option<&'a str>,
        login: Option<&'a str>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    NoDaemon,
    NoSpace,
    PlainHttp,
    Certificate,
    Refused,
    Unreachable,
    Missing,
    NoRegistry,
    Other,
}

/// In the order they are looked for: what is rarer in other messages comes first.
const SIGNS: [(Cause, &[&str]); 8] = [
    (
        Cause::NoDaemon,
        &["cannot connect to the docker daemon", "docker daemon socket", "docker api at", "cannot connect to podman"],
    ),
    (Cause::NoSpace, &["no space left on device", "disk quota exceeded"]),
    (Cause::PlainHttp, &["server gave http response to https client"]),
    (Cause::Certificate, &["x509:", "tls: failed to verify"]),
    (
        Cause::Refused,
        &[
            "unauthorized",
            "authentication required",
            "denied: ",
            "no basic auth credentials",
            "access to the resource is denied",
            "403 (forbidden)",
            "403 forbidden",
            "401 unauthorized",
            "invalid username/password",
            "incorrect username or password",
        ],
    ),
    (
        Cause::Unreachable,
        &[
            "connection refused",
            "no such host",
            "i/o timeout",
            "network is unreachable",
            "no route to host",
            "server misbehaving",
            "temporary failure in name resolution",
            "context deadline exceeded",
            "client.timeout exceeded",
            "connection reset by peer",
        ],
    ),
    (Cause::NoRegistry, &["did not resolve to an alias", "unqualified-search registries"]),
    (
        Cause::Missing,
        &[
            "manifest unknown",
            "name unknown",
            "repository name not known",
            "not found: manifest",
            ": not found",
            "image not known",
            "no such image",
        ],
    ),
];

/// The last lines of an engine, to one cause.
pub fn cause(said: &str) -> Cause {
    let last = last_line(said).to_lowercase();
    let holds = |signs: &[&str]| signs.iter().any(|sign| last.contains(sign));
    SIGNS.iter().find(|(_, signs)| holds(signs)).map_or(Cause::Other, |(cause, _)| *cause)
}

const ERROR: [&str; 3] = ["Error: ", "ERROR: ", "error: "];

/// The line that says why. Engines say it last; BuildKit says more after it.
fn last_line(said: &str) -> &str {
    let lines = || before_a_crash(said).lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| ERROR.iter().any(|word| line.starts_with(word)) || line.starts_with("Error response ");
    let logged = || lines().filter_map(logged).next_back();
    lines().rfind(is_error).or_else(logged).or_else(|| lines().next_back()).unwrap_or("it said nothing")
}

/// A Go program that crashes prints what all its threads did; the reason stands before that, or is the crash itself.
fn before_a_crash(said: &str) -> &str {
    let crash = ["\npanic: ", "\nfatal error: "].iter().filter_map(|word| said.find(word)).min();
    let Some(at) = crash else { return said };
    let line_end = said[at + 1..].find('\n').map_or(said.len(), |end| at + 1 + end);
    &said[..line_end]
}

/// What podman and buildah log as an error: `time="..." level=error msg="..."`.
fn logged(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("time=")?;
    let (_, rest) = rest.split_once(" level=error msg=").or_else(|| rest.split_once(" level=fatal msg="))?;
    Some(rest.trim_matches('"'))
}

/// More of a line is not read by anybody.
const READ: usize = 300;

/// That line for people: without the word `error`, without the step that is shown anyway. Of a long one the end, where the reason is.
pub fn last_words(said: &str) -> String {
    let line = last_line(said);
    let line = ERROR.iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line);
    let step = line.strip_prefix("building at STEP \"").and_then(|rest| rest.split_once("\": "));
    let line = step.map_or(line, |(_, why)| why);
    let count = line.chars().count();
    let end: String = line.chars().skip(count.saturating_sub(READ)).collect();
    if count > READ { format!("...{end}") } else { end }
}

/// For people: what failed, why, and what to do.
pub fn explain(engine: Engine, doing: &Doing, said: &str) -> String {
    let (cause, why, program) = (cause(said), last_words(said), engine.program());
    let hint = |text: &str| if text.is_empty() { String::new() } else { format!("\n  hint: {text}") };
    match doing {
        Doing::Build { image, dockerfile } => {
            let help = build_help(engine, cause);
            match step_line(dockerfile, said) {
                Some(line) => {
                    let wrong = dockerfile.fault(line, &format!("{program} could not make `{image}`: {why}"));
                    wrong.help(if help.is_empty() { "what it said is above".to_string() } else { help }).to_string()
                }
                None => format!("{program} could not make `{image}`: {why}{}", hint(&help)),
            }
        }
        Doing::Push { target, registry, login } => {
            format!("`{target}` was not pushed: {why}{}", hint(&line_help(engine, cause, registry, *login)))
        }
        Doing::Pull { image, registry, login } => {
            let help = match cause {
                Cause::Missing => "is it spelled right, and was it pushed with this tag? Some registries say so of what one may not see, too".into(),
                _ => line_help(engine, cause, registry.unwrap_or("the registry"), *login),
            };
            format!("`{image}` was not pulled: {why}{}", hint(&help))
        }
    }
}

fn build_help(engine: Engine, cause: Cause) -> String {
    match cause {
        Cause::Missing => {
            "is the base image spelled right? `shoal image pull REGISTRY/NAME -n NAME` brings one here".into()
        }
        cause => line_help(engine, cause, "the registry of the base image", None),
    }
}

fn line_help(engine: Engine, cause: Cause, registry: &str, login: Option<&str>) -> String {
    let program = engine.program();
    match cause {
        Cause::NoDaemon => "start its engine, or choose another one with --engine".into(),
        Cause::NoSpace => format!(
            "the disk is full where it says so: here, `{program} {}` removes what no image uses; on the registry, its keeper has to make room",
            if engine == Engine::Buildah { "prune" } else { "system prune" }
        ),
        Cause::PlainHttp if engine == Engine::Docker => {
            format!("{registry} speaks plain http; docker wants it among `insecure-registries` in its engine's daemon.json")
        }
        Cause::PlainHttp => format!("{registry} speaks plain http; if you trust everybody on the way there, add --insecure"),
        Cause::Certificate => format!("nobody vouches for the certificate of {registry}: put its authority's where {program} looks for it (certs.d), or add --insecure if you trust everybody on the way there"),
        Cause::Refused => match login {
            Some(file) => format!("the login for {registry} in {file} is not accepted, or may not do this: `{}` makes a new one", engine.log_in(registry)),
            None => format!("no login for {registry} was found: `{}` makes one", engine.log_in(registry)),
        },
        Cause::Unreachable if is_loopback(registry) => format!("is the registry on this machine started, and is it at {registry}?"),
        Cause::Unreachable => format!("does {registry} answer from this machine? A VPN, a proxy or the name may be what is missing"),
        Cause::NoRegistry => "give the whole name, with its registry: HOST/PATH/NAME:TAG; or bring it here first with `shoal image pull HOST/PATH/NAME -n NAME`".into(),
        Cause::Missing | Cause::Other => String::new(),
    }
}

/// Where in the Dockerfile it ended.
fn step_line(dockerfile: &Dockerfile, said: &str) -> Option<usize> {
    let count = dockerfile.text.lines().count();
    // BuildKit: `Dockerfile:3` on a line of its own, or `... parse error on line 3: ...`.
    let named = |line: &str| {
        let (file, number) = line.trim().rsplit_once(':')?;
        let number: usize = number.parse().ok()?;
        // Steps print times and addresses, which end with numbers too.
        let is_dockerfile =
            file.contains("Dockerfile") || file.contains("Containerfile") || file.ends_with(&dockerfile.name);
        (!file.contains(' ') && is_dockerfile).then_some(number)
    };
    let parse = |line: &str| {
        let rest = line.split_once("parse error on line ").or_else(|| line.split_once("parse error line "))?.1;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    // podman and buildah: `STEP 2/5: RUN false`, with the stage before it; docker's older builder: `Step 2/5 : RUN false`.
    let step = |line: &str| {
        let rest = line.split_once("STEP ").or_else(|| line.split_once("Step "))?.1;
        let (numbers, text) = rest.split_once(':')?;
        let (number, all) = numbers.trim().split_once('/')?;
        dockerfile.line_of_step(number.parse().ok()?, all.parse().ok()?, text.trim())
    };
    let last = |find: &dyn Fn(&str) -> Option<usize>| said.lines().rev().find_map(find);
    let found = last(&parse).or_else(|| last(&named)).or_else(|| last(&step))?;
    (1..=count.max(1)).contains(&found).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_by_what_engines_say() {
        for (said, wanted) in [
            (
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                Cause::NoDaemon,
            ),
            (
                "Copying blob x\nError: writing blob: storing blob to file \"/var/tmp/storage1/1\": write /var/tmp/storage1/1: no space left on device",
                Cause::NoSpace,
            ),
            (
                "Error: pinging container registry r:5: Get \"https://r:5/v2/\": http: server gave HTTP response to HTTPS client",
                Cause::PlainHttp,
            ),
            (
                "Error: pinging container registry r: Get \"https://r/v2/\": x509: certificate signed by unknown authority",
                Cause::Certificate,
            ),
            (
                "Error: trying to reuse blob sha256:1 at destination: checking whether a blob sha256:1 exists in r/x: unauthorized: authentication required",
                Cause::Refused,
            ),
            ("The push refers to repository [r/x]\ndenied: requested access to the resource is denied", Cause::Refused),
            ("no basic auth credentials", Cause::Refused),
            (
                "Error: pinging container registry r:6: Get \"http://r:6/v2/\": dial tcp 127.0.0.1:6: connect: connection refused",
                Cause::Unreachable,
            ),
            (
                "Error: initializing source docker://r.invalid/x: pinging container registry r.invalid: Get \"https://r.invalid/v2/\": dial tcp: lookup r.invalid: no such host",
                Cause::Unreachable,
            ),
            (
                "Error: short-name \"x\" did not resolve to an alias and no unqualified-search registries are defined in \"/etc/containers/registries.conf\"",
                Cause::NoRegistry,
            ),
            (
                "Error: initializing source docker://r/x:9: reading manifest 9 in r/x: manifest unknown: manifest unknown",
                Cause::Missing,
            ),
            ("Error: building at STEP \"RUN false\": while running runtime: exit status 1", Cause::Other),
            ("", Cause::Other),
            (
                &format!(
                    "Error: committing container for step {{{}}}: write /x: no space left on device",
                    "x".repeat(900)
                ),
                Cause::NoSpace,
            ),
            // One that stumbles over its own failure.
            (
                "STEP 2/5: COPY a /b\ntime=\"2026-01-01T00:00:00Z\" level=error msg=\"While applying layer: write /b: no space left on device exit status 1\"\npanic: runtime error: nil\n\ngoroutine 45 [running]:\nbufio.Read()\n\tbufio.go:223 +0xfd",
                Cause::NoSpace,
            ),
            ("STEP 2/5: COPY a /b\npanic: runtime error: nil\n\ngoroutine 45 [running]:\nmain()", Cause::Other),
            // Only the last words count: retries come before them, and what a step prints is its own.
            ("connection refused\nError: building at STEP \"RUN x\": exit status 2", Cause::Other),
        ] {
            assert_eq!(cause(said), wanted, "{said}");
        }
    }

    #[test]
    fn a_step_that_failed_is_shown_in_its_file() {
        let file = Dockerfile::read("Dockerfile", "ARG V=1\nFROM base:$V\n# why\nRUN a && \\\n  b\nCOPY x /y\n");
        let doing = Doing::Build { image: "node:1", dockerfile: &file };
        for (said, line) in [
            (
                "STEP 1/3: FROM base:1\nSTEP 2/3: RUN a &&   b\nError: building at STEP \"RUN a &&   b\": exit status 1",
                4,
            ),
            ("[1/2] STEP 9/9: COPY x /y\nError: no such file", 6),
            ("Step 2/3 : RUN a && b\nThe command '/bin/sh -c a && b' returned a non-zero code: 1", 4),
            (
                "Dockerfile:4\n--------\n   4 | >>> RUN a\n--------\nERROR: failed to solve: process \"/bin/sh -c a\" did not complete successfully: exit code: 1",
                4,
            ),
            ("ERROR: failed to solve: dockerfile parse error on line 6: unknown instruction: CPY", 6),
        ] {
            let text = explain(Engine::Podman, &doing, said);
            assert!(text.contains(&format!("--> Dockerfile:{line}:1")), "{said}\n{text}");
        }
        let text = explain(
            Engine::Podman,
            &doing,
            "STEP 2/3: RUN a\nbegun at 10:5\nError: building at STEP \"RUN a\": exit status 7",
        );
        assert!(
            text.starts_with("error: podman could not make `node:1`: exit status 7\n --> Dockerfile:4:1"),
            "{text}"
        );
        assert_eq!(last_words(&format!("Error: {}the reason", "x".repeat(900))).chars().count(), READ + 3);
        let crash = "STEP 3/3: COPY x /y\npanic: out of luck\n\ngoroutine 1 [running]:\nmain()\n\tmain.go:1 +0x1";
        assert_eq!(last_words(crash), "panic: out of luck");
        let text = explain(Engine::Podman, &doing, "Error: something else");
        assert_eq!(text, "podman could not make `node:1`: something else");
    }

    #[test]
    fn what_to_do_about_it() {
        let push = |login| Doing::Push { target: "r.example/x:1", registry: "r.example", login };
        let said = "Error: unauthorized: authentication required";
        let text = explain(Engine::Podman, &push(None), said);
        assert!(text.starts_with("`r.example/x:1` was not pushed: unauthorized"), "{text}");
        assert!(text.contains("no login for r.example was found: `podman login r.example`"), "{text}");
        let text = explain(Engine::Docker, &push(Some("/h/.docker/config.json")), said);
        assert!(text.contains("in /h/.docker/config.json is not accepted"), "{text}");
        let plain = "Error: http: server gave HTTP response to HTTPS client";
        assert!(explain(Engine::Podman, &push(None), plain).contains("add --insecure"));
        assert!(explain(Engine::Docker, &push(None), plain).contains("daemon.json"));
        let pull = Doing::Pull { image: "r.example/x:1", registry: Some("r.example"), login: None };
        assert!(explain(Engine::Podman, &pull, "Error: manifest unknown").contains("spelled right"));
        assert!(explain(Engine::Buildah, &pull, "Error: no space left on device").contains("buildah prune"));
    }
}
