//! Method `password` (RFC 4252 §8), including the change of an expired password.

use zeroize::Zeroizing;

use super::{Answer, Authenticator};
use crate::error::ClientError;
use crate::interaction::Question;
use crate::log::{debug2, error};
use crate::text::{Style, escape};

type Secret = Zeroizing<Vec<u8>>;

/// Most attempts to type a new password twice alike, and most requests for a change that one login
/// answers.
const MAX_CHANGE_ATTEMPTS: u32 = 3;

impl Authenticator<'_> {
    pub(super) fn password(&mut self) -> Result<Option<Answer>, ClientError> {
        self.tries.password += 1;
        if self.tries.password > 1 {
            error!("Permission denied, please try again.");
        }
        let who = self.login_name();
        let asked = self
            .interaction
            .ask(&format!("{who}'s password: "), Question::Secret);
        let Some(password) = asked else {
            // The user cannot be asked: no further attempt.
            self.tries.password = self.options.authentication.number_of_password_prompts;
            return Ok(None);
        };
        debug2!("USERAUTH_REQUEST password");
        let user = self.options.user.as_bytes();
        let sent = self.driver.connection().auth_password(user, &password);
        self.sent(sent)?;
        let mut answer = self.answer()?;
        for _ in 0..MAX_CHANGE_ATTEMPTS {
            let Answer::ChangePassword { prompt } = &answer else {
                break;
            };
            let text = escape(prompt, Style::Lines);
            if !text.is_empty() {
                self.interaction.tell(&format!("{}\n", text.trim_end()));
            }
            let Some((old, new)) = self.ask_new_password(&who) else {
                return Ok(Some(answer));
            };
            let sent = self
                .driver
                .connection()
                .auth_change_password(user, &old, &new);
            self.sent(sent)?;
            answer = self.answer()?;
        }
        Ok(Some(answer))
    }

    fn ask_new_password(&mut self, who: &str) -> Option<(Secret, Secret)> {
        let old = self
            .interaction
            .ask(&format!("Enter {who}'s old password: "), Question::Secret)?;
        for _ in 0..MAX_CHANGE_ATTEMPTS {
            let prompt = format!("Enter {who}'s new password: ");
            let new = self.interaction.ask(&prompt, Question::Secret)?;
            let prompt = format!("Retype {who}'s new password: ");
            let again = self.interaction.ask(&prompt, Question::Secret)?;
            if new == again {
                return Some((old, new));
            }
            self.interaction.tell("Mismatch; try again.\n");
        }
        None
    }
}
