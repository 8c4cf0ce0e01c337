//! The Dockerfile of a project that has none: what seldom changes first, so that an edit of the code sends the code alone.

use std::fmt::Write;

/// What a base image without a name of its own is.
const PYTHON: &str = "3.12";
/// Where the code is in the image.
pub const FOLDER: &str = "/app";
/// What the file is called among the others while it is built. Nobody has a file of this name.
pub const NAME: &str = ".shoal.Dockerfile";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    pub text: String,
    /// What people should know about it.
    pub notes: Vec<String>,
}

/// What is copied and what is run before the code comes.
struct Install {
    files: Vec<String>,
    run: String,
}

/// `file` gives the text of a file that goes into the image.
pub fn generate(base: Option<&str>, file: &dyn Fn(&str) -> Option<String>) -> Generated {
    let mut notes = Vec::new();
    let base = base.map_or_else(|| default_base(file), String::from);
    let install = install(file);
    let mut text = String::from("# Made by `shoal image build`. To change it, save it as Dockerfile.\n");
    // Output of a run in a container is wanted when it is written, not when a buffer is full.
    let _ = writeln!(text, "FROM {base}\nENV PYTHONUNBUFFERED=1\nWORKDIR {FOLDER}");
    let code = "COPY . ./";
    match install {
        None => {
            notes.push(
                "neither a lock file nor requirements.txt is there: nothing is installed on top of the base image"
                    .into(),
            );
            let _ = writeln!(text, "{code}");
        }
        Some(Ok(Install { files, run })) => {
            text.push_str("# Installed again only when one of these files changes.\n");
            for name in &files {
                let _ = writeln!(text, "{}", copy(name));
            }
            let _ = writeln!(text, "RUN {run}\n# The code comes last: an edit sends this layer alone.\n{code}");
        }
        Some(Err((run, why))) => {
            notes.push(format!("{why}: everything is installed again after every edit"));
            let _ = writeln!(text, "{code}\nRUN {run}");
        }
    }
    Generated { text, notes }
}

/// The Python that the project names in .python-version, else a common one.
fn default_base(file: &dyn Fn(&str) -> Option<String>) -> String {
    let said = file(".python-version").unwrap_or_default();
    let said = said.trim();
    let is_version = said.contains('.') && said.chars().all(|c| c.is_ascii_digit() || c == '.');
    format!("python:{}-slim", if is_version { said } else { PYTHON })
}

/// `Err`: it needs the code itself, and why.
fn install(file: &dyn Fn(&str) -> Option<String>) -> Option<Result<Install, (String, String)>> {
    let has = |name: &str| file(name).is_some();
    let pip = "pip install --no-cache-dir";
    let locked = |lock: &str, with: &str, run: String| {
        (has(lock) && has(with)).then(|| Ok(Install { files: vec![with.into(), lock.into()], run }))
    };
    let uv = format!(
        "{pip} uv && uv export --frozen --no-dev --no-emit-project -o /tmp/locked.txt && {pip} -r /tmp/locked.txt"
    );
    let poetry = format!("{pip} poetry && poetry config virtualenvs.create false && poetry install --no-root -n");
    let pipenv = format!("{pip} pipenv && pipenv install --system --deploy");
    let exact = locked("uv.lock", "pyproject.toml", uv)
        .or_else(|| locked("poetry.lock", "pyproject.toml", poetry))
        .or_else(|| locked("Pipfile.lock", "Pipfile", pipenv));
    let listed = || {
        let name = "requirements.txt";
        let run = format!("{pip} -r {name}");
        let mut files = Vec::new();
        file(name)?;
        Some(match included(name, file, &mut files) {
            Ok(()) => Ok(Install { files, run }),
            Err(why) => Err((run, why)),
        })
    };
    let declared = || {
        let text = file("pyproject.toml")
            .filter(|text| text.lines().any(|line| line.trim_start().starts_with("dependencies")))?;
        drop(text);
        // Python 3.11 and newer read the file themselves; the project is not installed, what it needs is.
        let list = "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project'].get('dependencies', []), sep='\\n')";
        let run = format!("python -c \"{list}\" > /tmp/declared.txt && {pip} -r /tmp/declared.txt");
        Some(Ok(Install { files: vec!["pyproject.toml".into()], run }))
    };
    exact.or_else(listed).or_else(declared)
}

/// More files than these do not include each other.
const MOST: usize = 50;

/// A file of requirements and those that it includes, each once; an error where one of them means the code.
fn included(name: &str, file: &dyn Fn(&str) -> Option<String>, all: &mut Vec<String>) -> Result<(), String> {
    if all.iter().any(|known| known == name) || all.len() >= MOST {
        return Ok(());
    }
    // One that is not there is pip's to complain about.
    let Some(text) = file(name) else { return Ok(()) };
    all.push(name.into());
    for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
        let (word, rest) = line.split_once(|c: char| c.is_whitespace() || c == '=').unwrap_or((line, ""));
        let other = match word {
            "-r" | "--requirement" | "-c" | "--constraint" => Some(rest.trim()),
            _ => line.strip_prefix("-r").or_else(|| line.strip_prefix("-c")).filter(|_| !line.starts_with("--")),
        };
        if let Some(other) = other {
            let folder = name.rsplit_once('/').map(|(folder, _)| folder);
            included(&plain_path(folder, other.trim()), file, all)?;
            continue;
        }
        let what = if matches!(word, "-e" | "--editable") { rest.trim() } else { line };
        let is_path = what == "." || what.starts_with("./") || what.starts_with("../") || what.starts_with(".[");
        if is_path || what.contains("file:") {
            return Err(format!("{name}:{at} (`{line}`) installs from the code"));
        }
    }
    Ok(())
}

fn plain_path(folder: Option<&str>, path: &str) -> String {
    let mut parts: Vec<&str> = folder.into_iter().flat_map(|folder| folder.split('/')).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Under the same name.
fn copy(name: &str) -> String {
    let folder = name.rsplit_once('/').map_or_else(String::new, |(folder, _)| format!("{folder}/"));
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    if is_plain {
        format!("COPY {name} ./{folder}")
    } else {
        format!("COPY {}", serde_json::json!([name, format!("./{folder}")]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::dockerfile::Dockerfile;
    use super::*;

    fn made(base: Option<&str>, files: &[(&str, &str)]) -> Generated {
        let file = |name: &str| files.iter().find(|(n, _)| *n == name).map(|(_, text)| (*text).to_string());
        let made = generate(base, &file);
        assert_eq!(Dockerfile::read("made", &made.text).check(), Ok(()), "{}", made.text);
        made
    }

    #[test]
    fn the_code_comes_last() {
        let files = [
            ("requirements.txt", "numpy\n-r reqs/more.txt\n"),
            ("reqs/more.txt", "-c ../pins.txt\n"),
            ("pins.txt", ""),
        ];
        let made = made(Some("l2r-base"), &files);
        let lines: Vec<&str> = made.text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "FROM l2r-base",
                "ENV PYTHONUNBUFFERED=1",
                "WORKDIR /app",
                "COPY requirements.txt ./",
                "COPY reqs/more.txt ./reqs/",
                "COPY pins.txt ./",
                "RUN pip install --no-cache-dir -r requirements.txt",
                "COPY . ./",
            ]
        );
        assert_eq!(made.notes, [""; 0]);
    }

    #[test]
    fn what_is_installed_and_by_what() {
        let (project, lock) = (("pyproject.toml", "[project]\ndependencies = ['numpy']\n"), |name| (name, ""));
        for (files, says) in [
            (
                vec![project, lock("uv.lock"), ("requirements.txt", "x")],
                "COPY uv.lock ./\nRUN pip install --no-cache-dir uv && uv export --frozen",
            ),
            (vec![project, lock("poetry.lock")], "poetry install --no-root"),
            (vec![lock("Pipfile"), lock("Pipfile.lock")], "pipenv install --system --deploy"),
            (vec![lock("poetry.lock"), ("requirements.txt", "x")], "-r requirements.txt"),
            (vec![project], "COPY pyproject.toml ./\nRUN python -c"),
            (vec![("requirements.txt", "my file.txt\n-r a b.txt"), ("a b.txt", "")], "COPY [\"a b.txt\",\"./\"]"),
            (vec![("requirements.txt", "-r requirements.txt\n")], "-r requirements.txt"),
        ] {
            let text = made(None, &files).text;
            assert!(text.contains(says) && text.trim_end().ends_with("COPY . ./"), "{files:?}:\n{text}");
        }
    }

    #[test]
    fn what_needs_the_code_is_said() {
        for line in ["-e .", "--editable=.", "./lib", ".[gpu]", "name @ file:///app/lib"] {
            let made = made(None, &[("requirements.txt", &format!("numpy\n{line}\n"))]);
            assert!(made.notes[0].contains("requirements.txt:2"), "{:?}", made.notes);
            let (code, run) = (made.text.find("COPY . ./"), made.text.find("RUN pip"));
            assert!(code.is_some() && code < run, "{}", made.text);
        }
        let bare = made(None, &[("train.py", "")]);
        assert!(bare.notes[0].contains("nothing is installed") && !bare.text.contains("RUN"));
    }

    #[test]
    fn the_python_that_the_project_names() {
        for (said, base) in [("3.11\n", "python:3.11-slim"), ("pypy-3", "python:3.12-slim"), ("", "python:3.12-slim")] {
            assert!(made(None, &[(".python-version", said)]).text.contains(&format!("FROM {base}\n")), "{said}");
        }
    }
}
