//! The addresses a gateway listens on, and its certificates.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_harness::{TestEnvironment, exchange, request, wait_until};
use rustix::process::Signal;
use serde_json::json;

use crate::gateway_server::lab;

#[test]
fn a_network_address_without_tls_is_loopback_or_explicitly_allowed() {
    let lab = lab();
    let refused = lab.berth(["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
    assert!(
        refused.err.contains("0.0.0.0:0 can be reached from outside")
            && refused.err.contains("--insecure-http"),
        "{refused:?}"
    );
    assert!(!lab.home().join("gateway.sock").exists(), "nothing was opened");
    let gateway = lab.serve_with(&["--listen", "0.0.0.0:0", "--insecure-http"]);
    assert!(gateway.address.as_deref().is_some_and(|address| address.starts_with("0.0.0.0:")));
    drop(gateway);
    for address in [":0", "localhost:0", "[::1]:0"] {
        let gateway = lab.serve_with(&["--listen", address]);
        let expected = if address == "[::1]:0" { "[::1]:" } else { "127.0.0.1:" };
        assert!(gateway.address.as_deref().is_some_and(|address| address.starts_with(expected)), "{address}");
        assert_eq!(gateway.ask_tcp("GET", "/healthz", &[], None).status, 200);
    }
}

#[test]
fn an_address_that_cannot_be_listened_on_is_refused_with_a_hint_and_nothing_stays_open() {
    let lab = lab();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let said = lab.berth(["serve", "--listen", "127.0.0.1:0", "--listen", &address]);
    assert_eq!((said.code, said.out.as_str()), (4, ""), "{said:?}");
    assert!(
        said.err.contains(&format!("cannot listen on {address}")) && said.err.contains("hint:"),
        "{said:?}"
    );
    for (odd, why) in [
        ("7070", "has no port"),
        ("localhost:x", "is not a valid port"),
        ("no such host:1", "is not a valid host"),
    ] {
        let said = lab.berth(["serve", "--listen", odd]);
        assert!(said.code == 2 && said.err.contains(why), "{said:?}");
    }
    assert_eq!(lab.serve().get("/healthz").status, 200);
}

#[test]
fn where_it_listens_can_be_read_by_programs_and_be_in_the_config() {
    let lab = lab();
    std::fs::write(lab.config(), "[serve]\nlisten = [\"127.0.0.1:0\", \":0\"]\nopen_metrics = true\n")
        .expect("a file");
    let mut command = lab.command(["serve", "--json"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("berth can be started");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("piped")));
    let mut next = || -> serde_json::Value {
        serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON")
    };
    let told = [next(), next(), next()];
    child.kill().and_then(|()| child.wait()).expect("our own child");
    let listening = |at: usize| told[at]["listening"].as_str().expect("a text").to_owned();
    assert!(listening(0).starts_with("unix:/") && listening(0).ends_with("/gateway.sock"));
    assert!(listening(1).starts_with("http://127.0.0.1:") && listening(2).starts_with("http://127.0.0.1:"));
    assert!(told.iter().all(|line| line["pid"] == child.id()));
    // An option counts over the file.
    let gateway = lab.serve_with(&["--listen", "127.0.0.1:0"]);
    assert_eq!(gateway.ask_tcp("GET", "/metrics", &[], None).status, 200);
    drop(gateway);
    std::fs::write(lab.config(), "[serve]\ntls_cert = \"cert.pem\"\n").expect("a file");
    let said = lab.berth(["serve"]);
    assert!(said.code == 2 && said.err.contains("`tls_key` in [serve]"), "{said:?}");
}

struct CertificatePair {
    cert: PathBuf,
    key: PathBuf,
    der: rustls::pki_types::CertificateDer<'static>,
}

fn pair(lab: &TestEnvironment, name: &str) -> CertificatePair {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (cert, key) = (lab.dir().join(format!("{name}.cert.pem")), lab.dir().join(format!("{name}.key.pem")));
    std::fs::write(&cert, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("our own file");
    CertificatePair { cert, key, der: made.cert.der().clone() }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A TLS connection to a server that proves to have the key of this certificate.
fn tls(
    address: &str,
    trusted: &CertificatePair,
) -> std::io::Result<rustls::StreamOwned<rustls::ClientConnection, TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.der.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut stream = TcpStream::connect(address)?;
    client.complete_io(&mut stream)?;
    Ok(rustls::StreamOwned::new(client, stream))
}

#[test]
fn tls_is_spoken_with_the_certificate_of_the_moment() {
    let lab = lab();
    let (old, new) = (pair(&lab, "old"), pair(&lab, "new"));
    let (cert, key) = (lab.dir().join("cert.pem"), lab.dir().join("key.pem"));
    let install = |pair: &CertificatePair| {
        std::fs::copy(&pair.cert, &cert).and_then(|_| std::fs::copy(&pair.key, &key)).expect("files");
    };
    install(&old);
    let gateway =
        lab.serve_with(&["--listen", "0.0.0.0:0", "--tls-cert", text(&cert), "--tls-key", text(&key)]);
    let address = gateway.address.clone().expect("an address").replace("0.0.0.0", "127.0.0.1");
    let health = request("GET", "/healthz", &[("Host", "localhost")], None);
    assert_eq!(exchange(tls(&address, &old).expect("TLS"), &health).status, 200);
    assert!(tls(&address, &new).is_err(), "that is not its certificate");
    install(&new);
    gateway.signal(Signal::HUP);
    wait_until("the new certificate", || tls(&address, &new).is_ok());
    // Files that do not fit are not taken into use.
    std::fs::copy(&old.key, &key).expect("a file");
    gateway.signal(Signal::HUP);
    std::fs::write(&cert, "nonsense").expect("a file");
    gateway.signal(Signal::HUP);
    assert_eq!(exchange(tls(&address, &new).expect("TLS"), &health).status, 200);
}

#[test]
fn a_browser_logs_in_and_opens_a_terminal_through_tls() {
    let lab = lab();
    let one = pair(&lab, "one");
    let (cert, key) = (text(&one.cert), text(&one.key));
    let gateway = lab.serve_with(&["--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]);
    let address = gateway.address.clone().expect("an address");
    let port = address.rsplit_once(':').expect("a port").1;
    let (host, origin) = (format!("localhost:{port}"), format!("https://localhost:{port}"));
    let token = lab.ok(["token", "new", "--scope", "control", "--name", "phone"]);
    let form = format!("token={token}");
    let login = format!(
        "POST /login HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let reply = exchange(tls(&address, &one).expect("TLS"), login.as_bytes());
    let login = reply.ok();
    let protocols = format!("berth.terminal.v1, berth.login.{}", login["secret"].as_str().expect("a secret"));
    lab.start_with(&["--name", "one"], &["raw", "say:ready", "echo"]);
    let ask = |origin: &str| {
        let request = tungstenite::http::Request::builder()
            .uri(format!("wss://{host}/v1/sessions/one/terminal?role=writer&rows=24&cols=80"))
            .header("Host", &host)
            .header("Origin", origin)
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
            .header("Sec-WebSocket-Protocol", &protocols);
        tungstenite::client(request.body(()).expect("a request"), tls(&address, &one).expect("TLS")).ok()
    };
    // The page is not served without TLS.
    assert!(ask(&format!("http://localhost:{port}")).is_none());
    let (mut socket, _) = ask(&origin).expect("it lets us in");
    let mut shown = Vec::new();
    socket.send(tungstenite::Message::binary(b"through tls".to_vec())).expect("it is open");
    while !String::from_utf8_lossy(&shown).contains("through tls") {
        if let tungstenite::Message::Binary(bytes) = socket.read().expect("it is open") {
            shown.extend_from_slice(&bytes);
        }
    }
    socket.close(None).expect("it is open");
}

#[test]
fn files_that_cannot_be_used_for_tls_are_refused_with_the_reason() {
    let lab = lab();
    let (one, two) = (pair(&lab, "one"), pair(&lab, "two"));
    let nothing = lab.dir().join("nothing.pem");
    std::fs::write(&nothing, "nothing").expect("a file");
    let missing = lab.dir().join("missing.pem");
    for (cert, key, why) in [
        (&one.cert, &two.key, "it is not the key of"),
        (&nothing, &one.key, "the file has no certificate in it"),
        (&one.cert, &nothing, "the file has no private key in it"),
        (&missing, &one.key, "No such file"),
        (&one.cert, &one.cert, "the file has no private key in it"),
    ] {
        let said = lab.berth(["serve", "--listen", ":0", "--tls-cert", text(cert), "--tls-key", text(key)]);
        assert!(said.code == 2 && said.err.contains(why) && said.err.contains("hint:"), "{said:?}");
    }
    let said = lab.berth(["serve", "--tls-cert", text(&one.cert), "--tls-key", text(&one.key)]);
    assert!(said.code == 2 && said.err.contains("--listen"), "it would not be used: {said:?}");
    let said = lab.berth(["serve", "--tls-cert", text(&one.cert)]);
    assert!(said.code == 2 && said.err.contains("--tls-key"), "{said:?}");
}

#[test]
fn http_spoken_to_a_tls_port_is_told_so_in_plain_http() {
    let lab = lab();
    let one = pair(&lab, "one");
    let (cert, key) = (text(&one.cert), text(&one.key));
    let gateway = lab.serve_with(&["--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]);
    let long = json!({"text": "x".repeat(1 << 20)});
    for (method, body) in [("GET", None), ("POST", Some(&long)), ("OPTIONS", None)] {
        let told = gateway.ask_tcp(method, "/v1/sessions", &[("Authorization", "Bearer x")], body);
        let told = told.problem(400, "usage");
        assert!(told["title"].as_str().is_some_and(|title| title.contains("needs https")), "{told}");
        assert!(told["detail"].as_str().is_some_and(|hint| hint.contains("https://")), "{told}");
    }
    // Bytes that are neither HTTP nor TLS end their connection, and TLS is served as ever.
    let mut odd = gateway.connect_tcp();
    odd.write_all(b"\0\0\0\0\0\0\0\0").expect("connected");
    let mut heard = Vec::new();
    let _ = odd.read_to_end(&mut heard);
    assert!(!heard.starts_with(b"HTTP"), "{heard:?}");
    let address = gateway.address.clone().expect("an address");
    let health = request("GET", "/healthz", &[("Host", &address)], None);
    assert_eq!(exchange(tls(&address, &one).expect("TLS"), &health).status, 200);
}

#[test]
fn a_tls_key_that_others_can_read_is_refused_with_a_hint() {
    let lab = lab();
    let pair = pair(&lab, "open");
    let (cert, key) = (text(&pair.cert), text(&pair.key));
    for mode in [0o644, 0o640, 0o604] {
        std::fs::set_permissions(&pair.key, std::fs::Permissions::from_mode(mode)).expect("our own file");
        let said = lab.berth(["serve", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(&format!("the TLS key {key} is not used")), "{said:?}");
        assert!(said.err.contains(&format!("chmod 600 {key}")), "{said:?}");
    }
    std::fs::set_permissions(&pair.key, std::fs::Permissions::from_mode(0o600)).expect("our own file");
    lab.serve_with(&["--listen=127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]);
}
