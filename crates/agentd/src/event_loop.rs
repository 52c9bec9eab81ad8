//! The agent's loop: one thread waits for all clients. It signs by itself with keys that take
//! microseconds; threads make slow signatures, and the helper asks the user. A request that waits
//! for either delays no other.

mod tokens;
mod unlocks;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use agent::answer;
use agent::request::AddRequest;
use sys::epoll::{Epoll, Event, Events, Interest};
use sys::process::PidFd;
use sys::signals::{Signal, SignalFd};

use crate::connection::{BadLength, ClientConnection};
use crate::helper::{Helper, HelperAnswer};
use crate::requests::{Handling, KeyAgent, Signing, TokenAddition};
use crate::token_link::{TokenLink, TokenWait};
use crate::workers::{AnswerPlace, Workers};
use unlocks::Unlocks;

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const WORKERS: u64 = 2;
const HELPER: u64 = 3;
const PARENT: u64 = 4;
/// Token of the first connection; tokens are not used again.
const FIRST_CONNECTION: u64 = 16;

/// Requests of one client that are handled before the next client's turn: about a millisecond.
const REQUESTS_A_TURN: usize = 16;
/// Bytes that are read at a time.
const READ_BYTES: usize = 32 * 1024;
/// Memory for unfinished requests of all clients together, bytes.
const MAX_INPUT_BYTES: usize = 64 * 1024 * 1024;
/// Clients beyond which the agent accepts none, whatever the limit of open files is.
const MAX_CLIENTS: u64 = 8192;
/// Descriptors that are not clients.
const OWN_DESCRIPTORS: u64 = 24;
/// Requests that wait for the helper at the same time, of all clients, of those on other machines, and of
/// one.
const MAX_QUESTIONS: usize = 16;
const MAX_QUESTIONS_OF_REMOTE: usize = 12;
const MAX_QUESTIONS_OF_ONE: usize = 4;
/// Libraries of tokens that are loaded.
const MAX_TOKEN_LINKS: usize = 32;
/// Pause before the next attempt to accept, when the system has no descriptor for the only client.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Idle time after which unused memory is returned.
const REST: Duration = Duration::from_millis(200);

/// Why the loop has ended.
pub(crate) enum LoopEnd {
    /// A signal asked for it.
    Signal,
    /// The program for which the agent was started has ended.
    ParentEnded,
}

/// The loop's descriptors, opened before the sandbox.
pub(crate) struct LoopSources {
    pub(crate) listener: OwnedFd,
    pub(crate) signals: SignalFd,
    pub(crate) helper: Helper,
    pub(crate) parent: Option<PidFd>,
    /// The program's code, most of which only the start needs.
    pub(crate) code: sys::memory::CodePages,
    /// Address of the heap's start.
    pub(crate) heap_start: usize,
}

/// The step that follows when the helper has found a library.
enum TokenTask {
    Add(Box<TokenAddition>),
    Remove,
}

/// The agent with its clients.
pub(crate) struct AgentLoop {
    agent: KeyAgent,
    epoll: Epoll,
    sources: LoopSources,
    workers: Workers,
    connections: HashMap<u64, ClientConnection>,
    next_token: u64,
    most_connections: u64,
    accepts: bool,
    /// Clients with whole requests whose turn is over.
    runnable: VecDeque<u64>,
    questions: HashMap<(u64, u64), Box<Signing>>,
    /// Signatures that security keys make, with the blobs of their keys.
    touches: HashMap<(u64, u64), Vec<u8>>,
    /// Keys whose providers the helper checks.
    checks: HashMap<(u64, u64), Box<AddRequest>>,
    /// Libraries whose path the helper looks at.
    token_tasks: HashMap<(u64, u64), TokenTask>,
    /// Helpers that reach tokens, by their number.
    links: HashMap<u64, TokenLink>,
    /// Requests that the helper has not answered yet. Those of clients that have gone count too, because
    /// their windows are still on the user's screen.
    in_help: usize,
    /// Those of them that come from other machines.
    remote_in_help: HashSet<(u64, u64)>,
    unlocks: Unlocks,
    buffer: Vec<u8>,
    /// Unused memory was returned since the last event.
    has_rested: bool,
}

impl AgentLoop {
    pub(crate) fn new(agent: KeyAgent, sources: LoopSources) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let workers = Workers::new()?;
        sys::io::set_nonblocking(&sources.listener, true)?;
        epoll.add(&sources.listener, LISTENER, Interest::READABLE)?;
        epoll.add(&sources.signals, SIGNALS, Interest::READABLE)?;
        epoll.add(workers.finished(), WORKERS, Interest::READABLE)?;
        epoll.add(sources.helper.socket(), HELPER, Interest::READABLE)?;
        if let Some(parent) = &sources.parent {
            epoll.add(parent, PARENT, Interest::READABLE)?;
        }
        let _ = sys::process::raise_open_files();
        let files = sys::process::limit(sys::process::Resource::OpenFiles)?.soft;
        Ok(Self {
            agent,
            epoll,
            sources,
            workers,
            connections: HashMap::new(),
            next_token: FIRST_CONNECTION,
            most_connections: files.saturating_sub(OWN_DESCRIPTORS).clamp(1, MAX_CLIENTS),
            accepts: true,
            runnable: VecDeque::new(),
            questions: HashMap::new(),
            touches: HashMap::new(),
            checks: HashMap::new(),
            token_tasks: HashMap::new(),
            links: HashMap::new(),
            in_help: 0,
            remote_in_help: HashSet::new(),
            unlocks: Unlocks::default(),
            buffer: vec![0; READ_BYTES],
            has_rested: false,
        })
    }

    /// Serves until a signal or the parent's end.
    pub(crate) fn run(&mut self) -> io::Result<LoopEnd> {
        // Locked pages cannot be returned.
        sys::memory::trim();
        self.lock_memory();
        let mut events = Events::with_capacity(64);
        loop {
            if self.has_rested {
                let code = self.sources.code;
                code.wait_without(self.epoll.as_fd(), self.timeout());
            }
            let count = self.epoll.wait(&mut events, self.timeout())?;
            let is_idle = count == 0 && self.runnable.is_empty();
            if is_idle && !self.has_rested {
                sys::memory::rest();
            }
            self.has_rested = is_idle;
            for comment in self.agent.keyring.expire(sys::time::boot_ms()) {
                let log = &self.agent.log;
                log.debug(format_args!("key \"{comment}\" has expired"));
            }
            self.continue_unlocks();
            self.close_unused_links();
            self.end_overdue_links(sys::time::boot_ms());
            let turn = std::mem::take(&mut self.runnable);
            for event in events.iter() {
                if let Some(end) = self.event(event)? {
                    return Ok(end);
                }
            }
            for token in turn {
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.is_queued = false;
                    self.serve(token);
                }
            }
        }
    }

    /// Ends the helper, which removes the socket.
    pub(crate) fn finish(mut self) {
        self.agent.keyring.remove_all();
        self.sources.helper.finish();
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.runnable.is_empty() {
            return Some(Duration::ZERO);
        }
        let adding = self.links.values().filter_map(TokenLink::adding_until_ms);
        let next = self
            .agent
            .keyring
            .next_expiry_ms()
            .into_iter()
            .chain(self.unlocks.next_ms())
            .chain(adding);
        let left = next
            .min()
            .map(|next| Duration::from_millis(next.saturating_sub(sys::time::boot_ms())));
        match self.has_rested {
            true => left,
            false => Some(left.unwrap_or(REST).min(REST)),
        }
    }

    fn event(&mut self, event: Event) -> io::Result<Option<LoopEnd>> {
        match event.token {
            LISTENER => self.accept(),
            SIGNALS => return self.signal(),
            WORKERS => {
                for (place, answer) in self.workers.take() {
                    if let Some(connection) = self.connections.get_mut(&place.connection) {
                        connection.in_work = connection.in_work.saturating_sub(1);
                    }
                    self.deliver(place, answer);
                }
            }
            HELPER => self.helped(),
            PARENT => return Ok(Some(LoopEnd::ParentEnded)),
            token if self.links.contains_key(&token) => self.token_replies(token),
            token => self.client(token, event),
        }
        Ok(None)
    }

    fn signal(&mut self) -> io::Result<Option<LoopEnd>> {
        while let Some(info) = self.sources.signals.read()? {
            match info.signal {
                Signal::USR1 => self.agent.remove_all(),
                _ => return Ok(Some(LoopEnd::Signal)),
            }
        }
        Ok(None)
    }

    fn accept(&mut self) {
        while self.has_room() {
            let socket = match sys::socket::accept_stream(&self.sources.listener) {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    let log = &self.agent.log;
                    log.debug(format_args!("cannot accept a client: {error}"));
                    // The end of a client may remove the reason; without any, only time does.
                    let is_alone = self.connections.is_empty();
                    if is_alone {
                        std::thread::sleep(ACCEPT_PAUSE);
                    }
                    return self.set_accepts(is_alone);
                }
            };
            let own = sys::process::effective_uid();
            match sys::socket::local::peer_credentials(&socket) {
                Ok(peer) if peer.uid == own || peer.uid == 0 => {}
                Ok(peer) => {
                    let log = &self.agent.log;
                    log.info(format_args!("refused a client of user {}", peer.uid));
                    continue;
                }
                Err(_) => continue,
            }
            let token = self.next_token;
            self.next_token += 1;
            if self.epoll.add(&socket, token, Interest::READABLE).is_ok() {
                self.connections
                    .insert(token, ClientConnection::new(socket));
                // Most clients have sent their first request already.
                self.readable(token);
            }
        }
        self.set_accepts(false);
    }

    fn has_room(&self) -> bool {
        u64::try_from(self.connections.len()).is_ok_and(|count| count < self.most_connections)
    }

    fn set_accepts(&mut self, accepts: bool) {
        if self.accepts != accepts {
            let interest = Interest::when(accepts, false);
            let changed = self
                .epoll
                .modify(&self.sources.listener, LISTENER, interest);
            self.accepts = accepts == changed.is_ok();
        }
    }

    fn client(&mut self, token: u64, event: Event) {
        let Some(connection) = self.connections.get(&token) else {
            return;
        };
        if event.is_readable() && connection.interest.readable() {
            self.readable(token);
        } else if event.is_hangup() {
            // Nobody reads the remaining answers.
            self.close(token);
        } else {
            self.serve(token);
        }
    }

    fn readable(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        match connection.receive(&mut self.buffer) {
            Ok(true) => self.serve(token),
            Ok(false) => {}
            Err(_) => self.close(token),
        }
    }

    /// Handles a client's requests for one turn, and writes its answers.
    fn serve(&mut self, token: u64) {
        for _ in 0..REQUESTS_A_TURN {
            let Some(connection) = self.connections.get_mut(&token) else {
                return;
            };
            // A client cannot keep all threads busy for long.
            if connection.in_work >= 2 * self.workers.most() {
                break;
            }
            let request = match connection.next_request() {
                Ok(Some(request)) => request,
                Ok(None) => break,
                Err(BadLength) => {
                    let log = &self.agent.log;
                    log.info(format_args!("closed a client: bad length of a request"));
                    return self.close(token);
                }
            };
            let (bindings, body) = connection.request();
            let handling = self.agent.handle(bindings, body);
            connection.request_is_handled();
            let place = AnswerPlace {
                connection: token,
                request,
            };
            self.carry_out(place, handling);
            if std::mem::take(&mut self.agent.has_grown) {
                self.lock_memory();
            }
        }
        self.settle(token);
    }

    fn carry_out(&mut self, place: AnswerPlace, handling: Handling) {
        let Some(connection) = self.connections.get_mut(&place.connection) else {
            return;
        };
        match handling {
            Handling::Answer(answer) => {
                connection.answer(place.request, answer);
            }
            Handling::Sign(signing) if signing.touch().is_some() => self.touch(place, &signing),
            Handling::Sign(signing) if signing.in_token().is_some() => {
                self.sign_in_token(place, &signing);
            }
            Handling::Check(request) => self.check(place, request),
            Handling::Sign(signing) if signing.is_slow() => {
                connection.in_work += 1;
                self.workers.start(place, signing);
            }
            Handling::Sign(signing) => connection.answer(place.request, signing.perform()),
            Handling::Confirm(signing, question) => {
                if self.asks_helper(place, |helper| helper.ask(place, &question)) {
                    self.questions.insert(key_of(place), signing);
                }
            }
            Handling::AddToken(addition) => {
                self.start_token(place, addition);
            }
            Handling::RemoveToken(provider) => {
                if self.asks_helper(place, |helper| helper.resolve_token(place, &provider)) {
                    self.token_tasks.insert(key_of(place), TokenTask::Remove);
                }
            }
            // Tried in the loop's next turn: an answer leads to the client's next request, and one in
            // the other would take stack for each request that clients have sent.
            Handling::Unlock(passphrase) => {
                let is_remote = connection.bindings.is_remote();
                if !self.unlocks.add(place, passphrase, is_remote) {
                    connection.answer(place.request, answer::status(false));
                }
            }
        }
    }

    /// Sets an answer that took time, and goes on with its client.
    fn deliver(&mut self, place: AnswerPlace, answer: Vec<u8>) {
        if let Some(connection) = self.connections.get_mut(&place.connection) {
            connection.answer(place.request, answer);
            self.serve(place.connection);
        }
    }

    /// Passes a request to the helper, or refuses it if too many wait for the helper. Returns true if
    /// the helper has got it.
    fn asks_helper(
        &mut self,
        place: AnswerPlace,
        ask: impl FnOnce(&Helper) -> io::Result<()>,
    ) -> bool {
        let Some(connection) = self.connections.get_mut(&place.connection) else {
            return false;
        };
        let is_remote = connection.bindings.is_remote();
        // Those on other machines leave room for the user's own.
        let has_room = self.in_help < MAX_QUESTIONS
            && connection.in_question < MAX_QUESTIONS_OF_ONE
            && !(is_remote && self.remote_in_help.len() >= MAX_QUESTIONS_OF_REMOTE);
        if has_room && ask(&self.sources.helper).is_ok() {
            connection.in_question += 1;
            self.in_help += 1;
            if is_remote {
                self.remote_in_help.insert(key_of(place));
            }
            return true;
        }
        let log = &self.agent.log;
        log.info(format_args!(
            "refused: too many requests wait for the user or a library"
        ));
        connection.answer(place.request, answer::status(false));
        false
    }

    /// Lets a security key sign, which waits for the user's touch.
    fn touch(&mut self, place: AnswerPlace, signing: &Signing) {
        if self.asks_helper(place, |helper| helper.sign(place, signing)) {
            self.touches.insert(key_of(place), signing.blob().to_vec());
        }
    }

    fn check(&mut self, place: AnswerPlace, request: Box<AddRequest>) {
        let provider = request.constraints.provider.clone().unwrap_or_default();
        if self.asks_helper(place, |helper| helper.check_provider(place, &provider)) {
            self.checks.insert(key_of(place), request);
        }
    }

    /// Takes the helper's answers.
    fn helped(&mut self) {
        loop {
            let (place, answer) = match self.sources.helper.answer() {
                Ok(Some(answer)) => answer,
                Ok(None) => return,
                Err(_) => return self.helper_has_gone(),
            };
            self.in_help = self.in_help.saturating_sub(1);
            let key = key_of(place);
            self.remote_in_help.remove(&key);
            match answer {
                HelperAnswer::Confirmed(is_yes) => {
                    if let Some(signing) = self.questions.remove(&key) {
                        self.is_helped(place);
                        self.confirmed(place, signing, is_yes);
                    }
                }
                HelperAnswer::Signed(signature) => {
                    if let Some(blob) = self.touches.remove(&key) {
                        self.is_helped(place);
                        self.touched(place, &blob, signature);
                    }
                }
                HelperAnswer::Checked(provider) => {
                    if let Some(request) = self.checks.remove(&key) {
                        self.is_helped(place);
                        self.checked(place, *request, provider);
                    }
                }
                HelperAnswer::Reached(library) => {
                    if let Some(task) = self.token_tasks.remove(&key) {
                        self.is_helped(place);
                        self.token_is_reached(place, task, library);
                    }
                }
            }
        }
    }

    fn is_helped(&mut self, place: AnswerPlace) {
        if let Some(connection) = self.connections.get_mut(&place.connection) {
            connection.in_question = connection.in_question.saturating_sub(1);
        }
    }

    /// False if the agent has been locked, or the key removed, since the request.
    fn still_holds(&self, blob: &[u8]) -> bool {
        let keyring = &self.agent.keyring;
        !keyring.is_locked() && keyring.find(blob).is_some()
    }

    fn confirmed(&mut self, place: AnswerPlace, signing: Box<Signing>, is_yes: bool) {
        if is_yes && self.still_holds(signing.blob()) {
            self.carry_out(place, Handling::Sign(signing));
            self.serve(place.connection);
        } else {
            let log = &self.agent.log;
            log.info(format_args!(
                "refused: the user did not allow the use of a key"
            ));
            self.deliver(place, answer::status(false));
        }
    }

    fn touched(&mut self, place: AnswerPlace, blob: &[u8], signature: Result<Vec<u8>, String>) {
        let answer = match signature {
            Ok(signature) if self.still_holds(blob) => answer::signature(&signature),
            Ok(_) => answer::status(false),
            Err(reason) => {
                let reason = escape::one_line(&reason);
                let log = &self.agent.log;
                log.info(format_args!("a security key does not sign: {reason}"));
                answer::status(false)
            }
        };
        self.deliver(place, answer);
    }

    fn checked(
        &mut self,
        place: AnswerPlace,
        request: AddRequest,
        provider: Result<String, String>,
    ) {
        let Some(connection) = self.connections.get_mut(&place.connection) else {
            return;
        };
        let (bindings, _) = connection.request();
        let is_added = self.agent.add_checked(bindings, request, provider);
        if std::mem::take(&mut self.agent.has_grown) {
            self.lock_memory();
        }
        self.deliver(place, answer::status(is_added));
    }

    /// Without the helper nobody can be asked: all its requests are refused.
    fn helper_has_gone(&mut self) {
        let _ = self.epoll.remove(self.sources.helper.socket());
        let mut places: Vec<(u64, u64)> = self.questions.drain().map(|(key, _)| key).collect();
        places.extend(self.touches.drain().map(|(key, _)| key));
        places.extend(self.checks.drain().map(|(key, _)| key));
        places.extend(self.token_tasks.drain().map(|(key, _)| key));
        for (connection, request) in places {
            let place = AnswerPlace {
                connection,
                request,
            };
            self.deliver(place, answer::status(false));
        }
    }

    /// Tries the passphrases whose time has come.
    fn continue_unlocks(&mut self) {
        loop {
            let now_ms = sys::time::boot_ms();
            let Some(answered) = self.unlocks.next(&mut self.agent.keyring, now_ms) else {
                return;
            };
            if answered.is_wrong {
                let log = &self.agent.log;
                log.info(format_args!("wrong passphrase to unlock the agent"));
            }
            self.deliver(answered.place, answer::status(answered.is_unlocked));
        }
    }

    /// Writes a client's answers, and decides what to wait for.
    fn settle(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        if connection.send().is_err() || connection.is_done() {
            return self.close(token);
        }
        let may_work = connection.in_work < 2 * self.workers.most();
        if may_work && !connection.is_queued && connection.is_runnable() {
            connection.is_queued = true;
            self.runnable.push_back(token);
        }
        let wanted = connection.wanted();
        if wanted != connection.interest {
            connection.interest = wanted;
            if self
                .epoll
                .modify(&connection.socket, token, wanted)
                .is_err()
            {
                return self.close(token);
            }
        }
        if connection.input_bytes() > READ_BYTES && self.input_bytes() > MAX_INPUT_BYTES {
            let log = &self.agent.log;
            log.info(format_args!(
                "closed a client: too many unfinished requests"
            ));
            self.close(token);
        }
    }

    fn input_bytes(&self) -> usize {
        self.connections
            .values()
            .map(ClientConnection::input_bytes)
            .sum()
    }

    fn close(&mut self, token: u64) {
        if let Some(connection) = self.connections.remove(&token) {
            let _ = self.epoll.remove(&connection.socket);
            self.unlocks.forget(token);
            self.questions.retain(|(of, _), _| *of != token);
            self.checks.retain(|(of, _), _| *of != token);
            self.token_tasks.retain(|(of, _), _| *of != token);
            let helper = &self.sources.helper;
            self.touches.retain(|(of, request), _| {
                let is_kept = *of != token;
                if !is_kept {
                    helper.cancel(AnswerPlace {
                        connection: *of,
                        request: *request,
                    });
                }
                is_kept
            });
        }
        if self.has_room() {
            self.set_accepts(true);
        }
    }

    /// Keeps keys out of swap, as far as the limits permit.
    fn lock_memory(&mut self) {
        static SAID: std::sync::Once = std::sync::Once::new();
        if let Err(error) = sys::memory::lock_heap(self.sources.heap_start) {
            SAID.call_once(|| {
                let log = &self.agent.log;
                log.debug(format_args!("keys may be swapped: {error}"));
            });
        }
    }
}

fn key_of(place: AnswerPlace) -> (u64, u64) {
    (place.connection, place.request)
}
