//! As much of HTTP/1.1 as agents need: one request per connection, answers whole or in chunks.
//!
//! Promise: heads and bodies have limits; the reader of a chunked answer that was cut sees that it was cut.
//! Not here: the questions and the answers. Start with [`read`] and [`HttpResponseWriter`].

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// The longest head that is read.
const HEAD_LIMIT_BYTES: u64 = 256 * 1024;
/// The longest body that is read: agents send whole conversations.
const BODY_LIMIT_BYTES: usize = 256 * 1024 * 1024;

/// A request, read to its end.
pub(crate) struct HttpRequest {
    /// `GET`, `POST`…
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// Reads one request; `None` if the other side has nothing to say.
pub(crate) fn read(stream: &TcpStream) -> io::Result<Option<HttpRequest>> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let before = head.len();
        let left = HEAD_LIMIT_BYTES - before as u64;
        (&mut reader).take(left).read_until(b'\n', &mut head)?;
        let line = &head[before..];
        if line.is_empty() && before == 0 {
            return Ok(None);
        }
        if line == b"\r\n" || line == b"\n" {
            break;
        }
        if !line.ends_with(b"\n") {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the head has no end"));
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let method = first.next().unwrap_or_default().to_owned();
    let target = first.next().unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let headers: Vec<(String, &str)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
        .collect();
    let header = |name: &str| headers.iter().find(|(one, _)| one == name).map(|(_, value)| *value);
    if header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        (&mut &*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = if header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        chunks(&mut reader)?
    } else {
        let size = header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        sized(&mut reader, size)?
    };
    Ok(Some(HttpRequest { method, path, body }))
}

fn sized(reader: &mut impl Read, size: usize) -> io::Result<Vec<u8>> {
    if size > BODY_LIMIT_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the body is too long"));
    }
    let mut body = vec![0; size];
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a chunk without a size"))?;
        if size.saturating_add(body.len()) > BODY_LIMIT_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the body is too long"));
        }
        body.extend(sized(reader, size)?);
        line.clear();
        reader.read_line(&mut line)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// Where an answer goes.
pub(crate) struct HttpResponseWriter<'a> {
    stream: &'a TcpStream,
}

impl<'a> HttpResponseWriter<'a> {
    pub(crate) fn new(stream: &'a TcpStream) -> Self {
        Self { stream }
    }

    /// A whole answer. For `HEAD` without its body.
    pub(crate) fn whole(&mut self, status: u16, kind: &str, body: &[u8], head_only: bool) -> io::Result<()> {
        let mut answer = format!(
            "HTTP/1.1 {status} {}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            reason(status),
            body.len()
        )
        .into_bytes();
        if !head_only {
            answer.extend_from_slice(body);
        }
        self.stream.write_all(&answer)
    }

    /// The head of an answer that comes in chunks.
    pub(crate) fn begin(&mut self, kind: &str) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncache-control: no-cache\r\n\
             transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes())
    }

    /// One chunk. Not empty: that would be the end.
    pub(crate) fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.stream.write_all(&chunk)
    }

    /// The last chunk.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.stream.write_all(b"0\r\n\r\n")
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Status",
    }
}
