//! Method `keyboard-interactive` (RFC 4256) as a PAM conversation: PAM's prompts go to the client
//! and the client's answers return to PAM while libpam's call waits.
//!
//! If the client starts another method instead of answering, the request is put back, the
//! conversation fails, and the request is served next.

use privsep::{Frame, KbdintPrompts, KbdintRespond, LogLevel, LoginPhase, Message, Prompt};
use sys::pam::{Conversation, PamPrompt as PamMessage};
use zeroize::Zeroizing;

use super::channel::{RpcChannel, RpcEnd};

/// Most rounds of prompts in one attempt, and most prompts in one round.
const MAX_ROUNDS: usize = 64;
const MAX_PROMPTS: usize = 100;

/// How a conversation was cut short.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// The client has started another method.
    OtherRequest,
    /// The channel to the auth process has ended.
    End(RpcEnd),
}

/// A PAM conversation with the client.
pub(crate) struct Dialogue<'a, 'log> {
    channel: &'a mut RpcChannel<'log>,
    /// Passed to the modules instead of each answer, for a user who may not log in this way: the
    /// modules' further behaviour must not reveal whether the password was right.
    instead: Option<&'static [u8]>,
    /// Level and text of the line that is logged with each round of prompts.
    line: (LogLevel, String),
    rounds: usize,
    interrupted: Option<Interrupted>,
    /// Monotonic microseconds at which the last answer arrived: time before it is the client's.
    answered_us: Option<u64>,
}

impl<'a, 'log> Dialogue<'a, 'log> {
    pub(crate) fn new(
        channel: &'a mut RpcChannel<'log>,
        instead: Option<&'static [u8]>,
        line: (LogLevel, String),
    ) -> Self {
        Self {
            channel,
            instead,
            line,
            rounds: 0,
            interrupted: None,
            answered_us: None,
        }
    }

    /// Returns how the conversation was interrupted, if it was, and when the last answer arrived.
    pub(crate) fn finish(self) -> (Option<Interrupted>, Option<u64>) {
        (self.interrupted, self.answered_us)
    }

    fn ask(
        &mut self,
        instruction: String,
        prompts: Vec<Prompt>,
    ) -> Result<Vec<Zeroizing<Vec<u8>>>, Interrupted> {
        let count = prompts.len();
        let request = KbdintPrompts {
            name: String::new(),
            instruction,
            prompts,
        };
        self.channel.send(&request).map_err(Interrupted::End)?;
        self.channel.log_for(self.line.0, &self.line.1);
        self.channel.set_phase(LoginPhase::Prompting);
        let frame = self.channel.frame();
        self.channel.set_phase(LoginPhase::Authenticating);
        let frame = frame.map_err(Interrupted::End)?;
        self.answered_us = Some(sys::time::monotonic_us());
        if frame.number != KbdintRespond::NUMBER {
            self.channel.set_aside(frame);
            return Err(Interrupted::OtherRequest);
        }
        let given = answers(&frame, count).map_err(Interrupted::End)?;
        Ok(match self.instead {
            None => given,
            Some(instead) => given
                .iter()
                .map(|_| Zeroizing::new(instead.to_vec()))
                .collect(),
        })
    }
}

fn answers(frame: &Frame, count: usize) -> Result<Vec<Zeroizing<Vec<u8>>>, RpcEnd> {
    let reply: KbdintRespond = frame
        .decode()
        .map_err(|error| RpcEnd::Violation(error.to_string()))?;
    if reply.responses.len() != count {
        return Err(RpcEnd::Violation(format!(
            "{} answers to {count} prompts",
            reply.responses.len()
        )));
    }
    Ok(reply
        .responses
        .iter()
        .map(|answer| Zeroizing::new(answer.expose().to_vec()))
        .collect())
}

impl Conversation for Dialogue<'_, '_> {
    fn converse(&mut self, messages: &[PamMessage]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        if self.interrupted.is_some() || messages.len() > MAX_PROMPTS {
            return None;
        }
        let mut prompts = Vec::new();
        let mut said = String::new();
        for message in messages {
            match message {
                PamMessage::PromptHidden(text) | PamMessage::PromptEchoed(text) => {
                    prompts.push(Prompt {
                        text: text.clone(),
                        echo: matches!(message, PamMessage::PromptEchoed(_)),
                    });
                }
                PamMessage::Info(text) | PamMessage::Error(text) => {
                    said.push_str(text);
                    said.push('\n');
                }
            }
        }
        if prompts.is_empty() && said.trim().is_empty() {
            return Some(Vec::new());
        }
        // A module's messages without a prompt are sent at once, in a request without prompts: the
        // module may then wait for an action that its message asks for.
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return None;
        }
        match self.ask(said, prompts) {
            Ok(answers) => Some(answers),
            Err(interrupted) => {
                self.interrupted = Some(interrupted);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use privsep::{AuthNone, FrameSplitter, Secret, ToMonitor};

    use super::*;
    use crate::log::Log;

    fn prompt(text: &str) -> PamMessage {
        PamMessage::PromptHidden(text.into())
    }

    fn dialogue<'a, 'log>(
        channel: &'a mut RpcChannel<'log>,
        instead: Option<&'static [u8]>,
    ) -> Dialogue<'a, 'log> {
        Dialogue::new(channel, instead, (LogLevel::Verbose, "Postponed".into()))
    }

    /// The reply is written before the request; the socket buffers it.
    fn with_reply<M: Message>(
        reply: &M,
        check: impl FnOnce(&mut RpcChannel<'_>, std::os::fd::OwnedFd),
    ) {
        let log = Log::to_memory(LogLevel::Info);
        let (ours, theirs) = sys::socket::stream_pair().unwrap();
        let mut channel = RpcChannel::new(ours, LoginPhase::Authenticating, &log, "").unwrap();
        sys::io::write_all(&theirs, &reply.encode_frame()).unwrap();
        check(&mut channel, theirs);
    }

    #[test]
    fn prompts_go_out_with_what_was_said_and_answers_come_back_in_order() {
        let reply = KbdintRespond {
            responses: vec![Secret::new(b"one".to_vec()), Secret::new(b"two".to_vec())],
        };
        with_reply(&reply, |channel, peer| {
            let mut dialogue = dialogue(channel, None);
            let got = dialogue
                .converse(&[
                    PamMessage::Info("Welcome".into()),
                    prompt("Password: "),
                    prompt("Code: "),
                ])
                .unwrap();
            assert_eq!(got[0].as_slice(), b"one");
            assert_eq!(got[1].as_slice(), b"two");
            assert!(matches!(dialogue.finish(), (None, Some(_))));
            assert_eq!(channel.phase(), LoginPhase::Authenticating);
            let mut bytes = [0; 512];
            let count = sys::io::read(&peer, &mut bytes).unwrap();
            let mut splitter = FrameSplitter::new();
            splitter.feed(&bytes[..count]);
            let sent: KbdintPrompts = splitter.next_frame().unwrap().unwrap().decode().unwrap();
            assert_eq!(sent.instruction, "Welcome\n");
            assert_eq!(sent.prompts.len(), 2);
        });
    }

    #[test]
    fn what_is_only_said_goes_out_at_once_and_its_arrival_is_waited_for() {
        with_reply(&KbdintRespond { responses: vec![] }, |channel, peer| {
            let mut dialogue = dialogue(channel, None);
            let said = [PamMessage::Info("Approve it on your telephone".into())];
            assert_eq!(dialogue.converse(&said), Some(Vec::new()));
            assert!(matches!(dialogue.finish(), (None, Some(_))));
            let mut bytes = [0; 512];
            let count = sys::io::read(&peer, &mut bytes).unwrap();
            let mut splitter = FrameSplitter::new();
            splitter.feed(&bytes[..count]);
            let sent: KbdintPrompts = splitter.next_frame().unwrap().unwrap().decode().unwrap();
            assert_eq!(sent.instruction, "Approve it on your telephone\n");
            assert!(sent.prompts.is_empty());
        });
    }

    #[test]
    fn who_may_not_log_in_answers_nothing_that_fits() {
        let reply = KbdintRespond {
            responses: vec![Secret::new(b"the right one".to_vec())],
        };
        with_reply(&reply, |channel, _peer| {
            let mut dialogue = dialogue(channel, Some(b"wrong"));
            let got = dialogue.converse(&[prompt("Password: ")]).unwrap();
            assert_eq!(got[0].as_slice(), b"wrong");
        });
    }

    #[test]
    fn another_method_ends_the_conversation_and_is_served_next() {
        with_reply(&AuthNone {}, |channel, _peer| {
            let mut dialogue = dialogue(channel, None);
            assert_eq!(dialogue.converse(&[prompt("Password: ")]), None);
            // PAM may prompt again; nothing is sent any more.
            assert_eq!(dialogue.converse(&[prompt("Password: ")]), None);
            assert!(matches!(
                dialogue.finish(),
                (Some(Interrupted::OtherRequest), _)
            ));
            assert_eq!(channel.request().unwrap(), ToMonitor::AuthNone(AuthNone {}));
        });
    }

    #[test]
    fn a_wrong_count_of_answers_ends_the_session() {
        let reply = KbdintRespond { responses: vec![] };
        with_reply(&reply, |channel, _peer| {
            let mut dialogue = dialogue(channel, None);
            assert_eq!(dialogue.converse(&[prompt("Password: ")]), None);
            assert!(matches!(
                dialogue.finish(),
                (Some(Interrupted::End(RpcEnd::Violation(_))), _)
            ));
        });
    }
}
