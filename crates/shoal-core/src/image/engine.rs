//! Which words make an engine do it? Credentials are in none of them (SEC-2): engines read them from files.

use super::Reference;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Docker,
    Podman,
    Buildah,
}

/// In the order they are tried.
pub const ALL: [Engine; 3] = [Engine::Docker, Engine::Podman, Engine::Buildah];

/// How a registry is spoken to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Without TLS, or with a certificate that nobody vouches for.
    pub plain: bool,
    /// The file with the login.
    pub login: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    pub image: String,
    pub dockerfile: String,
    /// A folder; `-`: a tar on stdin, with the Dockerfile in it.
    pub context: String,
    pub line: Line,
}

/// One program with its words.
pub type Argv = Vec<String>;

impl Engine {
    pub fn program(self) -> &'static str {
        match self {
            Engine::Docker => "docker",
            Engine::Podman => "podman",
            Engine::Buildah => "buildah",
        }
    }

    pub fn of_program(name: &str) -> Option<Engine> {
        ALL.into_iter().find(|engine| engine.program() == name)
    }

    /// Succeeds only where the engine can work: a client without its daemon fails.
    pub fn probe(self) -> Argv {
        match self {
            Engine::Docker => self.argv(["version", "--format", "{{.Server.Version}}"]),
            Engine::Podman => self.argv(["info", "--format", "{{.Host.Arch}}"]),
            Engine::Buildah => self.argv(["info"]),
        }
    }

    pub fn build(self, build: &Build) -> Argv {
        let mut argv = match self {
            Engine::Docker => self.argv(["build"]),
            Engine::Podman => self.argv(["build", "--layers"]),
            Engine::Buildah => self.argv(["bud", "--layers"]),
        };
        argv.extend(["-t", &build.image, "-f", &build.dockerfile].map(String::from));
        argv.extend(self.line(&build.line));
        argv.push(build.context.clone());
        argv
    }

    /// Gives the name in the registry first, where the engine wants it.
    pub fn push(self, image: &Reference, target: &Reference, line: &Line) -> Vec<Argv> {
        let (image, target) = (image.to_string(), target.to_string());
        let mut push = match self {
            Engine::Docker => self.argv(["push"]),
            // The digest is all that these two say on stdout.
            Engine::Podman | Engine::Buildah => self.argv(["push", "--digestfile", "/dev/stdout"]),
        };
        push.extend(self.line(line));
        match self {
            Engine::Docker => {
                push.push(target.clone());
                vec![self.argv(["tag", &image, &target]), push]
            }
            Engine::Podman => {
                push.extend([image, target]);
                vec![push]
            }
            Engine::Buildah => {
                push.extend([image, format!("docker://{target}")]);
                vec![push]
            }
        }
    }

    /// And gives it another name here.
    pub fn pull(self, image: &Reference, name: Option<&Reference>, line: &Line) -> Vec<Argv> {
        let mut pull = self.argv(["pull"]);
        pull.extend(self.line(line));
        pull.push(image.to_string());
        let tag = name.map(|name| self.argv(["tag", &image.to_string(), &name.to_string()]));
        [pull].into_iter().chain(tag).collect()
    }

    /// Prints an image's id; fails if it is not on this machine.
    pub fn id(self, image: &Reference) -> Argv {
        let image = image.to_string();
        match self {
            Engine::Docker | Engine::Podman => self.argv(["image", "inspect", "--format", "{{.Id}}", &image]),
            Engine::Buildah => self.argv(["inspect", "--type", "image", "--format", "{{.FromImageID}}", &image]),
        }
    }

    /// What people type to log in. It asks for the password.
    pub fn log_in(self, registry: &str) -> String {
        format!("{} login {registry}", self.program())
    }

    fn line(self, line: &Line) -> Vec<String> {
        // Docker's engine has settings of its own for both.
        if self == Engine::Docker {
            return Vec::new();
        }
        let plain = line.plain.then(|| vec!["--tls-verify=false".to_string()]);
        let login = line.login.iter().map(|file| vec!["--authfile".to_string(), file.clone()]);
        plain.into_iter().chain(login).flatten().collect()
    }

    fn argv<const N: usize>(self, words: [&str; N]) -> Argv {
        [self.program()].into_iter().chain(words).map(String::from).collect()
    }
}

/// The digest under which a registry knows what was pushed, from what the engine said.
pub fn pushed_digest(said: &str) -> Option<String> {
    let digests = said.match_indices("sha256:").filter_map(|(at, _)| {
        let end = at + "sha256:".len() + 64;
        let whole = said.get(at..end)?;
        whole[7..].chars().all(|c| c.is_ascii_hexdigit()).then_some((at, whole))
    });
    // Docker names layers as well; its last line has `digest: sha256:...`.
    let digests: Vec<(usize, &str)> = digests.collect();
    let labelled = digests.iter().rev().find(|(at, _)| said[..*at].ends_with("digest: "));
    let alone = || digests.iter().find(|(_, digest)| said.trim() == *digest);
    labelled.or_else(alone).map(|(_, digest)| (*digest).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quote::join;

    #[test]
    fn each_engine_in_its_own_words() {
        let image = Reference::named("node", Some("2")).expect("a name");
        let target = image.in_registry("reg.example/lab").expect("a target");
        let plain = Line { plain: true, login: Some("/home/u/auth.json".into()) };
        let build = |context: &str, line: &Line| Build {
            image: image.to_string(),
            dockerfile: "Dockerfile".into(),
            context: context.into(),
            line: line.clone(),
        };
        let lines = |engine: Engine, line: &Line| -> Vec<String> {
            let all = [
                vec![engine.build(&build("-", line))],
                engine.push(&image, &target, line),
                engine.pull(&target, Some(&image), line),
            ];
            all.concat().iter().map(join).collect()
        };
        assert_eq!(
            lines(Engine::Docker, &plain),
            [
                "docker build -t node:2 -f Dockerfile -",
                "docker tag node:2 reg.example/lab/node:2",
                "docker push reg.example/lab/node:2",
                "docker pull reg.example/lab/node:2",
                "docker tag reg.example/lab/node:2 node:2",
            ]
        );
        assert_eq!(
            lines(Engine::Podman, &plain),
            [
                "podman build --layers -t node:2 -f Dockerfile --tls-verify=false --authfile /home/u/auth.json -",
                "podman push --digestfile /dev/stdout --tls-verify=false --authfile /home/u/auth.json node:2 reg.example/lab/node:2",
                "podman pull --tls-verify=false --authfile /home/u/auth.json reg.example/lab/node:2",
                "podman tag reg.example/lab/node:2 node:2",
            ]
        );
        assert_eq!(
            lines(Engine::Buildah, &Line::default()),
            [
                "buildah bud --layers -t node:2 -f Dockerfile -",
                "buildah push --digestfile /dev/stdout node:2 docker://reg.example/lab/node:2",
                "buildah pull reg.example/lab/node:2",
                "buildah tag reg.example/lab/node:2 node:2",
            ]
        );
        for engine in ALL {
            assert_eq!(Engine::of_program(engine.program()), Some(engine));
        }
    }

    #[test]
    fn the_digest_is_the_images_not_a_layers() {
        let (one, two) = (format!("sha256:{}", "1".repeat(64)), format!("sha256:{}", "2".repeat(64)));
        for (said, digest) in [
            (format!("{one}\n"), Some(&one)),
            (format!("{one}: Pushed\nlatest: digest: {two} size: 1234\n"), Some(&two)),
            (format!("Copying blob {one}\n"), None),
            ("sha256:12\n".into(), None),
            (String::new(), None),
        ] {
            assert_eq!(pushed_digest(&said).as_ref(), digest, "{said}");
        }
    }
}
