//! Whom we trust in TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};

/// Why the channel cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SetupFault {
    #[error("RESTANTE_EXTRA_CA_FILE: {path} cannot be read as PEM")]
    Read {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    #[error("RESTANTE_EXTRA_CA_FILE: {path} holds a certificate that cannot be used")]
    Certificate {
        path: PathBuf,
        #[source]
        source: rustls::Error,
    },
    #[error("RESTANTE_EXTRA_CA_FILE: {path} holds no certificate")]
    Empty { path: PathBuf },
    #[error("no usable TLS version")]
    Versions(#[source] rustls::Error),
}

/// The public roots and those of `extra_ca_file`.
pub fn client_config(extra_ca_file: Option<&Path>) -> Result<ClientConfig, SetupFault> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = extra_ca_file {
        add_file(&mut roots, path)?;
    }
    // Named instead of the process-wide default, which another crate could set.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(versions.map_err(SetupFault::Versions)?.with_root_certificates(roots).with_no_client_auth())
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), SetupFault> {
    let unreadable = |source| SetupFault::Read { path: path.to_owned(), source };
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
        roots
            .add(certificate.map_err(unreadable)?)
            .map_err(|source| SetupFault::Certificate { path: path.to_owned(), source })?;
    }
    if roots.len() == before {
        return Err(SetupFault::Empty { path: path.to_owned() });
    }
    Ok(())
}
