//! With which key does one log in to the nodes?

use crate::cloud::{Cloud, specification};
use crate::failure::{Outcome, failure, here, id_of, wrong};
use crate::find;
use aws_sdk_ec2::primitives::Blob;
use aws_sdk_ec2::types::ResourceType;
use shoal_core::cluster::cloud::protocol::Cause;
use shoal_core::cluster::cloud::want::{Key, NODES};
use shoal_core::cluster::cloud::{Kind, Object, Whose, whose};
use std::path::{Path, PathBuf};
use std::time::Duration;

const KEYGEN_BOUND: Duration = Duration::from_secs(30);

/// The private half of a key made for the cluster; it never leaves this machine.
pub fn private(cloud: &Cloud) -> PathBuf {
    cloud.folder.join("key")
}

/// The name of the key pair in EC2 that new instances get, if any. `nodes`: there are some already.
pub async fn ensure(cloud: &Cloud, want: &Key, nodes: bool) -> Outcome<Option<String>> {
    let name = match want {
        Key::Given(name) => return Ok(name.clone()),
        Key::FromFile { name, .. } | Key::Made { name } => name,
    };
    let there = find::keys(cloud).await?;
    let ledger = cloud.book.borrow().ledger.clone();
    let ours = there.iter().find(|key| whose(key, cloud.name(), &ledger) == Whose::Ours && key.name == *name);
    let public = match want {
        Key::FromFile { key, public, .. } => public_of(key, public.as_deref()).await?,
        _ => {
            let file = private(cloud);
            if !file.exists() && (ours.is_some() || nodes) {
                let text = format!(
                    "the key of cluster `{}` is not on this machine: {} is missing",
                    cloud.name(),
                    file.display()
                );
                let hint =
                    "use the machine the cluster was made from, or put the key back, or `shoal down` and begin anew";
                return Err(failure(Cause::InTheWay, text, hint));
            }
            if !file.exists() {
                generate(&file, cloud.name()).await?;
            }
            public_of(&file.to_string_lossy(), None).await?
        }
    };
    if ours.is_some() {
        return Ok(Some(name.clone()));
    }
    cloud.tell(format!("making key pair {name}"));
    let n = cloud.will(Kind::KeyPair, name)?;
    let imported = cloud
        .ec2
        .import_key_pair()
        .key_name(name)
        .public_key_material(Blob::new(public.trim().as_bytes()))
        .tag_specifications(specification(ResourceType::KeyPair, &cloud.tags(NODES)))
        .send()
        .await;
    let look = async || {
        let ours = |key: &Object| key.name == *name && whose(key, cloud.name(), &ledger) == Whose::Ours;
        Ok(find::keys(cloud).await?.into_iter().find(ours).map(|key| key.id))
    };
    let id = id_of(imported, |made| made.key_pair_id(), look, format!("make the key pair {name}")).await?;
    cloud.made(n, &id)?;
    Ok(Some(name.clone()))
}

fn public_file(private: &Path) -> PathBuf {
    PathBuf::from(format!("{}.pub", private.display()))
}

fn read(file: &Path) -> Outcome<String> {
    std::fs::read_to_string(file).map_err(|e| here(format!("cannot read {}: {e}", file.display())))
}

async fn generate(file: &Path, cluster: &str) -> Outcome<()> {
    let file = file.to_string_lossy().into_owned();
    let comment = format!("shoal cluster {cluster}");
    keygen(&["-q", "-t", "ed25519", "-N", "", "-C", &comment, "-f", &file]).await.map(drop)
}

/// The public half of the file's key: beside it, or computed from it.
async fn public_of(key: &str, public: Option<&str>) -> Outcome<String> {
    let beside = public.map_or_else(|| public_file(Path::new(key)), PathBuf::from);
    if beside.exists() {
        return read(&beside);
    }
    if !Path::new(key).exists() {
        return Err(wrong(
            format!("there is no key {key}"),
            "check ssh_private_key under auth; without it, Shoal makes a key for the cluster",
        ));
    }
    keygen(&["-y", "-P", "", "-f", key]).await
}

async fn keygen(args: &[&str]) -> Outcome<String> {
    let run = tokio::process::Command::new("ssh-keygen")
        .args(args)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    let out = tokio::time::timeout(KEYGEN_BOUND, run).await;
    let out = out.map_err(|_| here(format!("ssh-keygen did not end within {} s", KEYGEN_BOUND.as_secs())))?;
    let out = out.map_err(|e| here(format!("cannot run ssh-keygen: {e}")))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(here(format!("ssh-keygen: {}", String::from_utf8_lossy(&out.stderr).trim())))
}

/// When the key pair is gone, so is its use.
pub fn forget(cloud: &Cloud) {
    let file = private(cloud);
    for file in [public_file(&file), file] {
        // Not there is as good.
        let _ = std::fs::remove_file(file);
    }
}
