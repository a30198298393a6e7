//! A browser's terminal: one WebSocket to a gateway, and the text it shows.

use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde_json::Value;
use tungstenite::client::IntoClientRequest;
use tungstenite::http::{HeaderName, HeaderValue};
use tungstenite::{Bytes, HandshakeError, Message, WebSocket};

use crate::{GatewayProcess, HttpResponse, PATIENCE};

/// The sub-protocol of terminals.
const TERMINAL: &str = "berth.terminal.v1";

/// One WebSocket connection to the gateway.
pub struct GatewayWebSocket {
    socket: WebSocket<UnixStream>,
    /// Everything shown since the last whole screen.
    pub shown: Vec<u8>,
    /// How many bytes came in all.
    pub received: usize,
    /// How often a whole screen was painted.
    pub screens: usize,
    is_screen_next: bool,
}

/// One message from the gateway.
#[derive(Clone, PartialEq, Debug)]
pub enum SocketMessage {
    /// Bytes of the terminal's output, added to [`GatewayWebSocket::shown`].
    Bytes,
    /// A text message in JSON: a remark of the gateway.
    Remark(Value),
    /// The end of the connection, with the close code if there was one.
    Closed(Option<u16>),
}

impl GatewayProcess {
    /// Attaches to the terminal of a session; the query says how.
    pub fn terminal(&self, session: &str, query: &str) -> GatewayWebSocket {
        let path = format!("/v1/sessions/{session}/terminal?{query}");
        self.socket(&path, Some(TERMINAL)).unwrap_or_else(|(status, body)| panic!("{status} {body}"))
    }

    /// Opens a WebSocket, with this sub-protocol; or the refusal.
    pub fn socket(&self, path: &str, protocol: Option<&str>) -> Result<GatewayWebSocket, (u16, String)> {
        let headers: Vec<_> =
            protocol.into_iter().map(|protocol| ("Sec-WebSocket-Protocol", protocol)).collect();
        self.socket_with(path, &headers).map_err(|refused| (refused.status, refused.text()))
    }

    /// Attaches to the terminal of a session with more headers; or the refusal.
    pub fn terminal_as(
        &self,
        session: &str,
        headers: &[(&str, &str)],
    ) -> Result<GatewayWebSocket, HttpResponse> {
        let protocol = [("Sec-WebSocket-Protocol", TERMINAL)];
        self.socket_with(&format!("/v1/sessions/{session}/terminal"), &[&protocol, headers].concat())
    }

    /// Opens a WebSocket with these headers; or the refusal, whole.
    fn socket_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<GatewayWebSocket, HttpResponse> {
        let mut request = format!("ws://localhost{path}").into_client_request().expect("a path");
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a header");
            request.headers_mut().insert(name, value.parse().expect("a header"));
        }
        match tungstenite::client(request, self.connect()) {
            Ok((socket, _)) => {
                Ok(GatewayWebSocket { socket, shown: vec![], received: 0, screens: 0, is_screen_next: false })
            }
            Err(HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
                let headers = response.headers().iter();
                Err(HttpResponse {
                    status: response.status().as_u16(),
                    headers: headers.map(|(name, value)| (name.to_string(), text(value))).collect(),
                    body: response.body().clone().unwrap_or_default(),
                })
            }
            Err(error) => panic!("no WebSocket: {error}"),
        }
    }
}

impl GatewayWebSocket {
    /// Types keys, as binary messages; panics if the gateway does not listen.
    pub fn type_keys(&mut self, keys: &[u8]) {
        self.try_type(keys).expect("the gateway listens");
    }

    /// Like [`Self::type_keys`] for a client that may be cut off.
    pub fn try_type(&mut self, keys: &[u8]) -> tungstenite::Result<()> {
        self.socket.send(Message::Binary(Bytes::copy_from_slice(keys)))
    }

    /// Sends a message in JSON.
    pub fn say(&mut self, what: &Value) {
        self.say_text(&what.to_string());
    }

    /// Sends a text message, valid or not.
    pub fn say_text(&mut self, text: &str) {
        self.socket.send(Message::Text(text.into())).expect("the gateway listens");
    }

    /// Sends any message.
    pub fn send(&mut self, message: Message) -> tungstenite::Result<()> {
        self.socket.send(message)
    }

    /// Closes the connection and waits for the gateway's close.
    pub fn close(mut self) {
        let _ = self.socket.close(None);
        while self.socket.read().is_ok() {}
    }

    /// Waits for the next message.
    pub fn hear(&mut self) -> SocketMessage {
        let until = Instant::now() + PATIENCE;
        loop {
            // A connection that only sends signs of life has no message.
            assert!(Instant::now() < until, "waited in vain: {}", String::from_utf8_lossy(&self.shown));
            match self.socket.read() {
                Ok(Message::Binary(bytes)) => {
                    if std::mem::take(&mut self.is_screen_next) {
                        self.shown.clear();
                        self.screens += 1;
                    }
                    self.received += bytes.len();
                    self.shown.extend_from_slice(&bytes);
                    return SocketMessage::Bytes;
                }
                Ok(Message::Text(text)) => {
                    let remark: Value = serde_json::from_str(&text).expect("remarks are JSON");
                    self.is_screen_next |= remark["screen"] == true;
                    return SocketMessage::Remark(remark);
                }
                Ok(Message::Close(frame)) => {
                    return SocketMessage::Closed(frame.map(|frame| frame.code.into()));
                }
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Err(tungstenite::Error::Io(error)) if is_timeout(&error) => panic!("waited in vain: {error}"),
                Err(_) => return SocketMessage::Closed(None),
            }
        }
    }

    /// Waits for a remark with this word in it, and returns the value of the word.
    pub fn wait_remark(&mut self, word: &str) -> Value {
        loop {
            match self.hear() {
                SocketMessage::Remark(remark) if remark.get(word).is_some() => return remark[word].clone(),
                SocketMessage::Remark(_) | SocketMessage::Bytes => {}
                SocketMessage::Closed(code) => panic!("closed ({code:?}) before `{word}`"),
            }
        }
    }

    /// Waits until this was shown.
    pub fn wait_for(&mut self, text: &str) {
        let contains = |shown: &[u8]| shown.windows(text.len()).any(|window| window == text.as_bytes());
        while !contains(&self.shown) {
            if let SocketMessage::Closed(code) = self.hear() {
                panic!("closed ({code:?}) before {text:?}: {}", String::from_utf8_lossy(&self.shown));
            }
        }
    }

    /// Waits for the end of the connection; returns its close code.
    pub fn wait_closed(&mut self) -> Option<u16> {
        loop {
            if let SocketMessage::Closed(code) = self.hear() {
                return code;
            }
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}
