//! Encrypted connections: the server's certificate and name are checked before a password is sent.

use std::fs;

use berth_fleet::EngineError;
use berth_fleet::pg::{FleetUrl, PgEngine};
use berth_test_postgres::{PgOptions, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::postgres::{PATIENT, TestFleet, run};

/// An authority: its certificate as PEM, and what signs with it.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.pem(), Issuer::new(params, key))
}

#[test]
fn a_server_must_prove_its_name_and_a_host_its_password() {
    run(async {
        let (trusted, issuer) = authority();
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        let files = TlsFiles { certificate: certificate.pem(), key: key.serialize_pem() };
        let fleet = TestFleet::start_with(&PgOptions { tls: Some(files) }, 1).await;
        let path = |name: &str| fleet.server.socket_dir().join(name);
        fs::write(path("trusted.pem"), trusted).expect("a file");
        fs::write(path("other.pem"), authority().0).expect("a file");

        let port = fleet.server.port().expect("a server with TLS has a port");
        let connect = |password: &str, host: &str, roots: &str| {
            let roots = path(roots).display().to_string();
            let url = format!(
                "postgres://host1:{password}@{host}:{port}/berth?sslmode=verify-full&sslrootcert={roots}"
            );
            PgEngine::connect(FleetUrl::parse(&url).expect("a valid address"), PATIENT)
        };
        let engine = connect("secret1", "127.0.0.1", "trusted.pem").await;
        assert!(engine.is_ok(), "{:?}", engine.err());
        for (password, host, roots, message) in [
            ("wrong", "127.0.0.1", "trusted.pem", "password authentication failed"),
            ("secret1", "127.0.0.1", "other.pem", "invalid peer certificate"),
            ("secret1", "localhost", "trusted.pem", "invalid peer certificate"),
        ] {
            let refused = connect(password, host, roots).await.err();
            let Some(EngineError::Unreachable { cause }) = refused else { panic!("{message}: {refused:?}") };
            assert!(cause.contains(message), "{message}: {cause}");
            assert!(!cause.contains(password), "{cause}");
        }
    });
}
