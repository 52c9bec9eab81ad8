//! Tokens in the agent's loop: the helpers of libraries, what waits for them, and their replies.

use std::sync::Arc;

use agent::answer;
use sys::epoll::Interest;
use token::message::{TokenReply, TokenRequest};

use super::{
    AgentLoop, AnswerPlace, HelperAnswer, HelperTaskKind, MAX_TOKEN_LINKS, MAX_TOKEN_TASKS,
    Signing, TokenLink, TokenTask, TokenWait,
};
use crate::bindings::Bindings;

impl AgentLoop {
    /// Has the helper look at the path of a library, and start what reaches its tokens.
    pub(super) fn reach_token(
        &mut self,
        place: AnswerPlace,
        kind: HelperTaskKind,
        provider: &str,
        task: TokenTask,
    ) {
        let has_room =
            self.token_tasks.len() < MAX_TOKEN_TASKS && self.links.len() < MAX_TOKEN_LINKS;
        if has_room && self.sources.helper.ask(place, kind, provider).is_ok() {
            let key = (place.connection, place.request);
            self.token_tasks.insert(key, task);
        } else {
            self.answer_later(place, false);
        }
    }

    /// The helper has found a library, or not.
    pub(super) fn token_is_reached(&mut self, task: TokenTask, answer: HelperAnswer) {
        let place = answer.place;
        let text = escape::one_line(&answer.text);
        let log = &self.agent.log;
        match (task, answer.is_yes, answer.socket) {
            (TokenTask::Remove, true, _) => {
                let none = Bindings::default();
                let connection = self.connections.get(&place.connection);
                let bindings = connection.map_or(&none, |connection| &connection.bindings);
                let is_locked = self.agent.keyring.is_locked();
                let is_done = !is_locked && self.agent.remove_token(bindings, &answer.text);
                self.deliver(place, answer::status(is_done));
            }
            (TokenTask::Add(addition), true, Some(socket)) => {
                let number = self.next_token;
                self.next_token += 1;
                let request = TokenRequest::Open {
                    pin: Some(addition.pin.clone()),
                };
                let added = TokenLink::new(socket, &answer.text).and_then(|link| {
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
            (TokenTask::Add(addition), ..) => {
                let provider = escape::one_line(&addition.provider);
                log.info(format_args!("provider \"{provider}\" refused: {text}"));
                self.deliver(place, answer::status(false));
            }
            (TokenTask::Remove, ..) => {
                log.info(format_args!("no provider is removed: {text}"));
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
        let sent = link.is_some_and(|link| link.send(&request, TokenWait::Signing(place)).is_ok());
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
            (TokenWait::Signing(_), TokenReply::Signature(blob)) => answer::signature(&blob),
            (TokenWait::Adding(place, addition), TokenReply::Opened(list)) => {
                let none = Bindings::default();
                let connection = self.connections.get(&place.connection);
                let bindings = connection.map_or(&none, |connection| &connection.bindings);
                let is_locked = self.agent.keyring.is_locked();
                let count = match is_locked {
                    true => 0,
                    false => {
                        let place = (number, provider);
                        self.agent.add_token_keys(bindings, addition, place, &list)
                    }
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
