//! A web server in the test's own process that answers as it is told and remembers its requests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use berth_harness::wait_until;

/// How a request is answered.
#[derive(Clone, Debug)]
pub(crate) enum WebhookReply {
    /// With this status.
    Status(u16),
    /// This status, with a header.
    With(u16, &'static str, String),
    /// Never, with the connection kept open.
    Hang,
    /// By closing the connection.
    Close,
    /// With a status at once, and a body that never ends.
    SlowBody(u16),
}

/// A request that the server got.
#[derive(Clone, Debug)]
pub(crate) struct WebhookRequest {
    pub(crate) at: Instant,
    pub(crate) method: String,
    pub(crate) path: String,
    /// Header values by header names in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl WebhookRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

#[derive(Default)]
struct WebhookServerState {
    heard: Vec<WebhookRequest>,
    /// Connections that are never answered, kept open.
    hanging: Vec<TcpStream>,
    over: bool,
}

/// A web server that ends when this value is dropped.
pub(crate) struct WebhookServer {
    address: SocketAddr,
    shared: Arc<Mutex<WebhookServerState>>,
}

impl WebhookServer {
    /// Answers with these replies, one after the other; the last one is repeated.
    pub(crate) fn new(replies: &[WebhookReply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Mutex::new(WebhookServerState::default()));
        let (mine, replies) = (Arc::clone(&shared), replies.to_vec());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if mine.lock().expect("no panic").over {
                    return;
                }
                let (shared, replies) = (Arc::clone(&mine), replies.clone());
                std::thread::spawn(move || serve(stream, &shared, &replies));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn heard(&self) -> Vec<WebhookRequest> {
        self.shared.lock().expect("no panic").heard.clone()
    }

    /// Waits until it has heard this many requests.
    pub(crate) fn wait(&self, count: usize) -> Vec<WebhookRequest> {
        wait_until(&format!("{count} requests"), || self.heard().len() >= count);
        self.heard()
    }

    /// Kind of event and name of the session, for each webhook that came.
    pub(crate) fn about(&self) -> Vec<(String, String)> {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        self.heard()
            .iter()
            .map(WebhookRequest::json)
            .map(|it| (text(&it["data"]["what"]), text(&it["data"]["name"])))
            .collect()
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        let mut shared = self.shared.lock().expect("no panic");
        shared.over = true;
        shared.hanging.clear();
        drop(shared);
        // Wakes the server up, so that it sees that.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: TcpStream, shared: &Mutex<WebhookServerState>, replies: &[WebhookReply]) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    let Some(heard) = read(&stream) else { return };
    let reply = {
        let mut shared = shared.lock().expect("no panic");
        let at = shared.heard.len().min(replies.len() - 1);
        shared.heard.push(heard);
        replies[at].clone()
    };
    let head = |status: u16, more: &str, length: usize| {
        format!("HTTP/1.1 {status} Told\r\ncontent-length: {length}\r\nconnection: close\r\n{more}\r\n")
    };
    let keep = |stream: TcpStream| shared.lock().expect("no panic").hanging.push(stream);
    match reply {
        WebhookReply::Status(status) => drop(stream.write_all(head(status, "", 0).as_bytes())),
        WebhookReply::With(status, name, value) => {
            let _ = stream.write_all(head(status, &format!("{name}: {value}\r\n"), 0).as_bytes());
        }
        WebhookReply::Hang => keep(stream),
        WebhookReply::Close => {}
        WebhookReply::SlowBody(status) => {
            let _ = stream.write_all(head(status, "", 1_000_000).as_bytes());
            keep(stream);
        }
    }
}

fn read(stream: &TcpStream) -> Option<WebhookRequest> {
    let mut lines = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        (lines.read_line(&mut line).ok()? > 0).then(|| (line.trim_end().to_owned(), ()))
    };
    let (first, ()) = line()?;
    let mut headers = BTreeMap::new();
    while let Some((text, ())) = line().filter(|(text, ())| !text.is_empty()) {
        let (name, value) = text.split_once(':')?;
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    lines.read_exact(&mut body).ok()?;
    let mut words = first.split(' ');
    Some(WebhookRequest {
        at: Instant::now(),
        method: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
        headers,
        body: String::from_utf8(body).ok()?,
    })
}
