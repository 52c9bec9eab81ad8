//! Method `keyboard-interactive` (RFC 4256): the server's questions, marked as the server's.
//!
//! Each prompt begins with `(user@host)`, so that a server cannot pretend that its question comes
//! from this program or another host.

use zeroize::Zeroizing;

use super::{Answer, Authenticator};
use crate::error::ClientError;
use crate::interaction::{Question, Round};
use crate::log::debug2;
use crate::text::{Style, escape};

impl Authenticator<'_> {
    pub(super) fn keyboard_interactive(&mut self) -> Result<Option<Answer>, ClientError> {
        self.tries.interactive += 1;
        debug2!("USERAUTH_REQUEST keyboard-interactive");
        let user = self.options.user.as_bytes();
        let devices = self
            .options
            .authentication
            .kbd_interactive_devices
            .as_deref();
        let connection = self.driver.connection();
        let sent = connection.auth_keyboard_interactive(user, devices.unwrap_or_default());
        self.sent(sent)?;
        let mut asked_anything = false;
        loop {
            let answer = self.answer()?;
            let Answer::InfoRequest {
                name,
                instruction,
                prompts,
            } = answer
            else {
                if !asked_anything {
                    // The server asked nothing: another attempt would be the same.
                    self.tries.interactive = self.options.authentication.number_of_password_prompts;
                }
                return Ok(Some(answer));
            };
            debug2!("USERAUTH_INFO_REQUEST with {} prompts", prompts.len());
            let round = Round {
                name: &name,
                instruction: &instruction,
                prompts: &prompts,
            };
            if let Some(answers) = self.interaction.answer(&round) {
                let sent = self.driver.connection().auth_respond(&answers);
                self.sent(sent)?;
                asked_anything = true;
                continue;
            }
            for text in [&name, &instruction] {
                let text = escape(text, Style::Lines);
                if !text.trim().is_empty() {
                    self.interaction.tell(&format!("{}\n", text.trim_end()));
                }
            }
            let mut responses = Vec::with_capacity(prompts.len());
            for prompt in &prompts {
                asked_anything = true;
                responses.push(self.response(&prompt.text, prompt.echo));
            }
            let sent = self.driver.connection().auth_respond(&responses);
            self.sent(sent)?;
        }
    }

    fn response(&mut self, text: &str, echo: bool) -> Zeroizing<Vec<u8>> {
        let who = self.login_name();
        let prompt = format!("({who}) {}", escape(text, Style::Lines));
        let question = if echo {
            Question::Line
        } else {
            Question::Secret
        };
        match self.interaction.ask(&prompt, question) {
            Some(answer) => answer,
            None => {
                // The user cannot be asked: send one empty answer and make no further attempt.
                self.tries.interactive = self.options.authentication.number_of_password_prompts;
                Zeroizing::new(Vec::new())
            }
        }
    }
}
