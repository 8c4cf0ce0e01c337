//! The daemon's own authority, and bytes through it.
//!
//! Made at first start, for this store alone; clients know it by the SHA-256 of its certificate and trust nobody else. So names prove
//! nothing that the pin does not, and every certificate also bears one fixed name that clients ask for: how a daemon is reached, by which
//! address or tunnel, is nobody's business. The server's certificate is made anew at every start.
//!
//! Everything else reads and writes plain sockets: one thread runs an asynchronous runtime that carries bytes between TLS and a pair of
//! unix sockets.

use super::knock::{self, Kind, Token};
use crate::queue::places::{Store, hex, write_durable};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, ServerConfig,
    SignatureScheme,
};

/// What every certificate is for, whatever else it is for.
const NAME: &str = "shoal-queue";

/// Who signs for the daemon of a store.
pub struct Authority {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

fn other(e: impl std::fmt::Display) -> io::Error {
    io::Error::other(e.to_string())
}

fn authority_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, "shoal queue authority");
    Ok(params)
}

impl Authority {
    /// The one of this store, made if there is none. The key is for the owner alone (SEC-2).
    pub fn of(store: &Store) -> io::Result<Authority> {
        let folder = store.tls();
        let (certificate, key) = (folder.join("ca.pem"), folder.join("ca.key"));
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        if !certificate.exists() {
            let made = KeyPair::generate().map_err(other)?;
            let signed = authority_params().and_then(|params| params.self_signed(&made)).map_err(other)?;
            write_durable(&key, made.serialize_pem().as_bytes(), 0o600)?;
            // Last: with it, both are there.
            write_durable(&certificate, signed.pem().as_bytes(), 0o600)?;
        }
        let wrong = |path: &std::path::Path, e: &dyn std::fmt::Display| {
            let hint = "put back a copy, or remove the folder: clients then need the new fingerprint";
            io::Error::other(format!("{} cannot be used: {e}; {hint}", path.display()))
        };
        let pem = fs::read(&certificate).map_err(|e| wrong(&certificate, &e))?;
        let read = CertificateDer::from_pem_slice(&pem).map_err(|e| wrong(&certificate, &e))?;
        let text = fs::read_to_string(&key).map_err(|e| wrong(&key, &e))?;
        let pair = KeyPair::from_pem(&text).map_err(|e| wrong(&key, &e))?;
        let authority = Authority { certificate: read, key: pair };
        write_durable(&folder.join("fingerprint"), authority.fingerprint().as_bytes(), 0o600)?;
        Ok(authority)
    }

    /// What clients pin.
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(&self.certificate))
    }

    /// With a new certificate for these names and addresses.
    pub fn server(&self, names: &[String]) -> io::Result<Arc<ServerConfig>> {
        let mut all = vec![NAME.to_string()];
        // An unusable name is left out: it proves nothing anyway.
        all.extend(names.iter().filter(|name| CertificateParams::new(vec![(*name).clone()]).is_ok()).cloned());
        let key = KeyPair::generate().map_err(other)?;
        let mut params = CertificateParams::new(all).map_err(other)?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        let issuer = Issuer::new(authority_params().map_err(other)?, &self.key);
        let leaf = params.signed_by(&key, &issuer).map_err(other)?;
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
        Ok(Arc::new(config.map_err(other)?))
    }
}

/// The fingerprint of a store that has had a daemon with `--listen`.
pub fn fingerprint(store: &Store) -> Option<String> {
    let text = fs::read_to_string(store.tls().join("fingerprint")).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Takes a server whose authority is the pinned one, and no other.
#[derive(Debug)]
struct Pinned {
    fingerprint: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let stranger = || TlsError::InvalidCertificate(CertificateError::UnknownIssuer);
        let pinned = chain.iter().find(|one| hex(&Sha256::digest(one)) == self.fingerprint).ok_or_else(stranger)?;
        let mut roots = RootCertStore::empty();
        roots.add(pinned.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
            .build()
            .map_err(|_| stranger())?;
        let name = ServerName::try_from(NAME).map_err(|_| stranger())?;
        verifier.verify_server_cert(leaf, &[], &name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[derive(Debug, Error)]
pub enum DialError {
    #[error("{address} cannot be reached: {why}")]
    Unreachable { address: String, why: String },
    #[error("{address} is not the daemon that is expected there: its certificate is of another authority")]
    Stranger { address: String },
}

/// A connection to a daemon elsewhere, through which plain bytes go. The token has been sent; whether it was good shows in the first answer.
pub fn dial(
    host: &str,
    port: u16,
    fingerprint: &str,
    kind: Kind,
    token: &Token,
    within: Duration,
) -> Result<UnixStream, DialError> {
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let unreachable = |why: String| DialError::Unreachable { address: address.clone(), why };
    let (near, far) = UnixStream::pair().map_err(|e| unreachable(e.to_string()))?;
    far.set_nonblocking(true).map_err(|e| unreachable(e.to_string()))?;
    let (told, tell) = channel();
    let (host, pin, first) = (host.to_string(), fingerprint.to_ascii_lowercase(), knock::knock(kind, token));
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(carry(host, port, pin, first, far, told)),
            Err(e) => drop(told.send(Err(e))),
        }
    };
    let started = std::thread::Builder::new().name("tls".into()).stack_size(512 << 10).spawn(run);
    started.map_err(|e| unreachable(e.to_string()))?;
    match tell.recv_timeout(within) {
        Ok(Ok(())) => Ok(near),
        Ok(Err(e)) if e.kind() == io::ErrorKind::InvalidData => Err(DialError::Stranger { address }),
        Ok(Err(e)) => Err(unreachable(e.to_string())),
        Err(_) => Err(unreachable(format!("no answer within {} s", within.as_secs()))),
    }
}

async fn carry(
    host: String,
    port: u16,
    pin: String,
    first: [u8; knock::LENGTH],
    near: UnixStream,
    told: Sender<io::Result<()>>,
) {
    let open = async {
        let addresses: Vec<_> = (host.as_str(), port).to_socket_addrs()?.collect();
        let tcp = tokio::net::TcpStream::connect(&addresses[..]).await?;
        lively(&tcp);
        let provider = provider();
        let verifier = Arc::new(Pinned { fingerprint: pin, provider: provider.clone() });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(other)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let name = ServerName::try_from(NAME).map_err(other)?;
        let mut tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
        tls.write_all(&first).await?;
        tls.flush().await?;
        Ok((tls, tokio::net::UnixStream::from_std(near)?))
    };
    match open.await {
        Ok((mut tls, mut near)) => {
            let _ = told.send(Ok(()));
            let _ = tokio::io::copy_bidirectional(&mut tls, &mut near).await;
        }
        Err(e) => drop(told.send(Err(e))),
    }
}

/// Small messages at once, and a peer that is gone without a word is found by the kernel.
pub(super) fn lively(tcp: &tokio::net::TcpStream) {
    use rustix::net::sockopt;
    let _ = tcp.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(tcp, true);
    let _ = sockopt::set_tcp_keepidle(tcp, Duration::from_secs(20));
    let _ = sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(10));
    let _ = sockopt::set_tcp_keepcnt(tcp, 4);
}

/// Names for the certificate: what it listens on, what it was told, and what this machine is called.
pub fn names(listen: &[String], given: &[String]) -> Vec<String> {
    let mut names: Vec<String> = given.to_vec();
    let hosts =
        listen.iter().filter_map(|address| address.rsplit_once(':')).map(|(host, _)| host.trim_matches(['[', ']']));
    let everywhere = |host: &&str| !host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
    names.extend(hosts.filter(everywhere).map(str::to_string));
    names.extend([crate::proc::node_name(), "localhost".into()]);
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}
