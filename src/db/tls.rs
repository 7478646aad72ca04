//! The TLS side of a database connection: which certificates are trusted, and for which name.
//!
//! Reads the CA file when the pool is made; a changed file needs a restart. Never falls back to less than was asked for.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::conninfo::SslMode;
use super::error::DbError;

/// The checks on a server's certificate.
#[derive(Debug)]
enum Trust {
    /// Chain and name.
    Full(Arc<WebPkiServerVerifier>),
    /// The chain only: certificates of Cloud SQL name an instance, not a host.
    ChainOnly(Arc<WebPkiServerVerifier>),
    /// Nothing: encryption with an unknown peer.
    Nothing,
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

/// Makes the connector for a mode; `None` for one without TLS.
///
/// # Errors
/// [`DbError::Settings`]: the CA file cannot be read or contains no certificate, or the system has no CA certificates.
pub fn connector(mode: SslMode, root_cert: Option<&Path>) -> Result<Option<MakeRustlsConnect>, DbError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = || -> Result<Arc<WebPkiServerVerifier>, DbError> {
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots(root_cert)?), Arc::clone(&provider))
            .build()
            .map_err(|error| DbError::Settings(format!("CA certificates for the database: {error}")))
    };
    let trust = match mode {
        SslMode::Disable => return Ok(None),
        SslMode::VerifyFull => Trust::Full(verifier()?),
        SslMode::VerifyCa => Trust::ChainOnly(verifier()?),
        // As in libpq, a CA file makes `require` verify the chain.
        SslMode::Require if root_cert.is_some() => Trust::ChainOnly(verifier()?),
        SslMode::Prefer | SslMode::Require => Trust::Nothing,
    };
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| DbError::Settings(format!("TLS for the database: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { trust, provider }))
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, DbError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = file else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(DbError::Settings(
                "this system has no CA certificates to verify the database with: install ca-certificates, or set \
                 database.ssl_root_cert"
                    .to_owned(),
            ));
        }
        return Ok(roots);
    };
    let unusable =
        |reason: String| DbError::Settings(format!("database.ssl_root_cert {}: {reason}", path.display()));
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("it holds no certificate (PEM)".to_owned()));
    }
    Ok(roots)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.trust {
            Trust::Nothing => Ok(ServerCertVerified::assertion()),
            Trust::Full(inner) => {
                inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            Trust::ChainOnly(inner) => {
                match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                    // The name is checked last: chain, dates and key usage were good.
                    Err(rustls::Error::InvalidCertificate(
                        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                    )) => Ok(ServerCertVerified::assertion()),
                    verdict => verdict,
                }
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
