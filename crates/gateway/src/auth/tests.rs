//! The door with something long behind it: routes of the table are tested from outside.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use http_body_util::BodyExt;
use tokio::io::AsyncReadExt;
use tower::ServiceExt;

use super::*;
use berth_verbs::tokens::{Maker, TokenWish, Tokens};

struct House {
    root: std::path::PathBuf,
    tokens: Tokens,
    router: Router,
}

impl House {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("berth-door-{name}-{}", std::process::id()));
        let home = Home::open(root.clone()).expect("a directory of our own");
        let metrics = Arc::new(crate::metrics::Metrics::new(0));
        let gate = Gate::new(home.clone(), crate::server::Options::default(), metrics).expect("a door");
        let silent =
            || async { Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>()) };
        let router = Router::new()
            .route("/stream", get(silent))
            .route("/terminal", get(|| async { StatusCode::SWITCHING_PROTOCOLS }))
            .layer(axum::middleware::from_fn_with_state(gate, admit));
        Self { root, tokens: Tokens::open(&home).expect("a directory of our own"), router }
    }

    fn token(&self, life: Option<Duration>) -> String {
        let wish = TokenWish { name: Some("bot".to_owned()), scope: Scope::Read, sessions: None, life };
        self.tokens
            .mint(TokenKind::Token, &wish, Maker { place: "a test", pass: None })
            .expect("a token")
            .secret
    }

    async fn ask(&self, path: &str, token: Option<&str>, wire: &Wire) -> Response {
        let mut request = axum::http::Request::builder().uri(path).header("host", "localhost");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut request = request.body(Body::empty()).expect("a request");
        let address = "192.0.2.1:1".parse().expect("an address");
        request.extensions_mut().insert(Peer::Network(address));
        request.extensions_mut().insert(wire.clone());
        self.router.clone().oneshot(request).await.expect("an answer")
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // The audit log is written in the background: a line that comes meanwhile makes the removal fail once.
        while let Err(error) = std::fs::remove_dir_all(&self.root) {
            assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{error}");
        }
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
}

#[test]
fn a_stream_ends_when_its_token_is_revoked_in_the_middle() {
    run(async {
        let house = House::new("stream");
        let token = house.token(None);
        assert_eq!(house.ask("/stream", None, &Wire::default()).await.status(), 401);
        let mut response = house.ask("/stream", Some(&token), &Wire::default()).await;
        assert_eq!(response.status(), 200);
        let goes_on = tokio::time::timeout(leash::LOOK_EVERY * 2, response.body_mut().frame()).await;
        assert!(goes_on.is_err(), "nobody revoked it: {goes_on:?}");
        house.tokens.revoke("bot", None).expect("it is there");
        assert!(response.body_mut().frame().await.is_none());
        assert_eq!(house.ask("/stream", Some(&token), &Wire::default()).await.status(), 401);
    });
}

#[test]
fn h3_a_stream_ends_when_its_token_expires_by_our_clock() {
    run(async {
        let house = House::new("expiry");
        let token = house.token(Some(Duration::from_millis(1500)));
        let mut response = house.ask("/stream", Some(&token), &Wire::default()).await;
        assert_eq!(response.status(), 200);
        assert!(response.body_mut().frame().await.is_none());
        assert_eq!(house.ask("/stream", Some(&token), &Wire::default()).await.status(), 401);
    });
}

#[test]
fn a_terminal_is_cut_off_when_its_token_is_revoked_in_the_middle() {
    run(async {
        let house = House::new("terminal");
        let token = house.token(None);
        let wire = Wire::default();
        let (ours, _theirs) = tokio::io::duplex(64);
        let mut line = wire.leash.hold(ours);
        assert_eq!(house.ask("/terminal", Some(&token), &wire).await.status(), 101);
        drop(wire);
        house.tokens.revoke("bot", None).expect("it is there");
        assert_eq!(line.read(&mut [0; 8]).await.expect("an end, not an error"), 0);
    });
}
