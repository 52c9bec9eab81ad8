//! Requests for metrics: one GET of /metrics by HTTP/1 (RFC 9112) on each connection, answered with
//! the text that the listener has made for it.
//!
//! A request has at most [`MAX_REQUEST_BYTES`] and [`TIME_LIMIT_MS`]. Its headers and a query have no
//! effect.

use std::io;
use std::os::fd::OwnedFd;

use privsep::roles;
use sys::socket::ShutdownDirection;

/// Longest request in bytes.
const MAX_REQUEST_BYTES: usize = 8192;
/// Time limit for a request and its answer together.
const TIME_LIMIT_MS: u64 = 5000;
/// Type of the text.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A connection of somebody who asks for metrics.
pub(super) struct RequestErrand {
    network: OwnedFd,
    metrics: Vec<u8>,
    request: Vec<u8>,
    /// The answer and the number of its bytes that are written; `None` until the request is whole.
    answer: Option<(Vec<u8>, usize)>,
    deadline_ms: u64,
}

impl RequestErrand {
    /// A new connection; `metrics` is the text that is asked for.
    pub(super) fn new(network: OwnedFd, metrics: Vec<u8>, now_ms: u64) -> Self {
        // The connection may come from a socket that waits.
        let _ = sys::io::set_nonblocking(&network, true);
        Self {
            network,
            metrics,
            request: Vec::new(),
            answer: None,
            deadline_ms: now_ms.saturating_add(TIME_LIMIT_MS),
        }
    }

    pub(super) fn network(&self) -> &OwnedFd {
        &self.network
    }

    /// Monotonic milliseconds after which the connection is closed.
    pub(super) fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    /// True if the answer is being written.
    pub(super) fn is_answered(&self) -> bool {
        self.answer.is_some()
    }

    /// Reads and writes what is possible. Returns true if the connection is done.
    pub(super) fn advance(&mut self) -> bool {
        if self.answer.is_none() && !self.read() {
            return true;
        }
        let Some((answer, written)) = &mut self.answer else {
            return false;
        };
        while let Some(rest) = answer.get(*written..).filter(|rest| !rest.is_empty()) {
            match sys::socket::send_now(&self.network, rest) {
                Ok(count) => *written += count,
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
        let _ = sys::socket::shutdown(&self.network, ShutdownDirection::Write);
        true
    }

    /// Ends the connection, with words if nothing has been written.
    pub(super) fn refuse(self) {
        if self.answer.is_none() {
            let _ = sys::socket::send_now(&self.network, roles::METRICS_REFUSAL);
            let _ = sys::socket::shutdown(&self.network, ShutdownDirection::Write);
        }
    }

    /// Reads the request and makes the answer once it is whole. Returns false if the connection has
    /// ended.
    fn read(&mut self) -> bool {
        loop {
            let mut room = [0; 2048];
            match sys::io::read(&self.network, &mut room) {
                Ok(0) => return false,
                Ok(count) => {
                    let part = room.get(..count).unwrap_or_default();
                    self.request.extend_from_slice(part);
                }
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
            let ends = |end: &[u8]| self.request.windows(end.len()).any(|part| part == end);
            let is_whole = ends(b"\r\n\r\n") || ends(b"\n\n");
            if is_whole || self.request.len() > MAX_REQUEST_BYTES {
                self.answer = Some((answer(&self.request, is_whole, &self.metrics), 0));
                return true;
            }
        }
    }
}

fn answer(request: &[u8], is_whole: bool, metrics: &[u8]) -> Vec<u8> {
    let line = request.split(|byte| *byte == b'\n').next();
    let line = line.unwrap_or_default().trim_ascii_end();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let path = |target: &[u8]| target.split(|byte| *byte == b'?').next() == Some(b"/metrics");
    let status = match words[..] {
        _ if !is_whole => "431 Request Header Fields Too Large",
        [b"GET", target, version] if version.starts_with(b"HTTP/1.") => {
            if path(target) {
                "200 OK"
            } else {
                "404 Not Found"
            }
        }
        [_, _, version] if version.starts_with(b"HTTP/1.") => "405 Method Not Allowed",
        _ => "400 Bad Request",
    };
    let (kind, body) = match status {
        "200 OK" => (CONTENT_TYPE, metrics),
        _ => ("text/plain", b"metrics are at /metrics\n".as_slice()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Allow: GET\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client gets that sends `request` in parts of `size` bytes.
    fn answered(request: &[u8], size: usize) -> Option<String> {
        let (client, network) = sys::socket::stream_pair().unwrap();
        let mut errand = RequestErrand::new(network, b"text".to_vec(), 0);
        for part in request.chunks(size) {
            if sys::io::write_all(&client, part).is_err() || errand.advance() {
                break;
            }
        }
        drop(errand);
        let answer = sys::io::read_to_end(&client, 65_536).ok()?;
        Some(String::from_utf8_lossy(&answer).into_owned())
    }

    #[test]
    fn only_a_get_of_the_metrics_gets_them() {
        for (request, status) in [
            ("GET /metrics HTTP/1.0\r\n\r\n", "200 OK"),
            (
                "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
                "200 OK",
            ),
            ("GET /metrics?x=1 HTTP/1.1\n\n", "200 OK"),
            ("GET / HTTP/1.0\r\n\r\n", "404 Not Found"),
            ("GET /metrics/x HTTP/1.0\r\n\r\n", "404 Not Found"),
            ("POST /metrics HTTP/1.0\r\n\r\n", "405 Method Not Allowed"),
            ("GET /metrics\r\n\r\n", "400 Bad Request"),
            ("GET /metrics HTTP/2\r\n\r\n", "400 Bad Request"),
            ("SSH-2.0-x\r\n\r\n", "400 Bad Request"),
        ] {
            for size in [1, 7, 1000] {
                let text = answered(request.as_bytes(), size).unwrap();
                let head = format!("HTTP/1.0 {status}\r\n");
                assert!(text.starts_with(&head), "{request:?}: {text:?}");
                assert_eq!(text.ends_with("\r\n\r\ntext"), status == "200 OK");
            }
        }
    }

    #[test]
    fn a_request_has_bounds_and_no_end_is_no_answer() {
        let long = [b"GET /metrics HTTP/1.0\r\nA: ".as_slice(), &[b'x'; 10_000]].concat();
        let text = answered(&long, 100).unwrap_or_default();
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.0 431 "),
            "{text:?}"
        );
        assert_eq!(answered(b"GET /metrics HTTP/1.0\r\n", 5).unwrap(), "");
        let (client, network) = sys::socket::stream_pair().unwrap();
        drop(client);
        assert!(RequestErrand::new(network, Vec::new(), 0).advance());
    }
}
