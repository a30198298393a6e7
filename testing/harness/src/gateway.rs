//! A gateway of a lab's sessions, and a client that can send anything to it, valid or not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::openapi_check::judge;
use crate::{PATIENCE, TestEnvironment};

/// `berth serve`, until this is dropped.
pub struct GatewayProcess {
    /// Path of the `berth` program, whose printed description judges the answers.
    berth: PathBuf,
    child: Child,
    socket: PathBuf,
    /// The network address, if it listens on one.
    pub address: Option<String>,
}

/// An HTTP answer.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The HTTP status code.
    pub status: u16,
    /// The headers, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without chunk framing.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    /// The JSON of a success.
    pub fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text());
        self.json()
    }

    /// Asserts that the answer is a problem of this kind, and returns it.
    pub fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        let problem = self.json();
        assert_eq!((&problem["code"], &problem["status"]), (&code.into(), &status.into()), "{problem}");
        problem
    }
}

/// Either end of a connection.
pub trait ReadWriteStream: Read + Write + Send {}
impl<T: Read + Write + Send> ReadWriteStream for T {}

impl TestEnvironment {
    /// Starts a gateway that listens on its socket.
    pub fn serve(&self) -> GatewayProcess {
        self.serve_with(&[])
    }

    /// Like [`Self::serve`] with more arguments. Waits until the gateway listens on all its addresses.
    pub fn serve_with(&self, args: &[&str]) -> GatewayProcess {
        self.serve_in(args, &[])
    }

    /// Like [`Self::serve_with`], with variables.
    pub fn serve_in(&self, args: &[&str], env: &[(&str, &str)]) -> GatewayProcess {
        let mut command = self.command(["serve"].iter().chain(args));
        command.envs(env.iter().copied());
        self.serve_as(command, 1 + args.iter().filter(|arg| arg.starts_with("--listen")).count())
    }

    /// Runs a command of the test (which may set variables and pipes) with these arguments.
    pub fn serve_from(&self, command: Command, args: &[&str]) -> GatewayProcess {
        self.serve_as(command, 1 + args.iter().filter(|arg| arg.starts_with("--listen")).count())
    }

    /// Runs a whole command of the test. Waits until it listens on `wanted` addresses.
    pub fn serve_as(&self, mut command: Command, wanted: usize) -> GatewayProcess {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("berth can be started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let heard: Vec<String> = lines.by_ref().take(wanted).map_while(Result::ok).collect();
        assert_eq!(heard.len(), wanted, "the gateway did not come up: {heard:?}");
        let address = heard.iter().find_map(|line| Some(line.split_once("://")?.1.to_owned()));
        GatewayProcess { berth: self.berth.clone(), child, socket: self.home().join("gateway.sock"), address }
    }
}

impl GatewayProcess {
    /// The process id of the gateway.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// True if the gateway has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The reading end of the gateway's standard error, if that is a pipe.
    pub fn stderr(&mut self) -> Option<BufReader<ChildStderr>> {
        self.child.stderr.take().map(BufReader::new)
    }

    /// Sends the gateway a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("our own process can be signalled");
    }

    /// Waits for the gateway's end; returns its exit code, or 128 + the signal.
    pub fn wait(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait().expect("our own child");
        status.code().or(status.signal().map(|signal| 128 + signal)).expect("it ended")
    }

    /// Kills the gateway with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A connection to the gateway's socket.
    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).expect("the gateway listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    /// A connection to the gateway's network address.
    pub fn connect_tcp(&self) -> TcpStream {
        let address = self.address.as_ref().expect("it was told to --listen");
        let stream = TcpStream::connect(address).expect("the gateway listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    /// Asks over the socket.
    pub fn get(&self, path: &str) -> HttpResponse {
        self.ask("GET", path, &[], None)
    }

    /// Posts JSON over the socket.
    pub fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.ask("POST", path, &[], Some(body))
    }

    /// Asks over the socket, with headers and a body.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> HttpResponse {
        let reply = exchange(self.connect(), &request(method, path, headers, body));
        judge(&self.berth, method, path, &reply);
        reply
    }

    /// Asks with these headers, and does not wait for the answer. The connection is the client: dropped, it is gone.
    pub fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> PendingResponse {
        let mut stream = self.connect();
        stream.write_all(&request(method, path, headers, body)).expect("the gateway listens");
        PendingResponse { stream, berth: self.berth.clone(), what: (method.to_owned(), path.to_owned()) }
    }

    /// Like [`Self::ask`] over TCP. The `Host` header is the address, if no other is given.
    pub fn ask_tcp(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> HttpResponse {
        let address = self.address.clone().expect("it was told to --listen");
        let has_host = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
        let host = [("Host", address.as_str())];
        let headers: Vec<_> = headers.iter().chain(host.iter().filter(|_| !has_host)).copied().collect();
        let reply = exchange(self.connect_tcp(), &request(method, path, &headers, body));
        judge(&self.berth, method, path, &reply);
        reply
    }

    /// Opens a stream of events, and gives its lines as they come.
    pub fn events(&self, path: &str, headers: &[(&str, &str)]) -> ServerEventStream {
        self.try_events(path, headers).expect("the gateway listens")
    }

    /// Like [`Self::events`] for a gateway that may be killed at any moment: `None` if there is no stream.
    pub fn try_events(&self, path: &str, headers: &[(&str, &str)]) -> Option<ServerEventStream> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let headers = [&[("Accept", "text/event-stream")], headers].concat();
        stream.write_all(&request("GET", path, &headers, None)).ok()?;
        let mut reader = BufReader::new(Box::new(stream) as Box<dyn ReadWriteStream>);
        if reader.fill_buf().ok()?.is_empty() {
            return None;
        }
        let (status, headers) = head(&mut reader);
        assert_eq!(status, 200, "{path}: {headers:?} {:?}", reader.fill_buf().map(String::from_utf8_lossy));
        Some(ServerEventStream { reader, chunk_left: 0 })
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A request that was sent, with its answer still to come.
pub struct PendingResponse {
    stream: UnixStream,
    berth: PathBuf,
    /// Method and path.
    what: (String, String),
}

impl PendingResponse {
    /// Waits for the answer.
    pub fn reply(self) -> HttpResponse {
        let reply = answer(self.stream);
        judge(&self.berth, &self.what.0, &self.what.1, &reply);
        reply
    }

    /// Waits for the end of the connection; true if there was an answer before.
    pub fn is_answered(mut self) -> bool {
        let mut bytes = Vec::new();
        // A connection that is reset has no answer, either.
        let _ = self.stream.read_to_end(&mut bytes);
        !bytes.is_empty()
    }
}

/// The bytes of a request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str("Host: localhost\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let body = body.map(Value::to_string);
    if let Some(body) = &body {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(&body.unwrap_or_default());
    text.into_bytes()
}

/// Sends bytes and reads one answer to its end.
pub fn exchange(mut stream: impl ReadWriteStream + 'static, bytes: &[u8]) -> HttpResponse {
    // A server that refuses a request early may close the connection before the request is written.
    let _ = stream.write_all(bytes);
    answer(stream)
}

fn answer(stream: impl ReadWriteStream + 'static) -> HttpResponse {
    let mut reader = BufReader::new(Box::new(stream) as Box<dyn ReadWriteStream>);
    let (status, headers) = head(&mut reader);
    let header = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let mut body = Vec::new();
    if header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        let mut events = ServerEventStream { reader, chunk_left: 0 };
        while let Some(bytes) = events.chunk() {
            body.extend(bytes);
        }
    } else if let Some(length) = header("content-length").and_then(|length| length.parse().ok()) {
        reader.take(length).read_to_end(&mut body).expect("the body");
    } else {
        reader.read_to_end(&mut body).expect("the body");
    }
    HttpResponse { status, headers, body }
}

fn head(reader: &mut BufReader<Box<dyn ReadWriteStream>>) -> (u16, Vec<(String, String)>) {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    };
    let first = line();
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no HTTP answer: {first:?}"));
    let headers = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty()));
    let pair = |line: String| line.split_once(':').map(|(n, v)| (n.to_lowercase(), v.trim().to_owned()));
    (status, headers.filter_map(pair).collect())
}

/// A stream of server-sent events.
pub struct ServerEventStream {
    reader: BufReader<Box<dyn ReadWriteStream>>,
    chunk_left: usize,
}

/// One server-sent event.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServerEvent {
    /// The `id` field, with which a client resumes the stream.
    pub id: String,
    /// Its kind; `message` if none is given.
    pub event: String,
    /// The `data` field.
    pub data: String,
}

impl ServerEvent {
    /// The data as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }
}

impl ServerEventStream {
    /// Waits for the next event; `None` at the end. Comments are passed over.
    #[expect(clippy::should_implement_trait, reason = "it waits, and may fail")]
    pub fn next(&mut self) -> Option<ServerEvent> {
        let mut event = ServerEvent { event: "message".to_owned(), ..ServerEvent::default() };
        let mut has_data = false;
        let until = Instant::now() + PATIENCE;
        loop {
            // A stream that only sends signs of life has no event.
            assert!(Instant::now() < until, "waited in vain for the next event");
            let line = self.line()?;
            match line.split_once(':') {
                _ if line.is_empty() && has_data => return Some(event),
                Some(("id", value)) => event.id = value.trim_start().to_owned(),
                Some(("event", value)) => event.event = value.trim_start().to_owned(),
                Some(("data", value)) => {
                    if has_data {
                        event.data.push('\n');
                    }
                    event.data.push_str(value.strip_prefix(' ').unwrap_or(value));
                    has_data = true;
                }
                _ => {}
            }
        }
    }

    /// Waits for the first event that fits.
    pub fn wait_for(&mut self, what: &str, fits: impl Fn(&ServerEvent) -> bool) -> ServerEvent {
        loop {
            match self.next() {
                Some(event) if fits(&event) => return event,
                Some(_) => {}
                None => panic!("the stream ended before {what}"),
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            if self.chunk_left == 0 {
                self.chunk_left = self.chunk_length()?;
            }
            let here = self.reader.fill_buf().ok()?;
            let here = &here[..here.len().min(self.chunk_left)];
            let count = here.iter().position(|byte| *byte == b'\n').map_or(here.len(), |at| at + 1);
            if count == 0 {
                return None;
            }
            line.extend_from_slice(&here[..count]);
            self.reader.consume(count);
            self.chunk_left -= count;
            if self.chunk_left == 0 {
                let mut end = String::new();
                self.reader.read_line(&mut end).ok()?;
            }
        }
        Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }

    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.chunk_length()?];
        self.reader.read_exact(&mut bytes).ok()?;
        let mut end = String::new();
        self.reader.read_line(&mut end).ok()?;
        Some(bytes)
    }

    fn chunk_length(&mut self) -> Option<usize> {
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        usize::from_str_radix(line.trim(), 16).ok().filter(|length| *length > 0)
    }
}
