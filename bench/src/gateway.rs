//! The gateway of a lab, and a client for it: a token, a request, a stream of events, a WebSocket.
//!
//! Promise: the gateway listens on a port the kernel chose, and ends when this is dropped.
//! Start with [`BenchGateway::start`].

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};
use berth_harness::tungstenite::{self, WebSocket, client::IntoClientRequest as _};

use crate::competitors::CurrentBerth;
use crate::process::BenchProcess;
use crate::workspace::{BenchEnvironment, PATIENCE};

/// A running gateway, with tokens for its clients.
pub(crate) struct BenchGateway {
    child: Child,
    /// The gateway's standard output, kept open so that a write to it cannot fail.
    _said: BufReader<std::process::ChildStdout>,
    pub(crate) address: String,
    pub(crate) token: String,
    /// Tokens for streams, used in turn: one token has at most 512 streams.
    tokens: [String; 4],
    asked: AtomicUsize,
}

impl BenchGateway {
    pub(crate) fn start(lab: &BenchEnvironment, berth: &CurrentBerth) -> Result<Self> {
        let token = |name: &str| {
            let mut token = berth.command(lab);
            token.args(["token", "new", "--name", name, "--scope", "admin"]).stdout(Stdio::piped());
            let token = token.output().context("make a token")?;
            anyhow::Ok(String::from_utf8_lossy(&token.stdout).trim().to_owned())
        };
        let tokens = [token("bench")?, token("bench2")?, token("bench3")?, token("bench4")?];
        let mut command = berth.command(lab);
        command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn().context("start the gateway")?;
        let mut said = BufReader::new(child.stdout.take().context("piped")?);
        loop {
            let mut line = String::new();
            if said.read_line(&mut line).context("hear of the gateway")? == 0 {
                bail!("the gateway ended");
            }
            if let Some((_, address)) = line.trim().split_once("http://") {
                let address = address.split('/').next().unwrap_or(address).to_owned();
                let (token, asked) = (tokens[0].clone(), AtomicUsize::new(0));
                return Ok(Self { child, _said: said, address, token, tokens, asked });
            }
        }
    }

    pub(crate) fn process(&self) -> BenchProcess {
        BenchProcess(self.child.id().cast_signed())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(&self.address).context("connect to the gateway")?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .context("a socket")?;
        Ok(stream)
    }

    /// The body of an answer.
    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>> {
        answer(self.ask(path, "Connection: close\r\n")?, path)
    }

    /// The body of the answer to a request with a body.
    pub(crate) fn post(&self, path: &str, body: &str) -> Result<Vec<u8>> {
        let mut stream = self.connect()?;
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
        .context("ask the gateway")?;
        answer(stream, path)
    }

    /// Sends a request, and leaves the answer to the caller.
    pub(crate) fn ask(&self, path: &str, headers: &str) -> Result<TcpStream> {
        let mut stream = self.connect()?;
        let token = &self.tokens[self.asked.fetch_add(1, Ordering::Relaxed) % self.tokens.len()];
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n{headers}\r\n",
            self.address
        )
        .context("ask the gateway")?;
        Ok(stream)
    }

    /// A terminal over WebSocket.
    pub(crate) fn terminal(&self, session: &str, role: &str) -> Result<WebSocket<TcpStream>> {
        let url =
            format!("ws://{}/v1/sessions/{session}/terminal?role={role}&rows=40&cols=120", self.address);
        let mut request = url.into_client_request().context("a request")?;
        let headers = request.headers_mut();
        headers.insert("Authorization", format!("Bearer {}", self.token).parse().context("a header")?);
        headers.insert("Sec-WebSocket-Protocol", "berth.terminal.v1".parse().context("a header")?);
        let (socket, _) = tungstenite::client(request, self.connect()?).context("open a terminal")?;
        Ok(socket)
    }
}

fn answer(mut stream: TcpStream, path: &str) -> Result<Vec<u8>> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).context("read an answer")?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").context("no HTTP")?;
    if !answer.starts_with(b"HTTP/1.1 200") {
        bail!("{path}: {}", String::from_utf8_lossy(&answer));
    }
    Ok(answer.split_off(head + 4))
}

impl Drop for BenchGateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
