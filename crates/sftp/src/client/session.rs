//! One connection to an SFTP server: version, capabilities and unanswered requests.

use std::time::Instant;

use crate::extension::{Cancel, Extended, FSTATVFS, GetLimits, LIMITS, Limits};
use crate::frame::{FramePiece, ReadingSide, Splitter};
use crate::message::{Init, Reply, Request, Version};
use crate::{Attributes, Code, vendor};
use bytes::Bytes;

use super::flow::Flow;
use super::outgoing::{Body, Outgoing, Spoiled};
use super::requests::Requests;
use super::{Answers, Broken, Op, Token};

/// Maximum distance of the oldest unanswered request from the newest. Servers get slow past 10,000
/// (HPN).
const MAX_OPEN_REQUESTS: u32 = 4096;
/// Number of handles assumed for a server that states no limit.
const SAFE_HANDLES: usize = 96;
/// Maximum number of handles used, whatever the server permits.
const MAX_HANDLES: usize = 512;

/// Capabilities of a server.
#[derive(Debug, Clone)]
pub struct Server {
    /// Extensions: name and version.
    pub extensions: Vec<(Vec<u8>, Vec<u8>)>,
    /// Maximum length of a READ, bytes.
    pub max_read: u32,
    /// Maximum length of a WRITE, bytes.
    pub max_write: u32,
    /// Maximum number of open handles.
    pub max_handles: usize,
}

impl Server {
    /// Returns true if the server announced this extension in this version.
    #[must_use]
    pub fn has(&self, name: &str, version: &str) -> bool {
        self.extensions
            .iter()
            .any(|(each, data)| each == name.as_bytes() && data == version.as_bytes())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// VERSION has not arrived.
    Greeting,
    /// The limits have not arrived; small requests may be sent.
    Asking,
    Ready,
}

/// The protocol state of one connection.
#[derive(Debug)]
pub struct Session {
    splitter: Splitter,
    outgoing: Outgoing,
    phase: Phase,
    server: Server,
    open: Requests<Token>,
    last_id: u32,
    /// The DATA being received: its token and total length.
    arriving: Option<(Token, u32)>,
    flow: Flow,
    /// Id of the request whose answer time is measured, and when it was sent.
    timed: Option<(u32, Option<Instant>)>,
    handles: usize,
    /// The server accepts requests before it has sent VERSION.
    reads_on: bool,
    /// The server is assumed to be Fulmar's until VERSION arrives.
    is_fulmar: bool,
    /// Bytes have been sent.
    begun: bool,
}

impl Default for Session {
    fn default() -> Self {
        let mut outgoing = Outgoing::default();
        outgoing.add(|out| {
            Init {
                version: crate::VERSION,
            }
            .encode_into(out);
        });
        Self {
            splitter: Splitter::new(ReadingSide::Client),
            outgoing,
            phase: Phase::Greeting,
            server: Server {
                extensions: Vec::new(),
                max_read: crate::SAFE_DATA_BYTES,
                max_write: crate::SAFE_DATA_BYTES,
                max_handles: SAFE_HANDLES,
            },
            open: Requests::default(),
            last_id: 0,
            arriving: None,
            flow: Flow::default(),
            timed: None,
            handles: 0,
            reads_on: false,
            is_fulmar: false,
            begun: false,
        }
    }
}

impl Session {
    /// True if nothing was sent, and the server is not known to accept requests before VERSION.
    pub fn is_unmet(&self) -> bool {
        !self.begun && !self.reads_on
    }

    /// Records that the server accepts requests before VERSION, and asks for its limits in the same
    /// flight; a server without limits refuses that request. Only for a session that
    /// [`Session::is_unmet`].
    pub fn read_on(&mut self, is_fulmar: bool) {
        (self.reads_on, self.is_fulmar) = (true, is_fulmar);
        self.ask_limits();
    }

    /// True if a request that every server knows may be sent before VERSION has arrived.
    #[must_use]
    pub fn takes_early(&self) -> bool {
        self.reads_on && self.phase != Phase::Ready
    }

    /// True if a request of this vendor extension may be sent: the server has announced it, or is
    /// assumed to have it and refuses it if not.
    #[must_use]
    pub fn may_know(&self, name: &str, version: &str) -> bool {
        match self.phase {
            Phase::Greeting => self.reads_on && self.is_fulmar,
            Phase::Asking | Phase::Ready => self.server.has(name, version),
        }
    }

    /// Returns the attributes of an OPEN for a copy that must be the only writer. A server with
    /// Fulmar's extensions fails the copy if another process writes the file; other servers ignore
    /// unknown attributes.
    pub fn sole_writer(&self, attributes: Attributes) -> Attributes {
        Attributes {
            sole_writer: self.may_know(vendor::EXACT_TIMES, "1"),
            ..attributes
        }
    }

    /// True once VERSION has arrived.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase != Phase::Greeting
    }

    /// True once the server's limits are known.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Returns the server's capabilities.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Number of unanswered requests.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// True if everything was sent and answered, or nothing was sent because the connection does
    /// not exist yet.
    pub fn is_at_rest(&self) -> bool {
        !self.begun || self.open_requests() == 0 && !self.has_output()
    }

    /// Number of bytes covered by unanswered READs and WRITEs.
    #[must_use]
    pub fn flight_bytes(&self) -> u64 {
        self.flow.bytes()
    }

    /// True if another request may be sent.
    #[must_use]
    pub fn takes_request(&self) -> bool {
        let mut passing = self.open.iter().filter(|(_, token)| !token.op.is_long());
        let oldest = passing.next();
        let span = oldest.map_or(0, |(first, _)| self.last_id.wrapping_sub(first));
        self.is_open() && span < MAX_OPEN_REQUESTS
    }

    /// True if another WRITE may be sent.
    #[must_use]
    pub fn takes_write(&mut self) -> bool {
        self.flow.takes_write() && self.is_ready() && self.takes_request()
    }

    /// True if another READ may be sent.
    #[must_use]
    pub fn takes_read(&mut self) -> bool {
        self.flow.takes_read() && self.is_ready() && self.takes_request()
    }

    /// True if the maximum number of bytes is in flight.
    pub fn is_full(&self) -> bool {
        self.flow.is_full()
    }

    /// True if another file or directory may be opened.
    #[must_use]
    pub fn takes_handle(&self) -> bool {
        self.handles < self.server.max_handles && self.takes_request()
    }

    /// Counts a handle; to be called when it is requested.
    pub fn handle_begins(&mut self) {
        self.handles += 1;
    }

    /// Ends the count of a handle that is closed or was refused.
    pub fn handle_ends(&mut self) {
        self.handles = self.handles.saturating_sub(1);
    }

    fn next_id(&mut self, token: Token) -> u32 {
        self.flow.goes(token.len);
        self.last_id = self.open.insert(token);
        // The answer to a request with several messages comes late.
        if self.timed.is_none() && !token.op.is_long() {
            self.timed = Some((self.last_id, None));
        }
        self.last_id
    }

    /// Sends a request, whose answer is passed on with `token`. Returns its id, which only CANCEL
    /// and WALK_ON need.
    pub fn send(&mut self, token: Token, request: &Request<'_>) -> u32 {
        let id = self.next_id(token);
        self.outgoing.add(|out| request.encode_into(id, out));
        id
    }

    /// Sends a WRITE whose data is a range of a file.
    pub fn send_file(&mut self, token: Token, handle: &[u8], at: u64, body: Body) {
        let id = self.next_id(token);
        let len = body.len;
        self.outgoing.add_with_body(body, |out| {
            crate::message::request::write_head(id, handle, at, len, out);
        });
    }

    /// True if bytes wait to be sent.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Writes queued requests into `room` and returns the number of bytes, 0 if nothing is queued.
    /// The caller must send them.
    pub fn fill(&mut self, room: &mut [u8]) -> usize {
        let filled = self.outgoing.fill(room);
        self.begun |= filled > 0;
        if filled > 0
            && let Some((_, left @ None)) = &mut self.timed
        {
            *left = Some(Instant::now());
        }
        filled
    }

    /// Returns and clears the files whose reading failed in [`Session::fill`].
    pub fn take_spoiled(&mut self) -> Vec<Spoiled> {
        self.outgoing.take_spoiled()
    }

    /// Closes a file that was only read; no caller waits for the answer.
    pub fn close_read(&mut self, handle: &[u8]) {
        let request = Request::Close(crate::message::request::Close { handle });
        self.send(Token::new(usize::MAX, Op::CloseRead), &request);
    }

    /// Ends a request that is answered by several messages; its STATUS follows soon.
    pub fn cancel(&mut self, request: u32) {
        let cancel = Extended::Cancel(Cancel { request });
        self.send(
            Token::new(usize::MAX, Op::Cancel),
            &Request::Extended(cancel),
        );
    }

    /// Forgets the unanswered requests, whose answers will not arrive.
    pub fn forget(&mut self) {
        self.open = Requests::default();
        self.flow.forget();
        self.timed = None;
        self.arriving = None;
    }

    /// Processes bytes from the server and passes the answers on; `link` is passed on as it is.
    ///
    /// # Errors
    /// [`Broken`]: the connection is unusable from now on.
    pub fn feed(
        &mut self,
        link: usize,
        bytes: Bytes,
        answers: &mut impl Answers,
    ) -> Result<(), Broken> {
        self.splitter.push(bytes);
        while let Some(piece) = self.splitter.next_piece().map_err(Broken::Frame)? {
            self.take(link, piece, answers)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        link: usize,
        piece: FramePiece,
        answers: &mut impl Answers,
    ) -> Result<(), Broken> {
        match piece {
            FramePiece::Message(message) if self.phase == Phase::Greeting => self.greeted(&message),
            _ if self.phase == Phase::Greeting => {
                Err(Broken::Rule("the first message is not VERSION"))
            }
            FramePiece::Message(message) => {
                let (id, reply) =
                    Reply::decode(&message).map_err(|error| Broken::Undecodable(error.error))?;
                // A request with several answers remains until STATUS.
                let stays = matches!(reply, Reply::Extended(_))
                    && self.open.find(id).is_some_and(|token| token.op.has_many());
                let token = self.answered(id, stays)?;
                match token.op {
                    Op::Limits => self.limits(&reply),
                    Op::CloseRead => self.handle_ends(),
                    Op::Cancel => {}
                    _ => answers.reply(link, self, token, &reply),
                }
                Ok(())
            }
            FramePiece::Data { id, len } => {
                let stays = self.open.find(id).is_some_and(|token| token.op.has_many());
                let token = self.answered(id, stays)?;
                match token.op {
                    Op::Read if len > token.len => Err(Broken::Rule("more data than requested")),
                    Op::Read if len == 0 => Err(Broken::Rule("data of no length")),
                    Op::Read | Op::ReadRange | Op::OpenRead => {
                        self.arriving = Some((token, len));
                        if len == 0 {
                            self.data_ends(link, answers);
                        }
                        Ok(())
                    }
                    _ => Err(Broken::Rule("data that was not requested")),
                }
            }
            FramePiece::Payload { bytes, left } => {
                if let Some((token, len)) = self.arriving {
                    let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    let at = len.saturating_sub(left).saturating_sub(count);
                    answers.data(link, token, at, &bytes);
                    if left == 0 {
                        self.data_ends(link, answers);
                    }
                }
                Ok(())
            }
            FramePiece::Write { .. } => Err(Broken::Rule("a request from the server")),
        }
    }

    fn data_ends(&mut self, link: usize, answers: &mut impl Answers) {
        if let Some((token, len)) = self.arriving.take() {
            answers.data_ends(link, self, token, len);
        }
    }

    fn greeted(&mut self, message: &[u8]) -> Result<(), Broken> {
        let version = Version::decode(message).map_err(Broken::Undecodable)?;
        if version.version < crate::VERSION {
            return Err(Broken::Version(version.version));
        }
        self.server.extensions = version.extensions;
        // OpenSSH's server and its derivatives queue the answers to READs. Fulmar's server reads no
        // more than it can send.
        if self.server.has(FSTATVFS, "2") && !self.server.has(vendor::READ_RANGE, "1") {
            self.flow.piles_up();
        }
        self.phase = Phase::Ready;
        if self.reads_on {
            self.phase = Phase::Asking;
        } else if self.server.has(LIMITS, "1") {
            self.phase = Phase::Asking;
            self.ask_limits();
        }
        Ok(())
    }

    fn ask_limits(&mut self) {
        let request = Request::Extended(Extended::GetLimits(GetLimits {}));
        self.send(Token::new(usize::MAX, Op::Limits), &request);
    }

    fn limits(&mut self, reply: &Reply<'_>) {
        self.phase = Phase::Ready;
        let Reply::Extended(fields) = reply else {
            return;
        };
        let Ok(limits) = Limits::decode(fields) else {
            return;
        };
        let bounded = |bytes: u64| {
            u32::try_from(bytes)
                .unwrap_or(u32::MAX)
                .clamp(1024, crate::MAX_DATA_BYTES)
        };
        // 0 means that the server states no limit.
        if limits.max_read_bytes > 0 {
            self.server.max_read = bounded(limits.max_read_bytes);
        }
        if limits.max_write_bytes > 0 {
            self.server.max_write = bounded(limits.max_write_bytes);
        }
        if limits.max_handles > 0 {
            let handles = usize::try_from(limits.max_handles).unwrap_or(usize::MAX);
            // Leave some for the server's own file descriptors.
            self.server.max_handles = handles.saturating_sub(16).clamp(2, MAX_HANDLES);
        }
    }

    /// Returns the token of the request that is answered; removes the request unless it `stays`.
    fn answered(&mut self, id: u32, stays: bool) -> Result<Token, Broken> {
        const UNKNOWN: Broken = Broken::Rule("an answer without a request");
        if stays {
            return self.open.find(id).copied().ok_or(UNKNOWN);
        }
        let token = self.open.answered(id).ok_or(UNKNOWN)?;
        if self.timed.is_some_and(|(timed, _)| timed == id)
            && let Some((_, Some(left))) = self.timed.take()
        {
            self.flow.took(left.elapsed());
        }
        if token.len > 0 {
            self.flow.answered(token.len, Instant::now);
        }
        Ok(token)
    }
}

/// Returns the text of a STATUS for the user: the text of the code, and the server's message if it
/// adds to that.
#[must_use]
pub fn status_text(code: Code, message: &[u8]) -> String {
    let words = words_of(code);
    let said = String::from_utf8_lossy(message);
    let said = said.trim().trim_end_matches('.');
    // OpenSSH and others repeat the text of the code, some in different case.
    let repeats = said.is_empty()
        || said.eq_ignore_ascii_case(words)
        || said.eq_ignore_ascii_case(code.text())
        || said.eq_ignore_ascii_case("SSH_FX_FAILURE");
    match (code, repeats) {
        (_, true) => words.to_owned(),
        (Code::FAILURE, false) => escape::one_line(said),
        (_, false)
            if said
                .to_ascii_lowercase()
                .contains(&words.to_ascii_lowercase()) =>
        {
            words.to_owned()
        }
        (_, false) => format!("{words} ({})", escape::one_line(said)),
    }
}

/// OpenSSH's client has a longer text for one code than its server.
fn words_of(code: Code) -> &'static str {
    match code {
        Code::NO_SUCH_FILE => "No such file or directory",
        code => code.text(),
    }
}

/// Returns the attributes of an ATTRS answer; `None` for any other.
#[must_use]
pub fn attributes_of(reply: &Reply<'_>) -> Option<Attributes> {
    match reply {
        Reply::Attrs(attributes) => Some(*attributes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Answers for Nothing {
        fn reply(&mut self, _: usize, _: &mut Session, _: Token, _: &Reply<'_>) {}
        fn data(&mut self, _: usize, _: Token, _: u32, _: &Bytes) {}
        fn data_ends(&mut self, _: usize, _: &mut Session, _: Token, _: u32) {}
    }

    /// Returns how many bytes may be requested from, and sent to, a server with these extensions
    /// before it answers.
    fn flights(extensions: &[(&str, &str)]) -> [u64; 2] {
        [Op::Read, Op::Write].map(|op| {
            let mut session = Session::default();
            assert!(session.is_unmet() && session.is_at_rest());
            let mut room = [0; 100];
            assert!(session.fill(&mut room) > 0 && !session.is_unmet());
            let mut version = Vec::new();
            Version::encode(3, extensions.iter().copied(), &mut version);
            session.feed(0, version.into(), &mut Nothing).unwrap();
            loop {
                let takes = match op {
                    Op::Read => session.takes_read(),
                    _ => session.takes_write(),
                };
                if !takes {
                    return session.flight_bytes();
                }
                session.next_id(Token::data(0, op, 0, 1 << 20));
            }
        })
    }

    #[test]
    fn a_server_that_reads_ahead_of_what_it_sends_is_asked_for_less() {
        let ours = [(FSTATVFS, "2"), (vendor::READ_RANGE, "1")];
        assert_eq!(flights(&ours), [16 << 20; 2]);
        assert_eq!(flights(&[]), [16 << 20; 2]);
        assert_eq!(flights(&[(FSTATVFS, "2")]), [4 << 20, 16 << 20]);
    }

    #[test]
    fn a_connection_that_is_not_there_keeps_nobody_waiting() {
        let mut session = Session::default();
        session.read_on(false);
        assert!(session.open_requests() > 0 && session.has_output() && session.is_at_rest());
        assert!(session.fill(&mut [0; 100]) > 0 && !session.is_at_rest());
    }
}
