//! The plane's own authority, and what it signs: servers by address, clients by user and group, as Kubernetes reads a certificate's subject.

use super::error::{Error, IoContext, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Signs for one plane; its key never leaves memory.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

/// A certificate and its key, on disk.
#[derive(Debug, Clone)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    /// Writes `ca.crt` to `folder`.
    pub fn new(folder: &Path) -> Result<Self> {
        let failed = |source| Error::Certificate { whom: "the plane's authority".into(), source };
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "control plane of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        let authority = Self { issuer: Issuer::new(params, key), folder: folder.to_path_buf() };
        write(&authority.file(), &certificate.pem())?;
        Ok(authority)
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// For a server that is dialled by these names and addresses.
    pub fn server(&self, name: &str, reached_by: &[String]) -> Result<Pair> {
        let failed = |source| Error::Certificate { whom: name.into(), source };
        let mut params = CertificateParams::new(reached_by).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(name, params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// For a client that is `user` in `group`.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.sign(&user.replace(':', "-"), params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, name: &str, mut params: CertificateParams, purpose: ExtendedKeyUsagePurpose) -> Result<Pair> {
        let failed = |source| Error::Certificate { whom: name.into(), source };
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        let file = |end: &str| self.folder.join(format!("{name}.{end}"));
        let pair = Pair { certificate: file("crt"), key: file("key") };
        write(&pair.certificate, &certificate.pem())?;
        write(&pair.key, &key.serialize_pem())?;
        Ok(pair)
    }

    /// The key that tokens of service accounts are signed with: its public half and itself.
    pub fn token_key(&self) -> Result<Pair> {
        let key =
            KeyPair::generate().map_err(|source| Error::Certificate { whom: "service accounts".into(), source })?;
        let pair = Pair {
            certificate: self.folder.join("service-accounts.pub"),
            key: self.folder.join("service-accounts.key"),
        };
        write(&pair.certificate, &key.public_key_pem())?;
        write(&pair.key, &key.serialize_pem())?;
        Ok(pair)
    }
}

/// For its owner alone: half of these are keys.
fn write(file: &Path, text: &str) -> Result<()> {
    let mut out =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file).context("make", file)?;
    out.write_all(text.as_bytes()).context("write", file)
}
