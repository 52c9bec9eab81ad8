//! Tokens in the agent's loop: the helpers of libraries, what waits for them, and their replies.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use agent::answer;
use sys::epoll::Interest;
use token::message::{TokenReply, TokenRequest};

use super::{
    AgentLoop, AnswerPlace, MAX_TOKEN_LINKS, Signing, TokenAddition, TokenLink, TokenTask,
    TokenWait, key_of,
};
use crate::bindings::Bindings;
use crate::token_link::ADDING_LIMIT_MS;

impl AgentLoop {
    /// Has the helper start what reaches the tokens of a library.
    pub(super) fn start_token(&mut self, place: AnswerPlace, addition: Box<TokenAddition>) {
        if self.links.len() + self.token_tasks.len() >= MAX_TOKEN_LINKS {
            let log = &self.agent.log;
            log.info(format_args!("refused: too many libraries are loaded"));
            return self.answer_later(place, false);
        }
        let library = &addition.provider;
        if self.asks_helper(place, |helper| helper.start_token(place, library)) {
            let key = key_of(place);
            self.token_tasks.insert(key, TokenTask::Add(addition));
        }
    }

    /// The helper has found a library, or not.
    pub(super) fn token_is_reached(
        &mut self,
        place: AnswerPlace,
        task: TokenTask,
        library: Result<(String, Option<OwnedFd>), String>,
    ) {
        let log = &self.agent.log;
        match (task, library) {
            (TokenTask::Remove, Ok((path, _))) => {
                let none = Bindings::default();
                let connection = self.connections.get(&place.connection);
                let bindings = connection.map_or(&none, |connection| &connection.bindings);
                let is_locked = self.agent.keyring.is_locked();
                let is_done = !is_locked && self.agent.remove_token(bindings, &path);
                self.deliver(place, answer::status(is_done));
            }
            (TokenTask::Add(addition), Ok((path, Some(socket)))) => {
                let number = self.next_token;
                self.next_token += 1;
                let request = TokenRequest::Open {
                    pin: Some(addition.pin.clone()),
                };
                let added = TokenLink::new(socket, &path).and_then(|link| {
                    let interest = Interest::READABLE;
                    self.epoll
                        .add(link.socket(), number, interest)
                        .map(|()| link)
                });
                let Ok(mut link) = added else {
                    return self.deliver(place, answer::status(false));
                };
                let sent = link.send(&request, TokenWait::Adding(place, addition));
                self.links.insert(number, link);
                match sent {
                    Ok(()) => self.flush_link(number),
                    Err(_) => self.end_link(number),
                }
            }
            (TokenTask::Add(addition), refused) => {
                let provider = escape::one_line(&addition.provider);
                let reason = refused.err();
                let reason = reason.as_deref().unwrap_or("its process cannot be reached");
                let reason = escape::one_line(reason);
                log.info(format_args!("provider \"{provider}\" refused: {reason}"));
                self.deliver(place, answer::status(false));
            }
            (TokenTask::Remove, Err(reason)) => {
                let reason = escape::one_line(&reason);
                log.info(format_args!("no provider is removed: {reason}"));
                self.deliver(place, answer::status(false));
            }
        }
    }

    /// Sends a signature to the helper of its token.
    pub(super) fn sign_in_token(&mut self, place: AnswerPlace, signing: &Signing) {
        let Some((number, request)) = signing.in_token() else {
            return;
        };
        let link = self.links.get_mut(&number);
        let wait = TokenWait::Signing(place, signing.blob().to_vec());
        let sent = link.is_some_and(|link| link.send(&request, wait).is_ok());
        match sent {
            true => self.flush_link(number),
            false => {
                let log = &self.agent.log;
                log.info(format_args!(
                    "refused: the helper of the key's token has ended or is too busy"
                ));
                self.answer_later(place, false);
            }
        }
    }

    /// Takes the replies of a helper.
    pub(super) fn token_replies(&mut self, number: u64) {
        let Some(link) = self.links.get_mut(&number) else {
            return;
        };
        let provider = Arc::clone(&link.provider);
        let Ok(replies) = link.receive(&mut self.buffer) else {
            return self.end_link(number);
        };
        for (wait, reply) in replies {
            self.token_reply(number, &provider, wait, reply);
        }
        self.flush_link(number);
    }

    fn token_reply(
        &mut self,
        number: u64,
        provider: &Arc<str>,
        wait: TokenWait,
        reply: TokenReply,
    ) {
        let log = &self.agent.log;
        let answer = match (&wait, reply) {
            (TokenWait::Signing(_, key), TokenReply::Signature(signature)) => {
                match self.still_holds(key) {
                    true => answer::signature(&signature),
                    false => answer::status(false),
                }
            }
            (TokenWait::Adding(place, addition), TokenReply::Opened(list)) => {
                let is_locked = self.agent.keyring.is_locked();
                // A client that has gone gets no keys: what it may replace is not known any more.
                let count = match self.connections.get(&place.connection) {
                    Some(connection) if !is_locked => {
                        let place = (number, provider);
                        let bindings = &connection.bindings;
                        self.agent.add_token_keys(bindings, addition, place, &list)
                    }
                    _ => 0,
                };
                if count == 0 {
                    let log = &self.agent.log;
                    log.info(format_args!(
                        "provider \"{provider}\": it has no keys to add"
                    ));
                }
                answer::status(count > 0)
            }
            (_, TokenReply::NeedsPin { .. }) => {
                log.info(format_args!(
                    "refused: the token needs its PIN again; add its keys again"
                ));
                answer::status(false)
            }
            (_, TokenReply::Failed { reason, .. }) => {
                let reason = escape::one_line(&reason);
                log.info(format_args!("provider \"{provider}\": {reason}"));
                answer::status(false)
            }
            _ => answer::status(false),
        };
        self.deliver(wait.place(), answer);
        if std::mem::take(&mut self.agent.has_grown) {
            self.lock_memory();
        }
    }

    /// Writes to a helper, and decides what to wait for.
    fn flush_link(&mut self, number: u64) {
        let Some(link) = self.links.get_mut(&number) else {
            return;
        };
        if link.flush().is_err() {
            return self.end_link(number);
        }
        let wanted = link.wanted();
        if wanted != link.interest {
            link.interest = wanted;
            let _ = self.epoll.modify(link.socket(), number, wanted);
        }
    }

    /// A helper has ended: whoever waits for it is refused.
    fn end_link(&mut self, number: u64) {
        let Some(link) = self.links.remove(&number) else {
            return;
        };
        let _ = self.epoll.remove(link.socket());
        let provider = Arc::clone(&link.provider);
        let log = &self.agent.log;
        log.info(format_args!(
            "the helper of provider \"{provider}\" has ended"
        ));
        for wait in link.end() {
            self.answer_later(wait.place(), false);
        }
    }

    /// Ends helpers that no key needs any more.
    pub(super) fn close_unused_links(&mut self) {
        if self.links.is_empty() {
            return;
        }
        let keyring = &self.agent.keyring;
        let epoll = &self.epoll;
        self.links.retain(|number, link| {
            let is_used = !link.is_idle() || keyring.uses_link(*number);
            if !is_used {
                let _ = epoll.remove(link.socket());
            }
            is_used
        });
    }

    /// Ends helpers whose libraries have not told their keys in time.
    pub(super) fn end_overdue_links(&mut self, now_ms: u64) {
        let is_overdue = |link: &TokenLink| link.adding_until_ms().is_some_and(|at| at <= now_ms);
        let overdue: Vec<u64> = self
            .links
            .iter()
            .filter_map(|(number, link)| is_overdue(link).then_some(*number))
            .collect();
        for number in overdue {
            if let Some(link) = self.links.get(&number) {
                let log = &self.agent.log;
                log.info(format_args!(
                    "provider \"{}\" has not told its keys in {} s",
                    link.provider,
                    ADDING_LIMIT_MS / 1000
                ));
            }
            self.end_link(number);
        }
    }

    /// Sets an answer without going on with its client, which the caller may be serving.
    fn answer_later(&mut self, place: AnswerPlace, is_done: bool) {
        if let Some(connection) = self.connections.get_mut(&place.connection) {
            connection.answer(place.request, answer::status(is_done));
            if !connection.is_queued {
                connection.is_queued = true;
                self.runnable.push_back(place.connection);
            }
        }
    }
}
